"""The abstract of the study: what its rows say, as sentences that are made from numbers, and what is missing."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from xmr_core.study import results
from xmr_core.study.ambiguity_results import ambiguity_gains, ambiguity_points
from xmr_core.study.ambiguity_trends import ambiguity_trends, trend_sentences
from xmr_core.study.budgets import REFERENCE, deciding_and_budgets, equal_time_sentence, listed, order_sentence
from xmr_core.study.claims import CLAIMS, NOT_MEASURED, ledger
from xmr_core.study.claims_data import SWEEPS
from xmr_core.study.claims_data.claim import RSUM
from xmr_core.study.close_methods import close_methods
from xmr_core.study.comparisons import values_of
from xmr_core.study.decision_rows import FOLDER, deciding, protocol_curves, protocol_rows
from xmr_core.study.flickr_results import flickr_results, flickr_sentence
from xmr_core.study.image_values import read_image_values
from xmr_core.study.method_results import budget_points, dominated, method_results, protocol_results
from xmr_core.study.progress import earlier_rows, progress, spent_hours
from xmr_core.study.protocol import labels
from xmr_core.study.seeds_apart import apart_sentence, seeds_apart
from xmr_core.study.setting_in_words import setting_sentence
from xmr_core.study.swept_settings import swept, swept_sentence
from xmr_core.study.verdict_counts import ledger_sentence


def earlier_results(folder: Path = FOLDER) -> pd.DataFrame:
    """`method_results` of the longest study from before the protocol: the successors' 48 epochs, untuned, on the world
    of choices. It stands in where the protocol has no rows yet, and is exploratory.

    >>> earlier_results(Path("no such folder/protocol")).empty
    True
    """
    before = folder.parent / "successors"
    if not (before / "results.csv").exists():
        return method_results(pd.DataFrame(columns=["variant"]), [])
    rows, curves = results.read(before / "results.csv"), pd.read_csv(before / "curves.csv")
    names = [name for name in rows["variant"].unique() if name in labels()]
    times = next((p for p in (folder / "scoring.csv", before / "scoring.csv") if p.exists()), None)
    return method_results(rows, names, curves, scoring=pd.read_csv(times) if times else None)


def cost_sentences(table: pd.DataFrame, reference: str = REFERENCE, near: Sequence[str] = ()) -> list[str]:
    """The best method with its interval, what it costs against the reference, and which methods are on the front.

    table: of method_results. near: labels that are not told apart from the best.

    >>> line = {"rsum low": 1.0, "rsum high": 9.0, "seeds": 5, "parameters": 8, "scoring ms": 1.0}
    >>> print(*cost_sentences(pd.DataFrame([line | {"label": "VSE∞", "rsum": 8.0, "train seconds": 4.0}])))
    VSE∞ has the highest annotated RSUM (six recalls in percent, at most 600) of 1 method, 8.0 [1.0, 9.0] (5 seeds).
    """
    if not len(table):
        return []
    best, out = table.iloc[0], []
    what = "annotated RSUM (six recalls in percent, at most 600)"
    count = f"{len(table)} method{'s' * (len(table) > 1)}"
    text = f"{best['label']} has the highest {what} of {count}, {_interval(best)} ({_seeds(best['seeds'])})"
    if len(near):
        text += (
            f"; with the choice of test images counted (95 %, uncorrected), it is not told apart from {listed(near)}"
        )
    base = table[table["label"] == reference]
    if len(base) and best["label"] != reference:
        unit = base.iloc[0]
        text += f"; {reference}, one vector for each item, has {_interval(unit)}"
        times = best["train seconds"] / unit["train seconds"]
        text += f". {best['label']} trains {_times(times)} as long"
        if pd.notna(best["scoring ms"]) and unit["scoring ms"] > 0:
            text += f", and its scores take {_times(best['scoring ms'] / unit['scoring ms'])} the time"
    out.append(f"{text}.")
    if len(table) > 1 and table["scoring ms"].notna().all():
        front = table[~dominated(table, "scoring ms")].sort_values("scoring ms")["label"]
        out.append(
            f"By means alone, no other is both better and faster in scoring than {len(front)} of {len(table)} methods: "
            f"{listed(front)}."
        )
    return out


def unfinished_sentence(table: pd.DataFrame) -> str:
    """Which methods of the comparison have no rows yet, so that nobody takes the best of some for the best of all; ''
    when none is missing. table: of method_results.

    >>> unfinished_sentence(pd.DataFrame({"label": labels()[1:], "seeds": 1}))
    'The comparison is not finished: ... methods have runs so far, with 1 seed; missing: VSE++.'
    """
    absent = [label for label in labels() if label not in set(table["label"])]
    if not absent:
        return ""
    fewest, most = int(table["seeds"].min()), int(table["seeds"].max())
    seeds = _seeds(most) if fewest == most else f"{fewest} to {_seeds(most)}"
    return (
        f"The comparison is not finished: {len(table)} of {len(labels())} methods have runs so far, with {seeds}; "
        f"missing: {'; '.join(absent)}."
    )


def _with_rows_before_only(own: pd.DataFrame) -> int:
    """How many claims have a verdict of some rows of the study and none of the protocol's, whose ledger is `own`."""
    every = ledger(results.study_rows(), CLAIMS)
    measured = [set(table.loc[table["verdict"] != NOT_MEASURED, "claim"]) for table in (every, own)]
    return len(measured[0] - measured[1])


