"""What a similarity says of itself: contributions, attention, settings, symmetry; and that plain tensors and functions
will do."""

from functools import partial

import numpy as np
import pytest
import reference
import torch
from test_similarities import EVERY, FUNCTIONS, GRAPHS, SINGLE, example, ragged, rows_of
from torch.testing import assert_close

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Embedding, EmbeddingSet, GaussianEmbedding
from xmr_core.evaluation.ranks import score_matrix
from xmr_core.similarities import (
    DISTANCES,
    Chamfer,
    Chan,
    Cosine,
    EuclideanSmoothChamfer,
    FunctionSimilarity,
    GaussianDistance,
    JointSgraf,
    MatchLogit,
    MatchProbability,
    MaxPairwise,
    Order,
    Scan,
    Sgraf,
    SmoothChamfer,
    SumMax,
    as_similarity,
    max_pairwise,
    scan,
    smooth_chamfer,
)

SUMS = {  # similarity → the loop that it must sum to
    "smooth-Chamfer": (SmoothChamfer(7.0), partial(reference.smooth_chamfer, alpha=7.0)),
    "Chamfer": (Chamfer(), reference.chamfer),
    "MIL": (MaxPairwise(), reference.mil),
    "Euclidean": (EuclideanSmoothChamfer(4.0), reference.euclidean_smooth_chamfer),
    "MP": (MatchProbability(3.0, -0.5), partial(reference.mp, a=3.0, b=-0.5)),
    "MP, sum": (MatchProbability(3.0, -0.5, reduction="sum"), partial(reference.mp, a=3.0, b=-0.5, reduction="sum")),
    **{
        f"scan {d} {how}": (Scan(d, 4.0, how), partial(reference.scan, direction=d, sharpness=4.0, aggregate=how))
        for d in ("t2i", "i2t")
        for how in ("mean", "sum")
    },
    **{
        f"sum-max {d} {how}": (SumMax(d, how), partial(reference.sum_max, direction=d, aggregate=how))
        for d in ("t2i", "i2t", "both")
        for how in ("sum", "mean")
    },
    **{
        f"chan {coding} {how}": (Chan(coding, how), partial(reference.chan, coding=coding, pooling=how))
        for coding in ("vha", "tha", "vsa")
        for how in ("mean", "sum")
    },
}


@pytest.mark.parametrize("name", SUMS)
def test_contributions_sum_to_the_score_of_the_loop(name):
    similarity, loop = SUMS[name]
    images, captions = ragged(4, 3, seed=1), ragged(5, 4, seed=2)
    wanted = reference.scores(rows_of(images), rows_of(captions), loop)
    for i in range(4):
        for t in range(5):
            parts = similarity.contributions(images[i], captions[t])
            assert parts.images.sum() + parts.captions.sum() == pytest.approx(wanted[i][t], abs=1e-12)
            assert (
                parts.products.shape
                == (len(parts.images), len(parts.captions))
                == (int(images.mask[i].sum()), int(captions.mask[t].sum()))
            )


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
@pytest.mark.parametrize("parts", ["both", "local", "global"])
def test_contributions_of_graphs(direction, parts):
    torch.manual_seed(0)
    similarity = Sgraf(6, "mean", 5, direction=direction, parts=parts).double().eval()
    image, caption = example("sgraf mean t2i", 1, 4, 1), example("sgraf mean t2i", 1, 5, 2)
    found = similarity.contributions(image, caption)
    assert found.images.sum() + found.captions.sum() == pytest.approx(similarity(image, caption).item(), abs=1e-12)
    contexts = found.images if direction == "t2i" else found.captions
    assert not contexts.any()
    assert Sgraf(6, "saf", 5).double().contributions(image, caption).images is None, "no sum over elements"
    assert JointSgraf(6, 5).double().contributions(image, caption).captions is None
    assert Scan().contributions(image, caption).captions is None and Scan().contributions(
        image, caption
    ).products.shape == (4, 5)


def test_contributions_of_single_vectors_and_who_has_none():
    x, y = ragged(1, 1, seed=1).x[:, 0], ragged(1, 1, seed=2).x[:, 0]
    parts = Cosine().contributions(x, y)
    assert parts.images.sum() + parts.captions.sum() == pytest.approx(
        (x @ y.T).item(), abs=1e-12
    ) and parts.products.shape == (1, 1)
    assert Order().contributions(x, y).images is None
    items = GaussianEmbedding(x, x, x[:, None])
    for similarity in (MatchLogit(), GaussianDistance("ELK")):
        with pytest.raises(BadInput, match="GaussianEmbedding"):
            similarity.contributions(items, items)
    with pytest.raises(BadInput, match="one image and one caption, got 3 images"):
        Chamfer().contributions(ragged(3, 2), ragged(1, 2))


