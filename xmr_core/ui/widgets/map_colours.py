"""Colours of the points of a map, and what they mean."""

import html
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from xmr_core.search.ranking import Ranking

_GROUPS = ("#0173b2", "#de8f05", "#029e73", "#cc78bc", "#ca9161", "#949494", "#56b4e9", "#d55e00", "#8172b3", "#64b5cd")
_SCALE = [[0.0, "#3b528b"], [0.5, "#21918c"], [1.0, "#d8a31a"]]  # visible on a light and on a dark page
COLOURINGS = {
    "modality": "group", "split": "group", "cluster": "group", "uncertainty": "number", "ambiguity": "number",
    "rank": "number",
}  # fmt: skip


@dataclass(frozen=True)
class PointColours:
    """values: of each point, from low to high. scale: of plotly. names: of groups, by value; () for a number."""

    values: Float[np.ndarray, " n"]
    low: float
    high: float
    scale: list
    names: tuple[str, ...] = ()
    label: str = ""


def point_colours(frame: pd.DataFrame, column: str, ranking: Ranking | None = None) -> PointColours:
    """Colours of the rows of a map_frame. column: a name of COLOURINGS. ranking: for 'rank', which is drawn as its
    logarithm; items that were not ranked have the last rank.

    >>> frame = pd.DataFrame({"modality": ["images", "captions"]})
    >>> point_colours(frame, "modality").names
    ('captions', 'images')
    """
    if COLOURINGS[column] == "group":
        names = tuple(sorted({str(name) for name in frame[column]}, key=lambda name: (len(name), name)))
        names = names if column == "cluster" else tuple(sorted(names))
        numbers = {name: n for n, name in enumerate(names)}
        values = np.array([numbers[str(name)] for name in frame[column]], np.float32)
        return PointColours(values, -0.5, len(names) - 0.5, _steps(len(names)), names, column)
    if column == "rank":
        values = np.full(len(frame), np.nan)
        own = (frame["modality"] == ranking.target).to_numpy() if ranking is not None else np.zeros(len(frame), bool)
        if ranking is not None:
            ranks = np.empty(len(ranking.scores))
            ranks[np.argsort(-ranking.scores, kind="stable")] = np.arange(1, len(ranks) + 1)
            values[own] = -np.log10(ranks)
    else:
        values = frame[column].to_numpy(float)
        values = np.log10(np.maximum(values, 0.5)) if column == "ambiguity" else values
    usable = values[np.isfinite(values)]
    low, high = (float(usable.min()), float(usable.max())) if len(usable) else (0.0, 1.0)
    values = np.where(np.isfinite(values), values, low).astype(np.float32)
    return PointColours(values, low, high if high > low else low + 1.0, _SCALE, (), column)


def legend_html(colours: PointColours) -> str:
    """What the colours mean, as HTML."""
    dot = "<span style='display:inline-block;width:11px;height:11px;border-radius:6px;background:{}'></span> {}"
    if colours.names:
        parts = [
            dot.format(_GROUPS[n % len(_GROUPS)], html.escape(name or "none")) for n, name in enumerate(colours.names)
        ]
        return f"<span>{' &nbsp; '.join(parts)}</span>"
    ends = {"rank": ("last", "first"), "ambiguity": ("few right answers", "many")}.get(colours.label, ("low", "high"))
    stops = ",".join(colour for _, colour in _SCALE)
    bar = f"<span style='display:inline-block;width:90px;height:11px;background:linear-gradient(90deg,{stops})'></span>"
    return f"<span>{ends[0]} {bar} {ends[1]}</span>"


def _steps(n: int) -> list:
    """A colour scale of n steps."""
    edges = np.repeat(np.arange(n + 1) / n, 2)[1:-1]
    return [[float(edge), _GROUPS[m // 2 % len(_GROUPS)]] for m, edge in enumerate(edges)]
