"""The contract that every similarity keeps, and the laws of single ones."""

import copy
import math
import warnings
from functools import partial

import numpy as np
import pytest
import reference
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Embedding, EmbeddingSet
from xmr_core.losses import mmd
from xmr_core.similarities import (
    Chamfer,
    Chan,
    Cosine,
    EuclideanSmoothChamfer,
    JointSgraf,
    MatchProbability,
    MaxPairwise,
    Nested,
    Order,
    Scan,
    Sgraf,
    SmoothChamfer,
    SumMax,
    Truncated,
    as_similarity,
    chamfer,
    chan,
    cosine,
    euclidean_smooth_chamfer,
    max_pairwise,
    order,
    scan,
    smooth_chamfer,
    sum_max,
)

LAWS = partial(settings, derandomize=True, deadline=None, max_examples=40)


class InPrecision:
    """A learned similarity in eval mode, in the precision of what it is given."""

    def __init__(self, make):
        torch.manual_seed(0)
        self.module = make().double().eval().requires_grad_(False)

    def __call__(self, images, captions):
        return copy.deepcopy(self.module).to(images.x.dtype)(images, captions)

    def score(self, images, captions):
        return copy.deepcopy(self.module).to(images.x.dtype).score(images, captions)


SINGLE = {"cosine": Cosine(), "order": Order()}
SETS = {
    "smooth_chamfer": SmoothChamfer(16.0), "chamfer": Chamfer(), "mil": MaxPairwise(), "mp": MatchProbability(),
    "euclidean smooth-Chamfer": EuclideanSmoothChamfer(4.0),
}  # fmt: skip
CROSS = {
    "scan t2i": Scan("t2i", 9.0, "lse", 6.0), "scan i2t": Scan("i2t", 4.0, "mean"),
    "sum-max t2i": SumMax("t2i"), "sum-max i2t": SumMax("i2t"), "sum-max both": SumMax("both", "mean"),
    "chan vha": Chan("vha", "lse", divide=True), "chan tha": Chan("tha", "softmax"), "chan vsa": Chan("vsa", "mean"),
}  # fmt: skip
ALL_SIMILARITIES = {**SINGLE, **SETS, **CROSS}
FUNCTIONS = {
    "cosine": cosine, "order": order, "smooth_chamfer": smooth_chamfer, "chamfer": chamfer, "mil": max_pairwise,
    "euclidean smooth-Chamfer": partial(euclidean_smooth_chamfer, alpha=4.0), "scan t2i": scan,
    "scan i2t": partial(scan, direction="i2t", sharpness=4.0, aggregate="mean"),
    "sum-max t2i": sum_max, "sum-max i2t": partial(sum_max, direction="i2t"),
    "sum-max both": partial(sum_max, direction="both", aggregate="mean"), "chan vha": partial(chan, divide=True),
    "chan tha": partial(chan, coding="tha", pooling="softmax"),
    "chan vsa": partial(chan, coding="vsa", pooling="mean"),
}  # fmt: skip
GRAPHS = {
    f"sgraf {r} {d}": InPrecision(partial(Sgraf, 6, r, 5, 2, d)) for r in ("sgr", "saf", "mean") for d in ("t2i", "i2t")
}
GRAPHS["sgraf joint"] = InPrecision(partial(JointSgraf, 6, 5, 2))
EVERY = {**ALL_SIMILARITIES, **GRAPHS}  # PCME's: tests/unit/test_pcme.py, by the same contract
SETWISE = {**SETS, **CROSS, **GRAPHS}
every = pytest.mark.parametrize("name", EVERY)
every_set = pytest.mark.parametrize("name", SETWISE)
LOOPS = {"cosine": reference.cosine, "order": reference.order, "smooth_chamfer": reference.smooth_chamfer,
         "chamfer": reference.chamfer, "euclidean smooth-Chamfer": reference.euclidean_smooth_chamfer,
         "mil": reference.mil, "mp": reference.mp, "scan t2i": reference.scan,
         "scan i2t": partial(reference.scan, direction="i2t", sharpness=4.0, aggregate="mean"),
         "sum-max t2i": reference.sum_max, "sum-max i2t": partial(reference.sum_max, direction="i2t"),
         "sum-max both": partial(reference.sum_max, direction="both", aggregate="mean"),
         "chan vha": partial(reference.chan, divide=True),
         "chan tha": partial(reference.chan, coding="tha", pooling="softmax"),
         "chan vsa": partial(reference.chan, coding="vsa", pooling="mean")}  # fmt: skip


def ragged(n: int, k: int, d: int = 6, seed: int = 0, dtype=torch.float64) -> EmbeddingSet:
    """n sets of 1 … k unit rows; the real rows are not always the leading ones."""
    g = torch.Generator().manual_seed(seed)
    x = F.normalize(torch.randn(n, k, d, generator=g, dtype=torch.float64), dim=-1).to(dtype)
    mask = torch.rand(n, k, generator=g) < 0.6
    mask[:, 0] |= ~mask.any(1)
    mask[0] = True
    return EmbeddingSet(x, mask)