@pytest.mark.parametrize("name", EVERY)
def test_every_similarity_knows_whether_it_is_symmetric(name):
    a, b = example(name, 3, 4, 1), example(name, 4, 4, 2)
    similarity = GRAPHS[name].module if name in GRAPHS else EVERY[name]
    same = torch.allclose(EVERY[name](a, b), EVERY[name](b, a).T, atol=1e-12)
    assert similarity.symmetric == same


@pytest.mark.parametrize("name", DISTANCES)
def test_distances_know_whether_they_are_symmetric(name):
    g = torch.Generator().manual_seed(0)
    items = [
        GaussianEmbedding(*(torch.randn(n, *shape, generator=g).double() for shape in ((4,), (4,), (3, 4))))
        for n in (3, 5)
    ]
    forth, back = GaussianDistance(name)(*items), GaussianDistance(name)(*items[::-1]).T
    assert torch.equal(forth, DISTANCES[name](*items))
    assert GaussianDistance(name).symmetric == torch.allclose(forth, back, atol=1e-9)
    without = [GaussianEmbedding(s.mean, s.log_std) for s in items]
    if GaussianDistance(name).compares == "samples":
        with pytest.raises(BadInput, match="the images have no samples"):
            GaussianDistance(name)(*without)
    else:
        assert torch.equal(GaussianDistance(name)(*without), forth)
        assert np.allclose(score_matrix(GaussianDistance(name), *without), forth, atol=1e-4)
    with pytest.raises(BadInput, match="have no samples"):
        MatchLogit()(*without)


@pytest.mark.parametrize("name", EVERY)
def test_gradients_change_neither_of_the_two_ways(name):
    """`forward` is the plain form and `score` the fast one, whether or not gradients are recorded."""
    images, captions = example(name, 40, 4, 1, torch.float32), example(name, 40, 4, 2, torch.float32)
    plain, fast = EVERY[name](images, captions).detach(), EVERY[name].score(images, captions)
    assert not fast.requires_grad
    for context in (torch.no_grad(), torch.inference_mode()):
        with context:
            assert torch.equal(EVERY[name](images, captions), plain) and torch.equal(
                EVERY[name].score(images, captions), fast
            )
    assert_close(fast, plain, rtol=1e-4, atol=1e-5)


def test_attention_and_weights_are_asked_of_the_similarity():
    images, captions = example("sgraf saf t2i", 2, 4, 1), example("sgraf saf t2i", 3, 5, 2)
    for direction, shape in (("t2i", (2, 3, 5, 4)), ("i2t", (2, 3, 4, 5))):
        attention = Scan(direction, sharpness=4.0).attention(images, captions)
        assert attention.shape == shape
        real = captions.mask[None].expand(2, -1, -1) if direction == "t2i" else images.mask[:, None].expand(-1, 3, -1)
        assert_close(attention.sum(-1)[real], torch.ones(int(real.sum()), dtype=torch.float64))
        assert Sgraf(6, "saf", 5, direction=direction).double().attention(images, captions).shape == tuple(
            n - (axis > 1) for axis, n in enumerate(shape)
        )
    weights = JointSgraf(6, 5).double().eval().element_weights(images, captions)
    assert set(weights) == {"SAF", "SGR"}
    for each in weights.values():
        assert_close(each.sum(-1), torch.ones(2, 3, dtype=torch.float64))
    for similarity in (Chamfer(), MatchLogit(), FunctionSimilarity(max)):
        with pytest.raises(BadInput, match="take Scan or Sgraf"):
            similarity.attention(images, captions)
        with pytest.raises(BadInput, match="has no nodes to weigh"):
            similarity.element_weights(images, captions)
    for similarity in (Sgraf(6, "mean", 5), Sgraf(6, "saf", 5, parts="local")):
        with pytest.raises(BadInput, match="no weights of nodes"):
            similarity.double().element_weights(images, captions)


def test_settings_make_another_similarity():
    own = SmoothChamfer()
    other = own.replace(alpha=4.0)
    assert (own.settings, other.settings) == ({"alpha": 16.0}, {"alpha": 4.0}) and own.replace() is own
    images, captions = ragged(3, 2), ragged(4, 3)
    assert torch.equal(other(images, captions), smooth_chamfer(images, captions, 4.0))
    assert Scan(aggregate="mean").replace(sharpness=2.0).options["aggregate"] == "mean"
    with pytest.raises(BadInput, match="unknown setting of SmoothChamfer 'alfa'. Did you mean 'alpha'"):
        own.replace(alfa=3.0)
    with pytest.raises(BadInput, match="unknown setting"):
        Chamfer().replace(alpha=2.0)
    with pytest.raises(BadInput, match="alpha must be"):
        own.replace(alpha=-1.0)


