"""Sentences of answers that several notebooks make from the numbers of their runs, true whatever these are."""

import itertools
from collections.abc import Mapping, Sequence

import pandas as pd

RSUM = "rsum annotated"


def apart_text(means: pd.DataFrame) -> str:
    """Whether the best variant lies above the worst one, as yes or "cannot be told here": yes where their intervals do
    not overlap. means: of Runs.means, with the annotated RSUM.

    >>> line = {"seeds": 5, "rsum annotated": 90.0, "rsum annotated low": 80.0, "rsum annotated high": 100.0}
    >>> worse = {name: value - 50 for name, value in line.items() if name != "seeds"}
    >>> table = pd.DataFrame([line | {"label": "GPO"}, line | worse | {"label": "mean"}])
    >>> print(apart_text(table).replace(" and their", "\\nand their"))
    Yes, in these runs: GPO (RSUM 90.0 [80.0, 100.0]) lies 50.0 points above mean (40.0 [30.0, 50.0]),
    and their intervals over 5 seeds do not overlap.
    """
    if len(means) < 2:
        return "One variant alone cannot be compared."
    ordered = means.sort_values(RSUM, ascending=False, kind="stable")
    best, worst = ordered.iloc[0], ordered.iloc[-1]
    apart = best[f"{RSUM} low"] > worst[f"{RSUM} high"]
    seeds = int(means["seeds"].min())
    over = f"over {seeds} seeds" if seeds > 1 else "over test images, with one seed,"
    return (
        f"{'Yes, in these runs' if apart else 'It cannot be told here'}: {_named(best)} (RSUM {_interval(best)}) lies "
        f"{best[RSUM] - worst[RSUM]:.1f} points above {_named(worst)} ({_interval(worst)}), "
        f"{'and' if apart else 'but'} their intervals {over} {'do not ' if apart else ''}overlap."
    )


def best_text(means: pd.DataFrame, what: str = "variants") -> str:
    """Which variant is best, or that it cannot be told: where the intervals of others overlap with its own. means: of
    Runs.means, with the annotated RSUM.

    >>> line = {"seeds": 5, "rsum annotated": 90.0, "rsum annotated low": 80.0, "rsum annotated high": 100.0}
    >>> best_text(pd.DataFrame([line | {"label": "SCAN t-i"}]))
    'SCAN t-i alone has an RSUM of 90.0 [80.0, 100.0]; nothing stands beside it.'
    """
    ordered = means.sort_values(RSUM, ascending=False, kind="stable")
    best, others = ordered.iloc[0], ordered.iloc[1:]
    near = others.loc[~(others[f"{RSUM} high"] < best[f"{RSUM} low"]), "label"].map(_named).tolist()
    if not len(others):
        return f"{_named(best)} alone has an RSUM of {_interval(best)}; nothing stands beside it."
    if not near:
        return f"In these runs {_named(best)} is best of {len(means)} {what} (RSUM {_interval(best)})."
    whose = f"interval of {near[0]} overlaps" if len(near) == 1 else f"intervals of {len(near)} others overlap"
    return (
        f"It cannot be told here: {_named(best)} has the highest RSUM of {len(means)} {what} ({_interval(best)}), but "
        f"the {whose}."
    )


def settled_text(results: pd.DataFrame, runs: Mapping[str, float] | None = None) -> str:
    """How the study orders the methods of a notebook after its long training, and which pairs stand the other way round
    in the notebook's own runs.

    results: of method_results.protocol_results on the same data set. runs: label → RSUM of the notebook's own runs; the
    order of all methods of the results where it is left out.

    >>> settled_text(pd.DataFrame(columns=["label"]), {"DivE": 273.0})
    'The study has no rows of two of these methods on this data set yet.'
    """
    own = results if runs is None else results[results["label"].isin([*runs.keys()])]
    if len(own) < 2:
        return "The study has no rows of two of these methods on this data set yet."
    ordered = own.sort_values("rsum", ascending=False)
    best, worst, top = ordered.iloc[0], ordered.iloc[-1], results.loc[results["rsum"].idxmax()]
    near = ordered.loc[ordered["rsum high"] >= best["rsum low"], "label"].iloc[1:].map(_named).tolist()
    trained = f"after {_span(own['epochs'])} epochs"
    trained += ", when all of them have converged" if own["converged"].eq(1).all() else ""
    seeds = "seed" if own["seeds"].max() == 1 else "seeds"
    says = "its interval lies above all others"
    if near:
        says = f"its interval overlaps with {'those' if len(near) > 1 else 'that'} of {_listed(near)}"
    text = (
        f"In the study, {trained} ({_span(own['seeds'])} {seeds}), {_named(best)} is best of these {len(own)} methods "
        f"(RSUM {_interval(best, 'rsum')}; {says}) and {_named(worst)} worst ({_interval(worst, 'rsum')})."
    )
    text += "" if runs is None else _turned(ordered, runs)
    if top["label"] != best["label"]:
        text += f" Of all its {len(results)} methods {_named(top)} is best ({top['rsum']:.1f})."
    return text


