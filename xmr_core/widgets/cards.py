"""Pieces of HTML: what was asked, one answer, why. Text in, HTML out; every text is escaped."""

import base64
import html
import io
from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8
from PIL import Image

THUMB = 96  # pixels
_MARKS = {"annotated": ("✓", "its own"), "exhaustive": ("●", "true"), "human": ("●", "right for people")}


def data_uri(pixels: UInt8[np.ndarray, "h w 3"], side: int = THUMB) -> str:
    """A small picture inside a page, at most `side` pixels wide and high, aspect ratio kept; JPEG, unless it is tiny anyway."""
    picture = Image.fromarray(pixels)
    picture.thumbnail((side, side))
    kind = "PNG" if max(pixels.shape[:2]) <= THUMB else "JPEG"
    buffer = io.BytesIO()
    picture.save(buffer, kind, **({"quality": 85} if kind == "JPEG" else {}))
    return f"data:image/{kind.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def answer(rank: int, score: float, share: float, text: str = "", picture: str = "", marks: Sequence[str] = (), name: str = "") -> str:
    """One answer. share: of the score bar that is filled, 0…1. picture: a data URI. marks: kinds of relevance that call it right. name: alt text."""
    signs = "".join(
        f"<span title='{html.escape(_MARKS.get(kind, ('✓', kind))[1])}' style='color:#029e73;font-weight:bold'>{_MARKS.get(kind, ('✓', kind))[0]}</span>"
        for kind in marks
    )
    border = "#029e73" if marks else "#bbbbbb"
    width = round(100 * min(max(share, 0.0), 1.0))
    shown = (
        f"<img src='{picture}' alt='{html.escape(name, quote=True)}' style='display:block;max-width:100%;margin:auto'>" if picture else ""
    )
    words = f"<div style='line-height:1.25'>{html.escape(text)}</div>" if text else ""
    return (
        f"<div role='listitem' style='border:2px solid {border};border-radius:4px;padding:4px'>{shown}{words}"
        f"<div style='font-size:85%'>{rank}. {signs} <span style='color:#555'>{score:.3f}</span></div>"
        f"<div style='background:#e5e5e5;height:4px'><div style='background:#0173b2;height:4px;width:{width}%'></div></div></div>"
    )


def asked(text: str = "", picture: str = "", doubt: tuple[float, float] | None = None, unknown: Sequence[str] = ()) -> str:
    """What was asked: a sentence or a picture, words that were not understood, and how unsure the method is of it."""
    parts = [
        f"<img src='{picture}' alt='the picture that was asked for' style='max-width:128px'>"
        if picture
        else f"<b>“{html.escape(text)}”</b>"
    ]
    if unknown:
        words = ", ".join(f"<i>{html.escape(w)}</i>" for w in unknown)
        parts.append(f"<div style='color:#b35900'>not understood: {words}</div>")
    if doubt is not None:
        value, share = doubt
        parts.append(
            f"<div style='font-size:85%'>uncertainty {value:.2f}, above {100 * share:.0f} % of its kind</div>"
            f"<div style='width:100px;background:#e5e5e5;height:6px'><div style='background:#d55e00;height:6px;width:{round(100 * share)}px'></div></div>"
        )
    return "".join(parts)


def ranks(table, kinds: Sequence[str], most: int = 12) -> str:
    """Where the right answers stand, a line per kind: 'annotated: 3, 17, 40 …'."""
    lines = []
    for kind in kinds:
        mine = table[table["kind"] == kind]["rank"].tolist()
        if mine:
            rest = f" … ({len(mine)} in all)" if len(mine) > most else ""
            lines.append(f"<div>{html.escape(kind)}: rank {', '.join(map(str, mine[:most]))}{rest}</div>")
    return f"<div style='font-size:85%;color:#444'>{''.join(lines)}</div>" if lines else ""


def words(worths: Sequence[tuple[str, float]]) -> str:
    """A sentence whose words are shaded by what each adds to the score: blue for, orange against."""
    top = max((abs(w) for _, w in worths), default=0.0) or 1.0
    spans = []
    for word, worth in worths:
        colour = "1,115,178" if worth >= 0 else "222,143,5"
        spans.append(
            f"<span title='{worth:+.4f}' style='background:rgba({colour},{0.75 * abs(worth) / top:.2f});padding:1px 3px'>{html.escape(word)}</span>"
        )
    return f"<div style='line-height:1.8'>{' '.join(spans)}</div>"


def message(text: str, kind: str = "info") -> str:
    """One line, read aloud by screen readers when it changes."""
    colour = {"info": "#444444", "error": "#b30000", "busy": "#0173b2"}[kind]
    return f"<div role='status' aria-live='polite' style='min-height:1.4em;color:{colour}'>{html.escape(text)}</div>"
