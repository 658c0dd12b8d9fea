"""Figures of the study's rows: budgets, the ledger of claims, costs, and quality against them."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogFormatter, NullFormatter

from xmr_study.plots.style import (
    COLOURS,
    MARKERS,
    ON_LINES,
    PAGE,
    legend_below,
    line_style,
    method_style,
    name_points,
    plain_numbers,
    start,
    wrapped,
)


def budgets(table: pd.DataFrame) -> Figure:
    """RSUM against the elements of an item, one panel per method and one line per way to reach a budget.

    table: columns method, model, elements, rsum (percent), seed. Lines are means over seeds; several seeds are shown as
    points. The upper axis has the products of elements that a pair costs, elements².

    >>> table = pd.DataFrame({"method": "DivE", "model": "nested", "elements": [1, 2], "rsum": [90.0, 99.0], "seed": 0})
    >>> len(budgets(table).axes)
    1
    """
    methods = list(dict.fromkeys(table["method"]))
    fig, axes = start(4.4 * len(methods), 4.3, columns=len(methods), sharey=True)
    for ax, method in zip(axes, methods, strict=True):
        part = table[table["method"] == method]
        for n, (model, line) in enumerate(part.groupby("model", sort=False)):
            mean = line.groupby("elements")["rsum"].mean()
            ax.plot(mean.index, mean, label=model, **line_style(n))
            if line["seed"].nunique() > 1:
                ax.plot(line["elements"], line["rsum"], **line_style(n) | {"ls": "", "ms": 3.5, "alpha": 0.4})
        ax.set_xscale("log", base=2)
        ax.set(title=method, xlabel="elements stored for an item")
        plain_numbers(ax, ticks := sorted(set(part["elements"])))
        above = ax.secondary_xaxis("top", functions=(np.square, np.sqrt))
        above.set_xlabel("products of elements for a pair")
        above.set_xticks([tick**2 for tick in ticks], [str(tick**2) for tick in ticks])
        above.minorticks_off()
    axes[0].set_ylabel("RSUM (sum of six recalls, %)")
    legend_below(fig, axes[0], 3)
    return fig


# The ledger of claims as one figure.


_VERDICTS = {
    "held": (COLOURS[2], "o"),
    "equivalent": (COLOURS[0], "D"),
    "undecided": ("0.55", "s"),
    "contradicted": (COLOURS[3], "X"),
}


def ledger(table: pd.DataFrame) -> Figure:
    """Each claim and corpus on one line: its effect with its interval in its own unit, a panel for each unit, shaded
    where the claim says that it lies. A claim can be held if its whole interval lies there, contradicted if outside.

    table: of study.ledger. Lines without an interval (not measured, or one seed) are left out.

    >>> row = {"sentence": "A is better.", "corpus": "scenes", "seeds": 3, "effect": 2.0, "low": 1.0, "high": 3.0}
    >>> row |= {"verdict": "held", "claimed": "above", "bound": 0.0, "measure": "RSUM annotated: A above B"}
    >>> [ax.get_xlabel() for ax in ledger(pd.DataFrame([row])).axes]
    ['difference of RSUM annotated']
    """
    shown = table[table["low"].notna()]
    units = shown["measure"].str.extract("^(RSUM annotated|Spearman's ρ|log circular variance|[^:]*)")[0]
    alone = shown["measure"].str.contains(r"(?:above|below) [-\d.]+$")  # compared with a number
    units = units.where(alone, "difference of " + units)
    one = shown["corpus"].nunique() == 1  # said once, above, and not on every line
    labels = pd.Series(
        [
            f"{wrapped(r.sentence.rstrip('.'), 60)}  ({r.seeds if one else f'{r.corpus}, {r.seeds} runs'})"
            for r in shown.itertuples()
        ],
        index=shown.index,
    )
    rows = 0.4 + 0.6 * (labels.str.count("\n") + 1)  # of height 1 with one line of text
    panels = list(shown.groupby(units, sort=False))
    heights = [0.26 * rows[own.index].sum() + 0.55 for _, own in panels]
    fig, axes = start(9.0, sum(heights) + 0.8, rows=len(panels), height_ratios=heights)
    for ax, (unit, own) in zip(axes, panels, strict=True):
        ends = [own["low"].min(), own["high"].max(), own["bound"].min(), own["bound"].max()]
        left, right = min(ends), max(ends)
        edge = 0.06 * (right - left or 1.0)
        down = rows[own.index].cumsum()
        places = (down.iloc[-1] - down + rows[own.index] / 2).to_numpy()
        ax.set(xlim=(left - edge, right + edge), ylim=(-0.1, down.iloc[-1] + 0.1), xlabel=wrapped(unit, 46))
        for y, line in zip(places, own.to_dict("records"), strict=True):
            colour, marker = _VERDICTS[line["verdict"]]
            end = ax.get_xlim()[line["claimed"] == "above"]
            ax.fill_betweenx([y - 0.42, y + 0.42], line["bound"], end, color="0.92", lw=0, zorder=0)
            ax.plot([line["low"], line["high"]], [y, y], color=colour, lw=1.5)
            ax.plot([line["effect"]], [y], color=colour, marker=marker, ms=6)
        ax.set_yticks(places, labels[own.index], fontsize=8, linespacing=1.1)
        ax.grid(axis="y", visible=False)
    if one:
        corpus = shown["corpus"].iloc[0]  # the intervals of today's protocol are not corrected (study.ledger)
        widened = "" if "today" in corpus else "; intervals are widened for many claims (Holm)"
        fig.suptitle(f"{corpus}; in brackets: runs{widened}", fontsize=9)
    met = {name: style for name, style in _VERDICTS.items() if name in set(shown["verdict"])}
    handles = [Line2D([], [], color=c, marker=m, ls="-", label=name) for name, (c, m) in met.items()]
    handles.append(Patch(color="0.92", label="the side that the claim predicts"))
    fig.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False)
    return fig


def scoreboard(table: pd.DataFrame) -> Figure:
    """How many claims of each paper have each verdict. table: of study.ledger.

    >>> rows = [("DivE", "held"), ("DivE", "undecided"), ("SCAN", "held")]
    >>> [text.get_text() for text in scoreboard(pd.DataFrame(rows, columns=["paper", "verdict"])).axes[0].texts]
    ['1', '1', '', '', '', '', '', '1']
    """
    counts = table.groupby(["paper", "verdict"], sort=False).size().unstack(fill_value=0)
    counts = counts.reindex(columns=[*_VERDICTS], fill_value=0)
    counts = counts.loc[counts.sum(axis=1).loc[lambda total: total > 0].sort_values(kind="stable").index]
    fig, (ax,) = start(PAGE, 0.32 * len(counts) + 1.2)
    left = 0 * counts["held"]
    for word in ("held", "contradicted", "equivalent", "undecided"):
        colour = _VERDICTS[word][0]
        bars = ax.barh(counts.index, counts[word], left=left, color=colour, label=word)
        ax.bar_label(bars, [n or "" for n in counts[word]], label_type="center", color="white", fontsize=8)
        left = left + counts[word]
    ax.set_xlabel("verdicts")
    ax.grid(axis="y", visible=False)
    legend_below(fig, ax)
    return fig


def levels(tables: Mapping[str, pd.DataFrame], xlabel: str, chance: float | None = None) -> Figure:
    """What each label reaches, a line each, in order of the first table: one mark with its interval for each table
    (name → decision.levels). chance: where a line is drawn.

    >>> table = pd.DataFrame({"label": ["A", "B"], "mean": [1.0, 2.0], "low": [0.5, 1.5], "high": [1.5, 2.5]})
    >>> [t.get_text() for t in levels({"x": table}, "value", 1.0).axes[0].get_yticklabels()]
    ['A', 'B']
    """
    names = list(dict.fromkeys(label for table in tables.values() for label in table["label"]))
    fig, (ax,) = start(PAGE, 0.34 * len(names) + 1.4)
    for n, (name, table) in enumerate(tables.items()):
        y = table["label"].map(names.index) + 0.16 * (n - (len(tables) - 1) / 2)
        ends = [table["mean"] - table["low"], table["high"] - table["mean"]]
        ax.errorbar(table["mean"], y, xerr=ends, fmt=MARKERS[n], color=COLOURS[n], label=name, ms=6, capsize=2)
    if chance is not None:
        ax.axvline(chance, color="0.3", lw=1, ls="--", zorder=0)
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel=xlabel, ylim=(len(names) - 0.5, -0.5))
    ax.grid(axis="y", visible=False)
    legend_below(fig, ax, min(len(tables), 2))
    return fig


# Figures of what scoring costs. rows: of xmr_study.cost.read, of one machine (xmr_study.cost.of_one_machine).


_AXES = {
    "captions": "captions in the gallery",
    "set size": "elements of a set (samples J)",
    "width": "width D",
    "words": "words of a caption",
}
_ONLY_PRODUCTS = ("cosine", "smooth-Chamfer", "Chamfer", "MIL", "MP", "match probability")


def scaling(rows: pd.DataFrame) -> Figure:
    """How time grows with size on logarithmic axes, one panel for each size that was varied.

    Against the size of the gallery: milliseconds of one query. Against all other sizes: microseconds of a pair. The
    dotted line has the slope of the count: proportional, and square in the elements of sets.
    """
    what = np.where(rows["varied"] == "captions", "one query", "all pairs")
    shown = rows[rows["varied"].isin(_AXES) & (rows["what"] == what)]
    varied = [name for name in _AXES if name in set(shown["varied"])]
    fig, axes = start(3.4 * len(varied), 4.6, columns=len(varied))
    for ax, name in zip(axes, varied, strict=True):
        part = shown[shown["varied"] == name].sort_values("value")
        for method, line in part.groupby("method", sort=False):
            pairs = 1e-3 if name == "captions" else 1e-6 * line["images"] * line["captions"]
            ax.plot(line["value"], line["seconds"] / pairs, ms=5, lw=1.3, label=method, **_style(method, rows))
        ax.set(xscale="log", yscale="log")
        plain_numbers(ax, part["value"])
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.set(xlabel=_AXES[name], ylabel="ms for one query" if name == "captions" else "µs per pair")
        _draw_slope(ax, 2 if name == "set size" else 1)
    fig.get_layout_engine().set(wspace=0.06)
    legend_below(fig, axes, 7)
    return fig


def counted_and_timed(rows: pd.DataFrame) -> Figure:
    """Every measured case as a point: multiply–adds of a pair and its nanoseconds.

    The line is the fastest bare matrix product: a method that computes its products cannot lie far below it.
    """
    shown = rows[rows["what"] == "all pairs"]
    pairs = shown["images"] * shown["captions"]
    fig, (ax,) = start(7.4, 4.4)
    for method, part in shown.groupby("method", sort=False):
        ns = 1e9 * part["seconds"] / pairs[part.index]
        ax.scatter(part["multiply_adds"], ns, s=26, alpha=0.8, label=method, lw=0, **_style(method, rows))
    # The bare product multiplies the elements of a pair once; for these methods that is every multiply–add.
    comparable = shown["method"].isin(_ONLY_PRODUCTS)
    if comparable.any():
        fastest = (1e9 * shown["bare_seconds"] / pairs / shown["multiply_adds"])[comparable].min()
        ends = np.array([shown["multiply_adds"].min(), shown["multiply_adds"].max()])
        label = f"fastest product, {1 / fastest:.0f} per ns"
        ax.plot(ends, fastest * ends, color="0.3", ls="--", lw=1, label=label)
    ax.set(xscale="log", yscale="log", xlabel="multiply–adds of a pair", ylabel="ns per pair")
    fig.legend(loc="outside right center", frameon=False)
    return fig


def _style(method: str, rows: pd.DataFrame) -> dict:
    """Colour and marker of a method, the same in every panel."""
    return method_style(list(dict.fromkeys(rows["method"])).index(method))


def _draw_slope(ax: Axes, power: int) -> None:
    """A dotted line of growth by a power of the size through the middle of the panel."""
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    middle, height = np.sqrt(left * right), np.sqrt(bottom * top)
    line = [height * (end / middle) ** power for end in (left, right)]
    ax.plot([left, right], line, color="0.5", ls=":", lw=1, label="as the count grows")
    ax.set(xlim=(left, right), ylim=(bottom, top))


# Quality against what it costs, and after the shortest and the longest training.


_COSTS = {"scoring ms": "scoring 1,000 × 5,000 items (ms)", "train seconds": "training (seconds of a core)"}


def pareto(table: pd.DataFrame, families: Mapping[str, str] | None = None) -> Figure:
    """Annotated RSUM with its interval against each cost on a logarithmic axis, a panel each, with a name at each
    point; the steps join the methods that no other one beats in both. Ranges of families that do not meet are shaded.

    table: of decision.methods; a cost that no line has gets no panel. families: label → the family, by which it
    is coloured.

    >>> line = {"label": "DivE", "rsum": 9.0, "rsum low": 8.0, "rsum high": 9.5, "train seconds": 3.0}
    >>> [text.get_text() for text in pareto(pd.DataFrame([line])).axes[0].texts]
    ['DivE']
    """
    costs = [name for name in _COSTS if name in table and table[name].notna().any()]
    fig, axes = start(PAGE, 4.2 * max(1, len(costs)), rows=max(1, len(costs)))
    family = table["label"].map(lambda label: (families or {}).get(label, "methods"))
    for ax, cost in zip(axes, costs, strict=False):
        spans = []
        for name, own in table[table[cost].notna()].groupby(family, sort=False):
            ends, style = own[["rsum", "rsum low", "rsum high"]], _family_style(families or {}, name)
            _draw_line(ax, own[cost], ends.set_axis(["value", "low", "high"], axis=1), name, style | {"ls": ""})
            spans.append((own[cost].min() / 1.25, own[cost].max() * 1.25, style["color"]))
        if all(high < low for (_, high, _), (low, _, _) in pairwise(sorted(spans))):
            for low, high, colour in spans:
                ax.axvspan(low, high, color=colour, alpha=0.08, lw=0, zorder=0)
        own = table[table[cost].notna()].sort_values([cost, "rsum"], ascending=[True, False])
        front = own[own["rsum"] > own["rsum"].cummax().shift(fill_value=float("-inf"))]
        style = {"color": "0.6", "lw": 1, "zorder": 0, "drawstyle": "steps-post"}
        ax.plot(front[cost], front["rsum"], label="no other is both better and cheaper", **style)
        ax.set(xscale="log", xlabel=_COSTS[cost], ylabel="RSUM annotated (of 600)")
        ax.margins(x=0.12)
        plain_numbers(ax)
        ax.xaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.5)))  # 200, where a panel has no 100 or 1000
    legend_below(fig, axes[0], 2)
    fig.canvas.draw()  # names stand beside points whose place is known
    for ax, cost in zip(axes, costs, strict=False):
        own = table[table[cost].notna()]
        name_points(ax, own[cost], own["rsum"], own["label"])
    return fig


def slopes(points: pd.DataFrame, families: Mapping[str, str]) -> Figure:
    """Annotated RSUM after the shortest budget and after the longest, a line for each label, coloured by its family.

    points: of protocol_results.budget_points. families: label → family.

    >>> points = pd.DataFrame({"label": ["DivE", "DivE"], "epochs": [8, 144], "rsum": [290.0, 480.0]})
    >>> [text.get_text() for text in slopes(points, {"DivE": "a set"}).axes[0].texts]
    ['DivE 480']
    """
    ends = points.sort_values("epochs").groupby("label")["rsum"].agg(["first", "last"]).sort_values("last")
    fig, (ax,) = start(PAGE * 0.75, 6.2)
    gap, heights = (ends.max().max() - ends.min().min()) / 30, [-np.inf]
    for last in ends["last"]:
        heights.append(max(last, heights[-1] + gap))  # names do not cover each other
    heights = np.array(heights[1:]) - np.mean(heights[1:]) + ends["last"].mean()
    for (label, (first, last)), height in zip(ends.iterrows(), heights, strict=True):
        style = _family_style(families, families[label])
        ax.plot([0, 1], [first, last], ms=5, lw=1.2, label=families[label], **style)
        line = {"arrowstyle": "-", "color": "0.6", "lw": 0.6, "relpos": (0, 0.5), "shrinkA": 1}
        text = {"va": "center", "fontsize": 8, "color": style["color"], "arrowprops": line}
        ax.annotate(f"{label} {last:.0f}", (1.01, last), (1.1, height), path_effects=ON_LINES, **text)
    longest = f"{points['epochs'].max()} epochs, or fewer where they were enough"
    ax.set_xticks([0, 1], [f"{points['epochs'].min()} epochs", wrapped(longest, 24)])
    ax.set(xlim=(-0.1, 1.5), ylabel="RSUM annotated (of 600)")
    ax.set_ylim(top=max(heights) + gap)
    ax.grid(axis="x", visible=False)
    legend_below(fig, ax, 2)
    return fig


def _draw_line(ax: Axes, x: pd.Series, own: pd.DataFrame, label: str, style: dict) -> None:
    """One line with bars down to `low` and up to `high`; those that are missing are not drawn."""
    low, high = (own[end].fillna(own["value"]) for end in ("low", "high"))
    ends = [(own["value"] - low).clip(lower=0), (high - own["value"]).clip(lower=0)]
    ax.errorbar(x, own["value"], yerr=ends, label=label, ms=5, lw=1.3, capsize=2, elinewidth=0.8, **style)


def _family_style(families: Mapping[str, str], name: str) -> dict:
    """Colour and marker of a family, the same in every figure."""
    n = [*dict.fromkeys([*families.values(), name])].index(name)
    return {"color": COLOURS[n], "marker": MARKERS[n]}
