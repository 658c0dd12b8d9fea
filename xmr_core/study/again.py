"""Runs that were trained twice with other results, as on another model of processor: by how much they differ."""

from pathlib import Path

import pandas as pd

from xmr_core.evaluation.stats import seed_interval
from xmr_core.study import results
from xmr_core.study.decision_rows import FOLDER, deciding, protocol_rows
from xmr_core.study.protocol import run_label

AGAIN = "again"  # the folder of their rows, inside that of the protocol's
COLUMNS = ["label", "seeds", "first", "again", "difference", "low", "high", "of one seed", "between seeds"]


def trained_again(folder: Path = FOLDER) -> pd.DataFrame:
    """One line per label with at least two runs that were trained twice: seeds; annotated RSUM of the first training
    and of the second, means over seeds; their difference, second minus first, with its 95 % interval over seeds;
    'of one seed', the standard deviation of the differences by √2, which is what one training of a seed leaves open;
    and 'between seeds', the standard deviation of the first trainings. No line where there are no such rows.

    >>> trained_again(Path("no such folder/protocol")).empty
    True
    """
    path, lines = folder / AGAIN / "results.csv", []
    if path.exists():
        first, second = (_rsum(table) for table in (protocol_rows(folder), results.read(path)))
        pairs = first.to_frame("first").join(second.to_frame("again"), how="inner")
        for label, own in pairs.groupby(pairs.index.get_level_values(1).map(run_label), sort=False):
            if len(own) > 1:
                difference = own["again"] - own["first"]
                lines.append((label, len(own), own["first"].mean(), own["again"].mean(), *seed_interval(difference),
                              difference.std(ddof=1) / 2**0.5, own["first"].std(ddof=1)))  # fmt: skip
    return pd.DataFrame(lines, columns=COLUMNS)


def second_rows(folder: Path = FOLDER) -> pd.DataFrame:
    """The rows that decide claims (decision_rows.deciding), with the second training of every run that has one in the
    place of the first, counted as if it had begun when the first did: the rules of counting depend on that time, and
    here the numbers alone are to be others. Ensembles keep the scores of their members' first training.

    >>> second_rows(Path("no such folder/protocol")).empty
    True
    """
    rows, path = protocol_rows(folder), folder / AGAIN / "results.csv"
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
