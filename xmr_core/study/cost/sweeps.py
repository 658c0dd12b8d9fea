"""What is measured, as a list of cases, and the rows that measurements leave."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import torch

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, DamagedFile, unknown
from xmr_core.base.provenance import commit, environment, processor
from xmr_core.study.cost.flops import Shape, count
from xmr_core.study.cost.timing import TIMED, measure, peak_memory, scene

COLUMNS = (
    "what", "method", "varied", "value", "pictures", "captions", "seconds", "bare_seconds", "ratio", "extra_gib", "multiply_adds",
    "machine", "threads", "torch", "commit", "date_utc",
)  # fmt: skip
KEY = ("what", "method", "varied", "value", "pictures", "captions", "multiply_adds", "machine", "threads", "torch")
SWEPT = ("captions", "set size", "width", "words")  # 'set size' is J for PCME's samples
_SETS, _TOKENS = ("sets", "samples"), ("tokens", "graphs")
_DEAR = {"tokens": 16, "graphs": 4}  # pictures: a pair of tokens costs a thousand times a pair of vectors


@dataclass(frozen=True)
class Case:
    """One method at one size. varied: which size this is a point of a sweep over (value), or 'paper', the comparison of DivE, App. B.1."""

    method: str
    varied: str
    value: int
    shape: Shape
    pictures: int
    captions: int
    whats: tuple[str, ...] = ("one query", "all pairs")

    def row(self, what: str, device: str = "cpu") -> dict:
        """The row of this case before it is measured: what tells it from every other."""
        pairs = {"what": what, "method": self.method, "varied": self.varied, "value": self.value}
        sizes = {"pictures": self.pictures, "captions": self.captions, "multiply_adds": count(self.method, self.shape)}
        return pairs | sizes | here(device)


def plan(methods: Iterable[str] = tuple(TIMED), tiny: bool = False) -> list[Case]:
    """All cases: gallery size, set size, width and words for each method that has them, and the paper's comparison of three.

    Sizes of the paper's comparison: 1,000 pictures × 5,000 captions, the part of Flickr30K's validation split that the authors' code
    uses; captions of 16 words, which DivE's cost of SCAN implies. tiny: small sizes of everything, a second or two in all.
    Raises: BadInput for a method that is not TIMED.
    """
    methods = list(methods)
    for method in methods:
        if method not in TIMED:
            raise unknown("method to time", method, TIMED)
    base = Shape(d=32, m=8, regions=6, words=5) if tiny else Shape()
    pictures, captions = (4, 40) if tiny else (100, 1000)
    galleries, set_sizes = ((20, 40, 80), (1, 2, 4)) if tiny else ((250, 500, 1000, 2000, 4000), (1, 2, 4, 8, 16))
    widths, words = ((8, 16, 32), (4, 8, 16)) if tiny else ((64, 128, 256, 512, 1024), (8, 16, 32, 64))
    out = []
    for method in methods:
        kind = TIMED[method]
        n = min(pictures, _DEAR.get(kind, pictures))
        out += [Case(method, "captions", size, base, n, size) for size in galleries]
        if kind in _SETS:
            out += [Case(method, "set size", k, replace(base, k=k, l=k, samples=k), n, captions) for k in set_sizes]
        out += [Case(method, "width", d, replace(base, d=d), n, captions) for d in widths]
        if kind in _TOKENS:
            out += [Case(method, "words", w, replace(base, words=w), n, captions // 4) for w in words]
    compared = [m for m in ("cosine", "smooth-Chamfer", "SCAN t2i") if m in methods]
    sizes = (20, 100) if tiny else (1000, 5000)
    return out + [Case(m, "paper", sizes[1], base, *sizes, whats=("top 10",)) for m in compared]


def here(device: str = "cpu") -> dict:
    """What a time depends on besides the case: columns machine, threads, torch. device: 'cpu' or 'cuda'."""
    about = environment(device)
    machine = f"{processor()}, {os.cpu_count()} cores" if device == "cpu" else about.device
    return {"machine": machine, "threads": torch.get_num_threads(), "torch": about.torch}


def run_case(case: Case, device: str = "cpu", budget: float = 1.0) -> list[dict]:
    """The rows of one case, measured in this process; memory is only right in a process of its own. The smaller scoring comes first, so that
    each has raised the peak itself."""
    made = scene(case.method, case.shape, case.pictures, case.captions, device)
    revision, changed = commit()
    rows, stood = [], peak_memory(device)
    for what in case.whats:
        t = measure(made, what, budget, stood)
        told = {"seconds": t.seconds, "bare_seconds": t.bare, "ratio": t.seconds / t.bare, "extra_gib": t.extra_gib}
        rows.append(
            case.row(what, device)
            | told
            | {"commit": revision + " (changed)" * changed, "date_utc": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
        )
    return rows


def table_of(rows: Sequence[Mapping]) -> pd.DataFrame:
    """Rows as a table of COLUMNS."""
    return pd.DataFrame(list(rows), columns=list(COLUMNS))


def read(path: Path | str) -> pd.DataFrame:
    """The table of a file of `write`. Raises: BadInput where there is none; DamagedFile when it is not such a table."""
    path = paths.existing(path, "the table of measured costs")
    try:
        rows = pd.read_csv(
            path, dtype={c: str for c in ("what", "method", "varied", "machine", "torch", "commit", "date_utc")}, keep_default_na=False
        )
    except (ValueError, UnicodeDecodeError) as e:
        raise DamagedFile(f"{path} is not a table of costs ({type(e).__name__}). Make it again: python benchmarks/cost.py.") from None
    if missing := [c for c in COLUMNS if c not in rows]:
        raise DamagedFile(f"{path} is not a table of costs: it lacks {', '.join(missing)}. Make it again: python benchmarks/cost.py.")
    for column in ("seconds", "bare_seconds", "multiply_adds"):
        if not pd.api.types.is_numeric_dtype(rows[column]) or not (rows[column] > 0).all():
            raise DamagedFile(
                f"{path}: column {column} holds something that is not a positive number. Make it again: python benchmarks/cost.py."
            )
    return rows[list(COLUMNS)]


def study_rows() -> pd.DataFrame:
    """The committed measurements, reports/cost.csv beside the package. Raises: BadInput where it was installed without them."""
    return read(Path(__file__).resolve().parents[3] / "reports" / "cost.csv")


def write(table: pd.DataFrame, path: Path | str) -> None:
    """A file of these rows, whole or not at all; times to four digits. Raises: CannotWrite."""
    shown = table.assign(**{c: table[c].map(lambda v: f"{v:.4g}") for c in ("seconds", "bare_seconds", "ratio", "extra_gib")})
    paths.write_atomic(path, shown[list(COLUMNS)].to_csv(index=False))


def joined(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """Old and new rows, where a new one takes the place of the old one of the same case, machine and torch."""
    both = pd.concat([part for part in (old, new) if len(part)] or [new], ignore_index=True)
    return both.loc[~_keys(both).duplicated(keep="last")].reset_index(drop=True)


def is_measured(rows: pd.DataFrame, case: Case, device: str = "cpu") -> bool:
    """Whether all rows of a case were measured on this machine with this very code: same commit, nothing changed since."""
    revision, changed = commit()
    mine = set(_keys(rows[rows["commit"] == revision + " (changed)" * changed]))
    return all(key in mine for key in _keys(pd.DataFrame([case.row(what, device) for what in case.whats])))


def of_one_machine(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the machine, threads and torch of the newest row. Raises: BadInput for no rows."""
    if not len(rows):
        raise BadInput("there are no measured costs. Make some: python benchmarks/cost.py.")
    newest = rows.iloc[rows["date_utc"].argmax()]
    return rows[(rows[["machine", "threads", "torch"]] == newest[["machine", "threads", "torch"]]).all(axis=1)].reset_index(drop=True)


def _keys(rows: pd.DataFrame) -> pd.Series:
    return rows[list(KEY)].astype(str).agg("|".join, axis=1) if len(rows) else pd.Series(dtype=str)
