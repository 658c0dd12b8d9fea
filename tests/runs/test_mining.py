"""Hard negatives: what a model mines, how batches hold it, and what is never mined."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import xmr_core as xmr
from xmr_core.base.errors import BadInput
from xmr_core.data.batches import place_hard
from xmr_core.data.prepare import DataConfig, prepare
from xmr_core.evaluation.analysis.representations import encode_split
from xmr_core.methods.registry import build
from xmr_core.training.runs.config import base_config
from xmr_core.training.runs.mining import hard_images


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 4))
def test_every_image_stays_in_an_epoch_once_and_hard_ones_follow_it(seed, n, k):
    rng = np.random.default_rng(seed)
    order, hard = rng.permutation(n), rng.integers(-1, n, (n, k))
    placed = place_hard(order, hard)
    assert sorted(placed) == list(range(n)) and placed[0] == order[0]
    wanted = [h for h in dict.fromkeys(hard[order[0]]) if h not in (-1, order[0])]
    assert placed[1 : 1 + len(wanted)].tolist() == wanted


def test_what_is_mined_is_nearest_and_never_known_to_be_true():
    prepared = prepare(DataConfig(size="tiny", ambiguity=0.5))
    torch.manual_seed(0)
    method, split = build("vse++", prepared.inputs, d=8).eval(), prepared.splits["train"]
    annotated, every = (prepared.corpus.relevance_sets[name]("train") for name in ("annotated", "exhaustive"))
    found = hard_images(method, split, [annotated, every], 3)
    images, captions = encode_split(method, split)
    scores, truth = (
        (images.x.double() @ captions.x.double().T).numpy(),
        every.dense(np.arange(len(split.caption_rows)), np.arange(len(split.image_rows))).T,
    )
    left_out = 0
    for image, row in enumerate(scores):
        wanted = []
        for caption in np.argsort(-row, kind="stable"):
            owner = split.owners[caption]
            true = truth[image, split.owners == owner].any()  # of any caption that it would bring into the batch
            left_out += true and image != owner
            if not true and owner not in wanted:
                wanted.append(owner)
        assert found[image].tolist() == wanted[:3]
    assert left_out > 0 and image not in found[image]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_first_run_mines_once_or_the_learning_model_before_each_epoch(own_home):
    fixed = {"size": "tiny", "epochs": 2, "batch_images": 16, "d": 8, "device": "cpu"}
    first = xmr.train_or_load(base_config("vse++", **fixed))
    by_first, by_itself = ({"hard_negatives": 2, "mined_by": first.id}, {"hard_negatives": 2})
    runs = [xmr.train_or_load(base_config("vse++", **fixed, **how)) for how in (by_first, by_itself)]
    losses = [run.history["loss"].tolist() for run in (first, *runs)]
    assert losses[0][0] == losses[2][0] != losses[1][0], "the first epoch of a model that mines for itself is drawn"
    assert len({run.id for run in (first, *runs)}) == 3 and losses[0][1] != losses[2][1]
    assert xmr.train_or_load(base_config("vse++", **fixed, hard_negatives=2, mined_by=first.id[:-2])).id == runs[0].id
    other = base_config("vse++", **fixed, world_seed=1, **by_first)
    with pytest.raises(BadInput, match="was trained on another corpus"):
        xmr.train_or_load(other)
    with pytest.raises(BadInput, match="hard_negatives needs unit='images'"):
        base_config("vse++", hard_negatives=2, unit="captions")
