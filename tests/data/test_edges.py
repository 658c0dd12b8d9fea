"""Where numbers leave the usual: half precision, large galleries, padding that is NaN, collapsed sets, items by row."""

import math
import operator
from itertools import islice

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from xmr_core.base.errors import BadInput
from xmr_core.base.machine import matrix_precision
from xmr_core.base.tensors import as_set
from xmr_core.base.types import EmbeddingSet, GaussianEmbedding, Relevance, RelevantRanks
from xmr_core.evaluation import metrics
from xmr_core.evaluation.analysis.representations import circular_variance
from xmr_core.evaluation.analysis.uncertainty import uncertainty
from xmr_core.evaluation.evaluate import rank_metrics
from xmr_core.heads.gaussian import GaussianHead
from xmr_core.heads.gpo import GPOHead
from xmr_core.heads.pooling import AdaptivePoolHead
from xmr_core.heads.slots import sine_1d
from xmr_core.losses.adaptive_clustering import AdaptiveClustering
from xmr_core.losses.gaussian import kl_to_normal, soft_contrastive, uniformity
from xmr_core.losses.regularisers import mmd
from xmr_core.losses.scores import PairwiseSigmoid, hinge_triplet
from xmr_core.methods.common import Inputs
from xmr_core.methods.registry import build, method_spec, papers
from xmr_core.similarities import pairs
from xmr_core.similarities.gaussian import DISTANCES, DistanceLogit, GaussianDistance
from xmr_core.similarities.sets import EuclideanSmoothChamfer, SmoothChamfer
from xmr_core.similarities.vectors import Order

INPUTS = Inputs(image_width=8, cells=4, vocabulary=20)
HALF = (torch.float16, torch.bfloat16)


def gaussians(n, dtype=torch.float32, log_std=-3.0, seed=0):
    torch.manual_seed(seed)
    mean = torch.nn.functional.normalize(torch.randn(n, 64), dim=-1)
    spread = log_std + 0.1 * torch.randn(n, 64)
    samples = mean[:, None] + spread.exp()[:, None] * torch.randn(n, 3, 64)
    return GaussianEmbedding(mean.to(dtype), spread.to(dtype), samples.to(dtype))


def single(items):
    return GaussianEmbedding(items.mean.float(), items.log_std.float(), items.samples.float())


@pytest.mark.parametrize("name", DISTANCES)
@pytest.mark.parametrize("dtype", HALF)
def test_distances_of_half_precision_are_those_of_the_same_numbers_in_float32(name, dtype):
    x, y = gaussians(5, dtype, -6.0), gaussians(7, dtype, -6.0, seed=1)
    scores = GaussianDistance(name)(x, y)
    assert scores.dtype == torch.float32 and scores.isfinite().all()
    assert torch.equal(scores, GaussianDistance(name)(single(x), single(y)))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(DISTANCES[name](x, y), scores)


def test_the_logit_and_the_regularisers_of_distributions_leave_half_precision():
    x, y = gaussians(5, torch.bfloat16), gaussians(7, torch.bfloat16, seed=1)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(DistanceLogit()(x, y), DistanceLogit()(single(x), single(y)))
    for regulariser in (kl_to_normal, uniformity):
        assert regulariser(x, y).dtype == torch.float32
    scores, match = torch.full((200, 200), 5.0, dtype=torch.float16), torch.eye(200, dtype=torch.bool)
    assert soft_contrastive(scores, match).isfinite() and hinge_triplet(scores, match).dtype == torch.float32


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that is made."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.elements = max(self.elements, out.numel())
        return out


@pytest.mark.parametrize(
    ("similarity", "shape"), [(Order(), (40, 32)), (EuclideanSmoothChamfer(), (40, 3, 32))], ids=["order", "euclidean"]
)
def test_differences_of_vectors_are_formed_for_a_few_images_at_a_time(similarity, shape, monkeypatch):
    torch.manual_seed(0)
    x, y = torch.randn(shape), torch.randn(shape)
    plain = similarity(x, y)
    monkeypatch.setattr(pairs, "_NUMBERS", 4 * y.numel() * (shape[1] if len(shape) == 3 else 1))
    with Largest() as seen:
        assert torch.equal(similarity.score(x, y), plain)
    assert seen.elements <= pairs._NUMBERS < 40 * y.numel()
    assert similarity.score(x[:0], y).shape == (0, 40)


