"""What training with stacked cross attention is made of: blocks of pairs that stay in a processor's cache, and the
gradient of their attention by formula."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from xmr_core.base.masked import masked_softmax
from xmr_core.similarities._kernels.attention_blocks import normalised_bound, parts_of, weigh
from xmr_core.similarities.attend import EPS
from xmr_core.similarities.pairs import PLAIN_EXPONENT

_COLUMNS = 512  # query elements of a block; also the columns of every matrix product in it
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
        for columns in parts_of(a, max(self.items, _COLUMNS // q)):
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
