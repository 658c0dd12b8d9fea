"""The ledger of claims as one figure."""

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


def ledger(table: pd.DataFrame) -> Figure:
    """Each claim and corpus on one line: how far the effect lies beyond the claim's bound, in half-widths of its
    interval.

    All intervals are then equally long: a claim whose point lies right of 1 is held, left of −1 contradicted.
    table: of claims.ledger. Lines without an interval (not measured, or one seed) are left out.

    >>> row = {"sentence": "A is better.", "corpus": "scenes", "seeds": 3, "effect": 2.0, "low": 1.0, "high": 3.0}
    >>> len(ledger(pd.DataFrame([row | {"verdict": "held", "claimed": "above", "bound": 0.0}])).axes)
    1
    """
    shown = table[table["low"].notna()].reset_index(drop=True)
    fig, (ax,) = start(9.0, 0.26 * len(shown) + 1.5)
    half = ((shown["high"] - shown["low"]) / 2).clip(lower=1e-12)
    towards = shown["claimed"].map({"above": 1, "below": -1})
    ratio = (towards * (shown["effect"] - shown["bound"]) / half).clip(-12, 12)
    heights = range(len(shown), 0, -1)
    for y, x, verdict in zip(heights, ratio, shown["verdict"], strict=True):
        colour, marker = _VERDICTS[verdict]
        ax.plot([x - 1, x + 1], [y, y], color=colour, lw=1.5)
        ax.plot([x], [y], color=colour, marker=marker, ms=6)
    ax.axvline(0, color="0.2", lw=1)
    ax.set(
        yticks=list(heights),
        ylim=(0.3, len(shown) + 0.7),
        xlabel="effect beyond the claim's bound, in half-widths of its interval",
    )
    one = shown["corpus"].nunique() == 1  # said once, above, and not on every line
    if one:
        ax.set_title(shown["corpus"].iloc[0], fontsize=9)
    labels = [
        f"{wrapped(r.sentence, 70, 1)}  ({'' if one else r.corpus + ', '}{r.seeds} seeds)" for r in shown.itertuples()
    ]
    ax.set_yticklabels(labels, fontsize=8)
    ax.grid(axis="y", visible=False)
    handles = [Line2D([], [], color=c, marker=m, ls="-", label=name) for name, (c, m) in _VERDICTS.items()]
    fig.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    return fig