def example(name: str, n: int, k: int, seed: int, dtype=torch.float64):
    sets = ragged(n, k, seed=seed, dtype=dtype)
    if name in GRAPHS:  # row 0 is the whole, and at least one token follows
        return EmbeddingSet(sets.x, sets.mask | (torch.arange(k) < 2))
    return Embedding(sets.x[:, 0]) if name in SINGLE else sets


def with_x(given, x):
    return Embedding(x) if isinstance(given, Embedding) else EmbeddingSet(x, given.mask)


def mask_of(given):
    return torch.ones(len(given), 1, dtype=torch.bool) if isinstance(given, Embedding) else given.mask


def rows_of(given):
    return reference.real(given.x.unsqueeze(1) if isinstance(given, Embedding) else given.x, mask_of(given))


def gradients(similarity, images, captions):
    """Scores, and the gradients of a weighted sum of them."""
    x, y = images.x.detach().clone().requires_grad_(), captions.x.detach().clone().requires_grad_()
    out = similarity(with_x(images, x), with_x(captions, y))
    weights = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view_as(out)
    return out.detach(), *torch.autograd.grad((out * weights).sum(), (x, y))


@pytest.mark.parametrize("name", LOOPS)
def test_equals_the_loop(name):
    images, captions = example(name, 5, 3, 1), example(name, 7, 4, 2)
    wanted = reference.scores(rows_of(images), rows_of(captions), LOOPS[name])
    assert_close(ALL_SIMILARITIES[name](images, captions).detach(), torch.tensor(wanted), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_class_and_the_function_are_one(name):
    images, captions = example(name, 5, 3, 1, torch.float32), example(name, 7, 4, 2, torch.float32)
    assert torch.equal(ALL_SIMILARITIES[name](images, captions), FUNCTIONS[name](images, captions))


@every
def test_gradient_is_that_of_the_formula(name):
    images, captions = example(name, 3, 2, 3), example(name, 2, 3, 4)
    f = lambda x, y: EVERY[name](with_x(images, x), with_x(captions, y))  # noqa: E731
    assert torch.autograd.gradcheck(f, (images.x.clone().requires_grad_(), captions.x.clone().requires_grad_()))


@every
def test_blocks_equal_the_whole(name):
    images, captions = example(name, 5, 3, 5), example(name, 6, 4, 6)
    whole = EVERY[name](images, captions)
    for i, t in ((slice(0, 2), slice(1, 4)), (slice(4, 5), slice(5, 6)), (slice(2, 5), slice(0, 6))):
        assert_close(EVERY[name](images[i], captions[t]), whole[i, t], rtol=1e-12, atol=1e-12)


@every
def test_items_can_be_permuted(name):
    images, captions = example(name, 5, 3, 7), example(name, 6, 4, 8)
    i, t = torch.randperm(5), torch.randperm(6)
    whole = EVERY[name](images, captions)
    assert_close(EVERY[name](images[i], captions[t]), whole[i][:, t], rtol=1e-12, atol=1e-12)


@every_set
def test_the_order_of_elements_does_not_matter(name):
    images, captions = example(name, 4, 3, 9), example(name, 5, 4, 10)
    order = [0, 3, 1, 2] if name in GRAPHS else [2, 0, 3, 1]  # row 0 of a graph is no token
    shuffled = EmbeddingSet(captions.x[:, order], captions.mask[:, order])
    assert_close(SETWISE[name](images, shuffled), SETWISE[name](images, captions), rtol=1e-12, atol=1e-12)


@every_set
@pytest.mark.parametrize("junk", [1e3, -1e3, 1e30, math.nan, math.inf])
def test_padding_has_no_say_and_gets_no_gradient(name, junk):
    images, captions = example(name, 4, 3, 11, torch.float32), example(name, 5, 4, 12, torch.float32)
    spoilt = [with_x(s, torch.where(s.mask[..., None], s.x, junk)) for s in (images, captions)]
    clean, dirty = gradients(SETWISE[name], images, captions), gradients(SETWISE[name], *spoilt)
    for a, b in zip(clean, dirty, strict=True):
        assert_close(a, b, rtol=1e-6, atol=1e-7)
    assert (dirty[1][~images.mask] == 0).all() and (dirty[2][~captions.mask] == 0).all()


def test_learned_parameters_are_blind_to_padding():
    images, captions = ragged(4, 3, seed=13), ragged(5, 4, seed=14)
    found = []
    for junk in (0.0, 1e30):
        similarity = MatchProbability(a=2.0, b=-0.3, learned=True).double()
        spoilt = [with_x(s, torch.where(s.mask[..., None], s.x, junk)) for s in (images, captions)]
        similarity(*spoilt).sum().backward()
        found.append(torch.stack([similarity.a.grad, similarity.b.grad]))
    assert found[0].abs().min() > 0
    assert_close(*found)


@every
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_finite_at_the_extremes(name, sign):
    images = example(name, 3, 2, 15, torch.float32)
    captions = with_x(images, sign * images.x)
    for value in gradients(EVERY[name], images, captions):
        assert value.isfinite().all()


@pytest.mark.parametrize("name", {**SETS, **CROSS})
def test_sets_of_one_agree_with_the_vector_form(name):
    images, captions = ragged(4, 1, seed=16), ragged(5, 1, seed=17)
    products = cosine(images, captions)
    wanted = {
        "mp": products.sigmoid(),
        "euclidean smooth-Chamfer": -(2 - 2 * products).sqrt(),
        "sum-max both": 2 * products,
    }.get(name, products)
    assert_close(SETWISE[name](images, captions).detach(), wanted)


@pytest.mark.parametrize("alpha", [0.5, 16.0, 64.0, 300.0])
def test_smooth_chamfer_equals_the_loop_at_every_alpha(alpha):
    images, captions = ragged(5, 3, seed=24), ragged(6, 4, seed=25)
    wanted = reference.scores(rows_of(images), rows_of(captions), partial(reference.smooth_chamfer, alpha=alpha))
    assert_close(smooth_chamfer(images, captions, alpha), torch.tensor(wanted), rtol=1e-10, atol=1e-10)
    f = lambda x, y: smooth_chamfer(with_x(images, x), with_x(captions, y), alpha)  # noqa: E731
    if alpha < 100:  # the curvature of the sharper one spoils finite differences
        assert torch.autograd.gradcheck(f, (images.x.requires_grad_(), captions.x.requires_grad_()))


@pytest.mark.parametrize("alpha", [1.0, 16.0, 39.0, 64.0])
@pytest.mark.parametrize("length", [1.0, 30.0])
def test_smooth_chamfer_in_float32_stays_with_float64(alpha, length):
    """Both sides of the switch between the plain exponential and the shifted one; long rows are not silently wrong
    either.
    """
    images, captions = ragged(6, 4, seed=20), ragged(7, 4, seed=21)
    images, captions = with_x(images, images.x * length), with_x(captions, captions.x * length)
    exact = gradients(partial(smooth_chamfer, alpha=alpha), images, captions)
    images, captions = with_x(images, images.x.float()), with_x(captions, captions.x.float())
    single = gradients(partial(smooth_chamfer, alpha=alpha), images, captions)
    assert_close(single[0].double(), exact[0], rtol=0, atol=1e-6 * length**2)
    for a, b in zip(exact[1:], single[1:], strict=True):
        assert_close(b.double(), a, rtol=1e-4, atol=1e-6 * alpha * length)


def test_smooth_chamfer_is_exact_on_opposite_sets_at_every_alpha():
    """The widest spread of unit rows: one pair at +1, the others at −1."""
    x = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]])
    y = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    full = torch.ones(1, 2, dtype=torch.bool)
    for alpha in (1.0, 16.0, 40.0, 41.0, 64.0, 100.0, 500.0):
        in_caption = (1 + math.log(2) / alpha - 1 + math.log(2) / alpha) / 2
        in_image = 1 + math.log1p(math.exp(-2 * alpha)) / alpha
        got = smooth_chamfer(EmbeddingSet(x, full), EmbeddingSet(y, full), alpha=alpha)
        assert_close(got.item(), (in_caption + in_image) / 2, rtol=1e-6, atol=1e-6)


