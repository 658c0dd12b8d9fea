"""Pieces of HTML: what was asked, one answer, where it went. Text in, HTML out; every text is escaped."""

import base64
import html
import io
from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import UInt8
from PIL import Image

THUMB = 96  # pixels
_MARKS = {
    "annotated": ("✓", "its own"),
    "exhaustive": ("●", "true"),
    "human": ("●", "right for people"),
    "crowd": ("○", "right for a crowd"),
}
_BINS, _BAR, _HIGH = 24, 5, 36  # of a histogram: how many bars, how wide and high in pixels
_ROW = 18  # pixels of a rank between two columns


def data_uri(pixels: UInt8[np.ndarray, "h w 3"], side: int = THUMB) -> str:
    """A small picture inside a page, at most `side` pixels wide and high, aspect ratio kept; JPEG, unless it is tiny anyway."""
    picture = Image.fromarray(pixels)
    picture.thumbnail((side, side))
    kind = "PNG" if max(pixels.shape[:2]) <= THUMB else "JPEG"
    buffer = io.BytesIO()
    picture.save(buffer, kind, **({"quality": 85} if kind == "JPEG" else {}))
    return f"data:image/{kind.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def answer(
    rank: int, score: float, share: float, text: str = "", picture: str = "", marks: Sequence[str] = (), name: str = "", note: str = ""
) -> str:
    """One answer. share: of the score bar that is filled, 0…1. picture: a data URI. marks: kinds of relevance that call it right. name: alt
    text. note: a small line at the end."""
    known = [_MARKS.get(kind, ("✓", kind)) for kind in marks]
    signs = "".join(
        f"<span title='{html.escape(told, quote=True)}' aria-label='{html.escape(told, quote=True)}' style='color:#029e73;font-weight:bold'>{sign}</span>"
        for sign, told in known
    )
    border = "#029e73" if marks else "#bbbbbb"
    width = round(100 * min(max(share, 0.0), 1.0))
    shown = (
        f"<img src='{picture}' alt='{html.escape(name, quote=True)}' style='display:block;max-width:100%;margin:auto'>" if picture else ""
    )
    words = f"<div style='line-height:1.25'>{html.escape(text)}</div>" if text else ""
    told = f"<div style='font-size:80%;color:#555'>{html.escape(note)}</div>" if note else ""
    spoken = html.escape(", ".join([f"answer {rank}", *(sign for _, sign in known)]), quote=True)
    return (
        f"<div role='group' aria-label='{spoken}' style='border:2px solid {border};border-radius:4px;padding:4px'>{shown}{words}"
        f"<div style='font-size:85%'>{rank}. {signs} <span style='color:#555'>{score:.3f}</span></div>{told}"
        f"<div style='background:#e5e5e5;height:4px'><div style='background:#0173b2;height:4px;width:{width}%'></div></div></div>"
    )


def asked(text: str = "", picture: str = "", doubts: str = "", unknown: Sequence[str] = ()) -> str:
    """What was asked: a sentence or a picture, words that were not understood, and how unsure the methods are of it (HTML of `doubt`)."""
    parts = [
        f"<img src='{picture}' alt='the picture that was asked for' style='max-width:128px'>"
        if picture
        else f"<b>“{html.escape(text)}”</b>"
    ]
    if unknown:
        words = ", ".join(f"<i>{html.escape(w)}</i>" for w in unknown)
        parts.append(f"<div style='color:#a34700'>not understood: {words}</div>")
    return "".join(parts) + doubts


