"""Stacked cross attention in blocks that stay in a processor's cache: for scoring, and for training by formula."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from xmr_core.base.tensors import masked_softmax
from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities.pairs import EPS, PLAIN_EXPONENT, real_rows, same_width

# query and context elements multiplied at a time: 7 MB in float32, three of which fit a large cache
_COLUMNS, _ROWS = 1536, 1152
_ALIGNED = 16  # floats in 64 bytes: products whose rows start there are much faster


@dataclass(frozen=True)
class AttentionBlock:
    """The attention of the queries of some items over some context items.

    Queries lie position by position (q before a), so that what is summed over the words of a caption is whole rows.
    products: x_c · y_q. weights: attention before its division by its sum over c, `totals()`, at most `largest`.
    lengths: ‖Σ_c weights x_c‖. contexts, queries: which items (rows and columns of the result). The tensors are
    overwritten by the next block.
    """

    products: Float[Tensor, "b c q a"]
    weights: Float[Tensor, "b c q a"]
    lengths: Float[Tensor, "b q a"]
    contexts: slice
    queries: slice
    largest: float


def attention_blocks(
    contexts: EmbeddingSet,
    queries: EmbeddingSet,
    sharpness: float,
    normalise: str,
    leak: float,
    columns: int = _COLUMNS,
    rows: int = _ROWS,
) -> Iterator[AttentionBlock]:
    """The attention of `attend` (which says what the arguments mean) in small blocks, every pair of items once.

    ‖Σ w_c x_c‖² = wᵀ (X Xᵀ) w: no attended vector is formed. Shapes: contexts "b c d", queries "a q d", ragged by mask.
    """
    x, y = real_rows(contexts), real_rows(queries)
    same_width(x, y)
    gram = torch.bmm(x, x.transpose(1, 2), out=x.new_empty(len(x), x.shape[1], x.shape[1]))  # also under autocast
    padding = None if contexts.mask.all() else ~contexts.mask
    (b, c, d), (a, q, _) = x.shape, y.shape
    exponent = sharpness * normalised_bound(x, y, normalise)
    shifted = exponent > PLAIN_EXPONENT
    largest = 1.0 * c if shifted else c * math.exp(exponent)
    b_parts, a_parts = parts_of(b, max(1, rows // c)), parts_of(a, max(1, columns // q), _ALIGNED)
    most = max(p.stop - p.start for p in b_parts) * c * max(p.stop - p.start for p in a_parts) * q
    buffers = [x.new_empty(most) for _ in range(3)]
    for a_part in a_parts:
        flat = y[a_part].transpose(0, 1).reshape(-1, d)  # (q a) d
        for b_part in b_parts:
            n, m = b_part.stop - b_part.start, a_part.stop - a_part.start
            size = n * c * q * m
            products, weights, spare = (each[:size].view(n, c, q, m) for each in buffers)
            torch.mm(x[b_part].reshape(n * c, d), flat.T, out=products.view(n * c, q * m))
            hidden = None if padding is None else padding[b_part][:, :, None, None]
            weigh(products, weights, spare, sharpness, normalise, leak, queries.mask[a_part], hidden, shifted)
            spread = weights.view(n, c, q * m)
            lengths = (
                torch.bmm(gram[b_part], spread, out=spare.view(n, c, q * m)).mul_(spread).sum(1).clamp_(min=0).sqrt_()
            )
            yield AttentionBlock(products, weights, lengths.view(n, q, m), b_part, a_part, largest)


def normalised_bound(x: Float[Tensor, "b c d"], y: Float[Tensor, "a q d"], normalise: str) -> float:
    """A bound of |û|: 1 after a division by the norm over the queries, and after a softmax; else that of a product."""
    if normalise.endswith("l2norm") or normalise == "softmax":
        return 1.0
    return float(x.norm(dim=-1).max() * y.norm(dim=-1).max())


def weigh(
    products: Tensor,
    weights: Tensor,
    spare: Tensor,
    sharpness: float,
    normalise: str,
    leak: float,
    real: Bool[Tensor, "a q"],
    hidden: Tensor | None,
    shifted: bool,
) -> Tensor | None:
    """Fill `weights` with exp(sharpness · û), 0 on padded contexts, up to a factor per query where that keeps it
    finite. Returns the divisor of û, ‖u‖ + 1e-8 "b c 1 a", where there is one."""
    divisor = None
    if normalise.startswith("clipped"):
        torch.ops.aten.leaky_relu.out(products, leak, out=weights)
    else:
        weights.copy_(products)
    if normalise.endswith("l2norm"):
        divisor = torch.mul(weights, weights, out=spare).sum(2, keepdim=True).sqrt_().add_(EPS)
        weights.mul_(divisor.reciprocal().mul_(sharpness))
    elif normalise == "softmax":
        weights.copy_(masked_softmax(weights, real.T[None, None], dim=2).mul_(sharpness))
    else:
        weights.mul_(sharpness)
    if shifted:
        seen = weights if hidden is None else torch.where(hidden, -math.inf, weights)
        weights.sub_(seen.amax(1, keepdim=True))
    weights.exp_()
    if hidden is not None:
        weights.masked_fill_(hidden, 0.0)
    return divisor


def parts_of(n: int, most: int, multiple: int = 1) -> list[slice]:
    """n items in parts of nearly equal size, none larger than `most`; sizes are multiples of a number that fits, except
    the last."""
    size = -(-n // -(-n // most))
    size = min(most, -(-size // multiple) * multiple) if most >= multiple else size
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


# What training with stacked cross attention is made of: blocks of pairs that stay in a processor's cache, and the
# gradient of their attention by formula.


_attention_gradient_COLUMNS = 512  # query elements of a block; also the columns of every matrix product in it
_ELEMENTS = 200_000  # of the products of a block: 0.8 MB in float32, read about fifteen times


def by_blocks(*tensors: Tensor | None) -> bool:
    """Whether a gradient is wanted of tensors on a processor, where blocks in its cache save time. Other devices have
    none to save, and take the plain form."""
    present = [t for t in tensors if t is not None]
    return any(t.requires_grad for t in present) and all(t.device.type == "cpu" and t.numel() for t in present)


@dataclass
class Block:
    """Contexts b against queries a: their products, and the attention that the next step needs.

    Queries lie position by position (q before a), as in AttentionBlock. weights: attention up to a factor per query.
    divisor: ‖u‖ + 1e-8 of `attend`, "b c 1 a".
    """

    contexts: slice
    queries: slice
    products: Float[Tensor, "b c q a"]
    weights: Float[Tensor, "b c q a"]
    divisor: Tensor | None


class Attention:
    """The attention of `attend` over blocks: `blocks` goes forward, `towards_products` back."""

    def __init__(
        self,
        contexts: Bool[Tensor, "b c"],
        queries: Bool[Tensor, "a q"],
        sharpness: float,
        normalise: str,
        leak: float,
        items: int = 1,
    ):
        """items: query items of a block at least; sums over q are made of runs of so many numbers."""
        self.hidden = None if contexts.all() else ~contexts[:, :, None, None]
        self.queries, self.sharpness, self.normalise, self.leak = queries, sharpness, normalise, leak
        self.items = items

    def blocks(self, x: Float[Tensor, "b c d"], y: Float[Tensor, "a q d"]) -> list[Block]:
        """All pairs, once. Weights are not divided by their sum over c."""
        (b, c, d), (a, q, _) = x.shape, y.shape
        shifted = self.sharpness * normalised_bound(x, y, self.normalise) > PLAIN_EXPONENT
        blocks, spare = [], x.new_empty(0)
        for columns in parts_of(a, max(self.items, _attention_gradient_COLUMNS // q)):
            flat = flat_rows(y[columns])
            m = columns.stop - columns.start
            for rows in parts_of(b, max(1, _ELEMENTS // (c * q * m))):
                n = rows.stop - rows.start
                products, weights = x.new_empty(n, c, q, m), x.new_empty(n, c, q, m)
                spare = weights.new_empty(weights.shape) if spare.shape != weights.shape else spare
                torch.mm(x[rows].reshape(n * c, d), flat.T, out=products.view(n * c, q * m))
                hidden = None if self.hidden is None else self.hidden[rows]
                real = self.queries[columns]
                form = self.sharpness, self.normalise, self.leak
                divisor = weigh(products, weights, spare, *form, real, hidden, shifted)
                blocks.append(Block(rows, columns, products, weights, divisor))
        return blocks

    def towards_products(self, block: Block, grad: Float[Tensor, "b c q a"]) -> Float[Tensor, "b c q a"]:
        """The gradient towards the products of that towards sharpness · û, which is overwritten.

        û = u / (r + ε), r = ‖u‖ over q:   du = dû / (r + ε) − u (Σ_q u · dû) / (r (r + ε)²)
        """
        if self.normalise.endswith("l2norm"):
            u, s = block.products, block.divisor.reciprocal()
            if self.normalise.startswith("clipped"):
                u = torch.nn.functional.leaky_relu(u, self.leak)
            smallest = torch.finfo(u.dtype).tiny
            along = (u * grad).sum(2, keepdim=True) / (block.divisor - EPS).clamp(min=smallest) * s.square()
            grad.mul_(s * self.sharpness).addcmul_(u, along, value=-self.sharpness)
        elif self.normalise == "softmax":
            normalised = masked_softmax(block.products, self.queries[block.queries].T[None, None], dim=2)
            along = (normalised * grad).sum(2, keepdim=True)
            grad.sub_(along).mul_(normalised).mul_(self.sharpness)
        else:
            grad.mul_(self.sharpness)
        if self.normalise.startswith("clipped"):
            torch.ops.aten.leaky_relu_backward.grad_input(grad, block.products, self.leak, False, grad_input=grad)
        return grad


def by_queries(
    blocks: list[Block], y: Float[Tensor, "a q d"], of_y: Float[Tensor, "a q d"]
) -> Iterator[tuple[Block, Float[Tensor, "qa d"], Float[Tensor, "qa d"]]]:
    """(block, its query elements as rows, where their gradient is added up); sums go to of_y when their queries end."""
    last, flat, total = None, None, None
    for block in blocks:
        if block.queries != last:
            if last is not None:
                add_rows(of_y[last], total)
            last, flat = block.queries, flat_rows(y[block.queries])
            total = torch.zeros_like(flat)
        yield block, flat, total
    if last is not None:
        add_rows(of_y[last], total)


def flat_rows(y: Float[Tensor, "a q d"]) -> Float[Tensor, "qa d"]:
    """Elements position by position: the first ones of all items, then the second ones, …"""
    return y.transpose(0, 1).reshape(-1, y.shape[-1])


def add_rows(total: Float[Tensor, "a q d"], rows: Float[Tensor, "qa d"]) -> None:
    """total += rows, back in the order of the items."""
    a, q, d = total.shape
    total.add_(rows.view(q, a, d).transpose(0, 1))


# A weighted mean of the nodes of many pairs, where the weights come from the nodes, with its gradient by formula.


_filtration_gradient_ELEMENTS = 200_000  # of the nodes of a block: 0.8 MB in float32


class _Filtered(Function):
    """Σ_n β_n 𝒩_n with β = trust(𝒩 w + b).

    Backwards, with gradient g:   dβ_n = g · 𝒩_n,   dv by autograd from β(v),   d𝒩_n = β_n g + dv_n w. The arrays of
    autograd have one number for a node; those of its width are passed over once.
    """

    @staticmethod
    def forward(ctx, nodes, weight, bias, trust, *parameters):
        with torch.autocast("cpu", enabled=False):
            values = torch.cat([nodes[part] @ weight for part in _parts(nodes)]).add_(bias).requires_grad_()
            with torch.enable_grad():
                beta = trust(values)
            weights = beta.detach()
            out = torch.cat([(weights[part][..., None, :] @ nodes[part]).squeeze(-2) for part in _parts(nodes)])
        ctx.graph = values, beta, parameters
        ctx.save_for_backward(nodes, weight, weights)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        nodes, weight, weights = ctx.saved_tensors
        values, beta, parameters = ctx.graph
        of_nodes, of_weight, parts = torch.empty_like(nodes), torch.zeros_like(weight), _parts(nodes)
        with torch.autocast("cpu", enabled=False):
            of_beta = torch.cat([torch.linalg.vecdot(nodes[part], grad[part][..., None, :]) for part in parts])
            learned = [p for p in parameters if p.requires_grad]
            of_values, *rest = torch.autograd.grad(beta, (values, *learned), of_beta, retain_graph=True)
            of_parameters = [rest.pop(0) if p.requires_grad else None for p in parameters]
            for part in parts:
                v, g = of_values[part], grad[part][..., None, :]
                of_weight.addmv_(nodes[part].reshape(-1, len(weight)).T, v.flatten())
                torch.mul(weights[part][..., None], g, out=of_nodes[part]).addcmul_(v[..., None], weight)
        return of_nodes, of_weight, of_values.sum(), None, *of_parameters


def filtered(
    nodes: Float[Tensor, "i t n m"],
    layer: torch.nn.Linear,
    trust: Callable[[Float[Tensor, "i t n"]], Float[Tensor, "i t n"]],
    parameters: tuple[Tensor, ...],
) -> Float[Tensor, "i t m"]:
    """Σ_n β_n 𝒩_n with β = trust(layer(𝒩)); parameters: those that `trust` reads.

    `trust` is called once. Only first derivatives are defined. Source: SGRAF, eq. 9.
    """
    return _Filtered.apply(nodes, layer.weight[0], layer.bias[0], trust, *parameters)


def _parts(nodes: Tensor) -> list[slice]:
    """Which images are taken at a time."""
    return parts_of(len(nodes), max(1, _filtration_gradient_ELEMENTS // nodes[0].numel()))
