"""The panel under the answers: which words, cells and elements contributed to the score of an answer."""

import io
from collections.abc import Iterator
from dataclasses import dataclass

import ipywidgets as w
import matplotlib.pyplot as plt

from xmr_core.base.errors import XmrError
from xmr_core.base.types import EmbeddingSet, Representation
from xmr_core.search.attention_views import element_attention, nearest_captions, word_attention_of, word_weights
from xmr_core.search.library import Library, elements_of
from xmr_core.search.query import Query, encode
from xmr_core.search.ranking import Settings, similarity_of
from xmr_core.search.why import without_each_cell, without_each_word
from xmr_core.ui import plots
from xmr_core.ui.widgets import cards


def why_panel(library: Library, query: Query, position: int, settings: Settings, label: str) -> list[w.Widget]:
    """Widgets that explain the answer at a position. What a method or a corpus cannot say is left out."""
    pair = _pair(library, query, position, settings)
    widgets: list[w.Widget] = [w.HTML(cards.title(f"Why {label} found it"))]
    explanations = (_words, _word_weights, _cells, _element_attention, _word_attention, _elements)
    for explain in explanations if pair.position is not None else (_elements,):
        try:
            widgets += list(explain(pair))  # all of an explanation or nothing
        except XmrError:  # this method does not have it
            continue
    return widgets


@dataclass(frozen=True)
class _Pair:
    """An image and a caption. position: of the image in the library, None for an uploaded one."""

    library: Library
    query: Query
    settings: Settings
    position: int | None
    text: str
    caption: Representation

    @property
    def pixels(self):
        if self.library.pixels is None:
            raise XmrError("this corpus has features and no images to show.")
        return self.library.pixels(self.position)


def _pair(library: Library, query: Query, position: int, settings: Settings) -> _Pair:
    if query.target == "images":
        in_corpus = query.kind == "caption"
        text = str(library.texts[library.position("captions", query.item)]) if in_corpus else query.text
        return _Pair(library, query, settings, position, text, encode(library, query))
    image = library.position("images", query.item) if query.kind == "image" else None
    return _Pair(library, query, settings, image, str(library.texts[position]), library.captions[position])


def _words(pair: _Pair) -> Iterator[w.Widget]:
    table = without_each_word(pair.library, pair.text, pair.position, pair.settings)
    heading = "what each word adds to the score (blue for, orange against)"
    yield _html(heading, cards.words(list(table.itertuples(index=False, name=None))))


def _word_weights(pair: _Pair) -> Iterator[w.Widget]:
    for part, table in word_weights(pair.library, pair.text, pair.position).items():
        heading = f"how much {part} lets each word count"
        yield _html(heading, cards.words(list(table.itertuples(index=False, name=None))))


def _cells(pair: _Pair) -> Iterator[w.Widget]:
    pixels = pair.pixels
    yield _png(plots.cells(pixels, without_each_cell(pair.library, pair.position, pair.caption, pair.settings)))


def _element_attention(pair: _Pair) -> Iterator[w.Widget]:
    pixels, attention = pair.pixels, element_attention(pair.library, pair.position)
    yield _html("attention of each element of the image", "")
    yield _png(plots.word_attention(pixels, attention, [f"element {n + 1}" for n in range(len(attention))]))
    if pair.library.captions is not None:
        table = nearest_captions(pair.library, pair.position)
        yield _html("", cards.nearest(table, list(pair.library.relevance_sets)))


def _word_attention(pair: _Pair) -> Iterator[w.Widget]:
    pixels = pair.pixels
    words, attention = word_attention_of(pair.library, pair.text, pair.position)
    yield _html("attention of each word to the image", "")
    yield _png(plots.word_attention(pixels, attention, words, columns=8))


def _elements(pair: _Pair) -> Iterator[w.Widget]:
    library, position = pair.library, pair.position
    image = encode(library, pair.query) if position is None else library.images[position]
    if elements_of(image) > 1 and isinstance(pair.caption, EmbeddingSet):
        parts = similarity_of(library, pair.settings).contributions(image, pair.caption)
        yield _png(plots.element_cosines(parts.products, parts.images, parts.captions))


def _html(heading: str, content: str) -> w.HTML:
    return w.HTML((cards.heading(heading) if heading else "") + content)


def _png(figure) -> w.Image:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80)
    plt.close(figure)
    return w.Image(value=buffer.getvalue(), format="png", layout=w.Layout(max_width="99%", width="fit-content"))
