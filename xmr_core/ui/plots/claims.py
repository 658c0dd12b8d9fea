"""The claims ledger as one picture."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from xmr_core.ui.plots.style import COLOURS, start, wrapped

_VERDICTS = {"held": (COLOURS[2], "o"), "undecided": ("0.55", "s"), "contradicted": (COLOURS[3], "X")}


def ledger(table: pd.DataFrame) -> Figure:
    """Each decided claim and corpus on one line: effect over the half-width of its 95 % interval, so that all intervals are as long.

    Right of 1 a claim is held, left of −1 contradicted. table: of claims.ledger; lines that were not measured, or have one seed, are left out.
    """
    shown = table[table["low"].notna()].reset_index(drop=True)
    fig, (ax,) = start(9.0, 0.33 * len(shown) + 1.3)
    half = ((shown["high"] - shown["low"]) / 2).clip(lower=1e-12)
    ratio = (shown["effect"] / half).clip(-12, 12)
    y = range(len(shown), 0, -1)
    for at, x, verdict in zip(y, ratio, shown["verdict"], strict=True):
        colour, marker = _VERDICTS[verdict]
        ax.plot([x - 1, x + 1], [at, at], color=colour, lw=1.5)
        ax.plot([x], [at], color=colour, marker=marker, ms=6)
    ax.axvline(0, color="0.2", lw=1)
    ax.set(yticks=list(y), xlabel="effect, in half-widths of its 95 % interval")
    ax.set_yticklabels([f"{wrapped(r.sentence, 70, 1)}  ({r.corpus}, {r.seeds} seeds)" for r in shown.itertuples()], fontsize=8)
    ax.grid(axis="y", visible=False)
    handles = [Line2D([], [], color=c, marker=m, ls="-", label=name) for name, (c, m) in _VERDICTS.items()]
    fig.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return fig