@LAWS()
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 4), st.floats(0.5, 100))
def test_law_smooth_chamfer_lies_between_chamfer_and_chamfer_plus_the_logarithms(seed, k, l, alpha):
    images, captions = ragged(3, k, seed=seed), ragged(4, l, seed=seed + 1)
    slack = (smooth_chamfer(images, captions, alpha) - chamfer(images, captions)).numpy()
    sizes = (np.log(s.mask.sum(1).numpy()) for s in (images, captions))
    most = np.add.outer(*sizes) / (2 * alpha)
    assert (slack >= -1e-12).all() and (slack <= most + 1e-12).all()


@LAWS()
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_law_chamfer_never_exceeds_the_best_pair(seed, k):
    images, captions = ragged(3, k, seed=seed), ragged(4, k, seed=seed + 1)
    assert (chamfer(images, captions) <= max_pairwise(images, captions) + 1e-12).all()


@LAWS()
@given(st.sampled_from(sorted(SETS)), st.integers(0, 10**6))
def test_law_set_similarities_are_symmetric(name, seed):
    a, b = ragged(3, 3, seed=seed), ragged(4, 2, seed=seed + 1)
    assert_close(SETS[name](a, b), SETS[name](b, a).T, rtol=1e-12, atol=1e-12)


def test_autocast_does_not_coarsen_scores():
    images, captions = ragged(8, 4, seed=22, dtype=torch.float32), ragged(8, 4, seed=23, dtype=torch.float32)
    for name, similarity in {**SETS, **CROSS}.items():
        with torch.autocast("cpu", torch.bfloat16):
            got = similarity(images, captions)
        assert_close(got, similarity(images, captions), msg=name)


