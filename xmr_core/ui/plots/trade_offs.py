"""Quality against what it costs: fronts, budgets of training, and gains over ambiguity."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from xmr_core.ui.plots.style import PAGE, legend_below, method_style, plain_numbers, start

_COSTS = {
    "scoring ms": "scoring 1,000 × 5,000 items (ms)",
    "train seconds": "training (seconds of a core)",
}


def pareto(table: pd.DataFrame, order: Sequence[str] = ()) -> Figure:
    """Annotated RSUM with its interval against each cost on a logarithmic axis; the steps join the methods that no
    other one beats in both.

    table: of study.method_results; a cost that no line has gets no panel. order: all labels, so that a method looks
    alike in every figure; those of the table by default.

    >>> line = {"label": "DivE", "rsum": 9.0, "rsum low": 8.0, "rsum high": 9.5, "train seconds": 3.0}
    >>> len(pareto(pd.DataFrame([line])).axes)
    1
    """
    costs = [name for name in _COSTS if name in table and table[name].notna().any()]
    fig, axes = start(PAGE / 2 * max(1, len(costs)), 4.4, columns=max(1, len(costs)), sharey=True)
    for ax, cost in zip(axes, costs, strict=False):
        for label, own in table.groupby("label", sort=False):
            ends = own[["rsum", "rsum low", "rsum high"]].set_axis(["value", "low", "high"], axis=1)
            style = _style(label, order or [*table["label"]])
            faint = {"mfc": to_rgba(style["color"], 0.4), "ls": ""}  # translucent: two methods may stand in one place
            _draw_line(ax, own[cost], ends, label, style | faint)
        own = table[table[cost].notna()].sort_values([cost, "rsum"], ascending=[True, False])
        front = own[own["rsum"] > own["rsum"].cummax().shift(fill_value=float("-inf"))]
        style = {"color": "0.6", "lw": 1, "zorder": 0, "drawstyle": "steps-post"}
        ax.plot(front[cost], front["rsum"], label="no other is both better and cheaper", **style)
        ax.set(xscale="log", xlabel=_COSTS[cost])
        plain_numbers(ax)
        ax.xaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.5)))  # 200, where a panel has no 100 or 1000
    axes[0].set_ylabel("RSUM annotated (%)")
    legend_below(fig, axes[0], 4)
    return fig


def budget_curves(points: pd.DataFrame, order: Sequence[str] = ()) -> Figure:
    """Annotated RSUM after each budget, over epochs and over seconds of training; the bar goes from low to high.

    points: columns label, epochs, seconds, rsum, low, high. order: as of `pareto`.

    >>> line = {"label": "DivE", "epochs": 8, "seconds": 3.0, "rsum": 9.0, "low": 8.0, "high": 9.5}
    >>> len(budget_curves(pd.DataFrame([line])).axes)
    2
    """
    fig, axes = start(PAGE, 4.6, columns=2, sharey=True)
    for ax, x in zip(axes, ("epochs", "seconds"), strict=True):
        for label, own in points.groupby("label", sort=False):
            own = own.sort_values(x)
            style = _style(label, order or [*points["label"].unique()])
            _draw_line(ax, own[x], own.rename(columns={"rsum": "value"}), label, style)
        ax.set(xscale="log", xlabel={"epochs": "epochs of training", "seconds": "seconds of a core"}[x])
        plain_numbers(ax, points["epochs"] if x == "epochs" else None)
    axes[0].set_ylabel("RSUM annotated (%)")
    legend_below(fig, axes[0], 4)
    return fig


def ambiguity_curves(gains: pd.DataFrame, order: Sequence[str] = ()) -> Figure:
    """What each choice gains over ambiguity, one panel for each kind of choice and what it is compared with; the bar
    goes from the lowest to the highest gain of a seed.

    gains: columns what, label, against, ambiguity, gain, lowest, highest. order: as of `pareto`.

    >>> line = {"what": "sets", "label": "DivE", "against": "VSE∞", "ambiguity": 0.1, "gain": 2.0}
    >>> [ax.get_title() for ax in ambiguity_curves(pd.DataFrame([line | {"lowest": 1, "highest": 3}])).axes]
    ['sets − VSE∞']
    """
    panels = list(dict.fromkeys(zip(gains["what"], gains["against"], strict=True)))
    rows = max(1, (len(panels) + 1) // 2)
    fig, axes = start(PAGE, 2.6 * rows + 0.9, columns=min(2, max(1, len(panels))), rows=rows, sharex=True, sharey=True)
    for ax in axes[len(panels) :]:
        ax.remove()
    for n, (ax, (kind, against)) in enumerate(zip(axes, panels, strict=False)):
        panel = gains[(gains["what"] == kind) & (gains["against"] == against)]
        for label, own in panel.groupby("label", sort=False):
            own = own.sort_values("ambiguity").assign(value=own["gain"], low=own["lowest"], high=own["highest"])
            _draw_line(ax, own["ambiguity"], own, label, _style(label, order or [*gains["label"].unique()]))
        ax.axhline(0, color="0.3", lw=1)
        ax.set(xscale="log", title=f"{kind} − {against}", ylabel="" if n % 2 else "gain in RSUM\nexhaustive (points)")
        if n + 2 >= len(panels):  # nothing stands below
            ax.set_xlabel("ambiguity")
            ax.tick_params(labelbottom=True)
        plain_numbers(ax, gains["ambiguity"])
    legend_below(fig, axes[: len(panels)], 5)
    return fig


def _draw_line(ax: Axes, x: pd.Series, own: pd.DataFrame, label: str, style: dict) -> None:
    """One line with bars down to `low` and up to `high`; those that are missing are not drawn."""
    low, high = (own[end].fillna(own["value"]) for end in ("low", "high"))
    ends = [(own["value"] - low).clip(lower=0), (high - own["value"]).clip(lower=0)]
    ax.errorbar(x, own["value"], yerr=ends, label=label, ms=5, lw=1.3, capsize=2, elinewidth=0.8, **style)


def _style(label: str, order: Sequence[str]) -> dict:
    """Colour and marker of a label by its place among all; of one that is not among them, those after the last."""
    return method_style([*order].index(label) if label in order else len(order))