def test_functions_become_similarities():
    assert isinstance(as_similarity(smooth_chamfer), SmoothChamfer) and as_similarity(smooth_chamfer).settings == {
        "alpha": 16.0
    }
    assert as_similarity(partial(smooth_chamfer, alpha=2.0)).settings == {"alpha": 2.0}
    assert as_similarity(partial(scan, direction="i2t")).direction == "i2t"
    own = SmoothChamfer(3.0)
    assert as_similarity(own) is own and as_similarity(partial(own)) is own
    mine = as_similarity(lambda images, captions: images.x.sum(1) @ captions.x.sum(1).T)
    images, captions = ragged(3, 2), ragged(4, 3)
    assert not mine.symmetric and mine.direction is None and mine.block_scale == 1 and not mine.settings
    assert mine.contributions(images[0], captions[0]).images is None
    assert torch.equal(mine(images, captions), mine.score(images, captions))
    layer = torch.nn.Bilinear(2, 2, 1)
    assert (
        list(as_similarity(layer).parameters())
        == list(layer.parameters())
        == list(as_similarity(partial(layer)).parameters())
    )
    with pytest.raises(BadInput, match="must be a Similarity or a function"):
        as_similarity("cosine")


def test_state_dicts_are_those_of_the_weights_alone():
    assert not SmoothChamfer().state_dict() and not Scan().state_dict()
    assert set(MatchLogit().state_dict()) == {"a", "b"}
    assert {k.split(".")[0] for k in Sgraf(4, m=3).state_dict()} == {"nodes", "reasoner", "score"}


# -------------------------------------------------------------------------------------------------------------- plain
# tensors


@pytest.mark.parametrize("name", FUNCTIONS)
def test_plain_tensors_and_arrays_are_as_good(name):
    images, captions = example(name, 3, 2, 1), example(name, 4, 3, 2)
    wanted = FUNCTIONS[name](images, captions)
    masks = {} if name in SINGLE else {"image_mask": images.mask, "caption_mask": captions.mask}
    assert torch.equal(FUNCTIONS[name](images.x, captions.x, **masks), wanted)
    arrays = {k: m.numpy() for k, m in masks.items()}
    assert torch.equal(FUNCTIONS[name](images.x.numpy(), captions.x.numpy(), **arrays), wanted)
    assert torch.equal(EVERY[name](images.x, captions.x, **masks), wanted)
    assert np.allclose(score_matrix(EVERY[name], images, captions), wanted)


def test_vectors_are_sets_of_one():
    x, y = ragged(3, 1, seed=1).x, ragged(4, 1, seed=2).x
    for given in ((x[:, 0], y[:, 0]), (Embedding(x[:, 0]), Embedding(y[:, 0]))):
        assert torch.equal(smooth_chamfer(*given), smooth_chamfer(x, y))
        assert_close(Cosine()(*given), max_pairwise(x, y))


GOOD = torch.ones(2, 3, 4)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in SINGLE])
@pytest.mark.parametrize(
    ("images", "options", "message"),
    [
        (torch.ones(2, 3, 4, 5), {}, "2 or 3 axes"),
        (torch.ones(2, 3, 4, dtype=torch.long), {}, "floating-point"),
        ([[1.0, 2.0]], {}, "got list"),
        (GOOD, {"image_mask": torch.ones(2, 3)}, "mask must be Boolean"),
        (GOOD, {"image_mask": torch.tensor([[True] * 3, [False] * 3])}, "image 1 has no valid element"),
        (GOOD * torch.nan, {}, "NaN"),
        (torch.ones(2, 3, 5), {}, "vectors of width"),
        (EmbeddingSet(GOOD, torch.ones(2, 3).bool()), {"image_mask": torch.ones(2, 3, dtype=torch.bool)}, "and a mask"),
        (GaussianEmbedding(GOOD[0], GOOD[0]), {}, "got GaussianEmbedding"),
    ],
)
def test_what_cannot_be_compared_is_refused(name, images, options, message):
    with pytest.raises(BadInput, match=message):
        FUNCTIONS[name](images, GOOD, **options)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MatchLogit(a=-1),
        lambda: MatchLogit(b="5"),
        lambda: MatchProbability(learned="yes"),
        lambda: SmoothChamfer("16"),
        lambda: Scan(direction="t-i"),
        lambda: Scan(aggregate="avg"),
        lambda: Scan(lse_scale=0),
        lambda: Scan(leak=None),
        lambda: SumMax("t-i"),
        lambda: SumMax(aggregate="max"),
        lambda: Chan("VHA"),
        lambda: Chan(alpha=0),
        lambda: Chan(divide="yes"),
        lambda: GaussianDistance("W2"),
        lambda: Sgraf(4, sharpness=0),
    ],
)
def test_options_are_checked_when_a_similarity_is_made(make):
    with pytest.raises(BadInput):
        make()
