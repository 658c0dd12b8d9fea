"""GRUs over items of different lengths: over the words of captions, the ranks of a pooling, and regions."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence


def run_gru(gru: nn.GRU, x: Float[Tensor, "n l e"], mask: Bool[Tensor, "n l"]) -> tuple[Tensor, Tensor]:
    """(states "n l h", 0 on padding, forward beside backward; last state of each direction "directions n h") of a GRU
    of one layer that never reads padding.

        r, z = σ(W_r x + b_r + U_r h + c_r), σ(W_z x + b_z + U_z h + c_z)
        h̃ = tanh(W_n x + b_n + r ⊙ (U_n h + c_n)),   h ← h̃ + z ⊙ (h − h̃)

    Real elements stand first in every item. On a CPU both directions take a place in one step, with gradients by
    formula: at narrow states torch's own spends its time on operators. Elsewhere torch's own reads the items once as
    they are and once aligned at their ends, so that no length has to be known to the host.
    Source: Cho et al., EMNLP 2014, with the order of gates and the biases of torch.nn.GRU.

    >>> states, last = run_gru(nn.GRU(3, 2, batch_first=True), torch.rand(4, 5, 3), torch.ones(4, 5, dtype=torch.bool))
    >>> states.shape, torch.equal(states[:, -1], last[0])
    (torch.Size([4, 5, 2]), True)
    """
    (n, l, _), h, directions = x.shape, gru.hidden_size, 1 + gru.bidirectional
    places, lengths = torch.arange(l, device=x.device), mask.sum(1, keepdim=True)
    if x.device.type == "cpu":
        order = lengths[:, 0].argsort(descending=True, stable=True)  # at each place the first items have an element
        real = (lengths[order] > places).T  # l n
        item, place = order.expand(l, n)[real], places[:, None].expand(l, n)[real]
        rows = torch.stack([item * l + place, item * l + lengths[item, 0] - 1 - place][:directions])
        weights = [torch.stack(list(same)) for same in zip(*gru.all_weights, strict=True)]
        states = _States.apply(
            x.to(weights[0].dtype), rows, [count for count in real.sum(1).tolist() if count], *weights
        )
    else:
        x = torch.where(mask[..., None], x, 0.0)  # a gradient of 0 does not silence a NaN
        states = _padded_states(gru, x)
        if directions == 2:
            aligned = _padded_states(gru, _in_order(x, (places - l + lengths) % l))
            states = torch.cat([states[..., :h], _in_order(aligned[..., h:], (places - lengths) % l)], -1)
        states = torch.where(mask[..., None], states, 0.0)
    return states, torch.stack([at_last(states[..., :h], mask), states[:, 0, h:]][:directions])


def at_last(states: Float[Tensor, "n l h"], mask: Bool[Tensor, "n l"]) -> Float[Tensor, "n h"]:
    """Those of the last real element of each item."""
    return _in_order(states, mask.sum(1, keepdim=True) - 1)[:, 0]


def _in_order(x: Float[Tensor, "n l h"], places: Tensor) -> Float[Tensor, "n k h"]:
    return x.gather(1, places[..., None].expand(-1, -1, x.shape[-1]))


def _padded_states(gru: nn.GRU, x: Float[Tensor, "n l e"]) -> Float[Tensor, "n l h"]:
    """torch's own states over all elements, padding too."""
    n, l, _ = x.shape
    packed = PackedSequence(x.transpose(0, 1).flatten(0, 1), torch.full((l,), n))
    return gru(packed)[0].data.unflatten(0, (l, n)).transpose(0, 1)


