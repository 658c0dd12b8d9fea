"""What is said of an answer: the photograph with its captions, and which words, cells and elements made the score."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from html import escape

import numpy as np
from jaxtyping import Float, UInt8

from xmr_core.base.errors import XmrError
from xmr_core.retrieval import explain
from xmr_core.retrieval.library import Library, elements_of
from xmr_core.retrieval.ranking import Query, Settings
from xmr_study.explorer import markup, views
from xmr_study.plots.images import dimmed

_LARGE = 900  # pixels of the photograph in an explanation


def why_html(library: Library, query: Query, position: int, settings: Settings, label: str) -> str:
    """HTML that explains the answer at a position, under its photograph: what made its score with the query, or with
    the words beside an image. What a method or a corpus cannot say is left out."""
    pair = explain.pair_of(library, query, position, settings)
    parts = [markup.title(f"Why {label} found it"), photograph_html(library, query.target, position, _LARGE)]
    for part in (_words, _word_weights, _cells, _element_attention, _word_attention, _elements):
        with suppress(XmrError):  # this method does not have it
            parts += list(part(pair))  # all of an explanation or nothing
    return "".join(parts)


def photograph_html(library: Library, modality: str, position: int, edge: int) -> str:
    """HTML of a photograph with its name, split and captions, its longer edge at most `edge` pixels. For a caption, its
    sentence."""
    if modality == "captions":
        return markup.heading(str(library.texts[position]))
    name, split = str(library.image_ids[position]), "" if library.splits is None else str(library.splits[position])
    shown = ""
    if library.pixels is not None:
        uri = markup.data_uri(views.photograph(library, position, edge), edge)
        shown = markup.large(uri, name)
    lines = "".join(f"<li>{escape(text)}</li>" for text in views.captions_of(library, position))
    named = f"<div class='xmr-name'>{escape(name)} <span class='xmr-soft'>{escape(split)}</span></div>"
    return f"{shown}{named}<ul>{lines}</ul>"


def _words(pair: explain.Pair) -> Iterator[str]:
    table = explain.word_contributions(pair)
    yield markup.heading(f"what each word adds to the score (blue for, orange against): {table.attrs['how']}")
    yield markup.words(list(table.itertuples(index=False, name=None)))


def _word_weights(pair: explain.Pair) -> Iterator[str]:
    for part, table in views.word_weights(pair.library, pair.text, pair.read()).items():
        yield markup.heading(f"how much {part} lets each word count")
        yield markup.words(list(table.itertuples(index=False, name=None)))


def _cells(pair: explain.Pair) -> Iterator[str]:
    pixels = _seen(pair)
    values, how = explain.cell_contributions(pair)
    panels = [(pixels, "image")]
    for sign, text in ((1, "what speaks for the match"), (-1, "what speaks against it")):
        part = (sign * values).clip(0)
        if part.max() > 0:
            panels.append((dimmed(pixels, part, float(part.max())), text))
    yield markup.heading(f"what each cell of the image adds to the score: {how}")
    yield markup.figures(panels)


def _element_attention(pair: explain.Pair) -> Iterator[str]:
    attention = views.element_attention(pair.library, pair.read())
    names = [f"element {n + 1}" for n in range(len(attention))]
    if pair.library.captions is not None:
        nearest = views.nearest_captions(pair.library, pair.read())["text"]
        names = [f"{name}, nearest to “{text}”" for name, text in zip(names, nearest, strict=True)]
    yield markup.heading("attention of each element of the image")
    yield _attended(pair, attention, names)


def _word_attention(pair: explain.Pair) -> Iterator[str]:
    words, attention = views.word_attention_of(pair.library, pair.text, pair.read())
    yield markup.heading("attention of each word to the image")
    yield _attended(pair, attention, words)


def _attended(pair: explain.Pair, attention: Float[np.ndarray, "q l"], names: Sequence[str]) -> str:
    pixels, top = _seen(pair), float(attention.max())
    return markup.figures([(dimmed(pixels, row, top), n) for n, row in zip(names, attention, strict=True)])


def _seen(pair: explain.Pair) -> UInt8[np.ndarray, "h w 3"]:
    """What is seen of the pair's image."""
    return views.seen_part(pair.library, pair.query.pixels if pair.position is None else pair.position)


def _elements(pair: explain.Pair) -> Iterator[str]:
    parts = explain.element_contributions(pair)
    if parts is not None and elements_of(pair.image) > 1:
        names = explain.element_names(pair, parts.products.shape[1])
        yield markup.heading("cosines of the elements, and what each element adds to the score")
        yield markup.cosines(parts.products, parts.images, parts.captions, names)