def test_one_modality_in_half_precision_scores_as_it_trains():
    torch.manual_seed(0)
    x, y = torch.randn(4, 2, 8), torch.randn(5, 2, 8)
    for a, b in ((x, y.half()), (x.half(), y)):
        assert torch.allclose(SmoothChamfer().score(a, b), SmoothChamfer()(a, b), atol=1e-6)
        assert mmd(a, b).isfinite()


@pytest.mark.parametrize("head", [GPOHead(4, 6), AdaptivePoolHead(4, 6)], ids=["gpo", "adpool"])
def test_padding_that_is_not_a_number_reaches_no_gradient(head):
    torch.manual_seed(0)
    x, mask = torch.randn(2, 3, 4), torch.tensor([[True, True, True], [True, True, False]])
    clean = torch.where(mask[..., None], x, 0.0)
    expected = head(clean, mask).x
    expected.sum().backward()
    wanted = head.join.weight.grad.clone()
    head.zero_grad()
    x[1, 2] = math.nan
    got = head(x, mask).x
    got.sum().backward()
    assert torch.equal(got, expected) and torch.equal(head.join.weight.grad, wanted)


def test_positions_and_the_gru_of_sigma_count_real_words_only():
    torch.manual_seed(0)
    words = torch.randn(1, 3, 8)
    gap, plain = torch.tensor([[True, False, True, True]]), torch.ones(1, 3, dtype=torch.bool)
    assert torch.equal(sine_1d(gap, 8, torch.float32)[gap], sine_1d(plain, 8, torch.float32)[plain])
    spaced = torch.zeros(1, 4, 8)
    spaced[gap] = words[0]
    head, g = GaussianHead(8, 6, "gru").eval(), torch.randn(1, 6)
    with torch.no_grad():
        assert torch.allclose(head(spaced, gap, g).log_std, head(words, plain, g).log_std, atol=1e-6)


@pytest.mark.parametrize("form", ["official", "paper"])
@pytest.mark.parametrize("value", [-1000.0, 1000.0, math.nan])
def test_scores_out_of_all_bounds_leave_adopt_all_negatives(form, value):
    scores, match = torch.full((4, 4), value, requires_grad=True), torch.eye(4, dtype=torch.bool)
    loss = AdaptiveClustering(form)
    for dtype in (torch.float32, torch.float64):
        assert loss(scores.to(dtype), match).ndim == 0
        assert loss.how_many(scores.detach().to(dtype), match) in (1, 3)
    assert loss.history == [] or set(loss.history[-1]) <= {1, 3}


def test_a_first_batch_without_negatives_sets_no_bias():
    loss = PairwiseSigmoid()
    loss(torch.ones(1, 1), torch.ones(1, 1, dtype=torch.bool))
    assert not loss.bias_is_set and loss.bias == 0
    loss(torch.zeros(4, 4), torch.eye(4, dtype=torch.bool))
    assert loss.bias_is_set and loss.bias < 0


def test_one_relevant_item_may_be_named_without_a_list():
    scores = np.array([[0.9, 0.1, 0.2], [0.1, 0.2, 0.9]])
    names = {"query_ids": ["q0", "q1"], "gallery_ids": ["d0", "d1", "d2"]}
    found = rank_metrics(scores, {"q0": "d0", "q1": ["d1"]}, **names)
    assert found == rank_metrics(scores, {"q0": ["d0"], "q1": ["d1"]}, **names) and found["queries"] == 2
    assert rank_metrics(scores, {"q0": 0, "q1": [1]}, query_ids=["q0", "q1"]) == found


def test_a_published_form_refuses_what_it_would_not_read():
    with pytest.raises(BadInput, match="has objective 'adopt'"):
        build("vse+2ad", INPUTS, "published", d=16, objective="infonce")
    for name, spec in papers().items():
        if "published" in spec.forms and "dropout" in spec.options.names():
            assert ("dropout" in spec.options.names("published")) == (name == "dive"), name
    with pytest.raises(BadInput, match="option dropout of scan is not read by its published form"):
        method_spec("scan").make_options("published", {"dropout": 0.3})


