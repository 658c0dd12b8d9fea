"""Training batches: complete, reproducible, true about who matches whom."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny import tiny_config

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Relevance
from xmr_core.data.batches import Augmentation, Batches, Split
from xmr_core.data.inputs import CaptionStates, feature_reader
from xmr_core.data.prepare import prepare


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    import os

    os.environ["XMR_HOME"] = str(tmp_path_factory.mktemp("home"))
    yield prepare(tiny_config().data).splits["train"]
    del os.environ["XMR_HOME"]


def test_an_epoch_sees_every_image_once_and_only_its_captions(split):
    batches = Batches(split, 16, 2, seed=0)
    plan = batches.plan(3)
    assert sorted(np.concatenate([i for i, _ in plan])) == list(range(64)) and len(plan) == len(batches) == 4
    for images, captions in plan:
        owners = split.relevance.indices[captions]
        assert (owners == np.repeat(images, 2)).all() and len(set(captions)) == len(captions)


def test_plans_depend_on_seed_and_epoch_only(split):
    flat = lambda *a: [x.tolist() for step in Batches(split, 16, 2, seed=a[0]).plan(a[1]) for x in step]  # noqa: E731
    assert flat(0, 0) == flat(0, 0) and flat(0, 0) != flat(0, 1) and flat(0, 0) != flat(1, 0)


def test_match_is_the_annotated_relevance_also_for_images_that_repeat(split):
    batches = Batches(split, 20, 1, seed=0, unit="captions")
    plan = batches.plan(0)
    step = next(n for n, (images, _) in enumerate(plan) if len(set(images)) < len(images))
    batch = batches.batch(0, step, plan)
    images, captions = plan[step]
    wanted = images[:, None] == split.relevance.indices[captions][None, :]
    assert (batch.match.numpy() == wanted).all() and batch.match.sum() > len(images)
    diagonal = Batches(split, 20, 1, seed=0, unit="captions", positives="diagonal")
    assert (diagonal.batch(0, step, plan).match == torch.eye(20, dtype=torch.bool)).all()


def test_true_pairs_that_nobody_annotated_are_positives_or_neither(split):
    n, m = len(split.caption_rows), len(split.image_rows)
    every = np.random.default_rng(0).random((n, m)) < 0.2
    every[np.arange(n), split.owners] = True
    truth = Relevance.from_matrix(every, range(n), range(m))
    own = {kind: Batches(split, 16, 2, seed=0, positives=kind, truth=truth) for kind in ("exhaustive", "left out")}
    plan = own["left out"].plan(0)
    images, captions = plan[1]
    all_true, left_out = (own[kind].batch(0, 1, plan).match for kind in own)
    assert all_true.dtype == torch.bool and (all_true.numpy() == every[captions][:, images].T).all()
    for i, image in enumerate(images):
        for t, caption in enumerate(captions):
            wanted = 1 if split.owners[caption] == image else -int(every[caption, image])
            assert left_out[i, t] == wanted
    assert {*left_out.unique().tolist()} == {-1, 0, 1}
    annotated = Batches(split, 16, 2, seed=0, truth=truth).batch(0, 1, plan).match
    assert torch.equal(annotated, left_out > 0), "what is true is asked for, and not only given"


def test_features_and_words_are_those_of_the_rows(split):
    batches = Batches(split, 8, 2, seed=0)
    plan = batches.plan(0)
    batch = batches.batch(0, 0, plan)
    one = split.images_at(plan[0][0][3:4])
    assert torch.equal(batch.images.local_feats[3], one.local_feats[0])
    words = split.captions.ids[int(plan[0][1][5])]
    assert torch.equal(batch.captions.ids[5][batch.captions.mask[5]], words[words > 0])
    assert batch.captions.mask.any(0).all(), "no column of padding only"


def test_dropping_cells_and_words(split):
    batches = Batches(split, 32, 2, seed=0, augment=Augmentation(cell_drop=0.5, word_drop=0.5))
    plan = batches.plan(0)
    a, b = batches.batch(0, 0, plan), batches.batch(0, 0, plan)
    assert torch.equal(a.images.mask, b.images.mask) and torch.equal(a.captions.ids, b.captions.ids)
    assert 0.4 < a.images.mask.float().mean() < 0.6 and a.images.mask.any(1).all()
    plain = Batches(split, 32, 2, seed=0).batch(0, 0, plan)
    special = plain.captions.ids <= 2
    assert torch.equal(a.captions.ids[special], plain.captions.ids[special])
    unknown = (a.captions.ids == 3) & ~special
    assert 0.4 < unknown.sum() / (~special).sum() < 0.6


@pytest.mark.parametrize(
    "given, message",
    [
        ({"batch_images": 1}, "batch_images"),
        ({"unit": "classes"}, "needs images with classes"),
        ({"positives": "diagonal"}, "needs unit='captions' or 'classes'"),
        ({"positives": "left out"}, "knows every true pair"),
    ],
)
def test_bad_input(split, given, message):
    with pytest.raises(BadInput, match=message):
        Batches(split, **{"batch_images": 4, "captions_per_image": 1, "seed": 0, **given})


def same(a, b) -> bool:
    """Are two batches equal, bit for bit?"""
    parts = [
        (a.images.local_feats, b.images.local_feats),
        (a.images.mask, b.images.mask),
        (a.captions.ids, b.captions.ids),
        (a.match, b.match),
    ]
    return all(torch.equal(x, y) for x, y in parts)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_batches_read_ahead_are_the_same_whatever_the_number_of_readers(split, workers):
    batches = Batches(
        split, 8, 2, seed=3, augment=Augmentation(cell_drop=0.3, word_drop=0.3, word_rule="vse", words=50)
    )
    plan = batches.plan(1)
    alone = [batches.batch(1, step, plan) for step in range(len(plan))]
    for start in (0, 5):
        ahead = list(batches.ahead(1, start, plan, workers))
        assert len(ahead) == len(plan) - start and all(same(a, b) for a, b in zip(ahead, alone[start:], strict=True))
    assert not same(alone[0], next(iter(batches.ahead(2, 0, batches.plan(2), workers))))


def test_an_error_while_reading_ahead_reaches_the_caller(split):
    def broken(rows):
        raise BadInput("picture 7 is damaged")

    batches = Batches(replace(split, read_images=broken), 8, 1, seed=0)
    with pytest.raises(BadInput, match="picture 7"):
        list(batches.ahead(0, 0, batches.plan(0), 2))


def test_views_are_shown_as_often_as_the_picture_itself_and_only_in_training(split):
    n = len(split.image_rows)
    base = np.zeros((n, 2, 3), np.float16)
    views = [(np.full((n, 2, 3), v, np.float16), np.full((n, 4), v, np.float32)) for v in (1, 2, 3)]
    read = feature_reader(base, np.zeros((n, 4), np.float32), views, split.image_rows)
    viewed = replace(split, read_images=read, views=3)
    batches = Batches(viewed, 16, 1, seed=0)
    seen = []
    for epoch in range(30):
        plan = batches.plan(epoch)
        for batch in batches.ahead(epoch, 0, plan):
            which = batch.images.local_feats[:, 0, 0]
            assert torch.equal(which, batch.images.global_feat[:, 0].half())
            assert torch.equal(which, batch.images.local_feats[:, 1, 2])
            seen += which.tolist()
    shares = np.bincount(np.array(seen, int), minlength=4) / len(seen)
    assert np.abs(shares - 0.25).max() < 0.03
    assert (viewed.images_at(np.arange(5)).local_feats == 0).all(), "evaluation looks at the pictures themselves"


def test_views_belong_to_their_pictures():
    """A view array holds training pictures only; its rows are found by image row, in any order, with repeats."""
    base, view = np.arange(10.0)[:, None, None], 100 + np.array([2.0, 5.0, 9.0])[:, None, None]
    read = feature_reader(base, None, [(view, None)], np.array([2, 5, 9]))
    out = read(np.array([9, 2, 5, 9]), np.array([1, 0, 1, 0])).local_feats.flatten().tolist()
    assert out == [109.0, 2.0, 105.0, 9.0]


def test_the_first_pictures_of_a_side_are_a_side_of_their_own(split):
    few = split.first(7)
    assert len(few.image_rows) == 7 and len(few.caption_rows) == 35 == len(few.captions) == len(few.relevance)
    owner = few.image_rows[few.relevance.indices]
    assert (owner == split.image_rows[split.relevance.indices[np.isin(split.caption_rows, few.caption_rows)]]).all()
    assert len(split.first(10_000).image_rows) == len(split.image_rows)


def test_frozen_states_of_captions_are_read_ragged():
    states, indptr = np.arange(12.0, dtype=np.float32)[:, None], np.array([0, 3, 4, 9, 12])
    captions = CaptionStates(states, indptr, np.array([3, 0, 1]))
    assert captions.lengths.tolist() == [3, 3, 1]
    out = captions.read(np.array([2, 0]))
    assert out.local_feats[..., 0].tolist() == [[3, 0, 0], [9, 10, 11]]
    assert out.mask.tolist() == [[True, False, False], [True] * 3]
    relevance = Relevance.from_positions(np.arange(3), np.arange(3), list("abc"), list("xyz"))
    split = Split(np.arange(3), np.arange(3), lambda rows: None, captions, relevance)
    assert split.lengths.tolist() == [3, 3, 1]
    assert split.first(2).captions_at(np.array([1])).local_feats.flatten().tolist() == [0, 1, 2]
    dropped = Augmentation(word_drop=0.9).captions(out, np.random.default_rng(0))
    assert dropped.mask.any(1).all() and dropped.mask.sum() < out.mask.sum() and not (dropped.mask & ~out.mask).any()


def test_a_batch_of_classes_holds_one_caption_of_each(split):
    classes = np.arange(len(split.image_rows)) % 7
    classed = replace(split, classes=classes)
    batches = Batches(classed, 100, 1, seed=0, unit="classes", positives="diagonal")
    plan = batches.plan(0)
    assert len(plan) == len(batches) == len(split.caption_rows) // 7
    for images, captions in plan:
        assert sorted(classes[images]) == list(range(7)) and (split.relevance.indices[captions] == images).all()
    assert len({tuple(captions) for _, captions in plan}) == len(plan), "drawn afresh each time"
    often = np.bincount(
        np.concatenate([captions for _, captions in plan] + [c for e in range(1, 20) for _, c in batches.plan(e)])
    )
    assert often.min() > 0 and often.std() / often.mean() < 0.45, "every caption of a class is as likely"
    assert {len(images) for images, _ in Batches(classed, 5, 1, seed=0, unit="classes").plan(0)} == {5}
