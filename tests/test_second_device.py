"""Every stage of every method on a second device: a tensor that stayed on the CPU stops it, as a GPU would."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from xmr_core.methods.registry import papers

pytestmark = pytest.mark.slow

STAGES = """
import json, sys, warnings
from dataclasses import replace
from pathlib import Path
import numpy as np, torch
from second_device import NAME, Stand
from tiny import tiny_config
from xmr_core.base.devices import resolve_device
from xmr_core.data.batches import Batches
from xmr_core.evaluation.analysis import encode_split
from xmr_core.evaluation.engine import scoring
from xmr_core.evaluation.evaluate import evaluate
from xmr_core.methods.checkpoints import load_method
from xmr_core.methods.registry import build
from xmr_core.search import Query, open_library, rank
from xmr_core.search.why import without_each_cell, without_each_word
from xmr_core.training import TrainConfig, train
from xmr_core.training.runs import ensemble_of, train_or_load

method, options, folder = sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3])
torch.inference_mode = torch.no_grad  # the stand-in cannot expand a parameter in the other
config = tiny_config(method, **options)
here = train_or_load(config)
split = here.prepared().splits["test"]
relevance = {"annotated": split.relevance}


def trained(state, stop_after=None):
    torch.manual_seed(0)
    model = build(method, here.prepared().inputs, **here.config.options).to(NAME)
    batches = Batches(here.prepared().splits["train"], 16, 2, 0)

    def report(event):
        if event.get("epoch_done") and event["epoch"] == stop_after:
            raise KeyboardInterrupt

    try:
        train(model, batches, lambda m: {"value": 0.0}, TrainConfig(epochs=2, precision="float32"), state, report)
    except KeyboardInterrupt:
        return None
    return {name: value.cpu() for name, value in model.state_dict().items()}


with Stand():
    assert resolve_device(NAME) == NAME
    there = train_or_load(config.replace(device=NAME, precision="float32"))
    half = train_or_load(config.replace(device=NAME, precision="bfloat16", epochs=1))
    assert np.isfinite(half.history["loss"]).all(), "autocast"
    assert np.allclose(here.history["loss"], there.history["loss"], rtol=1e-4), "training"
    assert trained(folder / "state", stop_after=0) is None
    warnings.simplefilter("error")  # a state that cannot be read would start training anew
    resumed, whole = trained(folder / "state"), trained(None)
    assert all(torch.equal(resumed[name], whole[name]) for name in whole), "resume"
    model = here.method().to(NAME)
    images, captions = encode_split(model, split)
    scores = model.similarity.score(images.to(NAME), captions.to(NAME)).cpu()
    judged = evaluate(model.similarity, images, captions, relevance, device=NAME).summary()
    scoring._NO_DOUBLE, Stand.single = (NAME,), True
    single = evaluate(model.similarity, images, captions, relevance, device=NAME).summary()
    assert single["value"].tolist() == judged["value"].tolist(), "without float64"
    scoring._NO_DOUBLE, Stand.single = (), False
    library = open_library(here)
    moved = replace(library, method=library.method.to(NAME))
    text = str(library.texts[0])
    answers = rank(moved, Query("text", text)).table
    worth = without_each_word(moved, text, 0), without_each_cell(moved, 0, moved.captions[0])
plain = here.method()
own_items = encode_split(plain, split)
assert torch.allclose(plain.similarity.score(*own_items), scores, atol=1e-5), "scoring"
again = evaluate(plain.similarity, *own_items, relevance).summary()
assert judged["value"].tolist() == again["value"].tolist(), "ranks"
library = open_library(here)
wanted = rank(library, Query("text", text)).table
assert answers["item"].tolist() == wanted["item"].tolist(), "search"
assert np.allclose(worth[0]["worth"], without_each_word(library, text, 0)["worth"], atol=1e-4), "words"
assert np.allclose(worth[1], without_each_cell(library, 0, library.captions[0]), atol=1e-4), "cells"
assert ensemble_of([here, there]).metrics["value"].notna().all(), "ensemble"
assert there.weights().keys() == here.weights().keys() and all(w.device.type == "cpu" for w in there.weights().values())
loaded = load_method(there.export(folder / "export"))[0]
assert all(p.device.type == "cpu" for p in loaded.parameters()), "export"
print("every stage passed")
"""
CASES = [(name, {}) for name in papers()] + [
    ("sgraf", {"reasoner": "saf"}), ("sgraf", {"reasoner": "joint"}), ("dive", {"similarity": "mp"}),
    ("scan", {"direction": "i2t"}), ("dive", {"nested": True, "slots": 2}), ("vse-infty", {"objective": "siglip"}),
    ("pvse", {"objective": "triplet"}), ("chan", {"coding": "vsa", "pooling": "softmax"}),
]  # fmt: skip


def run(*words: str, home, code: str = STAGES) -> subprocess.CompletedProcess:
    """A program in a process of its own: a backend that is registered stays."""
    paths = os.pathsep.join(p for p in sys.path if p)
    environment = {**os.environ, "PYTHONPATH": paths, "XMR_HOME": str(home)}
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, env=environment)


def test_the_stand_in_refuses_what_a_gpu_refuses(tmp_path):
    code = "import torch; from second_device import *\nwith Stand(): torch.ones(2, 3, device=NAME) + torch.ones(2, 3)"
    done = run(home=tmp_path, code=code)
    assert done.returncode and "all tensors must be on one device, found stand:0 and cpu [(2, 3)]" in done.stderr


@pytest.mark.parametrize(("method", "options"), CASES, ids=[" ".join(map(str, case)) for case in CASES])
def test_no_stage_mixes_devices(method, options, tmp_path):
    done = run(method, json.dumps(options), str(tmp_path), home=tmp_path)
    assert done.returncode == 0 and "every stage passed" in done.stdout, done.stderr[-3000:]


def test_golden_cases_can_be_computed_on_another_device():
    """What benchmarks/gpu.py does on a GPU: modules and tensors of these tests are made on the device."""
    tests = Path(__file__).parent
    files = [str(path) for path in tests.glob("test_golden_*.py")]
    command = [sys.executable, "-m", "pytest", "-p", "golden_on_stand", "-p", "no:cacheprovider", *files]
    environment = {**os.environ, "PYTHONPATH": str(tests), "XMR_GOLDEN_DEVICE": "stand"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, env=environment, cwd=tests.parent)
    assert done.returncode == 0, done.stdout[-3000:]
