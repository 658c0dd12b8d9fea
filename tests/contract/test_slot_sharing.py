"""Slots with one block of weights in all rounds, or a block of their own in each (loops: tests/unit/test_heads.py)."""

from functools import partial

import pytest
import torch
from torch.testing import assert_close

from xmr_core.base.types import Features
from xmr_core.heads.slots import SlotHead

SMALL_SLOTS = partial(SlotHead, 6, 8, slots=3, iterations=3, heads=2, head_width=5, ff_mult=2)


def features() -> Features:
    """Items of 9, 4 and 1 real elements."""
    g = torch.Generator().manual_seed(0)
    x, global_feat = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((3, 9, 6), (3, 8)))
    return Features(x, torch.arange(9)[None] < torch.tensor([[9], [4], [1]]), global_feat)


@pytest.mark.parametrize("choice", [{}, {"update": "gru"}, {"query": "sampled"}, {"softmax_over": "inputs"}])
def test_unshared_rounds_with_equal_weights_are_shared_ones(choice):
    torch.manual_seed(1)
    shared = SMALL_SLOTS(**choice).double().eval()
    head, given = SMALL_SLOTS(weight_sharing=False, **choice).double().eval(), features()
    once = ("latents", "mean", "log_std", "norm_last", "norm_global")
    weights = shared.state_dict()
    of_block = {name: weight for name, weight in weights.items() if not name.startswith(once)}
    repeated = {f"blocks.{t}.{name}": weight for t in range(3) for name, weight in of_block.items()}
    head.load_state_dict({name: weight for name, weight in weights.items() if name.startswith(once)} | repeated)
    assert_close(head(given).x, shared(given).x)
    for maps, wanted in zip(head.attention_maps(given), shared.attention_maps(given), strict=True):
        assert_close(maps, wanted)
    for t in range(3):  # each round reads its own block
        name = f"blocks.{t}.ff_out.bias"
        head.load_state_dict(repeated | {name: repeated[name] + torch.linspace(-1, 1, 8)}, strict=False)
        change = (head.attention_maps(given)[0] - shared.attention_maps(given)[0]).abs().amax((0, 2, 3, 4))
        assert (change[: t + 1] < 1e-12).all() and (change[t + 1 :] > 1e-3).all()
        assert (head(given).x - shared(given).x).abs().max() > 1e-3


def test_shared_rounds_keep_their_names_and_their_draws():
    """Checkpoints are read by these names, and a seed gives the weights that it always gave."""
    torch.manual_seed(0)
    head = SMALL_SLOTS()
    assert [name for name, _ in head.named_parameters()] == [
        "latents", "norm_query.weight", "norm_query.bias", "norm_context.weight", "norm_context.bias", "to_q.weight",
        "to_k.weight", "to_v.weight", "to_out.weight", "to_out.bias", "norm_ff.weight", "norm_ff.bias", "ff_in.weight",
        "ff_in.bias", "ff_out.weight", "ff_out.bias", "norm_last.weight", "norm_last.bias", "norm_global.weight",
        "norm_global.bias",
    ]  # fmt: skip
    torch.manual_seed(0)
    drawn = torch.randn(3, 8), torch.nn.Linear(8, 10, bias=False).weight
    assert torch.equal(head.latents, drawn[0]) and torch.equal(head.to_q.weight, drawn[1])
    torch.manual_seed(0)
    first, second, third = SMALL_SLOTS(weight_sharing=False).blocks
    assert not torch.equal(first.to_q.weight, second.to_q.weight)
    assert not torch.equal(second.to_q.weight, third.to_q.weight)