def _turned(ordered: pd.DataFrame, runs: Mapping[str, float]) -> str:
    """How many pairs of methods stand the other way round in the runs, and the pair that lies farthest apart on both
    occasions. ordered: by the study's RSUM, the best first."""
    pairs = list(itertools.combinations(ordered["label"], 2))
    late = ordered.set_index("label")["rsum"]
    turned = [(runs[b] - runs[a], late[a] - late[b], b, a) for a, b in pairs if runs[b] > runs[a]]
    if not turned:
        return " The runs here order them the same."
    early, end, *names = max(turned, key=lambda pair: min(pair[:2]))
    low, high = map(_named, names)
    return (
        f" The runs here order {len(turned)} of {len(pairs)} pairs otherwise, most clearly {low} and {high}: here "
        f"{low} lies {early:.1f} above {high}, in the study {end:.1f} below."
    )


def faster_text(reached: Mapping[str, float], rsums: Mapping[str, float], share: float = 0.95) -> str:
    """Whether the first label converges faster than each other one: yes if it comes to `share` of its last value
    earlier and ends at least as high, no if it is neither earlier nor higher, else it cannot be told; neither can it
    where one of the two has learned less than half of what the other has.

    reached: label → epochs until then. rsums: label → RSUM of the test split.

    >>> faster_text({"AdOpt": 4.5, "triplet": 6.2}, {"AdOpt": 200.0, "triplet": 150.0}).partition(":")[0]
    'Yes, in these runs'
    >>> faster_text({"AdOpt": 6.5, "triplet": 6.2}, {"AdOpt": 200.0, "triplet": 150.0}).partition(":")[0]
    'It cannot be told here'
    >>> faster_text({"AdOpt": 4.5, "triplet": 6.2}, {"AdOpt": 200.0, "triplet": 70.0}).partition(":")[0]
    'It cannot be told here'
    """
    first, *others = reached
    name = _named(first)
    own = f"{name} comes to {100 * share:g} % of its last validation RSUM after {reached[first]:.1f} epochs, with an "
    own += f"RSUM of {rsums[first]:.1f} on the test split"
    out = []
    for other in others:
        earlier, higher = reached[first] < reached[other], rsums[first] >= rsums[other]
        word = "Yes, in these runs" if earlier and higher else "No, not in these runs"
        poor, good = sorted((first, other), key=rsums.__getitem__)
        little = rsums[poor] < rsums[good] / 2
        word = word if earlier == higher and not little else "It cannot be told here"
        why = f", because {name} is {'earlier, with less' if earlier else 'later, with more'}" * (earlier != higher)
        why = f". {_named(poor)} has learned too little for its number of epochs to say anything" if little else why
        out.append(f"{word}: {own}; {_named(other)} after {reached[other]:.1f} epochs, with {rsums[other]:.1f}{why}.")
    return " ".join(out) or f"{own}. One objective alone cannot be compared."


def bought_text(
    gaps: Mapping[int, Mapping[str, float]], first: str, other: str, rsums: Mapping[str, float] | None = None
) -> str:
    """Whether `first` raises R@1 and lowers R-Precision against `other`: yes or no if so for every K, or for none. It
    cannot be told where one of the two has learned less than half of what the other has.

    gaps: K → {"R@1": …, "R-P": …}, first minus other, in points. rsums: RSUM of `first` and `other`.

    >>> bought_text({1: {"R@1": -3.7, "R-P": -4.9}}, "hardest negatives", "all negatives").partition(".")[0]
    'No, not in these runs: against all negatives, with hardest negatives both R@1 and R-Precision fall'
    """
    numbers = "; ".join(f"{gap['R@1']:+.1f} and {gap['R-P']:+.1f} points for K = {k}" for k, gap in gaps.items())
    poor, good = sorted((first, other), key=(rsums or {first: 1, other: 1}).__getitem__)
    if rsums and rsums[poor] < rsums[good] / 2:
        return (
            f"It cannot be told here: with {poor} the models have learned too little in their epochs (RSUM "
            f"{rsums[poor]:.1f}, with {good} {rsums[good]:.1f}). Against {other}, with {first} R@1 and R-Precision "
            f"change by {numbers}."
        )
    kinds = {k: (gap["R@1"] > 0, gap["R-P"] < 0) for k, gap in gaps.items()}
    bought = [k for k, kind in kinds.items() if all(kind)]
    if len(bought) == len(kinds):
        word, what = "Yes, in these runs", "R@1 rises and R-Precision falls"
    elif bought:
        word, what = "It cannot be told here", f"R@1 rises and R-Precision falls for {_sizes(bought)} alone"
    else:
        word, signs = "No, not in these runs", set(kinds.values())
        common = {frozenset({(False, True)}): "fall", frozenset({(True, False)}): "rise"}
        what = common.get(frozenset(signs))
        what = f"both R@1 and R-Precision {what}" if what else "R@1 never rises where R-Precision falls"
    return f"{word}: against {other}, with {first} {what}. They change by {numbers}."


def _named(line: pd.Series | str) -> str:
    """A label as part of a sentence: in quotation marks where it has a comma of its own."""
    label = line if isinstance(line, str) else str(line["label"])
    return f"“{label}”" if "," in label else label


def _sizes(numbers: Sequence[int]) -> str:
    return f"K = {_listed([str(k) for k in numbers])}"


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def _interval(line: pd.Series, name: str = RSUM) -> str:
    return f"{line[name]:.1f} [{line[f'{name} low']:.1f}, {line[f'{name} high']:.1f}]"


def _span(values: pd.Series) -> str:
    least, most = int(values.min()), int(values.max())
    return f"{least}" if least == most else f"{least} to {most}"
