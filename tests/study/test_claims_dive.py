"""What the claims of DivE measure, against loops."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from tiny import tiny_config

from xmr_core.base.errors import BadInput
from xmr_core.data.scenes import load_scenes, object_masks, scenes_of
from xmr_core.data.scenes.world import LATTICE
from xmr_core.training.runs import train_or_load
from xmr_study.analysis import attention_entropy, object_overlap, weakest_elements
from xmr_study.measures import attention


def overlap_by_a_loop(shares, masks):
    pairs = [o for o in range(len(masks)) if masks[o].sum() > 0]
    j = {
        (k, o): sum(min(a, m) for a, m in zip(shares[k], masks[o], strict=True))
        / sum(max(a, m) for a, m in zip(shares[k], masks[o], strict=True))
        for k in range(len(shares))
        for o in pairs
    }
    n = min(len(shares), len(pairs))
    best = max(
        sum(j[k, o] for k, o in zip(slots, objects, strict=True))
        for slots in itertools.permutations(range(len(shares)), n)
        for objects in itertools.combinations(pairs, n)
    )
    return best / n


@pytest.mark.parametrize("objects", [1, 2, 3, 5])
def test_overlap_and_entropy_by_loops(objects):
    g = torch.Generator().manual_seed(objects)
    shares = torch.randn(4, 2, 3, 9, generator=g, dtype=torch.float64).mul(3).softmax(2)
    masks = torch.rand(4, 5, 9, generator=g, dtype=torch.float64)
    masks[:, objects:] = 0
    overlap, entropy = object_overlap(shares, masks), attention_entropy(shares)
    for n, t in np.ndindex(4, 2):
        assert overlap[n, t].item() == pytest.approx(overlap_by_a_loop(shares[n, t].numpy(), masks[n].numpy()))
        by_hand = -sum(float(a) * math.log(float(a)) for a in shares[n, t].flatten()) / 9
        assert entropy[n, t].item() == pytest.approx(by_hand)


def test_masks_lie_where_the_objects_are():
    corpus = load_scenes("tiny")
    scenes, pixels = scenes_of(corpus, "test"), corpus.read_pixels(corpus.rows("test")[0])
    masks = object_masks(scenes)
    assert masks.shape == (32, 5, 64, 64) and masks.min() >= 0 and masks.max() <= 1
    grey = []
    for n, o in zip(*np.nonzero(scenes.present), strict=True):
        row, column = divmod(int(scenes.place[n, o]), LATTICE)
        y, x = ((masks[n, o] * axis).sum() / masks[n, o].sum() for axis in np.mgrid[:64, :64] + 0.5)
        assert abs(y - (row + 0.5) * 64 / LATTICE) < 3 and abs(x - (column + 0.5) * 64 / LATTICE) < 3
        if scenes.colour[n, o] == 0:  # red: what the mask covers is redder than green
            inside = pixels[n][masks[n, o] > 0.99].mean(0)
            grey.append(inside[0] - inside[1])
    assert len(grey) > 5 and min(grey) > 100
    assert not masks[~scenes.present].any()
    with pytest.raises(BadInput, match="only scenes knows its objects"):
        scenes_of(replace(corpus, name="photographs"), "test")


def test_the_weakest_is_chosen_alone_and_judged_in_company():
    lines = [("both", "all", 50.0), ("images", "only 0", 20.0), ("images", "only 1", 10.0), ("images", "only 2", 30.0),
             ("images", "without 0", 30.0), ("images", "without 1", 52.0), ("images", "without 2", 10.0)]  # fmt: skip
    table = pd.DataFrame(lines, columns=["side", "kept", "rsum"]).assign(relevance="annotated")
    (line,) = weakest_elements(table).to_dict("records")
    assert line == {"side": "images", "relevance": "annotated", "element": 1, "alone": 10.0, "gain": -2.0}


@pytest.mark.slow
def test_rows_of_attention_follow_the_rounds_of_the_run(own_home):
    run = train_or_load(tiny_config("dive", iterations=3, slots=3))
    rows = attention(run).set_index(["metric", "k"])["value"]
    method, split = run.method(), run.prepared().splits["test"]
    with torch.inference_mode():
        features = method.image_encoder(split.images_at(np.arange(32)))
        shares = method.image_head.attention_maps(features)[0].mean(2).double().numpy()
    masks = object_masks(scenes_of(run.prepared().corpus, "test"))
    cells = masks.reshape(32, 5, 8, 8, 8, 8).mean((3, 5)).reshape(32, 5, 64).astype(float)
    by_round = [np.mean([overlap_by_a_loop(shares[n, t], cells[n]) for n in range(32)]) for t in range(3)]
    assert [rows["attention_overlap", t] for t in (1, 2, 3)] == pytest.approx(by_round, rel=1e-4)
    assert rows["attention_overlap_gain", 0] == pytest.approx(by_round[2] - by_round[0], abs=1e-5)
    gains = [overlap_by_a_loop(shares[n, 2], cells[n]) - overlap_by_a_loop(shares[n, 0], cells[n]) for n in range(32)]
    assert rows["attention_overlap_gain_error", 0] == pytest.approx(np.std(gains, ddof=1) / 32**0.5, rel=1e-3)
    others = np.mean([overlap_by_a_loop(shares[n, 2], cells[n - 1]) for n in range(32)])
    assert rows["attention_overlap_over_others", 0] == pytest.approx(by_round[2] - others, abs=1e-5)
    entropy = -(shares * np.log(shares)).sum(2).mean((0, 2))
    assert rows["attention_entropy_fall", 0] == pytest.approx(entropy[0] - entropy[2], abs=1e-4)
