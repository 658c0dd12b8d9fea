"""The table of measured costs: what benchmarks/cost.py writes."""

from pathlib import Path

import pandas as pd

from xmr_core.base import files
from xmr_core.base.errors import BadInput, DamagedFile

_PLACE = ["machine", "threads", "torch"]
COLUMNS = (
    "what", "method", "varied", "value", "images", "captions", "seconds", "bare_seconds", "ratio", "extra_gib",
    "multiply_adds", *_PLACE, "commit", "date_utc",
)  # fmt: skip


def read(path: Path | str) -> pd.DataFrame:
    """The table in a file of benchmarks/cost.py. Raises: BadInput where there is none; DamagedFile when it is not such
    a table."""
    path = files.existing(path, "the table of measured costs")
    texts = dict.fromkeys(("what", "method", "varied", "machine", "torch", "commit", "date_utc"), str)
    try:
        rows = pd.read_csv(path, dtype=texts, keep_default_na=False)[list(COLUMNS)]
        whole = (rows[["seconds", "bare_seconds", "multiply_adds"]].astype(float) > 0).all(axis=None)
    except (ValueError, KeyError) as e:
        raise DamagedFile(f"{path} is not a table of costs ({e}). Make it again: python benchmarks/cost.py.") from None
    if not whole:
        raise DamagedFile(f"{path} has numbers that are not positive. Make it again: python benchmarks/cost.py.")
    return rows


def study_rows() -> pd.DataFrame:
    """The committed measurements, reports/cost.csv beside the package. Raises: BadInput where there is no such file."""
    return read(Path(__file__).resolve().parents[3] / "reports" / "cost.csv")


def of_one_machine(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the machine, threads and torch of the newest row. Raises: BadInput for no rows."""
    if not len(rows):
        raise BadInput("there are no measured costs. Make some: python benchmarks/cost.py.")
    newest = rows.iloc[rows["date_utc"].argmax()]
    return rows[(rows[_PLACE] == newest[_PLACE]).all(axis=1)].reset_index(drop=True)
