"""The rows of the protocol before, and what budgets of epochs say there."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from xmr_study import tidy
from xmr_study.protocol import canonical

FOLDER = tidy.carried("reports") / "protocol"
DECIDING = (1, 2)


def protocol_rows(folder: Path = FOLDER) -> pd.DataFrame:
    """All rows of its runs but those of tuning and of photographs, which are in the history."""
    return tidy.read(folder / "results.csv")


def ablation_rows(folder: Path = FOLDER) -> pd.DataFrame:
    """All rows for what varies DivE: its control is that of an AMD EPYC (third/), on which its variants were trained,
    and not that of the comparison, which has 6 points more by another processor's chance."""
    rows, control = protocol_rows(folder), protocol_rows(folder / "third")
    return pd.concat([rows[~rows["variant"].isin(control["variant"].unique())], control], ignore_index=True)


def deciding(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that compare methods, on the worlds on which nothing was chosen: the longest runs of every label, also
    under every other label that means the same run.

    >>> deciding(pd.DataFrame(columns=list(tidy.COLUMNS))).empty
    True
    """
    longest = rows["epochs"] == rows.groupby("variant")["epochs"].transform("max")
    named = [name for name in rows["variant"].unique() if {*name.split(" + ")} <= {*canonical()}]  # and ensembles
    own = rows[longest & rows["world"].astype(int).isin(DECIDING) & rows["variant"].isin(named)]
    aliases = [(label, first) for label, first in canonical().items() if label != first]
    more = [own[own["variant"] == first].assign(variant=label) for label, first in aliases]
    return pd.concat([own, *more], ignore_index=True)


def budget_points(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Annotated RSUM of a name on the worlds of scenes that decide after each budget of epochs, each a run of its own:
    label, epochs, seeds, rsum (mean). Only seeds that all budgets of a name have; a name with one budget is left out.
    rows: of protocol_rows.

    >>> budget_points(pd.DataFrame(columns=list(tidy.COLUMNS)), ["DivE"]).empty
    True
    """
    own = rows[rows["world"].astype(int).isin(DECIDING) & (rows["metric"] == "rsum")]
    own = own[own["relevance"] == "annotated"].drop_duplicates(["variant", "epochs", "seed"], keep="last")
    lines = []
    for name in names:
        of_name = own[own["variant"] == name].astype({"value": float})
        values = 100 * of_name.pivot(index="seed", columns="epochs", values="value")
        common = values.dropna() if values.shape[1] > 1 else values.iloc[:0, :0]
        lines += [(name, n, len(common), column.mean()) for n, column in common.items() if len(common)]
    return pd.DataFrame(lines, columns=["label", "epochs", "seeds", "rsum"])
