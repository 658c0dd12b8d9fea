"""Make the rows of reports/results.csv: run the notebooks of the study with several seeds and append what they
measured.

python scripts/run_study.py [--part NAME …] [--list]. Hours on two cores, but it can be killed and started again at any
time: runs are kept, rows that are there are not repeated. Then `make report`. Rows are labelled by what varies; the
rules that judge them stand in the files of xmr_core/methods.
"""

import argparse
import sys
from pathlib import Path

from xmr_core.base import fingerprint, paths
from xmr_core.study import results
from xmr_core.ui import cli
from xmr_core.ui.parameters import checked_value, declared_parameters

ROOT = Path(__file__).resolve().parents[1]
STUDY = {"preset": "study"}
LIGHT = ["VSE++", "VSE∞", "VSE+2AD", "PVSE", "PCME", "DivE", "DivE on GRU states"]
PARTS: dict[str, tuple[str, dict]] = {  # part → (notebook, parameters)
    "alpha": ("ablation_alpha", STUDY),
    "similarity": ("ablation_similarity",
                   {**STUDY,
                    "variants": ["single vector", "MIL, slots", "MP, slots", "Chamfer, slots",
                                 "smooth-Chamfer, PIE-Net", "smooth-Chamfer, transformer", "smooth-Chamfer, slots"]}),
    "cardinality": ("ablation_cardinality", {**STUDY, "slots": [1, 2, 3, 4, 5, 6]}),
    "iterations": ("ablation_iterations", {**STUDY, "rounds": [1, 2, 3, 4, 5]}),
    "slots": ("ablation_slot_attention", STUDY),
    "nested": ("nested_sets", STUDY),
    "uncertainty": ("uncertainty_vs_recall", {**STUDY, "n_seeds": 5}),
    "corruption": ("corruption_vs_uncertainty", {**STUDY, "n_seeds": 5}),
    "distances": ("gaussian_distances",
                  {**STUDY, "n_seeds": 5, "others": ["PCME, one σ", "PCME, μ only"], "samples": [7], "draws": 1}),
    "comparison": ("compare_methods", {"n_seeds": 5, "methods": LIGHT, "ensembles": []}),
    "pairs": ("compare_methods",
              {"n_seeds": 3, "methods": ["SCAN t-i", "SCAN i-t", "SAF", "SGR", "SGRAF, joint"],
               "ensembles": ["SCAN t-i + SCAN i-t", "SAF + SGR"]}),
    "proxies": ("ambiguity_benchmarks", {"n_seeds": 3}),
}  # fmt: skip


def rows_of(notebook: str, given: dict) -> Path:
    """The rows file that a notebook writes when it is run with these parameters."""
    declared = declared_parameters(ROOT / "notebooks" / f"{notebook}.ipynb")
    values = {name: checked_value(p, given.get(name, p.default)) for name, p in declared.items()}
    return paths.folder("outputs") / f"{notebook}-{fingerprint.content_hash(values)}" / "rows.csv"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", action="append", choices=list(PARTS), help="only this part; may be repeated")
    parser.add_argument("--list", action="store_true", help="say what would be run")
    asked = parser.parse_args()
    for part in asked.part or PARTS:
        notebook, given = PARTS[part]
        if asked.list:
            print(f"{part}: {notebook} {given}")
            continue
        words = [word for name, value in given.items() for word in ("-y", f"{{{name}: {value!r}}}")]
        if status := cli.main(["run", str(ROOT / "notebooks" / f"{notebook}.ipynb"), *words]):
            return status
        new = results.append(results.read(rows_of(notebook, given)), ROOT / "reports" / "results.csv")
        print(f"{part}: {new} new rows in reports/results.csv", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
