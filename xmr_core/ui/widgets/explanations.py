"""Pieces of HTML of an explanation: shaded words, images with a line of text below, a table of cosines."""

from collections.abc import Sequence
from html import escape

import numpy as np
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
    spans = [
        f"<span title='{value:+.4f}' style='background:{_shade(value, top)}'>{escape(word)}</span>"
        for word, value in contributions
    ]
    return f"<div class='xmr-words'>{' '.join(spans)}</div>"


def figures(panels: Sequence[tuple[UInt8[np.ndarray, "h w 3"], str]]) -> str:
    """Images beside each other, each with its line of text below.

    >>> figures([(np.zeros((4, 4, 3), np.uint8), "dog")]).count("<figcaption>dog</figcaption>")
    1
    """
    parts = []
    for pixels, text in panels:
        shown = f"<img src='{cards.data_uri(pixels, _FIGURE)}' alt='{escape(text)}'>"
        parts.append(f"<figure>{shown}<figcaption>{escape(text)}</figcaption></figure>")
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
    top, (k, l) = float(np.abs(products).max()) or 1.0, products.shape
    names = names if len(names) == l else [f"caption’s {n + 1}" for n in range(l)]
    columns = _heads(names, caption_parts, "col")
    rows = _heads([f"image’s {n + 1}" for n in range(k)], image_parts, "row")
    lines = [f"<td></td>{''.join(columns)}"]
    for head, row in zip(rows, products.tolist(), strict=True):
        lines.append(head + "".join(f"<td style='background:{_shade(v, top)}'>{v:.2f}</td>" for v in row))
    return f"<div class='xmr-scroll'><table><tr>{'</tr><tr>'.join(lines)}</tr></table></div>"


def heading(text: str) -> str:
    """The name of a part of an explanation."""
    return f"<h4>{escape(text)}</h4>"


def _heads(names: Sequence[str], parts: Sequence[float] | None, scope: str) -> list[str]:
    added = [""] * len(names) if parts is None else [f"<br>{part:+.3f}" for part in parts]
    return [f"<th scope='{scope}'>{escape(name)}{part}</th>" for name, part in zip(names, added, strict=True)]


def _shade(value: float, top: float) -> str:
    colour = _FOR if value >= 0 else _AGAINST
    return f"color-mix(in srgb, {colour} {_STRONGEST * abs(value) / top:.1f}%, transparent)"
