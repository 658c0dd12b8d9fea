"""Heads against their equations, item by item without padding, and what they promise about padding and bad input."""

import math
from functools import partial

import pytest
import reference
import torch
from torch.testing import assert_close

from xmr_core.base.errors import BadInput
from xmr_core.base.types import EmbeddingSet, Features, GaussianEmbedding
from xmr_core.heads.gaussian import GaussianHead
from xmr_core.heads.gpo import GPOHead, sorted_channels
from xmr_core.heads.pooling import AGGREGATORS, AdaptivePoolHead, GlobalHead, MaxPool, MeanPool, aggregator
from xmr_core.heads.slots import PIENet, SlotHead, sine_1d, sine_2d
from xmr_core.heads.tokens import GlobalTokenHead, TokenHead

POOLINGS = [name for name in AGGREGATORS if name not in ("gpo", "mean", "max")]  # those three stand for themselves
SMALL_SLOTS = partial(SlotHead, 6, 8, slots=3, iterations=3, heads=2, head_width=5, ff_mult=2)
HEADS = {
    "mean": partial(MeanPool, 6, 8),
    "max": partial(MaxPool, 6, 8),
    "pie-net": partial(PIENet, 6, 8, slots=3),
    "slots": SMALL_SLOTS,
    "slots on words": partial(SMALL_SLOTS, positions="sine1d"),
    "transformer": partial(SMALL_SLOTS, softmax_over="inputs"),
    "gru": partial(SMALL_SLOTS, update="gru"),
    "sampled": partial(SMALL_SLOTS, query="sampled"),
    "unshared": partial(SMALL_SLOTS, weight_sharing=False),
    "unshared on words": partial(SMALL_SLOTS, weight_sharing=False, positions="sine1d"),
    "unshared gru": partial(SMALL_SLOTS, weight_sharing=False, update="gru"),
    "gpo": partial(GPOHead, 6, 8, d_pe=4, d_hidden=3),
    "adpool": partial(AdaptivePoolHead, 6, 8),
    "adpool of the paper": partial(AdaptivePoolHead, 6, 8, token_weights="scalar"),
    **{name: partial(aggregator, name, 6, 8) for name in POOLINGS},
    "tokens": partial(TokenHead, 6, 8),
    "tokens and whole": partial(GlobalTokenHead, 6, 8),
    "gaussian": partial(GaussianHead, 6, 8, samples=3),
    "gaussian of pooled": partial(GaussianHead, 6, 8, "pooled", samples=3),
    "gaussian, isotropic": partial(GaussianHead, 6, 8, samples=3, spread="isotropic", squash=True),
}
every = pytest.mark.parametrize("name", HEADS)
# a bias added to every input of a softmax cancels; so does that of the queries where slots compete
UNTRAINED = {
    **{key: ["norm_query.bias"] for key in ("slots", "slots on words", "gru", "sampled")},
    **{f"unshared{key}": [f"blocks.{t}.norm_query.bias" for t in range(3)] for key in ("", " on words", " gru")},
    "adpool": ["balance.bias"],
    "adpool of the paper": ["linear.bias", "balance.bias"],
    "tokens and whole": ["common.bias"],
}


def value(out) -> torch.Tensor:
    """All that a head says of an item, items first."""
    return out.x if hasattr(out, "x") else torch.cat([out.mean, out.log_std, out.samples.flatten(1)], 1)


def features(n: int = 5, l: int = 9, seed: int = 0) -> Features:
    """Ragged items with leading real elements, one of full length and one of length 1."""
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, l, (n,), generator=g)
    lengths[0], lengths[-1] = l, 1
    x, whole = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((n, l, 6), (n, 8)))
    return Features(x, torch.arange(l)[None] < lengths[:, None], whole)


def head_of(name: str):
    torch.manual_seed(1)
    head = HEADS[name]().double().eval()
    for p in head.parameters():  # nothing may sit at its initial 0 or 1
        p.data += 0.3 * torch.randn_like(p)
    return head


def arrays(module) -> dict:
    return {k: v.detach().numpy() for k, v in module.state_dict().items()}


def items(given: Features):
    for x, m, g in zip(given.local_feats, given.mask, given.global_feat, strict=True):
        yield list(x[m].numpy()), g.numpy()


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("name", ["mean", "max"])
def test_pooling_equals_the_loop(name, normalise):
    head = HEADS[name](normalise=normalise).double()
    w, given = arrays(head), features()
    for out, (x, _) in zip(head(given).x, items(given), strict=True):
        pooled = sum(x) / len(x) if name == "mean" else [max(row[c] for row in x) for c in range(6)]
        wanted = w["project.weight"] @ pooled + w["project.bias"]
        assert_close(out.detach().numpy(), reference.unit(wanted) if normalise else wanted)


def test_pooling_without_projection_is_the_pooled_vector():
    given = features()
    assert_close(MeanPool(6, 6, projection=False, normalise=False)(given).x[-1], given.local_feats[-1, 0])
    with pytest.raises(BadInput, match="without a projection the pooled width 6"):
        MaxPool(6, 8, projection=False)