def missing_sentence(table: pd.DataFrame, spent: float) -> str:
    """What of the protocol is done, and how many hours the rest would take; table: of study.progress.

    >>> missing_sentence(pd.DataFrame({"part": ["tuning"], "done": [3], "runs": [7], "hours": [2.0]}), 1.5)
    'Of 7 runs of the protocol 3 are done, in 1.5 hours of a core; missing, in such hours: tuning 2.0.'
    """
    left = table[table["done"] < table["runs"]]
    # where photographs need more epochs, and what a dear method takes there, is known only from their first runs
    parts = ", ".join(f"{r.part}{' at least' * (r.part == 'flickr8k')} {r.hours:.1f}" for r in left.itertuples())
    text = (
        f"Of {table['runs'].sum()} runs of the protocol {table['done'].sum()} are done, in {spent:.1f} hours of a core"
    )
    return f"{text}; missing, in such hours: {parts}." if len(left) else f"{text}; none is missing."


def findings(folder: Path = FOLDER, parts: Sequence[str] = ("quality", "claims", "missing")) -> list[str]:
    """The sentences of the abstract. Before the protocol has rows of its comparison, those of earlier rows, said so.

    >>> [text[:3] for text in findings(Path("no such folder/protocol"), ["quality"])]
    ['Not']
    """
    every, out = protocol_rows(folder), []
    if "quality" in parts:
        table = protocol_results(folder=folder)
        if len(table):
            unfinished = unfinished_sentence(table)  # the front of some methods is not that of all
            scenes = every[every["dataset"] == "scenes"]
            values = next(iter(values_of(deciding(scenes), RSUM).values()))
            near = close_methods(table["label"].iloc[0], table["label"].iloc[1:], values, read_image_values(folder))
            said = cost_sentences(table, near=near)
            out += [unfinished, setting_sentence(table), *(said[:1] if unfinished else said)]
            out.append(apart_sentence(seeds_apart(deciding(scenes), labels())))
            points = budget_points(deciding_and_budgets(scenes), labels())
            out += [equal_time_sentence(points), order_sentence(points)]
            alpha, elements = (swept(scenes, *SWEEPS["dive"][name]) for name in ("alpha", "slots"))
            out.append(swept_sentence(alpha, "α", 16, "the scale of smooth-Chamfer"))
            out.append(swept_sentence(elements, "K", 4, "the number of elements"))
            out += trend_sentences(ambiguity_trends(ambiguity_gains(ambiguity_points(every))))
            out.append(flickr_sentence(flickr_results(every, protocol_curves(folder))))
        else:
            out.append(
                "Nothing is decided yet: no run of the protocol's comparison has ended. What follows is exploratory, "
                "from runs before the protocol, untuned and on the world on which choices were made."
            )
        before = earlier_results(folder)
        if len(before) and before["label"].iloc[0] not in set(table["label"]):  # its best is not yet compared
            start = "From before the protocol, untuned and exploratory: after" if len(table) else "After"
            said = cost_sentences(before)[: 1 if len(table) else None]
            out.append(f"{start} {before['epochs'].max()} epochs on `scenes`: {' '.join(said)}")
    if "claims" in parts:
        own = ledger(results.study_rows(before=False), CLAIMS)
        out.append(ledger_sentence(own, _with_rows_before_only(own)))
    if "missing" in parts:
        table = progress(every, protocol_curves(folder), earlier_rows(folder))
        out.append(missing_sentence(table, spent_hours(every)))
    return [text for text in out if text]


def _interval(line: pd.Series) -> str:
    low, high = line["rsum low"], line["rsum high"]
    return f"{line['rsum']:.1f} [{low:.1f}, {high:.1f}]" if pd.notna(low) else f"{line['rsum']:.1f}"


def _seeds(n: int) -> str:
    return f"{n} seed" if n == 1 else f"{n} seeds"


def _times(ratio: float) -> str:
    if ratio >= 1000:  # of a time that is extrapolated
        return f"about {round(ratio, -2):,.0f} times"
    return f"{ratio:,.0f} times" if ratio >= 10 else f"{ratio:.1f} times"