@every
def test_two_widths_are_refused(name):
    images, captions = example(name, 3, 4, seed=1), example(name, 4, 4, seed=2)
    with pytest.raises(BadInput, match="vectors of width [56] cannot be compared with vectors of width [56]"):
        EVERY[name](with_x(images, images.x[..., :5]), captions)


@every_set
def test_a_set_without_a_real_element_is_refused(name):
    images, captions = example(name, 3, 4, seed=1), example(name, 4, 4, seed=2)
    captions.mask[2] = False
    with pytest.raises(BadInput, match="set 2 has no valid element"):
        EVERY[name](images, captions)


def _warned(call, *items) -> int:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*items)
    return sum("unit length" in str(w.message) for w in caught)


NORMALISES = ("cosine", "smooth_chamfer", "chamfer", "mil", "sum-max t2i", "chan vha")
ANY_LENGTH = ("order", "euclidean smooth-Chamfer")


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("form", ["function", "class", "score", "truncated", "nested"])
def test_plain_tensors_of_other_lengths_are_told_once(name, form):
    if form in ("truncated", "nested") and name in SINGLE:
        return
    similarity = ALL_SIMILARITIES[name]
    call = {"function": FUNCTIONS[name], "class": similarity, "score": similarity.score}.get(form)
    if call is None:
        call = Truncated(similarity, 2, 2) if form == "truncated" else Nested(similarity, (1, 3)).scorings
    k = (1,) if name in SINGLE else (3,)
    raw = torch.randn(4, *k, 64) * 9, torch.randn(5, *k, 64)
    unit = [F.normalize(x, dim=-1) for x in raw]
    assert _warned(call, *raw) == _warned(call, unit[0], raw[1]) == (name not in ANY_LENGTH)
    own = [Embedding(x[:, 0]) if name in SINGLE else EmbeddingSet(x, torch.ones(x.shape[:2]).bool()) for x in raw]
    for fine in (unit, [x.bfloat16() for x in unit], [x.half() for x in unit], [x.numpy() for x in unit], own):
        assert not _warned(call, *fine)
    if form == "function" and name in NORMALISES:
        assert not _warned(partial(call, normalise=True), *raw)
        assert_close(call(*raw, normalise=True), call(*unit))
        assert_close(call(*own, normalise=True), call(*unit))
        assert_close(as_similarity(partial(call, normalise=True))(*raw), call(*unit))


def test_zeros_and_padding_are_of_no_length_and_other_functions_take_any():
    x = F.normalize(torch.randn(3, 2, 64), dim=-1)
    x[0, 1], x[1, 1] = 0.0, 1e3
    mask = torch.tensor([[1, 1], [1, 0], [1, 1]])
    assert not _warned(partial(smooth_chamfer, image_mask=mask, caption_mask=mask), x, x)
    assert _warned(smooth_chamfer, x, x) and not _warned(mmd, x, x)


@pytest.mark.parametrize("name", [*SETS, *CROSS])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.int8])
def test_masks_of_0_and_1_and_lists_of_tensors_are_sets(name, dtype):
    x, y = ragged(4, 3, seed=1), ragged(5, 4, seed=2)
    call, whole = ALL_SIMILARITIES[name], ALL_SIMILARITIES[name](x, y)
    masks = {"image_mask": x.mask.to(dtype), "caption_mask": y.mask.tolist()}
    assert torch.equal(call(x.x, y.x, **masks), whole)
    assert torch.equal(call(EmbeddingSet(x.x, x.mask.to(dtype)), y), whole)
    lists = [[own[m] for own, m in zip(s.x, s.mask, strict=True)] for s in (x, y)]
    assert_close(call(*lists), whole)
    assert_close(call([own.numpy() for own in lists[0]], tuple(lists[1])), whole)
    for wrong in (2 * x.mask.to(torch.int64), x.mask.float()):
        with pytest.raises(BadInput, match="mask"):
            call(x.x, y.x, image_mask=wrong, caption_mask=y.mask)
    for given_list, mask in ((lists[0], x.mask), ([lists[0][0], lists[0][1][:, :2]], None)):
        with pytest.raises(BadInput, match="one width"):
            call(given_list, y, image_mask=mask)
