"""Every notebook on a small folder of a user's own, and on miniatures of the corpora that its paper used.

It completes, or says in one line, before it trains anything, why it does not apply. A new notebook runs on `folder`
with its own defaults; give it a line below where it needs other parameters, or its paper used other corpora.
"""

from functools import cache
from importlib.util import find_spec

import pytest
from matplotlib.patches import Rectangle
from miniatures import CORNERS, miniature
from notebook_cells import FOLDER, layout_only, run_cells

from xmr_core.base.errors import BadInput
from xmr_core.training.runs import config, sweep
from xmr_study import tidy
from xmr_study.parameters import declared_parameters

KARPATHY = ("folder", "coco")
SCANS = ["SCAN t-i", "SCAN i-t", "MaxSim i-t", "SCAN i-t, hinge"]
CASES = {  # notebook: (corpora, parameters beside COMMON)
    "ablation_alpha": (KARPATHY, {"alphas": [1.0]}),
    "ablation_elements": (KARPATHY, {}),
    "dive_settings": (KARPATHY, {"slots": [1, 2], "rounds": [1], "variants": ["GRU update"]}),
    "ablation_similarity": (KARPATHY, {"variants": ["single vector", "smooth-Chamfer, slots"]}),
    "ambiguity_benchmarks": (("folder", "coco"), {}),
    "attention_maps": (("folder", "precomputed"), {"images": [0]}),
    "compare_methods": ((*KARPATHY, "cub"), {"methods": ["VSE++", "PVSE", "DivE"]}),
    "corruption_vs_uncertainty": (("folder", "coco", "cub"), {"shares": [0.0, 0.5, 1.0]}),
    "explore": (KARPATHY, {"methods": ["DivE", "PCME"]}),
    "gaussian_distances": (("folder", "coco", "cub"), {"samples": [1, 7], "draws": 2}),
    "adaptive_objective": (("folder", "coco"), {}),
    "alignments": (("folder", "flickr30k"), {"images": [0]}),
    "gaussian_2d": (("folder", "cub"), {}),
    "hard_negatives": (("folder", "coco", "cub"), {}),
    "nested_sets": (KARPATHY, {"methods": ["dive"]}),
    "pcme_ablations": (("folder", "cub"), {"sweeps": ["PCME", "PCME, J=1", "PCME, μ only, d=32"]}),
    "plausible_matches": (("folder", "coco"), {}),
    "pooling": (("folder", "coco"), {"repeats": 1}),
    "retrieval_examples": (KARPATHY, {}),
    "scan_variants": (("folder", "flickr30k"), {"variants": SCANS}),
    "sgraf_configurations": (("folder", "flickr30k"), {}),
    "tsne": (KARPATHY, {"variants": ["MIL, slots", "smooth-Chamfer, slots"]}),
    "uncertainty_vs_recall": (("folder", "coco", "cub"), {}),
}
REFUSED = {  # (notebook, corpus): what it says before anything is trained
    ("ambiguity_benchmarks", "folder"): "does not know all right answers",
    ("ambiguity_benchmarks", "coco"): "does not know all right answers",
    ("plausible_matches", "folder"): "does not say which objects its images show",
}
TRAPS = [  # (notebook, a value of a parameter, what it says before anything is trained)
    ("uncertainty_vs_recall", {"method": "vse++"}, "no uncertainty"),
    ("corruption_vs_uncertainty", {"method": "vse-infty"}, "no uncertainty"),
    ("uncertainty_vs_recall", {"method": "vse+2ad"}, "no uncertainty"),
    ("nested_sets", {"methods": []}, "parameter methods is an empty list"),
]
COMMON = {"epochs": 1, "n_seeds": 1, "features": "notebook_cells:SmallCells", "device": "cpu"}
NAMES = [path.stem for path in sorted(FOLDER.glob("*.ipynb")) if "dataset" in declared_parameters(path)]
PLAN = [(name, corpus) for name in NAMES for corpus in CASES.get(name, (("folder",), {}))[0]]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """A home for all runs, which notebooks share as they do on a user's disk, and the miniatures, written when asked
    for."""
    base, made = tmp_path_factory.mktemp("small"), {}

    def data_root(dataset: str):
        if dataset not in made:
            made[dataset] = miniature(dataset, base / dataset)
        return made[dataset]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMR_HOME", str(base / "home"))
        patch.setattr(sweep, "_workers", lambda configs: 1)  # another process would import torch first
        patch.setattr("matplotlib.figure.Figure.savefig", layout_only)
        small = config._SIZES["photographs", "quick"] | {"d": 16, "batch_images": 16, "features": COMMON["features"]}
        patch.setitem(config._SIZES, ("photographs", "quick"), small)
        patch.setattr("xmr_study.tidy.study_rows", cache(tidy.study_rows))
        yield data_root


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "dataset"), PLAN)
def test_a_notebook_completes_on_a_small_corpus(name, dataset, corpora, monkeypatch):
    more = CASES.get(name, ((), {}))[1]
    given = COMMON | more | {"dataset": dataset, "data_root": str(corpora(dataset))}
    given |= {"features": "auto"} if dataset == "precomputed" else {}
    if (name, dataset) in REFUSED:
        refused(name, given, REFUSED[name, dataset], monkeypatch)
        return
    space, text = run_cells(name, **given)
    assert "finished; made:" in text and space["p"].dataset == dataset
    if (name, dataset) == ("attention_maps", "precomputed"):  # every element and word is drawn on boxes of the corpus
        for ax in (ax for figure in space["figures"].values() for ax in figure.axes[1:]):
            drawn = [patch.get_bbox() for patch in ax.patches if isinstance(patch, Rectangle)]
            assert drawn and {(box.x0, box.y0) for box in drawn} <= set(CORNERS), ax.get_title()
    if (name, dataset) == ("compare_methods", "coco") and find_spec("eccv_caption"):
        assert {"i2t eccv mAP@R", "t2i cxc R@1"} <= set(space["others"])  # the columns of DivE's Table A1


def refused(name: str, given: dict, message: str, monkeypatch) -> None:
    """The notebook ends in one line that has the message, and no run was planned before."""
    monkeypatch.setattr(sweep, "plan_run", lambda config: pytest.fail("a run was planned"))
    with pytest.raises(BadInput, match=message):
        run_cells(name, **given)


@pytest.mark.slow  # a miniature is written
@pytest.mark.parametrize(("name", "given", "message"), TRAPS)
def test_a_value_that_cannot_be_answered_is_refused_before_training(name, given, message, corpora, monkeypatch):
    refused(name, COMMON | given | {"dataset": "folder", "data_root": str(corpora("folder"))}, message, monkeypatch)
