"""Which rows decide claims: those of the protocol's worlds, each run under every label that means it."""

from pathlib import Path

import pandas as pd

from xmr_core.study import results
from xmr_core.study.protocol import DECIDING, LONGER, budget_label, canonical

FOLDER = Path(__file__).resolve().parents[2] / "reports" / "protocol"


def protocol_rows(folder: Path = FOLDER) -> pd.DataFrame:
    """All rows that the protocol's runs have so far, tuning included; none where there are no such files."""
    path = folder / "results.csv"
    return results.read(path) if path.exists() else pd.DataFrame(columns=list(results.COLUMNS))


def deciding(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the protocol that decide claims.

    Tuning and budget curves are left out; a label that was run for LONGER epochs has, on that data set, those rows
    only; and the rows of a run stand under every label that means the same run (docs/protocol.md: one control, one
    label), because each claim names the label of its own paper.

    >>> deciding(pd.DataFrame(columns=list(results.COLUMNS))).empty
    True
    """
    rows = rows.reset_index(drop=True)
    worlds = rows["world"].astype(int).isin(DECIDING) | (rows["dataset"] != "scenes")
    ending = budget_label("", LONGER)
    stem = rows["variant"].astype(str).str.removesuffix(ending)
    on = rows["dataset"].astype(str) + ": " + stem
    again = set(on[rows["variant"].astype(str).str.endswith(ending)])
    named = [name for name in stem.unique() if {*name.split(" + ")} <= {*canonical()}]  # an ensemble by its members
    own = rows[worlds & stem.isin(named) & ((rows["variant"] != stem) | ~on.isin(again))]
    own = own.assign(variant=stem[own.index])
    aliases = [(label, first) for label, first in canonical().items() if label != first]
    more = [own[own["variant"] == first].assign(variant=label) for label, first in aliases]
    return pd.concat([own, *more], ignore_index=True)