def test_the_circular_variance_of_nearly_equal_vectors_has_its_digits():
    torch.manual_seed(0)
    base = torch.nn.functional.normalize(torch.randn(200, 1, 32, dtype=torch.float64), dim=-1)
    for size in (1e-2, 1e-4):
        x = torch.nn.functional.normalize(base + size * torch.randn(200, 4, 32, dtype=torch.float64), dim=-1)
        true = 1 - x.mean(1).norm(dim=-1)
        found = circular_variance(as_set(x.float()))
        assert torch.allclose(found.double(), true, rtol=2e-3), size
    equal = EmbeddingSet(base.float().expand(-1, 4, -1), torch.ones(200, 4, dtype=torch.bool))
    assert (circular_variance(equal) >= 0).all() and np.allclose(uncertainty(equal), math.log(1e-12))
    equal.x.requires_grad_()
    assert len(uncertainty(equal)) == 200


def test_cut_offs_that_do_not_fit_are_named():
    for k in (0, 1.5, True, "1"):
        with pytest.raises(BadInput, match="k must be"):
            rank_metrics(np.eye(3), [[0], [1], [2]], ks=(k,))


IDS = {"query_ids": ["q0", "q1"], "gallery_ids": ["g0", "g1"]}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Relevance.from_positions([0], [1], ["q0", "q1"], ["g0"]), "1 gallery items"),
        (lambda: Relevance.from_positions([-1], [0], **IDS), "-1 to -1"),
        (lambda: Relevance.from_positions([0, 1], [0], **IDS), "two positions"),
        (lambda: Relevance.from_matrix(np.array([[0, 0, 1], [0, 0, 0]]) > 0, **IDS), r"got shape \(2, 3\)"),
    ],
)
def test_a_relevant_position_outside_is_no_other_pair(build, message):
    with pytest.raises(BadInput, match=message):
        build()


@pytest.mark.parametrize("measure", [metrics.first_rank, metrics.r_precision, metrics.map_at_r])
@pytest.mark.parametrize("indptr", [[0, 1, 1, 2], [0, 1, 2, 2], [0, 0, 1, 2]])
def test_a_query_without_a_relevant_item_has_no_rank_of_another(measure, indptr):
    with pytest.raises(BadInput, match="has no relevant item"):
        measure(RelevantRanks(np.array(indptr), np.array([2, 9]), 10))


SETS = EmbeddingSet(torch.rand(5, 2, 3), torch.ones(5, 2, dtype=torch.bool))
OWN = Relevance.from_matrix(np.eye(5) > 0, range(5), range(5))


def test_every_item_of_representations_keeps_its_axis_and_a_mask_its_dtype():
    assert all(torch.equal(item.x, SETS.x[n : n + 1]) for n, item in enumerate(islice(SETS, 8)))
    assert len(list(islice(SETS, 8))) == 5
    for index in (2, -3, np.int64(2)):
        assert torch.equal(SETS[index].x, SETS.x[2:3])
    assert SETS.to(torch.float64).x.dtype == torch.float64 and SETS.to(torch.float64).mask.dtype == torch.bool


@pytest.mark.parametrize("index", [5, -6])
@pytest.mark.parametrize("rows", [SETS, RelevantRanks(np.arange(6), np.ones(5, int), 5), OWN])
def test_an_item_that_is_not_there_is_an_error_and_not_an_empty_one(rows, index):
    with pytest.raises(IndexError, match="of 5 items"):
        operator.getitem(rows, index)


def test_precision_that_was_set_for_one_backend_is_no_obstacle_and_stays():
    backend = torch.backends.cuda.matmul
    before = backend.fp32_precision
    try:
        backend.fp32_precision = "tf32"
        with matrix_precision("float32"):
            assert backend.fp32_precision == "ieee"
        assert backend.fp32_precision == "tf32"
    finally:
        backend.fp32_precision = before
