"""Pieces of HTML of an explanation: shaded words, images with a line of text below, a table of cosines."""

import html
from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float, UInt8

from xmr_core.ui.widgets import cards

_STRONGEST = 55  # percent of colour behind a word, so that the word stays legible in both themes
_FIGURE = 176  # pixels
_FOR, _AGAINST = "#0173b2", "#de8f05"


def words(contributions: Sequence[tuple[str, float]]) -> str:
    """A sentence whose words are shaded by a number each, which the pointer shows: blue above 0, orange below.

    >>> "#de8f05 55.0%" in words([("dog", -0.1)])
    True
    """
    top = max((abs(value) for _, value in contributions), default=0.0) or 1.0
    spans = []
    for word, value in contributions:
        style = f"background:{_shade(value, top)}"
        spans.append(f"<span title='{value:+.4f}' style='{style}'>{html.escape(word)}</span>")
    return f"<div class='xmr-words'>{' '.join(spans)}</div>"


def figures(panels: Sequence[tuple[UInt8[np.ndarray, "h w 3"], str]]) -> str:
    """Images beside each other, each with its line of text below.

    >>> figures([(np.zeros((4, 4, 3), np.uint8), "dog")]).count("<figcaption>dog</figcaption>")
    1
    """
    parts = []
    for pixels, text in panels:
        alt = html.escape(text, quote=True)
        shown = f"<img src='{cards.data_uri(pixels, _FIGURE)}' alt='{alt}'>"
        parts.append(f"<figure>{shown}<figcaption>{html.escape(text)}</figcaption></figure>")
    return f"<div class='xmr-figures'>{''.join(parts)}</div>"


def cosines(
    products: Float[np.ndarray, "k l"],
    image_parts: Float[np.ndarray, " k"] | None = None,
    caption_parts: Float[np.ndarray, " l"] | None = None,
    names: Sequence[str] = (),
) -> str:
    """A table of the cosines of every element of an image with every element of a caption.

    image_parts, caption_parts: what each element adds to the score, where the score is such a sum. names: of the
    caption's elements, '1', '2', … without.

    >>> cosines(np.array([[0.5, -0.25]]), names=["a", "dog"]).count("<td")
    3
    """
    top = float(np.abs(products).max()) or 1.0
    names = names if len(names) == products.shape[1] else [f"caption’s {n + 1}" for n in range(products.shape[1])]
    heads = [_head(name, None if caption_parts is None else caption_parts[n]) for n, name in enumerate(names)]
    lines = []
    for n, row in enumerate(products.tolist()):
        cells = "".join(f"<td style='background:{_shade(value, top)}'>{value:.2f}</td>" for value in row)
        name = f"image’s {n + 1}"
        lines.append(f"<tr>{_head(name, None if image_parts is None else image_parts[n], 'row')}{cells}</tr>")
    return f"<div class='xmr-scroll'><table><tr><td></td>{''.join(heads)}</tr>{''.join(lines)}</table></div>"


def nearest(table: pd.DataFrame, kinds: Sequence[str]) -> str:
    """The caption nearest to each element of an image, with its cosine and marks. kinds: relevance sets of the
    table."""
    lines = []
    for row in table.to_dict("records"):
        lines.append(
            f"<tr><td>{row['element'] + 1}</td><td class='xmr-left'>{html.escape(row['text'])}</td>"
            f"<td>{row['cosine']:.2f}</td><td class='xmr-right'>{cards.mark_signs(row, kinds)}</td></tr>"
        )
    head = "<tr><th>element</th><th class='xmr-left'>nearest caption</th><th>cosine</th><th>right</th></tr>"
    return f"<div class='xmr-scroll'><table>{head}{''.join(lines)}</table></div>"


def facts(name: str, split: str, captions: Sequence[str]) -> str:
    """The name of an image, its split, and its captions.

    >>> facts("dog.jpg", "", ["a dog"])
    "<div class='xmr-name'>dog.jpg</div><ul><li>a dog</li></ul>"
    """
    badge = f" <span class='xmr-badge'>{html.escape(split)}</span>" if split else ""
    lines = "".join(f"<li>{html.escape(text)}</li>" for text in captions)
    listed = f"<ul>{lines}</ul>" if lines else ""
    return f"<div class='xmr-name'>{html.escape(name)}{badge}</div>{listed}"


def heading(text: str) -> str:
    """The name of a part of an explanation."""
    return f"<h4>{html.escape(text)}</h4>"


def _head(name: str, adds: float | None, scope: str = "col") -> str:
    added = "" if adds is None else f"<br>{adds:+.3f}"
    return f"<th scope='{scope}'>{html.escape(name)}{added}</th>"


def _shade(value: float, top: float) -> str:
    colour = _FOR if value >= 0 else _AGAINST
    return f"color-mix(in srgb, {colour} {_STRONGEST * abs(value) / top:.1f}%, transparent)"
