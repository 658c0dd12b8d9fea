"""Tidy rows with provenance: one row per number, ours and published never mixed silently."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import filelock
import pandas as pd

from xmr_core.base import files as storage
from xmr_core.base.errors import DamagedFile
from xmr_core.evaluation.results import Evaluated, rsum_interval

RUNS = (
    "run_id", "method", "form", "dataset", "size", "seed", "origin", "epochs", "best_epoch", "train_seconds",
    "parameters", "git_commit",
    "git_dirty", "numerics", "torch", "device", "started_utc", "world",
)  # fmt: skip
NUMBERS = ("run_id", "variant", "split", "relevance", "direction", "metric", "k", "value", "n_queries", "protocol")
COLUMNS = (
    "run_id", "method", "form", "variant", "dataset", "size", "split", "relevance", "direction", "metric", "k", "value",
    "n_queries", "seed", "protocol", "origin", "epochs", "best_epoch", "train_seconds", "parameters", "git_commit",
    "git_dirty", "numerics",
    "torch", "device", "started_utc", "world",
)  # fmt: skip

BEFORE = "before the protocol"  # in place of a size, of rows of photographs

# a hash may consist of digits, or look like a number with an exponent
_TEXTS = dict.fromkeys(("relevance", "direction", "git_commit", "numerics", "torch"), str)


def rows(runs: Sequence[Evaluated], variants: Sequence[str] | None = None) -> pd.DataFrame:
    """One row per (run, relevance, direction, metric, k); see COLUMNS. `value` is a fraction (rsum: the sum of six, in
    [0, 6]; rsum_low and rsum_high: its 95 % interval by resampling images; val_rsum: of the best epoch, validation).

    numerics: the hash of the code that was run. A run_id that ends in '-s<seed>-' and 10 hex digits names configuration
    and component versions, an older one the code (training.runs.versions.identity_scheme); both stay valid names.
    variants: a label per run for tables and plots ('α=16'); the method's name when None.
    """
    parts = []
    for run, variant in zip(runs, variants or [r.setting.method for r in runs], strict=True):
        environment = run.provenance.environment
        best = run.provenance.best_value  # not a number for an ensemble, which kept no epoch
        bounds = (
            [{"relevance": "annotated", "direction": "both", "metric": "val_rsum", "k": 0, "value": best}]
            if best == best
            else []
        )
        for kind in run.per_query["relevance"].unique():
            _, low, high = rsum_interval(run.per_query, kind)
            bounds += [
                {"relevance": kind, "direction": "both", "metric": m, "k": 0, "value": v / 100}
                for m, v in (("rsum_low", low), ("rsum_high", high))
            ]
        metrics = pd.concat([run.metrics, pd.DataFrame(bounds)], ignore_index=True)
        parts.append(
            metrics.assign(
                run_id=run.id,
                **asdict(run.setting),
                variant=variant,
                split="test",
                protocol="full",
                origin="ours",
                best_epoch=run.provenance.best_epoch,
                train_seconds=round(run.provenance.train_seconds, 1),
                parameters=run.provenance.parameters,
                started_utc=run.provenance.started_utc,
                numerics=run.provenance.code,
                **{k: getattr(environment, k) for k in ("git_commit", "git_dirty", "torch", "device")},
            )
        )
    return pd.concat(parts, ignore_index=True).reindex(columns=list(COLUMNS))


def study_rows(before: bool = True) -> pd.DataFrame:
    """The rows of the study itself, in reports/ beside the package, if it was installed with them: those from before
    the protocol, and then the protocol's rows that decide claims (decision_rows.deciding).

    before: False leaves the former out, as the report does: most of them rank how fast methods learn. Photographs were
    described by other networks then; those rows have the size BEFORE, and so are a corpus of their own, whose methods
    no claim compares with later ones.
    """
    from xmr_core.study.decision_rows import deciding, protocol_rows  # it reads rows with this module

    path = Path(__file__).resolve().parents[2] / "reports" / "results.csv"
    after = deciding(protocol_rows(path.parent / "protocol"))
    if not before:
        return after
    first = read(path) if path.exists() else pd.DataFrame(columns=list(COLUMNS))
    first = first.assign(size=first["size"].mask(first["dataset"] != "scenes", BEFORE))
    return pd.concat([first, after], ignore_index=True) if len(after) else first


def latest(table: pd.DataFrame) -> pd.DataFrame:
    """The rows without those that a later run of the same variant, corpus and seed has measured again: code that
    changes its numbers gives a run another id, and the file of results only grows. Later: further down in the file."""
    same = (
        "variant", "dataset", "size", "world", "split", "seed", "relevance", "direction", "metric", "k", "protocol",
        "origin",
    )  # fmt: skip
    return table.drop_duplicates([c for c in same if c in table], keep="last", ignore_index=True)


def write(table: pd.DataFrame, path: Path | str) -> None:
    """A results file of these rows and no others, whole or not at all: what one notebook made. Raises: CannotWrite."""
    path = Path(path)
    storage.make_folder(path.parent)
    storage.write_atomic(path, _csv(table))


def append(table: pd.DataFrame, path: Path | str) -> int:
    """Add rows to the study's results; rows whose run and metric it already holds are not repeated. Returns how many
    were new.

    They are kept in two files, because what is true of a run need not stand beside each of its numbers: `path` holds
    NUMBERS, and `runs.csv` beside it RUNS, a line per run. Both only grow. Two processes may append at once; a kill
    leaves the old files whole.
    Raises: DamagedFile when the files there are not such tables; CannotWrite.
    """
    path = Path(path)
    storage.make_folder(path.parent)
    key = ["run_id", "variant", "split", "relevance", "direction", "metric", "k", "protocol"]
    with filelock.FileLock(path.with_name("." + path.name + ".lock")):
        old = read(path) if path.exists() else pd.DataFrame(columns=list(COLUMNS))
        held = set(map(tuple, old[key].astype(str).to_numpy()))
        fresh = table[[k not in held for k in map(tuple, table[key].fillna("").astype(str).to_numpy())]]
        written = _runs(path)["run_id"] if _runs_file(path).exists() else ()  # a kill may have prevented its rows
        runs = fresh[~fresh["run_id"].isin(written)].drop_duplicates("run_id")
        for more, file, columns in ((runs, _runs_file(path), RUNS), (fresh, path, NUMBERS)):  # a run before its numbers
            if len(more):
                before = _under(columns, file) if file.exists() else ""
                storage.write_atomic(file, before + _csv(more[list(columns)], header=not before))
    return len(fresh)


def _under(columns: Sequence[str], file: Path) -> str:
    """The text of a file, under these columns: one that was written before a column existed has it empty."""
    text = file.read_text(encoding="utf-8")
    if text.partition("\n")[0] == ",".join(columns):
        return text
    table = pd.read_csv(file, dtype=str, keep_default_na=False)
    return table.reindex(columns=list(columns), fill_value="").to_csv(index=False)


def append_once(table: pd.DataFrame, path: Path | str, what: str = "value") -> None:
    """Add lines to a file, such as validation curves, an epoch a line; what it holds already is not repeated: lines are
    the same where all columns but `what` are. Raises: CannotWrite."""
    path = Path(path)
    with filelock.FileLock(path.with_name("." + path.name + ".lock")):
        if path.exists():
            key = [name for name in table if name != what]
            table = pd.concat([pd.read_csv(path, keep_default_na=False), table]).drop_duplicates(key)
        storage.write_atomic(path, table.to_csv(index=False, float_format="%.4f"))


def _csv(table: pd.DataFrame, header: bool = True) -> str:
    # percent to seven digits; a run's own files keep every digit
    return table.to_csv(index=False, header=header, float_format="%.9g")


def _runs(path: Path) -> pd.DataFrame:
    """The file of runs beside `path`, each run once."""
    table = pd.read_csv(_runs_file(path), dtype=_TEXTS, keep_default_na=False)
    return table.reindex(columns=list(RUNS)).drop_duplicates("run_id")


def _runs_file(path: Path) -> Path:
    return path.with_name("runs.csv")


def read(path: Path | str) -> pd.DataFrame:
    """All COLUMNS of a file of `write`, or of the two of `append`. Raises DamagedFile when a column or a run is
    missing.
    """
    path = Path(path)
    table = pd.read_csv(path, dtype=_TEXTS, keep_default_na=False)
    if "run_id" in table and "method" not in table and _runs_file(path).exists():
        runs = _runs(path)
        if not table["run_id"].isin(runs["run_id"]).all():
            raise DamagedFile(f"{_runs_file(path)} lacks runs of {path.name}. Fetch both files of one commit.")
        table = table.merge(runs, on="run_id", how="left")
    table["world"] = pd.to_numeric(table.get("world", pd.Series(dtype=float)), errors="coerce").reindex(table.index)
    table["world"] = table["world"].fillna(0).astype(int)  # files from before worlds were told apart have world 0
    if missing := [c for c in COLUMNS if c not in table]:
        raise DamagedFile(f"{path} is not a results table: it lacks {', '.join(missing)}.")
    return table[list(COLUMNS)]
