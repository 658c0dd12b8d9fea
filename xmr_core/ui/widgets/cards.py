"""Pieces of HTML: the query, one answer, where the right answers stand. Text in, HTML out; every text is escaped."""

import base64
import html
import io
from collections.abc import Mapping, Sequence

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
_BINS, _BAR, _HIGH = 24, 5, 36  # of a histogram: how many bars, how wide and high in pixels
_ROW = 18  # pixels of a rank between two columns


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
    share: float,
    text: str = "",
    image: str = "",
    marks: Sequence[str] = (),
    name: str = "",
    note: str = "",
    caption: str = "",
    badges: Sequence[str] = (),
) -> str:
    """One answer. share: filled part of the score bar, 0…1. image: a data URI. marks: relevance sets by which it is
    right. name: of the file, or the id. note: a small line at the end. caption: a sentence that belongs to an image.
    badges: its split and its tags.

    >>> "a dog" in answer(1, 0.5, 1.0, text="a dog")
    True
    """
    meanings = [_MARKS.get(kind, ("✓", kind)) for kind in marks]
    quoted = [(sign, html.escape(meaning, quote=True)) for sign, meaning in meanings]
    signs = "".join(f"<span title='{m}' aria-label='{m}' class='xmr-right'>{sign}</span> " for sign, m in quoted)
    width = round(100 * min(max(share, 0.0), 1.0))
    alt = html.escape(f"{name}: {caption}" if caption else name, quote=True)
    shown = f"<img src='{image}' alt='{alt}' title='{alt}' class='xmr-photo'>" if image else ""
    words = f"<div>{html.escape(text)}</div>" if text else ""
    label = html.escape(", ".join([f"answer {rank}", *(sign for _, sign in meanings)]), quote=True)
    signs += " ".join(f"<span class='xmr-badge'>{html.escape(badge)}</span>" for badge in badges)
    lines = [f"<span class='xmr-name'>{html.escape(name)}</span>"] if name else []
    lines += [f"<span class='xmr-caption'>{html.escape(caption)}</span>"] if caption else []
    lines += [html.escape(note)] if note else []
    small = "".join(f"<div class='xmr-soft'>{line}</div>" for line in lines)
    return (
        f"<div role='group' aria-label='{label}'{' class=xmr-relevant' if marks else ''}>{shown}{words}"
        f"<div>{rank}. {signs} <span class='xmr-soft'>{score:.3f}</span></div>{small}"
        f"<div class='xmr-bar'><div style='width:{width}%'></div></div></div>"
    )


def query(
    text: str = "", image: str = "", uncertainties: str = "", unknown: Sequence[str] = (), nearest: Mapping = {}
) -> str:
    """The query: a sentence or an image (data URI), HTML of `uncertainty`, and words that the method does not know or
    reads as others.

    >>> query("a zeppelin", unknown=["zeppelin"]).endswith("not understood: <i>zeppelin</i></div>")
    True
    """
    shown = f"<b>“{html.escape(text)}”</b>"
    if image:
        alt = "the image that was the query"
        shown = f"<img src='{image}' alt='{alt}' style='max-width:240px;max-height:180px'>"
        shown += f"<div class='xmr-soft'>{html.escape(text)}</div>"
    words = [f"not understood: <i>{html.escape(w)}</i>" for w in unknown]
    words += [f"<i>{html.escape(w)}</i> is read as <i>{html.escape(other)}</i>" for w, other in nearest.items()]
    shown += "".join(f"<div class='xmr-wrong'>{line}</div>" for line in words)
    return shown + uncertainties