def test_global_head():
    x = torch.tensor([[3.0, -4.0]])
    given = Features(x[:, None], torch.ones(1, 1, dtype=torch.bool), x)
    assert_close(GlobalHead()(given).x, torch.tensor([[0.6, -0.8]]))
    assert_close(GlobalHead(absolute=True)(given).x, torch.tensor([[0.6, 0.8]]))
    assert_close(GlobalHead(normalise=False)(given).x, x)


def test_pie_net_equals_the_loop():
    head, given = head_of("pie-net"), features()
    out = head(given)
    for x, r, (local, whole) in zip(out.x, out.residual, items(given), strict=True):
        elements, residuals = reference.pie_net(arrays(head), local, whole)
        assert_close(x.detach().numpy(), elements)
        assert_close(r.detach().numpy(), residuals)


@pytest.mark.parametrize("name", ["slots", "slots on words", "transformer", "unshared", "unshared on words"])
def test_slots_equal_the_loop_on_each_item_alone(name):
    head, given = head_of(name), features()
    out = head(given)
    for x, r, (local, whole) in zip(out.x, out.residual, items(given), strict=True):
        angles = [2 * math.pi * p / (len(local) + 1e-6) for p in range(1, len(local) + 1)]
        places = [reference.sine_code(a, 6) for a in angles] if name.endswith("on words") else None
        over = "inputs" if name == "transformer" else "slots"
        elements, prediction = reference.slots(arrays(head), local, whole, 3, 2, places, over)
        assert_close(x.detach().numpy(), elements)
        assert_close(r.detach().numpy(), prediction)


def test_2d_positions_code_row_then_column():
    code = sine_2d(9, 8, torch.device("cpu"), torch.float64)[0]
    for cell in range(9):
        row, column = (2 * math.pi * (at + 1) / (3 + 1e-6) for at in divmod(cell, 3))
        assert_close(code[cell, :4].numpy(), reference.sine_code(row, 4))
        assert_close(code[cell, 4:].numpy(), reference.sine_code(column, 4))


def test_official_positions_depend_on_the_longest_caption_ours_do_not():
    mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
    own, padded = (sine_1d(mask, 6, torch.float64, by_own_length=own) for own in (True, False))
    assert_close(own[1, :2], sine_1d(mask[1:, :2], 6, torch.float64)[0])
    assert_close(own[0], padded[0])
    assert (own[1, :2] - padded[1, :2]).abs().max() > 0.1


@every
def test_elements_are_unit_vectors_and_fields_are_complete(name):
    given = features()
    out = head_of(name)(given)
    if isinstance(out, GaussianEmbedding):
        assert_close(out.mean.norm(dim=-1), torch.ones(5, dtype=torch.float64))
        assert out.log_std.shape == (5, 8) and out.samples.shape == (5, 3, 8)
        return
    real = out.mask if isinstance(out, EmbeddingSet) else ...
    assert_close(out.x.norm(dim=-1)[real], torch.ones_like(out.x[..., 0])[real])
    if name.startswith("tokens"):
        assert torch.equal(out.mask[:, -given.mask.shape[1] :], given.mask) and out.x.shape[1] == given.mask.shape[
            1
        ] + (name != "tokens")
    elif isinstance(out, EmbeddingSet):
        assert out.x.shape == out.residual.shape == (5, 3, 8) and out.mask.all()
        assert_close(out.attention.sum(-1), torch.ones(5, 3, dtype=torch.float64), rtol=0, atol=1e-4)
        assert (out.attention * ~given.mask[:, None] == 0).all()


@every
@pytest.mark.parametrize("junk", [1e3, 1e30])
def test_padding_has_no_say_and_gets_no_gradient(name, junk):
    head, given, found = head_of(name).float(), features(), []
    for fill in (0.0, junk):
        x = torch.where(given.mask[..., None], given.local_feats, fill).float().requires_grad_()
        out = value(head(Features(x, given.mask, given.global_feat.float())))
        (grad,) = torch.autograd.grad((out * torch.linspace(-1, 2, out.numel()).view_as(out)).sum(), x)
        assert (grad[~given.mask] == 0).all()
        found.append((out, grad))
    assert_close(*found)


@every
def test_more_padding_changes_nothing(name):
    head, given = head_of(name), features()
    longer = Features(
        torch.cat([given.local_feats, torch.ones(5, 4, 6)], 1).double(),
        torch.cat([given.mask, torch.zeros(5, 4, dtype=torch.bool)], 1),
        given.global_feat,
    )
    got, wanted = value(head(longer)), value(head(given))
    assert_close(got[:, : wanted.shape[1]], wanted)


def test_official_padding_does_change_the_slots():
    """The leak of the authors' code (X-43) is reproduced, not mended by accident."""
    torch.manual_seed(0)
    head, given = SMALL_SLOTS(padding="official").double().eval(), features()
    shorter = Features(given.local_feats[1:, :-1], given.mask[1:, :-1], given.global_feat[1:])
    assert not given.mask[1:, -1].any()
    assert (head(given).residual[1:] - head(shorter).residual).abs().max() > 1e-3


