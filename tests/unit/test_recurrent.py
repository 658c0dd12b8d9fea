"""GRUs over ragged items: the equation as a loop, torch's own packed, and gradients against differences."""

import pytest
import reference
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from xmr_core.base.recurrent import run_gru

LENGTHS = torch.tensor([2, 5, 1, 3])


def example(bidirectional: bool):
    torch.manual_seed(0)
    gru = nn.GRU(3, 2, batch_first=True, bidirectional=bidirectional).double()
    x = torch.randn(4, 6, 3, dtype=torch.float64)
    return gru, torch.where((mask := torch.arange(6) < LENGTHS[:, None])[..., None], x, torch.nan), mask


@pytest.mark.parametrize("bidirectional", [False, True])
def test_states_are_those_of_the_equation(bidirectional):
    gru, x, mask = example(bidirectional)
    states, last = run_gru(gru, x, mask)
    for item, length in enumerate(LENGTHS.tolist()):
        for way, (w, u, b, c) in enumerate(gru.all_weights):
            rows = x[item, :length].tolist()
            wanted = torch.tensor(reference.gru(rows[::-1] if way else rows, w, u, b, c), dtype=torch.float64)
            assert_close(last[way, item], wanted[-1])
            wanted = wanted.flip(0) if way else wanted
            assert_close(states[item, :length, 2 * way : 2 * way + 2], wanted)
        assert (states[item, length:] == 0).all()


@pytest.mark.parametrize("bidirectional", [False, True])
def test_gradients(bidirectional):
    gru, x, mask = example(bidirectional)
    x = x.nan_to_num(7.0).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, *_: run_gru(gru, x, mask), (x, *gru.parameters()))
    packed, last = gru(pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False))
    wanted = pad_packed_sequence(packed, batch_first=True, total_length=6)[0], last
    weights = [torch.randn_like(w) for w in wanted]
    both = [
        torch.autograd.grad(sum((o * w).sum() for o, w in zip(out, weights, strict=True)), (x, *gru.parameters()))
        for out in (wanted, run_gru(gru, x, mask))
    ]
    assert_close(both[1], both[0])
    assert (both[1][0][~mask] == 0).all()
