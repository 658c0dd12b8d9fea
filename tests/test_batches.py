"""Training batches: complete, reproducible, true about who matches whom."""

import numpy as np
import pytest
import torch
from tiny import tiny_config

from xmr_core.data.batches import Batches
from xmr_core.errors import BadInput
from xmr_core.prepare import prepare


@pytest.fixture(scope="module")
def side(tmp_path_factory):
    import os

    os.environ["XMR_HOME"] = str(tmp_path_factory.mktemp("home"))
    yield prepare(tiny_config().data).sides["train"]
    del os.environ["XMR_HOME"]


def test_an_epoch_sees_every_image_once_and_only_its_captions(side):
    batches = Batches(side, 16, 2, seed=0)
    plan = batches.plan(3)
    assert sorted(np.concatenate([i for i, _ in plan])) == list(range(64)) and len(plan) == len(batches) == 4
    for images, captions in plan:
        owners = side.relevance.indices[captions]
        assert (owners == np.repeat(images, 2)).all() and len(set(captions)) == len(captions)


def test_plans_depend_on_seed_and_epoch_only(side):
    flat = lambda *a: [x.tolist() for step in Batches(side, 16, 2, seed=a[0]).plan(a[1]) for x in step]  # noqa: E731
    assert flat(0, 0) == flat(0, 0) and flat(0, 0) != flat(0, 1) and flat(0, 0) != flat(1, 0)


def test_match_is_the_annotated_relevance_also_for_images_that_repeat(side):
    batches = Batches(side, 20, 1, seed=0, unit="captions")
    plan = batches.plan(0)
    step = next(n for n, (images, _) in enumerate(plan) if len(set(images)) < len(images))
    batch = batches.batch(0, step, plan)
    images, captions = plan[step]
    wanted = images[:, None] == side.relevance.indices[captions][None, :]
    assert (batch.match.numpy() == wanted).all() and batch.match.sum() > len(images)
    diagonal = Batches(side, 20, 1, seed=0, unit="captions", positives="diagonal")
    assert (diagonal.batch(0, step, plan).match == torch.eye(20, dtype=torch.bool)).all()


def test_features_and_words_are_those_of_the_rows(side):
    batches = Batches(side, 8, 2, seed=0)
    plan = batches.plan(0)
    batch = batches.batch(0, 0, plan)
    one = side.images_at(plan[0][0][3:4])
    assert torch.equal(batch.images.local_feats[3], one.local_feats[0])
    words = side.captions.ids[int(plan[0][1][5])]
    assert torch.equal(batch.captions.ids[5][batch.captions.mask[5]], words[words > 0])
    assert batch.captions.mask.any(0).all(), "no column of padding only"


def test_dropping_cells_and_words(side):
    batches = Batches(side, 32, 2, seed=0, cell_drop=0.5, word_drop=0.5)
    plan = batches.plan(0)
    a, b = batches.batch(0, 0, plan), batches.batch(0, 0, plan)
    assert torch.equal(a.images.mask, b.images.mask) and torch.equal(a.captions.ids, b.captions.ids)
    assert 0.4 < a.images.mask.float().mean() < 0.6 and a.images.mask.any(1).all()
    plain = Batches(side, 32, 2, seed=0).batch(0, 0, plan)
    special = plain.captions.ids <= 2
    assert torch.equal(a.captions.ids[special], plain.captions.ids[special])
    unknown = (a.captions.ids == 3) & ~special
    assert 0.4 < unknown.sum() / (~special).sum() < 0.6


@pytest.mark.parametrize(
    "given, message",
    [
        ({"batch_images": 1}, "batch_images must be at least 2, got 1"),
        ({"captions_per_image": 0}, "captions_per_image must be at least 1"),
        ({"unit": "pairs"}, "unit must be"),
        ({"positives": "diagonal"}, "needs unit='captions'"),
        ({"cell_drop": 1.0}, "must lie in"),
    ],
)
def test_bad_input(side, given, message):
    with pytest.raises(BadInput, match=message):
        Batches(side, **{"batch_images": 4, "captions_per_image": 1, "seed": 0, **given})
