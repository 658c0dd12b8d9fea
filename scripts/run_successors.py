"""Rows of the successors beside the methods they descend from, on `scenes`, all for 48 epochs.

python scripts/run_successors.py [--part NAME …] [--seeds N]. Parts: successors (quality and cost of every method),
smaller (a model for each number of elements, beside the nested ones), objectives (InfoNCE against SigLIP at two
ambiguities), budgets (the same methods at half and at twice the epochs). It can be killed and started again: finished
runs are kept, and what has rows is not trained again. Rows go to reports/successors/ as each run ends, one validation
curve per run beside them; scripts/build_successors.py makes the tables and says where validation was not flat yet.
"""

import argparse
from pathlib import Path

import pandas as pd

from xmr_core.base import files
from xmr_core.evaluation.analysis import (
    budget_table,
    encode_split,
    first_rows,
    query_uncertainty,
    uncertainty_rows,
)  # fmt: skip
from xmr_core.study import base_config, results
from xmr_core.study.variants import comparison
from xmr_core.training.runs import RunConfig, TrainedRun, train_or_load_all
from xmr_core.training.runs.produce import plan_run

FOLDER = Path(__file__).resolve().parents[1] / "reports" / "successors"
EPOCHS = 48
LABELS = ("SCAN t-i", "MaxSim t-i", "PCME++", "CHAN", "VSE∞", "DivE", "PCME", "PVSE", "VSE++")  # the longest first
NESTED = {"DivE, nested": ("dive", {"nested": True}), "PVSE, nested": ("pvse", {"nested": True})}
SMALLER = {f"{label}, K={k}": (label.lower(), {"slots": k}) for label in ("DivE", "PVSE") for k in (2, 1)}
LOW, HIGH = 0.05, 0.5
OBJECTIVES = ("VSE++", "VSE∞", "DivE", "PVSE", "PCME")


def successors(epochs: int = EPOCHS) -> dict[str, RunConfig]:
    """Label → run of seed 0."""
    variants = {label: comparison()[label] for label in LABELS} | NESTED
    return {label: base_config(m, device="cpu", epochs=epochs, **options) for label, (m, options) in variants.items()}


def smaller() -> dict[str, RunConfig]:
    """A model of its own for each smaller number of elements."""
    return {label: base_config(m, device="cpu", epochs=EPOCHS, **options) for label, (m, options) in SMALLER.items()}


def objectives() -> dict[str, RunConfig]:
    """Five methods under InfoNCE and under SigLIP's loss, on a world of few and one of many true matches."""
    out = {}
    for ambiguity in (LOW, HIGH):
        for label in OBJECTIVES:
            method, options = comparison()[label]
            for name, objective in (("InfoNCE", "infonce"), ("SigLIP", "siglip")):
                given = {**options, "objective": objective, "ambiguity": ambiguity}
                out[f"{label}, {name}, ambiguity {ambiguity}"] = base_config(
                    method, device="cpu", epochs=EPOCHS, **given
                )
    return out


def budgets() -> dict[str, RunConfig]:
    """The methods at half and at twice the epochs."""
    return {
        f"{label}, {epochs} epochs": config.replace(epochs=epochs)
        for epochs in (EPOCHS // 2, EPOCHS * 2)
        for label, config in successors().items()
        if label in LABELS
    }


PARTS = {"successors": successors, "smaller": smaller, "objectives": objectives, "budgets": budgets}


def measured(run: TrainedRun) -> TrainedRun:
    """The run with rows of uncertainty where it has distributions, and of budgets where it has sets of one size."""
    if run.config.method not in ("pcme", "pcme++", "dive", "pvse"):
        return run
    method, prepared = run.method(), run.prepared()
    images, captions = encode_split(method, prepared.splits["test"])
    if run.config.method.startswith("pcme"):
        uncertain = query_uncertainty(images, captions, prepared.splits["test"].relevance)
        return run.with_metrics(uncertainty_rows(run.per_query, uncertain))
    relevance = {"annotated": prepared.splits["test"].relevance}
    sizes = [(k, k) for k in (1, 2, 4) if k <= images.x.shape[1]]
    table = budget_table(method.similarity, images, captions, relevance, sizes)
    return run.with_metrics(first_rows(table, len(run.per_query)))


def has_rows(seed: int) -> set[str]:
    """Labels that have rows of this seed."""
    path = FOLDER / "results.csv"
    rows = results.read(path) if path.exists() else pd.DataFrame({"seed": [], "variant": []})
    return set(rows[rows["seed"].astype(int) == seed]["variant"])


def curve(run: TrainedRun, label: str) -> pd.DataFrame:
    """Validation RSUM of every epoch, a fraction of 6."""
    history = run.history[["epoch", "value"]]
    return history.assign(variant=label, run_id=run.id, seed=run.config.train.seed)


def write(run: TrainedRun, label: str) -> None:
    """Append what a run measured, and its validation curve."""
    if label in has_rows(run.config.train.seed):
        return
    results.append_once(curve(run, label), FOLDER / "curves.csv")
    results.append(results.rows([measured(run)], [label]), FOLDER / "results.csv")  # last: a run with rows is done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", action="append", choices=list(PARTS), help="only this part; may be repeated")
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds (5)")
    asked = parser.parse_args()
    files.make_folder(FOLDER)
    for part in asked.part or ["successors"]:
        for seed in range(asked.seeds):  # seeds outermost: whatever is there when it is stopped is complete seeds
            held = has_rows(seed)
            configs = {n: config.replace(seed=seed) for n, config in PARTS[part]().items() if n not in held}
            if not configs:
                continue
            labels = {plan_run(config).id: label for label, config in configs.items()}
            for run in train_or_load_all(
                [*configs.values()], each=lambda run, labels=labels: write(run, labels[run.id])
            ):
                write(run, labels[run.id])  # what was finished before, and had no rows
            print(f"{part}, seed {seed}: {len(configs)} runs", flush=True)


if __name__ == "__main__":
    main()