def doubt(label: str, value: float, known: np.ndarray) -> str:
    """How unsure a method is of what was asked, as a mark in the histogram of all items of its kind (known)."""
    low, high = float(min(known.min(), value)), float(max(known.max(), value))
    edges = np.linspace(low, high if high > low else low + 1.0, _BINS + 1)
    counts = np.histogram(known, edges)[0]
    bars = "".join(
        f"<rect x='{n * _BAR}' y='{_HIGH * (1 - c / counts.max()):.1f}' width='{_BAR - 1}' height='{_HIGH * c / counts.max():.1f}' fill='#9bb8cc'/>"
        for n, c in enumerate(counts.tolist())
        if c
    )
    x = _BINS * _BAR * (value - edges[0]) / (edges[-1] - edges[0])
    share = 100 * float((known < value).mean())
    told = f"uncertainty {value:.2f}, above {share:.0f} % of its kind".replace("-", "−")
    return (
        f"<div style='font-size:85%;display:inline-block;margin-right:16px'>{html.escape(label)}: {told}<br>"
        f"<svg role='img' aria-label='{told}' width='{_BINS * _BAR}' height='{_HIGH}'>{bars}"
        f"<line x1='{x:.1f}' x2='{x:.1f}' y1='0' y2='{_HIGH}' stroke='#d55e00' stroke-width='3'/></svg></div>"
    )


def ranks(table: pd.DataFrame, kinds: Sequence[str], most: int = 12) -> str:
    """Where the right answers stand, a line per kind: 'annotated: rank 3, 17, 40 … (50 in all)'; a click shows every one."""
    lines = []
    for kind in kinds:
        mine = table[table["kind"] == kind]["rank"].tolist()
        first = ", ".join(map(str, mine[:most]))
        if len(mine) > most:
            rest = ", ".join(map(str, mine[most:]))
            lines.append(f"<details><summary>{html.escape(kind)}: rank {first} … ({len(mine):,} in all)</summary>{rest}</details>")
        elif mine:
            lines.append(f"<div>{html.escape(kind)}: rank {first}</div>")
    return f"<div style='font-size:85%;color:#444'>{''.join(lines)}</div>" if lines else ""


def links(pairs: Sequence[tuple[int, int]], first: int, second: int) -> str:
    """Lines from places in one column to places in the other (from 0) of answers that both show. first, second: answers of each."""
    y = lambda place: _ROW * (place + 0.5)  # noqa: E731
    numbers = "".join(
        f"<text x='{x}' y='{y(n) + 4}' text-anchor='{anchor}' font-size='11' fill='#444'>{n + 1}</text>"
        for x, anchor, count in ((14, "end", first), (76, "start", second))
        for n in range(count)
    )
    lines = "".join(
        f"<line x1='18' x2='72' y1='{y(a)}' y2='{y(b)}' stroke='{'#777777' if a == b else '#0173b2' if b < a else '#d55e00'}' stroke-width='2'/>"
        for a, b in pairs
    )
    told = f"{len(pairs)} answers are in both columns" + "".join(f", {a + 1} to {b + 1}" for a, b in pairs)
    return (
        f"<div style='font-size:80%;color:#444;text-align:center'>in both: {len(pairs)}</div>"
        f"<svg role='img' aria-label='{told}' width='90' height='{_ROW * max(first, second)}'>{lines}{numbers}</svg>"
    )


def words(worths: Sequence[tuple[str, float]]) -> str:
    """A sentence whose words are shaded by a number each, shown on pointing at them: blue above 0, orange below."""
    top = max((abs(w) for _, w in worths), default=0.0) or 1.0
    spans = []
    for word, worth in worths:
        colour = "1,115,178" if worth >= 0 else "222,143,5"
        spans.append(
            f"<span title='{worth:+.4f}' style='background:rgba({colour},{0.75 * abs(worth) / top:.2f});padding:1px 3px'>{html.escape(word)}</span>"
        )
    return f"<div style='line-height:1.8'>{' '.join(spans)}</div>"


def nearest(table: pd.DataFrame, kinds: Sequence[str]) -> str:
    """The caption nearest to each element of a picture, with its cosine and marks."""
    lines = []
    for row in table.to_dict("records"):
        signs = "".join(_MARKS.get(kind, ("✓", kind))[0] for kind in kinds if row[kind])
        lines.append(
            f"<tr><td>{row['element'] + 1}</td><td style='text-align:left'>{html.escape(row['text'])}</td><td>{row['cosine']:.2f}</td>"
            f"<td style='color:#029e73'>{signs}</td></tr>"
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
    colour = {"info": "#444444", "error": "#b30000", "busy": "#0173b2"}[kind]
    return f"<div role='status' aria-live='polite' style='min-height:1.4em;color:{colour}'>{html.escape(text)}</div>"
