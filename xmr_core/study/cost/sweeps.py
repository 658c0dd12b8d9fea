"""What is measured, as a list of cases, and the table of its results."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import torch

from xmr_core.base import files
from xmr_core.base.devices import processor
from xmr_core.base.errors import BadInput, DamagedFile, unknown
from xmr_core.base.provenance import commit, environment
from xmr_core.study.cost.flops import Shape, count
from xmr_core.study.cost.timing import TIMED, measure, peak_memory, scene

_CASE, _SIZES = ("what", "method", "varied", "value"), ("images", "captions")
_MEASURED = ("seconds", "bare_seconds", "ratio", "extra_gib")
_PLACE = ("machine", "threads", "torch")
COLUMNS = (*_CASE, *_SIZES, *_MEASURED, "multiply_adds", *_PLACE, "commit", "date_utc")
KEY = (*_CASE, *_SIZES, "multiply_adds", *_PLACE)
_SETS, _TOKENS = ("sets", "samples"), ("tokens", "graphs")
_FEWER = {"tokens": 16, "graphs": 4}  # images: a pair of tokens costs a thousand times as much as a pair of vectors
_AGAIN = "Make it again: python benchmarks/cost.py."


@dataclass(frozen=True)
class Case:
    """One method at one size. varied: the size that a sweep varies, here `value` ('set size' is J for PCME), or 'paper'
    for the comparison of DivE, App. B.1. images, captions: how many are scored. whats: of timing.WHATS."""

    method: str
    varied: str
    value: int
    shape: Shape
    images: int
    captions: int
    whats: tuple[str, ...] = ("one query", "all pairs")

    def row(self, what: str, device: str = "cpu") -> dict:
        """The row of this case before it is measured: all that distinguishes it from other cases."""
        pairs = {"what": what, "method": self.method, "varied": self.varied, "value": self.value}
        sizes = {"images": self.images, "captions": self.captions, "multiply_adds": count(self.method, self.shape)}
        return pairs | sizes | conditions(device)


def plan(methods: Iterable[str] = tuple(TIMED), tiny: bool = False) -> list[Case]:
    """All cases: gallery size, set size, width and words for each method that has them, and the paper's comparison of
    three.

    The paper's comparison has 1,000 images × 5,000 captions, the part of Flickr30K's validation split that the authors'
    code uses, and captions of 16 words, which DivE's cost of SCAN implies. tiny: small sizes of everything; all cases
    together then take a second or two.
    Raises: BadInput for a method that is not in TIMED.

    >>> {case.varied for case in plan(["cosine"], tiny=True)} == {"captions", "width", "paper"}
    True
    """
    methods = list(methods)
    for method in methods:
        if method not in TIMED:
            raise unknown("method to time", method, TIMED)
    base = Shape(d=32, m=8, regions=6, words=5) if tiny else Shape()
    images, captions = (4, 40) if tiny else (100, 1000)
    galleries, set_sizes = ((20, 40, 80), (1, 2, 4)) if tiny else ((250, 500, 1000, 2000, 4000), (1, 2, 4, 8, 16))
    widths, words = ((8, 16, 32), (4, 8, 16)) if tiny else ((64, 128, 256, 512, 1024), (8, 16, 32, 64))
    out = []
    for method in methods:
        kind = TIMED[method](Shape(d=8, m=8)).compares  # at a small size, because building a similarity costs memory
        n = min(images, _FEWER.get(kind, images))
        out += [Case(method, "captions", size, base, n, size) for size in galleries]
        if kind in _SETS:
            out += [Case(method, "set size", k, replace(base, k=k, l=k, samples=k), n, captions) for k in set_sizes]
        out += [Case(method, "width", d, replace(base, d=d), n, captions) for d in widths]
        if kind in _TOKENS:
            out += [Case(method, "words", w, replace(base, words=w), n, captions // 4) for w in words]
    compared = [m for m in ("cosine", "smooth-Chamfer", "SCAN t-i") if m in methods]
    sizes = (20, 100) if tiny else (1000, 5000)
    return out + [Case(m, "paper", sizes[1], base, *sizes, whats=("top 10",)) for m in compared]


def conditions(device: str = "cpu") -> dict:
    """What a time depends on besides the case: columns machine, threads, torch. device: 'cpu' or an accelerator."""
    about = environment(device)
    machine = f"{processor()}, {os.cpu_count()} cores" if device == "cpu" else about.device
    return {"machine": machine, "threads": torch.get_num_threads(), "torch": about.torch}


def run_case(case: Case, device: str = "cpu", budget: float = 1.0) -> list[dict]:
    """The rows of one case, measured in this process. budget: seconds for repetitions of each scoring.

    The memory is right only in a process of its own. The smaller scoring comes first, so that each raises the peak
    itself.
    """
    made = scene(case.method, case.shape, case.images, case.captions, device)
    rows, before = [], peak_memory(device)
    for what in case.whats:
        t = measure(made, what, budget, before)
        values = {"seconds": t.seconds, "bare_seconds": t.bare, "ratio": t.seconds / t.bare, "extra_gib": t.extra_gib}
        stamp = {"commit": _revision(), "date_utc": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
        rows.append(case.row(what, device) | values | stamp)
    return rows


def table_of(rows: Sequence[Mapping]) -> pd.DataFrame:
    """Rows as a table of COLUMNS.

    >>> table_of([{"what": "all pairs", "method": "cosine"}]).shape
    (1, 16)
    """
    return pd.DataFrame(list(rows), columns=list(COLUMNS))


def read(path: Path | str) -> pd.DataFrame:
    """The table in a file that `write` made. Raises: BadInput where there is none; DamagedFile when it is not such a
    table."""
    path = files.existing(path, "the table of measured costs")
    texts = dict.fromkeys(("what", "method", "varied", "machine", "torch", "commit", "date_utc"), str)
    try:
        rows = pd.read_csv(path, dtype=texts, keep_default_na=False)
    except (ValueError, UnicodeDecodeError) as e:
        raise DamagedFile(f"{path} is not a table of costs ({type(e).__name__}). {_AGAIN}") from None
    if missing := [c for c in COLUMNS if c not in rows]:
        raise DamagedFile(f"{path} is not a table of costs: it lacks {', '.join(missing)}. {_AGAIN}")
    for column in ("seconds", "bare_seconds", "multiply_adds"):
        if not pd.api.types.is_numeric_dtype(rows[column]) or not (rows[column] > 0).all():
            raise DamagedFile(f"{path}: column {column} holds something that is not a positive number. {_AGAIN}")
    return rows[list(COLUMNS)]


def study_rows() -> pd.DataFrame:
    """The committed measurements, reports/cost.csv beside the package. Raises: BadInput where there is no such file."""
    return read(Path(__file__).resolve().parents[3] / "reports" / "cost.csv")


def write(table: pd.DataFrame, path: Path | str) -> None:
    """Write the rows to a file, completely or not at all; times have four digits. Raises: CannotWrite."""
    shown = table.assign(**{c: table[c].map(lambda v: f"{v:.4g}") for c in _MEASURED})
    files.write_atomic(path, shown[list(COLUMNS)].to_csv(index=False))


def joined(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """Old and new rows; a new row replaces the old one of the same case, machine and torch."""
    rows = pd.concat([part for part in (old, new) if len(part)] or [new], ignore_index=True)
    return rows.loc[~_keys(rows).duplicated(keep="last")].reset_index(drop=True)


def is_measured(rows: pd.DataFrame, case: Case, device: str = "cpu") -> bool:
    """Whether all rows of a case were measured on this machine with the present code: the same commit, nothing
    changed."""
    measured = set(_keys(rows[rows["commit"] == _revision()]))
    return measured.issuperset(_keys(pd.DataFrame([case.row(what, device) for what in case.whats])))


def of_one_machine(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the machine, threads and torch of the newest row. Raises: BadInput for no rows."""
    if not len(rows):
        raise BadInput("there are no measured costs. Make some: python benchmarks/cost.py.")
    newest = rows.iloc[rows["date_utc"].argmax()]
    place = list(_PLACE)
    return rows[(rows[place] == newest[place]).all(axis=1)].reset_index(drop=True)


def _revision() -> str:
    revision, changed = commit()
    return revision + " (changed)" * changed


def _keys(rows: pd.DataFrame) -> pd.Series:
    return rows[list(KEY)].astype(str).agg("|".join, axis=1) if len(rows) else pd.Series(dtype=str)
