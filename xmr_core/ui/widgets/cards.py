"""Pieces of HTML: the query, one answer, where the right answers stand. Text in, HTML out; every text is escaped."""

import base64
import html
import io
from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import UInt8
from PIL import Image

THUMBNAIL = 96  # pixels
_MARKS = {
    "annotated": ("✓", "its own"),
    "exhaustive": ("●", "true"),
    "human": ("●", "right for people"),
    "crowd": ("○", "right for a crowd"),
}
_BINS, _BAR, _HIGH = 24, 5, 36  # of a histogram: how many bars, how wide and high in pixels
_ROW = 18  # pixels of a rank between two columns
_RIGHT, _BLUE = "#029e73", "#0173b2"


def data_uri(pixels: UInt8[np.ndarray, "h w 3"], resolution: int = THUMBNAIL) -> str:
    """A small image inside a page, at most `resolution` pixels wide and high, aspect ratio unchanged; JPEG, or PNG for
    an image that is tiny anyway.

    >>> data_uri(np.zeros((4, 4, 3), np.uint8))[:22]
    'data:image/png;base64,'
    """
    image = Image.fromarray(pixels)
    image.thumbnail((resolution, resolution))
    kind = "PNG" if max(pixels.shape[:2]) <= THUMBNAIL else "JPEG"
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
) -> str:
    """One answer. share: filled part of the score bar, 0…1. image: a data URI. marks: relevance sets by which it is
    right. name: alt text of the image. note: a small line at the end.

    >>> "a dog" in answer(1, 0.5, 1.0, text="a dog")
    True
    """
    meanings = [_MARKS.get(kind, ("✓", kind)) for kind in marks]
    quoted = [(sign, html.escape(meaning, quote=True)) for sign, meaning in meanings]
    style = f"color:{_RIGHT};font-weight:bold"
    signs = "".join(f"<span title='{m}' aria-label='{m}' style='{style}'>{sign}</span>" for sign, m in quoted)
    border = _RIGHT if marks else "#bbbbbb"
    width = round(100 * min(max(share, 0.0), 1.0))
    alt = html.escape(name, quote=True)
    shown = f"<img src='{image}' alt='{alt}' style='display:block;max-width:100%;margin:auto'>" if image else ""
    words = f"<div style='line-height:1.25'>{html.escape(text)}</div>" if text else ""
    line = f"<div style='font-size:80%;color:#555'>{html.escape(note)}</div>" if note else ""
    label = html.escape(", ".join([f"answer {rank}", *(sign for _, sign in meanings)]), quote=True)
    box = f"border:2px solid {border};border-radius:4px;padding:4px"
    return (
        f"<div role='group' aria-label='{label}' style='{box}'>{shown}{words}"
        f"<div style='font-size:85%'>{rank}. {signs} <span style='color:#555'>{score:.3f}</span></div>{line}"
        f"<div style='background:#e5e5e5;height:4px'>"
        f"<div style='background:{_BLUE};height:4px;width:{width}%'></div></div></div>"
    )


def query(text: str = "", image: str = "", uncertainties: str = "", unknown: Sequence[str] = ()) -> str:
    """The query: a sentence or an image (data URI), words that the method does not know, and HTML of `uncertainty`.

    >>> query("a zeppelin", unknown=["zeppelin"]).endswith("not understood: <i>zeppelin</i></div>")
    True
    """
    shown = f"<b>“{html.escape(text)}”</b>"
    if image:
        shown = f"<img src='{image}' alt='the image that was the query' style='max-width:128px'>"
    if unknown:
        words = ", ".join(f"<i>{html.escape(w)}</i>" for w in unknown)
        shown += f"<div style='color:#a34700'>not understood: {words}</div>"
    return shown + uncertainties


