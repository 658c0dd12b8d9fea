"""Training of the methods that compare every pair goes block by block, with gradients by formula: both must be those of
the plain form, which autograd differentiates."""

import importlib
import itertools
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from test_sgraf import graphs
from test_similarities import ragged, with_x
from torch.testing import assert_close

from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities import JointSgraf, Sgraf, sgraf
from xmr_core.similarities.base import DIRECTIONS
from xmr_core.similarities.kernels import attention
from xmr_core.similarities.kernels import sgraf as graphs_file
from xmr_core.similarities.pairs import NORMALISATIONS
from xmr_core.similarities.scan import AGGREGATIONS, scan
from xmr_core.similarities.sgraf import PARTS, REASONERS

scan_file = importlib.import_module("xmr_core.similarities.scan")
CHOOSERS = (scan_file, sgraf)
exact = partial(assert_close, rtol=1e-9, atol=1e-9)


@pytest.fixture(params=["as it is", "tiny blocks"])
def block_sizes(request, monkeypatch):
    if request.param == "tiny blocks":
        monkeypatch.setattr(attention, "_TRAINED_COLUMNS", 7)
        monkeypatch.setattr(attention, "_ITEMS", 2)
        monkeypatch.setattr(graphs_file, "_WIDE", 1)
        for file in (attention, graphs_file):
            monkeypatch.setattr(file, "_ELEMENTS", 90)


def plain(act):
    """act() with the plain form everywhere."""
    with pytest.MonkeyPatch.context() as patch:
        for file in CHOOSERS:
            patch.setattr(file, "by_blocks", lambda *tensors: False)
        return act()


def results(similarity, images: EmbeddingSet, captions: EmbeddingSet, half: bool = False) -> dict[str, torch.Tensor]:
    """Scores and all gradients of a weighted sum of them; of a module also its statistics. half: inside autocast."""
    x, y = (s.x.clone().requires_grad_() for s in (images, captions))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
        scores = similarity(with_x(images, x), with_x(captions, y))
    generator = torch.Generator().manual_seed(0)
    (scores * torch.randn(scores.shape, generator=generator, dtype=torch.float64).to(scores.dtype)).sum().backward()
    out = {"scores": scores.detach(), "images": x.grad, "captions": y.grad}
    if isinstance(similarity, torch.nn.Module):
        out |= {name: p.grad for name, p in similarity.named_parameters() if p.grad is not None}
        out |= {name: b.clone() for name, b in similarity.named_buffers()}
    return out


def made(reasoner: str, direction: str = "t2i", parts: str = "both", seed: int = 0) -> Sgraf | JointSgraf:
    torch.manual_seed(seed)
    options = {"m": 5, "steps": 3, "direction": direction, "parts": parts}
    module = JointSgraf(6, **options) if reasoner == "joint" else Sgraf(6, reasoner, **options)
    for parameter in module.parameters():  # biases start at 0, where leaving one out would not be seen
        torch.nn.init.normal_(parameter, std=0.7)
    return module.double()


@pytest.mark.parametrize("sharpness", [4.0, 90.0])
@pytest.mark.parametrize("normalise", NORMALISATIONS)
@pytest.mark.parametrize("aggregate", AGGREGATIONS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_scan_by_blocks_is_the_plain_form(direction, aggregate, normalise, sharpness, block_sizes):
    form = partial(scan, direction=direction, aggregate=aggregate, normalise=normalise, sharpness=sharpness)
    for leak, captions in itertools.product((0.1, 0.0), (ragged(7, 6, seed=2), ragged(40, 5, seed=3))):
        act = partial(results, partial(form, leak=leak), ragged(5, 4, seed=1), captions)
        exact(act(), plain(act))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("reasoner", [*REASONERS, "joint"])
def test_sgraf_by_blocks_is_the_plain_form(reasoner, direction, parts, training, block_sizes):
    """Also its running statistics: they follow a batch once, however often its blocks are computed."""
    found = [
        act(lambda: results(made(reasoner, direction, parts).train(training), graphs(5, 4, 3), graphs(40, 6, 4)))
        for act in (lambda act: act(), plain)
    ]
    assert any("reasoner" in name or "reason" in name or name == "score.weight" for name in found[0])
    exact(*found)


def similarities():
    return {"scan": scan, **{r: made(r).float().train() for r in ("saf", "sgr")}}


@pytest.mark.parametrize("name", ["scan", "saf", "sgr"])
def test_half_precision_around_changes_nothing(name):
    """Inside autocast products of elements stay in single precision, as in the plain form."""
    images, captions = (EmbeddingSet(s.x.float(), s.mask) for s in (graphs(5, 4, 3), graphs(7, 6, 4)))
    wanted = results(similarities()[name], images, captions)
    found = results(similarities()[name], images, captions, half=True)
    assert found["scores"].dtype == torch.float32
    assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    half = [EmbeddingSet(s.x.bfloat16(), s.mask) for s in (images, captions)]
    assert results(similarities()[name], *half)["images"].dtype == torch.bfloat16


@pytest.mark.parametrize("name", ["scan", "saf", "sgr"])
def test_padding_reaches_no_gradient_and_vectors_without_length_give_finite_ones(name):
    images, captions = graphs(5, 4, 3), graphs(7, 6, 4)
    similarity = scan if name == "scan" else made(name)
    wanted = results(similarity, images, captions)
    spoilt = [EmbeddingSet(torch.where(s.mask[..., None], s.x, torch.nan), s.mask) for s in (images, captions)]
    found = results(scan if name == "scan" else made(name), *spoilt)
    for key in ("scores", "images", "captions"):
        exact(found[key], wanted[key])
    assert (found["images"][~images.mask] == 0).all() and (found["captions"][~captions.mask] == 0).all()
    nothing = [EmbeddingSet(torch.zeros_like(s.x, dtype=torch.float32), s.mask) for s in (images, captions)]
    assert all(value.isfinite().all() for value in results(similarities()[name], *nothing).values())


@pytest.mark.slow
def test_the_benchmark_runs():
    script = Path(__file__).resolve().parents[2] / "benchmarks" / "training_speed.py"
    small = {"images": 6, "captions": 7, "regions": 3, "d": 8, "m": 4, "times": 1, "form": "blocks"}
    options = (f"--{name}={value}" for name, value in small.items())
    small = [*options, "--words", "2", "4", "--case=scan t2i", "--case=sgr"]
    done = subprocess.run([sys.executable, script, *small], capture_output=True, text=True, check=True)
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ") and "similarity" not in line]
    assert len(rows) == 1 + 2, done.stdout  # the line under the head, and the cases
