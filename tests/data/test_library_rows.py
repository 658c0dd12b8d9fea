"""What a user of the package does first, each in at most five lines; and what goes wrong is said in one."""

import textwrap

import numpy as np
import pytest
import torch
from PIL import Image

import xmr_core as xmr
from xmr_core.base.errors import BadInput

TASKS = {
    "scores of my tensors": """
        scores = xmr.similarities.smooth_chamfer(images, captions)
        result = scores.shape == (6, 12)
    """,
    "R@K with many-to-many relevance": """
        values = xmr.rank_metrics(scores, {0: [0, 1, 5], 1: [2, 3], 2: [5], 3: [6, 0], 4: [7], 5: [8, 9]})
        result = 0 <= values["R@1"] <= values["R@10"] <= 1 and values["queries"] == 6
    """,
    "R@K from qrels by name": """
        qrels = {"a": {"3": 2, "7": 0}, "f": {"0": 1}, "another": {"9": 1}}
        values = xmr.rank_metrics(scores, qrels, query_ids=list("abcdef"), gallery_ids=list(map(str, range(12))))
        result = values["queries"] == 2 and values["dropped"] == 4
    """,
    "a head or a loss in my own loop": """
        head, loss = xmr.heads.SlotHead(8, 8, 4), xmr.losses.hinge_triplet
        optimiser = torch.optim.Adam(head.parameters())
        made = head(xmr.Features(images, torch.ones(6, 4, dtype=torch.bool), images.mean(1)))
        loss(xmr.similarities.chamfer(made, captions[:6]), torch.eye(6, dtype=torch.bool)).backward()
        optimiser.step(); result = all(p.isfinite().all() for p in head.parameters())
    """,
    "train on my own tensors": """
        model = xmr.fit("dive", images=features, captions=sentences, d=8, epochs=1, batch_images=8, device="cpu")
        result = model.similarity(features[:2], ["a dog", "a cat"]).shape == (2, 2)
    """,
    "encode a sentence and an image file, rank": """
        model = xmr.load(folder)
        table = model.rank("a red square", ["a.png", "b.png"])[0]
        result = table["rank"].tolist() == [1, 2]
    """,
}
TRAINS = ("train", "a head")


@pytest.fixture
def names(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name, colour in (("a", "red"), ("b", "blue")):
        Image.new("RGB", (70, 50), colour).save(f"{name}.png")
    draw = torch.Generator().manual_seed(0)
    images, captions = torch.randn(6, 4, 8, generator=draw), torch.randn(12, 3, 8, generator=draw)
    unit = torch.nn.functional.normalize
    images, captions = unit(images, dim=-1), unit(captions, dim=-1)
    return {
        "xmr": xmr, "torch": torch, "images": images, "captions": captions,
        "scores": xmr.similarities.chamfer(images, captions), "folder": tmp_path / "model",
        "features": torch.randn(40, 3, 8, generator=draw), "sentences": [f"a thing number {n}" for n in range(40)],
    }  # fmt: skip


@pytest.mark.parametrize(
    "task", [pytest.param(t, marks=[pytest.mark.slow] if t.startswith(TRAINS) else []) for t in TASKS]
)
def test_a_task_takes_at_most_five_lines(task, names):
    code = textwrap.dedent(TASKS[task]).strip()
    assert len(code.splitlines()) <= 5 and max(map(len, code.splitlines())) <= 120
    if "folder" in code:
        xmr.retrieval.example_model().save_pretrained(names["folder"])
    exec(code, names)
    assert names["result"]


MISTAKES = {
    "scores: misspelt": ("xmr.similarities.smooth_chamfer(images, captions, alhpa=3)", "alhpa"),
    "scores: shape": ("xmr.similarities.smooth_chamfer(images, captions[..., :7])", "width 7"),
    "metrics: shape": ("xmr.rank_metrics(scores, [[0]] * 12)", "scores of 6 × 12"),
    "metrics: foreign qrels": ("xmr.rank_metrics(scores, {'q': {'0': 1}})", "query_ids"),
    "loss: shape": ("xmr.losses.hinge_triplet(scores, scores[:3] > 0)", "match"),
    "load: misspelt": ("xmr.load(folder, metod='dive')", "leave out"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gives_one_clear_line(mistake, names):
    call, word = MISTAKES[mistake]
    with pytest.raises((BadInput, TypeError), match=word) as error:
        eval(call, names)
    assert "\n" not in str(error.value)
    assert isinstance(error.value, BadInput) or "misspelt" in mistake, "Python's own line names a misspelt argument"


def test_grades_decide_what_is_relevant():
    scores = np.array([[0.9, 0.5, 0.1], [0.2, 0.3, 0.8]])
    by_name = {"q1": {"d3": 1, "d1": 0}, "q0": {"d1": 3, "elsewhere": 1}}
    values = xmr.rank_metrics(scores, by_name, query_ids=["q0", "q1"], gallery_ids=["d1", "d2", "d3"])
    assert values == xmr.rank_metrics(scores, [[0], [2]])
    assert xmr.rank_metrics(scores, {0: {0: 1}, 1: {0: 0, 2: 1}}) == values
