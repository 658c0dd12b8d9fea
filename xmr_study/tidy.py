"""Tidy rows with provenance: one row per number, ours and published never mixed silently."""

import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from xmr_core.base import files as storage
from xmr_core.base.errors import DamagedFile
from xmr_core.base.paths import read_regular
from xmr_core.evaluation.evaluate import Evaluated, rsum_interval

COLUMNS = (
    "run_id", "method", "form", "variant", "dataset", "size", "split", "relevance", "direction", "metric", "k", "value",
    "n_queries", "seed", "protocol", "origin", "epochs", "best_epoch", "train_seconds", "parameters", "git_commit",
    "git_dirty", "numerics", "torch", "device", "started_utc", "world",
)  # fmt: skip
# a hash may consist of digits, or look like a number with an exponent
_TEXTS = dict.fromkeys(("relevance", "direction", "git_commit", "numerics", "torch"), str)


def rows(runs: Sequence[Evaluated], variants: Sequence[str] | None = None) -> pd.DataFrame:
    """One row per (run, relevance, direction, metric, k); see COLUMNS. `value` is a fraction (rsum: the sum of six, in
    [0, 6]; rsum_low and rsum_high: its 95 % interval by resampling images; val_rsum: of the best epoch, validation).

    numerics: the hash of the code that was run. A run_id that ends in '-s<seed>-' and 10 hex digits names configuration
    and component versions, an older one the code; both stay valid names.
    variants: a label per run for tables and plots ('α=16'); the method's name when None.
    """
    parts = []
    for run, variant in zip(runs, variants or [r.setting.method for r in runs], strict=True):
        made = run.provenance
        best = made.best_value  # not a number for an ensemble, which kept no epoch
        more = [("annotated", "val_rsum", best)] if best == best else []
        for kind in run.per_query["relevance"].unique():
            _, low, high = rsum_interval(run.per_query, kind)
            more += [(kind, "rsum_low", low / 100), (kind, "rsum_high", high / 100)]
        bounds = pd.DataFrame(more, columns=["relevance", "metric", "value"]).assign(direction="both", k=0)
        parts.append(
            pd.concat([run.metrics, bounds], ignore_index=True).assign(
                run_id=run.id,
                **asdict(run.setting),
                variant=variant,
                split="test",
                protocol="full",
                origin="ours",
                train_seconds=round(made.train_seconds, 1),
                numerics=made.code,
                **{name: getattr(made, name) for name in ("best_epoch", "parameters", "started_utc")},
                **{k: getattr(made.environment, k) for k in ("git_commit", "git_dirty", "torch", "device")},
            )
        )
    return pd.concat(parts, ignore_index=True).reindex(columns=list(COLUMNS))


def carried(name: str) -> Path:
    """The folder `notebooks` or `reports`: what the wheel carries, or of the checkout."""
    inside = Path(__file__).resolve().parent / name
    return inside if inside.exists() else inside.parents[1] / name


def study_rows() -> pd.DataFrame:
    """The protocol's rows that compare methods (protocol_results.deciding)."""
    from xmr_study.protocol_results import deciding, protocol_rows  # it reads rows with this module

    return deciding(protocol_rows())


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
    # percent to seven digits; a run's own files keep every digit
    storage.write_atomic(path, table.to_csv(index=False, float_format="%.9g"))


def _read(path: Path, types: object, *columns: str) -> pd.DataFrame:
    try:
        table = pd.read_csv(io.BytesIO(read_regular(path)), dtype=types, keep_default_na=False)
        table[list(columns)]  # KeyError
        return table
    except (OSError, ValueError, KeyError) as e:  # pandas raises ValueErrors
        raise DamagedFile(f"{path} is not a results table ({type(e).__name__}: {e}). Choose another file.") from None


def _runs_file(path: Path) -> Path:
    return path.with_name("runs.csv")


def read(path: Path | str) -> pd.DataFrame:
    """All COLUMNS of a file of `write`, or of the protocol before, which kept what is true of a run in `runs.csv`
    beside it. Raises DamagedFile when a column or a run is missing.
    """
    path = Path(path)
    table = _read(path, _TEXTS)
    if "run_id" in table and "method" not in table and _runs_file(path).exists():
        runs = _read(_runs_file(path), _TEXTS, "run_id").drop_duplicates("run_id")
        if not table["run_id"].isin(runs["run_id"]).all():
            raise DamagedFile(f"{_runs_file(path)} lacks runs of {path.name}. Fetch both files of one commit.")
        table = table.merge(runs, on="run_id", how="left")
    if missing := [c for c in COLUMNS if c not in table]:
        raise DamagedFile(f"{path} is not a results table: it lacks {', '.join(missing)}.")
    return table[list(COLUMNS)].assign(world=pd.to_numeric(table["world"]).fillna(0).astype(int))
