"""The ledger of claims as one figure."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from xmr_core.ui.plots.style import COLOURS, start, wrapped

_VERDICTS = {
    "held": (COLOURS[2], "o"),
    "equivalent": (COLOURS[0], "D"),
    "undecided": ("0.55", "s"),
    "contradicted": (COLOURS[3], "X"),
}
_MOST = 12  # half-widths; what lies further out is drawn there, and said so


def ledger(table: pd.DataFrame) -> Figure:
    """Each claim and corpus on one line: how far the effect lies beyond the claim's bound, in half-widths of its
    interval.

    All intervals are then equally long: a claim whose point lies right of 1 is held, left of −1 contradicted. A point
    beyond ±12 is drawn there, with an arrow and the words "≥ 12" or "≤ −12", also where all seeds are equal, so that
    the interval has no width.
    table: of claims.ledger. Lines without an interval (not measured, or one seed) are left out.

    >>> row = {"sentence": "A is better.", "corpus": "scenes", "seeds": 3, "effect": 2.0, "low": 1.0, "high": 3.0}
    >>> len(ledger(pd.DataFrame([row | {"verdict": "held", "claimed": "above", "bound": 0.0}])).axes)
    1
    """
    shown = table[table["low"].notna()].reset_index(drop=True)
    fig, (ax,) = start(9.0, 0.26 * len(shown) + 1.5)
    half = (shown["high"] - shown["low"]) / 2
    beyond = shown["claimed"].map({"above": 1, "below": -1}) * (shown["effect"] - shown["bound"])
    equal = (half <= 1e-9 * shown["effect"].abs()) & (beyond != 0)  # an interval without a width
    ratio = np.where(equal, np.sign(beyond) * np.inf, beyond / half.clip(lower=1e-12))
    heights = range(len(shown), 0, -1)
    for y, x, verdict in zip(heights, ratio, shown["verdict"], strict=True):
        colour, marker = _VERDICTS[verdict]
        place, sign = float(np.clip(x, -_MOST, _MOST)), float(np.sign(x))
        ax.plot([place], [y], color=colour, marker=marker, ms=6)
        if place == x:
            ax.plot([x - 1, x + 1], [y, y], color=colour, lw=1.5)
            continue
        words, side = (f"≥ {_MOST}", "right") if x > 0 else (f"≤ −{_MOST}", "left")
        ax.text(place - 0.6 * sign, y, words, ha=side, va="center", fontsize=7, color="0.3")
        arrow = {"arrowstyle": "->", "color": colour, "lw": 1.5, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", (place + 1.6 * sign, y), (place, y), arrowprops=arrow)
    ax.axvline(0, color="0.2", lw=1)
    ax.set(
        yticks=list(heights),
        xlim=(-_MOST - 2, _MOST + 2),
        ylim=(0.3, len(shown) + 0.7),
        xlabel="effect beyond the claim's bound, in half-widths of its interval",
    )
    one = shown["corpus"].nunique() == 1  # said once, above, and not on every line
    if one:
        ax.set_title(f"{shown['corpus'].iloc[0]}; in brackets: number of seeds", fontsize=9)
    labels = [
        f"{wrapped(r.sentence.rstrip('.'), 60)}  ({r.seeds if one else f'{r.corpus}, {r.seeds} seeds'})"
        for r in shown.itertuples()
    ]
    ax.set_yticklabels(labels, fontsize=8, linespacing=0.95)
    ax.grid(axis="y", visible=False)
    handles = [Line2D([], [], color=c, marker=m, ls="-", label=name) for name, (c, m) in _VERDICTS.items()]
    fig.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    return fig
