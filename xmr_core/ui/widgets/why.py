"""The panel under the answers: which words, which parts of the picture, which elements made the match."""

import io
from collections.abc import Callable, Iterator

import ipywidgets as w
import matplotlib.pyplot as plt

from xmr_core.base.errors import XmrError
from xmr_core.base.types import EmbeddingSet, Representation
from xmr_core.search.library import Library, elements_of
from xmr_core.search.looks import element_looks, nearest_captions, word_looks, word_weights
from xmr_core.search.query import Query, encode
from xmr_core.search.ranking import Settings, similarity_of
from xmr_core.search.why import without_each_cell, without_each_word
from xmr_core.ui import plots
from xmr_core.ui.widgets import cards


def why_panel(library: Library, query: Query, at: int, settings: Settings, label: str) -> list[w.Widget]:
    """Widgets that say why the answer at a position was found. What a method (or a corpus) cannot say is left out."""
    image_at, text, caption = _pair(library, query, at)
    parts: list[w.Widget] = [w.HTML(cards.title(f"Why {label} found it"))]
    explanations = [_meeting] if image_at is None else [_words, _weights, _cells, _looks, _word_looks, _meeting]
    for explain in explanations:
        try:
            parts += list(explain(library, query, image_at, text, caption, settings))  # all of it or nothing
        except XmrError:  # this method has no such thing
            continue
    return parts


def _words(library, query, at: int, text: str, caption, settings) -> Iterator[w.Widget]:
    worths = list(without_each_word(library, text, at, settings).itertuples(index=False, name=None))
    yield _html("what each word adds to the score (blue for, orange against)", cards.words(worths))


def _weights(library, query, at: int, text: str, caption, settings) -> Iterator[w.Widget]:
    for part, table in word_weights(library, text, at).items():
        pairs = list(table.itertuples(index=False, name=None))
        yield _html(f"how much {part} lets each word count", cards.words(pairs))


def _cells(library, query, at: int, text: str, caption: Representation, settings: Settings) -> Iterator[w.Widget]:
    pixels = _needed(library.pixels)(at)
    yield _png(plots.cells(pixels, without_each_cell(library, at, caption, settings)))


def _looks(library, query, at: int, text: str, caption, settings) -> Iterator[w.Widget]:
    pixels = _needed(library.pixels)(at)
    looks = element_looks(library, at)
    yield _html("where each element of the picture looks", "")
    yield _png(plots.word_attention(pixels, looks, [f"element {n + 1}" for n in range(len(looks))]))
    if library.captions is not None:
        yield _html("", cards.nearest(nearest_captions(library, at), list(library.judges)))


def _word_looks(library, query, at: int, text: str, caption, settings) -> Iterator[w.Widget]:
    pixels = _needed(library.pixels)(at)
    words, looks = word_looks(library, text, at)
    yield _html("where each word looks in the picture", "")
    yield _png(plots.word_attention(pixels, looks, words, columns=8))


def _meeting(library, query, at: int | None, text: str, caption: Representation, settings: Settings) -> Iterator[w.Widget]:
    image = library.images[at] if at is not None else encode(library, query)
    if elements_of(image) > 1 and isinstance(caption, EmbeddingSet):
        parts = similarity_of(library, settings).contributions(image, caption)
        yield _png(plots.element_cosines(parts.products, parts.images, parts.captions))


def _pair(library: Library, query: Query, at: int):
    """(position of the picture or None for an uploaded one, the sentence, its representation) of query and answer."""
    if query.target == "images":
        caption = encode(library, query)
        text = query.text if query.kind == "text" else str(library.texts[library.position("captions", query.item)])
        return at, text, caption
    image_at = library.position("images", query.item) if query.kind == "image" else None
    return image_at, str(library.texts[at]), library.captions[at]


def _needed(read: Callable | None) -> Callable:
    if read is None:
        raise XmrError("this corpus brings features and no pictures to be shown.")
    return read


def _html(heading: str, content: str) -> w.HTML:
    return w.HTML((cards.heading(heading) if heading else "") + content)


def _png(figure) -> w.Image:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80)
    plt.close(figure)
    return w.Image(value=buffer.getvalue(), format="png", layout=w.Layout(max_width="99%", width="fit-content"))
