"""Runs that were trained more than once with other results, as on another model of processor: by how much they
differ."""

from pathlib import Path

import pandas as pd

from xmr_core.evaluation.stats import seed_interval
from xmr_core.study import results
from xmr_core.study.decision_rows import FOLDER, deciding, protocol_rows
from xmr_core.study.protocol import run_label

AGAIN = "again"  # the folder of the rows of second trainings, inside that of the protocol's
THIRD = "third"  # and of third ones
COLUMNS = ["label", "processor", "seeds", "first", "again", "difference", "low", "high", "of one seed", "between seeds"]


def trained_again(folder: Path = FOLDER) -> pd.DataFrame:
    """One line per label and processor with at least two runs that were trained once more: processor (of the later
    training); seeds; annotated RSUM of the first training and of the later, means over seeds; their difference, later
    minus first, with its 95 % interval over seeds; 'of one seed', the standard deviation of the differences by √2,
    which is what one training of a seed leaves open; and 'between seeds', the standard deviation of the first
    trainings. No line where there are no such rows.

    >>> trained_again(Path("no such folder/protocol")).empty
    True
    """
    lines = []
    for path in (folder / name / "results.csv" for name in (AGAIN, THIRD)):
        if not path.exists():
            continue
        later = results.read(path)
        pairs = _rsum(protocol_rows(folder)).to_frame("first").join(_rsum(later).to_frame("again"), how="inner")
        processors = later.drop_duplicates("run_id").set_index("run_id")["device"].astype(str)
        processors = processors.str.replace(r"^cpu \((.*), \d+ cores\)$", r"\1", regex=True)
        keys = [pairs.index.get_level_values(1).map(run_label), pairs.index.get_level_values(0).map(processors)]
        for (label, processor), own in pairs.groupby(keys, sort=False):
            if len(own) > 1:
                difference = own["again"] - own["first"]
                lines.append((label, processor, len(own), own["first"].mean(), own["again"].mean(),
                              *seed_interval(difference), difference.std(ddof=1) / 2**0.5,
                              own["first"].std(ddof=1)))  # fmt: skip
    return pd.DataFrame(lines, columns=COLUMNS)


def later_rows(folder: Path = FOLDER, which: str = AGAIN) -> pd.DataFrame:
    """The rows that decide claims (decision_rows.deciding), with the second training (or the THIRD) of every run that
    has one in the place of the first, counted as if it had begun when the first did: the rules of counting depend on
    that time, and here the numbers alone are to be others. Ensembles keep the scores of their members' first training.

    >>> later_rows(Path("no such folder/protocol")).empty
    True
    """
    rows, path = protocol_rows(folder), folder / which / "results.csv"
    if path.exists():
        second = results.read(path)
        began = rows.drop_duplicates("run_id").set_index("run_id")["started_utc"]
        second = second.assign(started_utc=second["run_id"].map(began).fillna(second["started_utc"]))
        rows = pd.concat([rows[~rows["run_id"].isin(second["run_id"])], second], ignore_index=True)
    return deciding(rows)


def _rsum(table: pd.DataFrame) -> pd.Series:
    """Annotated RSUM in percent by (run, label)."""
    own = table[(table["relevance"] == "annotated") & (table["metric"] == "rsum")]
    return 100 * own.drop_duplicates(["run_id", "variant"]).set_index(["run_id", "variant"])["value"].astype(float)
