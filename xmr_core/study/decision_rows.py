"""The rows that the protocol's runs have, and those of them that compare methods."""

from pathlib import Path

import pandas as pd

from xmr_core.study import results
from xmr_core.study.protocol import DECIDING, canonical, run_label

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
    """The rows that compare methods, on the worlds on which nothing was chosen: without tuning and budget curves; of a
    label that was run longer those rows only (`longest`); and each under every label that means the same run.

    >>> deciding(pd.DataFrame(columns=list(results.COLUMNS))).empty
    True
    """
    rows = longest(rows)
    worlds = rows["world"].astype(int).isin(DECIDING) | (rows["dataset"] != "scenes")
    named = [name for name in rows["variant"].unique() if {*name.split(" + ")} <= {*canonical()}]  # and ensembles
    own = rows[worlds & rows["variant"].isin(named)]
    aliases = [(label, first) for label, first in canonical().items() if label != first]
    more = [own[own["variant"] == first].assign(variant=label) for label, first in aliases]
    return pd.concat([own, *more], ignore_index=True)


def longest(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows without those of a label that was run longer on the same data set, because it was not converged; these
    stand under the label itself.

    >>> rows = pd.DataFrame({"variant": ["DivE", "DivE, 144 epochs", "DivE"], "dataset": ["scenes"] * 2 + ["flickr8k"]})
    >>> longest(rows)[["variant", "dataset"]].values.tolist()
    [['DivE', 'scenes'], ['DivE', 'flickr8k']]
    """
    names = rows["variant"].astype(str)
    stem = names.map({name: run_label(name) for name in names.unique()})
    on = rows["dataset"].astype(str) + ": " + stem
    kept = (names != stem) | ~on.isin(set(on[names != stem]))
    return rows[kept].assign(variant=stem[kept]).reset_index(drop=True)
