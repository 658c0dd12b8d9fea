"""Rows of two methods on Flickr8k on two frozen image networks: the one everybody can install, and MobileNetV2.

python scripts/run_image_networks.py FLICKR8K WEIGHTS [--epochs N]. FLICKR8K: the folder of the official layout.
WEIGHTS: a safetensors file of MobileNetV2. Study preset, seed 0. It can be killed and started again; rows go to
reports/image_networks/ as each run ends, and a page beside them when all have.
"""

import argparse
from pathlib import Path

import pandas as pd
from build_reports import markdown

from xmr_core.base import files
from xmr_core.study import base_config, results
from xmr_core.study.image_values import image_errors
from xmr_core.study.variants import comparison
from xmr_core.training.runs import RunConfig, TrainedRun, train_or_load_all
from xmr_core.training.runs.produce import plan_run

FOLDER = Path(__file__).resolve().parents[1] / "reports" / "image_networks"
METHODS = ("VSE∞", "DivE")


def configs(data_root: str, weights: str, epochs: int | None) -> dict[str, RunConfig]:
    """Label → run: each method on each network, at the same settings."""
    networks = {
        "EfficientNet-Lite0": {"features": "efficientnet_lite0"},
        "MobileNetV2": {"features": "mobilenet_v2", "weights": weights},
    }
    out = {}
    for network, given in networks.items():
        for label in METHODS:
            method, options = comparison()[label]
            shared = {"dataset": "flickr8k", "data_root": data_root, "preset": "study", "device": "cpu"}
            out[f"{label}, {network}"] = base_config(method, epochs=epochs, **shared, **options, **given)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("flickr8k", help="folder of the official layout")
    parser.add_argument("weights", help="safetensors file of MobileNetV2")
    parser.add_argument("--epochs", type=int, help="instead of the preset's number")
    asked = parser.parse_args()
    files.make_folder(FOLDER)
    wanted = configs(asked.flickr8k, asked.weights, asked.epochs)
    labels = {plan_run(config).id: label for label, config in wanted.items()}
    for run in train_or_load_all([*wanted.values()], 1, each=lambda run: write(run, labels[run.id])):
        write(run, labels[run.id])  # what was finished before, and had no rows
    files.write_atomic(FOLDER / "README.md", page(results.read(FOLDER / "results.csv")))


def write(run: TrainedRun, label: str) -> None:
    """Append what a run measured; what has rows is not repeated."""
    results.append(results.rows([run.with_metrics(image_errors(run))], [label]), FOLDER / "results.csv")


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """A line for each run: RSUM with the standard error of another choice of test images, and R@1 of both directions,
    in percent."""
    rows = rows[rows["relevance"] == "annotated"].assign(value=100 * rows["value"].astype(float))
    lines = []
    for label, own in rows.groupby("variant", sort=False):
        value = own.set_index(["metric", "direction", "k"])["value"]
        first = own.iloc[0]
        lines.append(
            {
                "method and network": label,
                "RSUM": value["rsum", "both", 0],
                "± (images)": value["rsum_error", "both", 0],
                "R@1 image → text": value["recall", "i2t", 1],
                "R@1 text → image": value["recall", "t2i", 1],
                "best epoch": f"{int(first['best_epoch']) + 1} of {int(first['epochs'])}",
            }
        )
    return pd.DataFrame(lines).sort_values("method and network")


def page(rows: pd.DataFrame) -> str:
    return f"""# Two frozen networks under two methods

Made by `python scripts/run_image_networks.py` from the rows beside this page. Flickr8k, the official test split (1,000
images, 5,000 captions), study preset, matched form, one seed: the error is that of the test images alone, and one seed
orders nothing closer than seeds do. CPU; commits and devices stand in `runs.csv`.

{markdown(table(rows))}
"""


if __name__ == "__main__":
    main()