class _States(Function):
    """States "n l wh" of the directions w, each with its own weights "w 3h e", "w 3h h", "w 3h", "w 3h".

    rows "w p": the real elements of x as each direction reads them: those that come first in all items, the longest
    item first, then the second ones, … counts: how many there are of each.
    Backwards, what is left of a gradient dh after a place is dh times numbers that do not depend on it, taken of all
    places at once:   towards z  (h − h̃) z (1 − z),   towards h̃ before its tanh  ν = (1 − z)(1 − h̃²),   towards r
    ν (U_n h + c_n) r (1 − r),   and towards U_n h + c_n  ν r. Only first derivatives are defined.
    """

    @staticmethod
    def forward(ctx, x, rows, counts, w, u, b, c):
        directions, _, h = u.shape
        with torch.autocast("cpu", enabled=False):
            inputs = x.flatten(0, 1).index_select(0, rows.flatten()).view(*rows.shape, -1)  # w p e
            input_gates = torch.baddbmm(b[:, None], inputs, w.transpose(1, 2))
            gates, hidden_gates = input_gates[..., : 2 * h], torch.empty_like(input_gates)  # gates: r and z
            candidates, states = inputs.new_empty(2, *rows.shape, h)
            u_t, c, before = u.transpose(1, 2).contiguous(), c[:, None], inputs.new_zeros(directions, counts[0], h)
            parts = hidden_gates, gates, input_gates[..., 2 * h :], candidates, states
            for n, hidden, gate, from_input, candidate, state in zip(
                counts, *(part.split(counts, 1) for part in parts), strict=True
            ):
                before = before[:, :n]
                torch.baddbmm(c, before, u_t, out=hidden)
                gate.add_(hidden[..., : 2 * h]).sigmoid_()
                torch.addcmul(from_input, gate[..., :h], hidden[..., 2 * h :], out=candidate).tanh_()
                before = torch.lerp(candidate, before, gate[..., h:], out=state)
            out = x.new_zeros(x.shape[0] * x.shape[1], directions, h)
            for way in range(directions):
                out[rows[way], way] = states[way]
        ctx.counts, ctx.shape = counts, x.shape
        ctx.save_for_backward(rows, inputs, w, u, hidden_gates[..., 2 * h :], gates, candidates, states)
        return out.view(*x.shape[:2], directions * h)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        rows, inputs, w, u, hidden, gates, candidates, states = ctx.saved_tensors
        counts, (directions, _, h) = ctx.counts, candidates.shape
        with torch.autocast("cpu", enabled=False):
            grad = grad.reshape(-1, directions, h)
            grads = torch.stack([grad[:, way].index_select(0, rows[way]) for way in range(directions)])
            firsts = states.split(counts, 1)
            earlier = (state[:, :n] for state, n in zip(firsts[:-1], counts[1:], strict=True))
            before = torch.cat([torch.zeros_like(firsts[0]), *earlier], 1)
            r, z = gates.split(h, -1)
            slope, of_candidate = gates * (1 - gates), (1 - z).mul_(1 - candidates * candidates)
            of_r, of_z = slope[..., :h] * hidden * of_candidate, slope[..., h:] * (before - candidates)
            factors = torch.stack([of_r, of_z, r * of_candidate, of_candidate], 2)
            left = inputs.new_zeros(directions, counts[0], h)
            parts = [part.split(counts, 1) for part in (grads, factors, z)]
            for n, own_grad, factor, update in reversed(list(zip(counts, *parts, strict=True))):
                own_grad += left[:, :n]
                factor.mul_(own_grad[:, :, None])
                torch.baddbmm(own_grad.mul_(update), factor[:, :, :3].flatten(2), u, out=left[:, :n])
            of_hidden = factors[:, :, :3].flatten(2)
            of_input = torch.cat([factors[:, :, :2], factors[:, :, 3:]], 2).flatten(2)
            of_w, of_u = torch.bmm(of_input.transpose(1, 2), inputs), torch.bmm(of_hidden.transpose(1, 2), before)
            of_inputs, of_x = torch.bmm(of_input, w), inputs.new_zeros(ctx.shape).flatten(0, 1)
            for way in range(directions):
                of_x.index_add_(0, rows[way], of_inputs[way])
        return of_x.view(ctx.shape), None, None, of_w, of_u, of_input.sum(1), of_hidden.sum(1)
