"""Pieces of HTML: one answer, where the right answers stand, a line of status. Text in, HTML out; all is escaped."""

import base64
import io
from collections.abc import Sequence
from html import escape

import numpy as np
import pandas as pd
from jaxtyping import UInt8
from PIL import Image

THUMBNAIL = 240  # pixels
_TINY = 96  # pixels up to which an image is stored without loss
_MARKS = {
    "annotated": ("✓", "its own"),
    "exhaustive": ("●", "true"),
    "human": ("●", "right for people"),
    "crowd": ("○", "right for a crowd"),
    "judgments": ("★", "marked as right"),
}


def data_uri(pixels: UInt8[np.ndarray, "h w 3"], resolution: int = THUMBNAIL) -> str:
    """A small image inside a page, at most `resolution` pixels wide and high, aspect ratio unchanged; JPEG, or PNG for
    an image that is tiny anyway.

    >>> data_uri(np.zeros((4, 4, 3), np.uint8))[:22]
    'data:image/png;base64,'
    """
    image = Image.fromarray(pixels)
    image.thumbnail((resolution, resolution))
    kind = "PNG" if max(pixels.shape[:2]) <= _TINY else "JPEG"
    buffer = io.BytesIO()
    image.save(buffer, kind, **({"quality": 85} if kind == "JPEG" else {}))
    return f"data:image/{kind.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def answer(
    rank: int,
    score: float,
    text: str = "",
    image: str = "",
    marks: Sequence[str] = (),
    name: str = "",
    note: str = "",
    caption: str = "",
) -> str:
    """One answer. image: a data URI. marks: relevance sets by which it is right. name: of the file, or the id. note: a
    small line at the end. caption: a sentence that belongs to an image.

    >>> "a dog" in answer(1, 0.5, text="a dog")
    True
    """
    meanings = [(sign, escape(meaning)) for sign, meaning in (_MARKS.get(kind, ("✓", kind)) for kind in marks)]
    signs = "".join(f"<span title='{m}' aria-label='{m}' class='xmr-right'>{sign}</span> " for sign, m in meanings)
    alt = escape(f"{name}: {caption}" if caption else name)
    parts = [f"<img src='{image}' alt='{alt}' title='{alt}' class='xmr-photo'>"] if image else []
    parts += [f"<div>{escape(text)}</div>", f"<div>{rank}. {signs}<span class='xmr-soft'>{score:.3f}</span></div>"]
    small = (("xmr-name", name), ("xmr-caption", caption), ("", note))
    parts += [f"<div class='xmr-soft {kind}'>{escape(line)}</div>" for kind, line in small if line]
    label = ", ".join([f"answer {rank}", *(m for _, m in meanings)])
    return f"<div role='group' aria-label='{label}'{' class=xmr-relevant' if marks else ''}>{''.join(parts)}</div>"


def ranks(table: pd.DataFrame, kinds: Sequence[str], most: int = 12) -> str:
    """Where the right answers stand, one line per relevance set: 'annotated: rank 3, 17, 40 … (50 in all)'."""
    lines = []
    for kind in kinds:
        own = table[table["kind"] == kind]["rank"].tolist()
        rest = f" … ({len(own):,} in all)" if len(own) > most else ""
        lines += [f"<div>{escape(kind)}: rank {', '.join(map(str, own[:most]))}{rest}</div>"] if own else []
    return f"<div class='xmr-soft'>{''.join(lines)}</div>"


def title(text: str) -> str:
    """The name of a column or a panel."""
    return f"<h3>{escape(text)}</h3>"


def message(text: str, kind: str = "info") -> str:
    """One line, read aloud by screen readers when it changes. kind: 'info', 'error' or 'busy'."""
    return f"<div role='status' aria-live='polite' style='min-height:1.4em' class='xmr-{kind}'>{escape(text)}</div>"