def uncertainty(label: str, value: float, values: np.ndarray) -> str:
    """How uncertain a method is of the query, as a mark in the histogram of all items of its modality (values)."""
    low, high = float(min(values.min(), value)), float(max(values.max(), value))
    edges = np.linspace(low, high if high > low else low + 1.0, _BINS + 1)
    counts = np.histogram(values, edges)[0]
    bars = ""
    for n, c in enumerate(counts.tolist()):
        if c:
            height, top = _HIGH * c / counts.max(), _HIGH * (1 - c / counts.max())
            box = f"x='{n * _BAR}' y='{top:.1f}' width='{_BAR - 1}' height='{height:.1f}'"
            bars += f"<rect {box} style='fill:var(--xmr-soft)'/>"
    x = _BINS * _BAR * (value - edges[0]) / (edges[-1] - edges[0])
    share = 100 * float((values < value).mean())
    text = f"uncertainty {value:.2f}, above {share:.0f} % of its kind".replace("-", "−")
    line = f"<line x1='{x:.1f}' x2='{x:.1f}' y1='0' y2='{_HIGH}' style='stroke:var(--xmr-wrong);stroke-width:3'/>"
    return (
        f"<div style='font-size:90%;display:inline-block;margin-right:16px'>{html.escape(label)}: {text}<br>"
        f"<svg role='img' aria-label='{text}' width='{_BINS * _BAR}' height='{_HIGH}'>{bars}{line}</svg></div>"
    )


def ranks(table: pd.DataFrame, kinds: Sequence[str], most: int = 12) -> str:
    """Where the right answers stand, one line per relevance set: 'annotated: rank 3, 17, 40 … (50 in all)'; a click
    shows all of them."""
    lines = []
    for kind in kinds:
        own = table[table["kind"] == kind]["rank"].tolist()
        first, rest = (", ".join(map(str, part)) for part in (own[:most], own[most:]))
        line = f"{html.escape(kind)}: rank {first}"
        if rest:
            lines.append(f"<details><summary>{line} … ({len(own):,} in all)</summary>{rest}</details>")
        elif own:
            lines.append(f"<div>{line}</div>")
    return f"<div class='xmr-soft'>{''.join(lines)}</div>" if lines else ""


def links(pairs: Sequence[tuple[int, int]], first: int, second: int) -> str:
    """Lines between the places (from 0) of answers that both columns show. first, second: number of answers of each.

    >>> links([(0, 1)], 2, 2).count("<line")
    1
    """

    def y(place: int) -> float:
        return _ROW * (place + 0.5)

    numbers = "".join(
        f"<text x='{x}' y='{y(n) + 4}' text-anchor='{anchor}' font-size='12'>{n + 1}</text>"
        for x, anchor, count in ((16, "end", first), (80, "start", second))
        for n in range(count)
    )
    lines = ""
    for a, b in pairs:
        colour = "soft" if a == b else "accent" if b < a else "wrong"
        lines += f"<line x1='20' x2='76' y1='{y(a)}' y2='{y(b)}' style='stroke:var(--xmr-{colour});stroke-width:2'/>"
    label = f"{len(pairs)} answers are in both columns" + "".join(f", {a + 1} to {b + 1}" for a, b in pairs)
    return (
        f"<div class='xmr-soft' style='text-align:center'>in both: {len(pairs)}</div>"
        f"<svg role='img' aria-label='{label}' width='100' height='{_ROW * max(first, second)}'>{lines}{numbers}</svg>"
    )


def mark_signs(row: dict, kinds: Sequence[str]) -> str:
    """The signs of the relevance sets by which a row of a table is right.

    >>> mark_signs({"annotated": True}, ["annotated"])
    '✓'
    """
    return "".join(_MARKS.get(kind, ("✓", kind))[0] for kind in kinds if row[kind])


def large(uri: str, name: str) -> str:
    """A photograph as large as the page allows. uri: of its data."""
    return f"<img src='{uri}' alt='{html.escape(name, quote=True)}' class='xmr-large'>"


def title(text: str) -> str:
    """The name of a column or a panel."""
    return f"<h3>{html.escape(text)}</h3>"


def message(text: str, kind: str = "info") -> str:
    """One line, read aloud by screen readers when it changes. kind: 'info', 'error' or 'busy'."""
    return (
        f"<div role='status' aria-live='polite' style='min-height:1.4em' class='xmr-{kind}'>{html.escape(text)}</div>"
    )
