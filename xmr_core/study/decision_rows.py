"""Which rows decide claims: those of the protocol's worlds, each run under every label that means it."""

from pathlib import Path

import numpy as np
import pandas as pd

from xmr_core.study import results
from xmr_core.study.claims_data.claim import JOIN
from xmr_core.study.protocol import DECIDING, EPOCHS, canonical, run_label

FOLDER = Path(__file__).resolve().parents[2] / "reports" / "protocol"


def protocol_rows(folder: Path = FOLDER) -> pd.DataFrame:
    """All rows that the protocol's runs have so far, tuning included; none where there are no such files."""
    path = folder / "results.csv"
    return results.read(path) if path.exists() else pd.DataFrame(columns=list(results.COLUMNS))


def protocol_curves(folder: Path = FOLDER) -> pd.DataFrame:
    """The validation curves of the protocol's runs, columns run_id, epoch, value; none where there is no such file."""
    path = folder / "curves.csv"
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=["run_id", "epoch", "value"])


def deciding(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the protocol that decide claims.

    Tuning and budget curves are left out; of a label that was run longer count those rows only (`longest`); and the
    rows of a run stand under every label that means the same run (docs/protocol.md: one control, one
    label), because each claim names the label of its own paper.

    >>> deciding(pd.DataFrame(columns=list(results.COLUMNS))).empty
    True
    """
    rows = longest(rows)
    worlds = rows["world"].astype(int).isin(DECIDING) | (rows["dataset"] != "scenes")
    names = rows["variant"].unique()
    named = [name for name in names if {*name.split(JOIN)} <= {*canonical()}]  # an ensemble by its members
    own = rows[worlds & rows["variant"].isin(named)]
    aliases = [(label, first) for label, first in canonical().items() if label != first]
    more = [own[own["variant"] == first].assign(variant=label) for label, first in aliases]
    return pd.concat([own, *more], ignore_index=True)


def equally_long(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that would decide claims (`deciding`) if no method were run for longer than EPOCHS on scenes; without
    ensembles of a label that was, whose scores are those of the longer runs.

    >>> equally_long(pd.DataFrame(columns=list(results.COLUMNS))).empty
    True
    """
    long = (rows["dataset"] == "scenes") & (rows["epochs"].astype(int) > EPOCHS)
    names = set(rows.loc[long, "variant"].astype(str).map(run_label))
    mixed = [JOIN in name and not names.isdisjoint(name.split(JOIN)) for name in rows["variant"].astype(str)]
    return deciding(rows[~long & ~np.array(mixed, dtype=bool)])


def longest(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows without those of a label that was run longer on the same data set, because it was not converged; these
    stand under the label itself. They count as begun when the first run of that label and seed there began, because
    what it said could be seen from then on.

    >>> rows = pd.DataFrame({"variant": ["DivE", "DivE, 144 epochs", "DivE"], "dataset": ["scenes"] * 2 + ["flickr8k"]})
    >>> longest(rows)[["variant", "dataset"]].values.tolist()
    [['DivE', 'scenes'], ['DivE', 'flickr8k']]
    """
    rows = rows.reset_index(drop=True)
    names = rows["variant"].astype(str)
    stem = names.map({name: run_label(name) for name in names.unique()})
    on = rows["dataset"].astype(str) + ": " + stem
    own = rows[(names != stem) | ~on.isin(set(on[names != stem]))]
    own = own.assign(variant=stem[own.index])
    if "started_utc" in rows:
        parts = [on, rows["world"].astype(str), rows["seed"].astype(str)]
        first = rows["started_utc"].astype(str).groupby(parts).transform("min")
        own = own.assign(started_utc=first[own.index])
    return own
