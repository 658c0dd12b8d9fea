"""What methods reach after each budget of training, as sentences, and the rows that say it."""

import itertools
from collections.abc import Iterable

import numpy as np
import pandas as pd

from xmr_core.study.decision_rows import deciding
from xmr_core.study.method_results import at_equal_time
from xmr_core.study.protocol import DECIDING, EPOCHS, LONGER, budget_label, labels

REFERENCE = "VSE∞"


def listed(names: Iterable[str]) -> str:
    """Labels as a sentence names them; one that holds a comma loses it.

    >>> listed(["SAF", "SGRAF, joint", "SGR"]), listed(["SAF"]), listed([])
    ('SAF, SGRAF joint and SGR', 'SAF', '')
    """
    *first, last = [name.replace(",", "") for name in names] or [""]
    return " and ".join([", ".join(first), last] if first else [last])


def deciding_and_budgets(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of a protocol's comparison and of its budget curves, on the worlds of scenes that decide; of a label
    that was run for LONGER epochs, those of fewer are points of its curve.

    >>> from xmr_core.study.results import COLUMNS
    >>> deciding_and_budgets(pd.DataFrame(columns=list(COLUMNS))).empty
    True
    """
    rows = rows[rows["dataset"] == "scenes"]
    names = rows["variant"].astype(str)
    curve = (names.str.contains(r", \d+ epochs$") | names.isin(labels())) & rows["world"].astype(int).isin(DECIDING)
    return pd.concat([deciding(rows), rows[curve]], ignore_index=True).drop_duplicates(ignore_index=True)


def equal_time_sentence(points: pd.DataFrame, reference: str = REFERENCE) -> str:
    """What others reach in the training time of the reference; '' where the budget curves have no such point.

    >>> equal_time_sentence(pd.DataFrame(columns=["label", "epochs"]))
    ''
    """
    table = at_equal_time(points, reference)
    reached, none = table[table["rsum"].notna()], table.loc[table["rsum"].isna(), "label"]
    if len(reached) < 2:
        return ""
    values = ", ".join(f"{r.label} {r.rsum:.1f}" for r in reached.head(4).itertuples())
    first = "the annotated RSUM is" if len(reached) <= 4 else "the highest annotated RSUM are"
    late = f"; {listed(none)} {'has' if len(none) == 1 else 'have'} no result by then" if len(none) else ""
    fewest = int(reached["seeds"].min())
    seeds = f"{fewest} seed{'s' * (fewest > 1)}"
    return f"In the training time of {EPOCHS} epochs of {reference} (interpolated, {seeds}), {first}: {values}{late}."


def order_sentence(points: pd.DataFrame) -> str:
    r"""How many pairs of methods stand the other way round after the smallest budget than after their largest, in every
    seed, and the pair that is told apart best on both occasions; '' when there is none. points: of budget_points.

    >>> points = [("DivE", 8, 290.0), ("DivE", 144, 480.0), ("VSE∞", 8, 370.0), ("VSE∞", 72, 470.0),
    ...           ("PVSE", 8, 280.0), ("PVSE", 72, 430.0)]
    >>> points = pd.DataFrame(points, columns=["label", "epochs", "rsum"])
    >>> points["by seed"] = [(value - 1.0, value + 1.0) for value in points["rsum"]]
    >>> print(order_sentence(points).replace(": ", ":\n"))
    After 8 epochs 1 of 3 pairs of methods stand the other way round than in the end, in each of 2 seeds:
    VSE∞ is 80.0 above DivE, then 10.0 below.
    >>> order_sentence(points[points["label"] == "DivE"])
    ''
    """
    first = points["epochs"].min()
    early = points[points["epochs"] == first].set_index("label")["by seed"].map(np.array)
    late = points[points["epochs"] > first].sort_values("epochs").groupby("label")["by seed"].last().map(np.array)
    names = early.index.intersection(late.index)
    turned = []
    for a, b in itertools.permutations(names, 2):
        n = min(len(early[a]), len(early[b]))  # both have the first seeds
        above, below = early[a][:n] - early[b][:n], late[b][:n] - late[a][:n]
        if (above > 0).all() and (below > 0).all():
            turned.append((above.mean(), below.mean(), n, a, b))
    if not turned:
        return ""
    above, below, _, a, b = max(turned, key=lambda pair: min(pair[:2]))
    seeds = min(n for *_, n, _, _ in turned)
    return (
        f"After {first} epochs {len(turned)} of {len(names) * (len(names) - 1) // 2} pairs of methods stand the other "
        f"way round than in the end{f', in each of {seeds} seeds' if seeds > 1 else ''}: {a} is {above:.1f} above {b}, "
        f"then {below:.1f} below."
    )


def longer_sentence(rows: pd.DataFrame) -> str:
    """What LONGER epochs added to the annotated RSUM of each method that was run for them, as means over the seeds that
    have both; '' where none has. rows: of the protocol.

    >>> rows = pd.DataFrame({"variant": ["DivE", "DivE, 144 epochs"], "world": 1, "dataset": "scenes", "seed": 0,
    ...     "relevance": "annotated", "metric": "rsum", "value": [4.70, 4.82]})
    >>> longer_sentence(rows).partition(". The others")[0]
    '144 epochs in place of 72 added this to the annotated RSUM of the methods that were not converged: DivE +12.0'
    """
    own = rows[(rows["relevance"] == "annotated") & (rows["metric"] == "rsum") & (rows["dataset"] == "scenes")]
    own = own[own["world"].astype(int).isin(DECIDING)]
    value = 100 * own.set_index(["variant", own["seed"].astype(int)])["value"].astype(float)
    longer = {label: budget_label(label, LONGER) for label in labels()}
    measured = value.index.get_level_values(0)
    gains = {label: (value[name] - value[label]).mean() for label, name in longer.items() if name in measured}
    if not gains:
        return ""
    said = ", ".join(f"{label} {gain:+.1f}" for label, gain in sorted(gains.items(), key=lambda pair: -pair[1]))
    return (
        f"{LONGER} epochs in place of {EPOCHS} added this to the annotated RSUM of the methods that were not "
        f"converged: {said}. The others may gain some, too: the rule "
        "looks at the end of a schedule, and not at a longer one."
    )