def uncertainty(label: str, value: float, values: np.ndarray) -> str:
    """How uncertain a method is of the query, as a mark in the histogram of all items of its modality (values)."""
    low, high = float(min(values.min(), value)), float(max(values.max(), value))
    edges = np.linspace(low, high if high > low else low + 1.0, _BINS + 1)
    counts = np.histogram(values, edges)[0]
    bars = ""
    for n, c in enumerate(counts.tolist()):
        if c:
            height = _HIGH * c / counts.max()
            top = f"{_HIGH * (1 - c / counts.max()):.1f}"
            bars += f"<rect x='{n * _BAR}' y='{top}' width='{_BAR - 1}' height='{height:.1f}' fill='#9bb8cc'/>"
    x = _BINS * _BAR * (value - edges[0]) / (edges[-1] - edges[0])
    share = 100 * float((values < value).mean())
    text = f"uncertainty {value:.2f}, above {share:.0f} % of its kind".replace("-", "−")
    return (
        f"<div style='font-size:85%;display:inline-block;margin-right:16px'>{html.escape(label)}: {text}<br>"
        f"<svg role='img' aria-label='{text}' width='{_BINS * _BAR}' height='{_HIGH}'>{bars}"
        f"<line x1='{x:.1f}' x2='{x:.1f}' y1='0' y2='{_HIGH}' stroke='#d55e00' stroke-width='3'/></svg></div>"
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
    return f"<div style='font-size:85%;color:#444'>{''.join(lines)}</div>" if lines else ""


def links(pairs: Sequence[tuple[int, int]], first: int, second: int) -> str:
    """Lines between the places (from 0) of answers that both columns show. first, second: number of answers of each.

    >>> links([(0, 1)], 2, 2).count("<line")
    1
    """

    def y(place: int) -> float:
        return _ROW * (place + 0.5)

    numbers = "".join(
        f"<text x='{x}' y='{y(n) + 4}' text-anchor='{anchor}' font-size='11' fill='#444'>{n + 1}</text>"
        for x, anchor, count in ((14, "end", first), (76, "start", second))
        for n in range(count)
    )
    lines = ""
    for a, b in pairs:
        colour = "#777777" if a == b else _BLUE if b < a else "#d55e00"
        lines += f"<line x1='18' x2='72' y1='{y(a)}' y2='{y(b)}' stroke='{colour}' stroke-width='2'/>"
    label = f"{len(pairs)} answers are in both columns" + "".join(f", {a + 1} to {b + 1}" for a, b in pairs)
    return (
        f"<div style='font-size:80%;color:#444;text-align:center'>in both: {len(pairs)}</div>"
        f"<svg role='img' aria-label='{label}' width='90' height='{_ROW * max(first, second)}'>{lines}{numbers}</svg>"
    )


def words(contributions: Sequence[tuple[str, float]]) -> str:
    """A sentence whose words are shaded by a number each, which the pointer shows: blue above 0, orange below.

    >>> "222,143,5" in words([("dog", -0.1)])
    True
    """
    top = max((abs(value) for _, value in contributions), default=0.0) or 1.0
    spans = []
    for word, value in contributions:
        colour = "1,115,178" if value >= 0 else "222,143,5"
        style = f"background:rgba({colour},{0.75 * abs(value) / top:.2f});padding:1px 3px"
        spans.append(f"<span title='{value:+.4f}' style='{style}'>{html.escape(word)}</span>")
    return f"<div style='line-height:1.8'>{' '.join(spans)}</div>"


def nearest(table: pd.DataFrame, kinds: Sequence[str]) -> str:
    """The caption nearest to each element of an image, with its cosine and marks. kinds: relevance sets of the
    table."""
    lines = []
    for row in table.to_dict("records"):
        signs = "".join(_MARKS.get(kind, ("✓", kind))[0] for kind in kinds if row[kind])
        lines.append(
            f"<tr><td>{row['element'] + 1}</td><td style='text-align:left'>{html.escape(row['text'])}</td>"
            f"<td>{row['cosine']:.2f}</td><td style='color:{_RIGHT}'>{signs}</td></tr>"
        )
    head = "<tr><th>element</th><th style='text-align:left'>nearest caption</th><th>cosine</th><th>right</th></tr>"
    return f"<table style='font-size:85%'>{head}{''.join(lines)}</table>"


def title(text: str) -> str:
    """The name of a column or a panel."""
    return f"<h4 style='margin:4px 0'>{html.escape(text)}</h4>"


def heading(text: str) -> str:
    """A small line above a part of an explanation."""
    return f"<div style='font-size:85%;color:#444;margin-top:6px'>{html.escape(text)}</div>"


def message(text: str, kind: str = "info") -> str:
    """One line, read aloud by screen readers when it changes."""
    colour = {"info": "#444444", "error": "#b30000", "busy": _BLUE}[kind]
    return f"<div role='status' aria-live='polite' style='min-height:1.4em;color:{colour}'>{html.escape(text)}</div>"