@every
def test_gradients_are_those_of_the_formula(name):
    head, given = head_of(name), features(2, 3)
    f = lambda x: value(head(Features(x, given.mask, given.global_feat)))  # noqa: E731
    assert torch.autograd.gradcheck(f, given.local_feats.clone().requires_grad_(), fast_mode=True)


@every
def test_every_parameter_is_trained(name):
    head = head_of(name).train()
    out = value(head(features()))
    (out * torch.randn_like(out)).sum().backward()
    silent = [key for key, p in head.named_parameters() if p.grad is None or not p.grad.abs().max() > 1e-12]
    assert silent == UNTRAINED.get(name, [])


@every
def test_an_item_without_a_real_element_is_refused(name):
    given = features()
    given.mask[2] = False
    with pytest.raises(BadInput, match="item 2 has no valid element"):
        head_of(name)(given)


@every
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused_unless_they_are_padding(name, bad):
    given, head = features(), head_of(name)
    wanted = value(head(given))
    given.local_feats[~given.mask] = bad
    assert_close(value(head(given)), wanted)
    given.local_feats[1, 1, 3] = bad
    with pytest.raises(BadInput, match="element 1 of item 1 is NaN or infinite"):
        head(given)


@pytest.mark.parametrize(
    "head", [GlobalHead(), PIENet(6, 8, 2).double(), SMALL_SLOTS().double(), GaussianHead(6, 8).double()]
)
def test_a_whole_vector_that_is_not_finite_is_refused(head):
    given = features()
    given.global_feat[3, 0] = math.nan
    with pytest.raises(BadInput, match="vector of item 3 is NaN or infinite"):
        head(given)


def test_attention_maps_of_all_rounds():
    head, given = head_of("slots"), features()
    over_slots, normalised = head.attention_maps(given)
    assert over_slots.shape == normalised.shape == (5, 3, 2, 3, 9)  # n rounds heads k l
    assert_close(over_slots.sum(3), given.mask[:, None, None].expand(5, 3, 2, 9).double())
    assert_close(normalised[:, -1].mean(1), head(given).attention)


def test_sampled_slots_are_random_in_training_only():
    head, given = head_of("sampled"), features()
    found = head(given).x
    assert_close(found, head(given).x)
    assert_close(found[2:3], head(given[2:3]).x)  # one draw for all items
    assert (found[:, 0] - found[:, 1]).norm(dim=-1).min() > 1e-3, "slots that all start from the mean stay one"
    head.train()
    head.dropout.p = 0.0
    assert (head(given).x - head(given).x).abs().max() > 1e-3


def test_a_missing_global_feature_is_named():
    given = features()
    given = Features(given.local_feats, given.mask)
    for head in (GlobalHead(), PIENet(6, 8, 2).double(), SlotHead(6, 8, head_width=4).double()):
        with pytest.raises(BadInput, match="global feature"):
            head(given)
    assert SlotHead(6, 8, head_width=4, use_global=False).double()(given).x.isfinite().all()


@every
def test_heads_take_plain_tensors_and_arrays(name):
    given, head = features(), head_of(name)
    rest = (
        {"global_feat": given.global_feat}
        if hasattr(head, "layer_norm") or isinstance(head, SlotHead | GaussianHead)
        else {}
    )
    wanted = value(head(given))
    assert torch.equal(value(head(given.local_feats, given.mask, **rest)), wanted)
    arrays = {k: v.numpy() for k, v in rest.items()}
    assert torch.equal(value(head(given.local_feats.numpy(), given.mask.numpy(), **arrays)), wanted)


@every
@pytest.mark.parametrize(
    ("x", "mask", "message"),
    [
        (torch.ones(2, 6), None, "3 axes"),
        (torch.ones(2, 3, 6, dtype=torch.long), None, "floating-point"),
        (torch.ones(2, 3, 6), torch.ones(2, 3), "mask must be Boolean"),
        (torch.ones(2, 3, 5), None, "width 6"),
        (EmbeddingSet(torch.ones(2, 3, 6), torch.ones(2, 3, dtype=torch.bool)), None, "Features"),
    ],
)
def test_what_a_head_cannot_read_is_refused(name, x, mask, message):
    with pytest.raises(BadInput, match=message):
        HEADS[name]()(x, mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_channels_are_sorted_by_numpy_as_by_torch(dtype):
    torch.manual_seed(0)
    x, mask = torch.randn(3, 7, 5, dtype=dtype), torch.arange(7) < torch.tensor([[7], [1], [4]])
    given = [x.clone().requires_grad_() for _ in range(2)]
    weights = torch.randn_like(x)
    ours = sorted_channels(given[0], mask)
    torchs = torch.where(mask[..., None], given[1], -torch.inf).sort(dim=1, descending=True).values
    torchs = torch.where(mask[..., None], torchs, 0.0)
    assert torch.equal(ours, torchs)
    for out in (ours, torchs):
        (out * weights).sum().backward()
    assert torch.equal(*(x.grad for x in given))
