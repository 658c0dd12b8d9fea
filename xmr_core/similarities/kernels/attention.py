"""Stacked cross attention in blocks that stay in a processor's cache: for scoring, and for training with gradients by
formula."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from xmr_core.base.tensors import masked_softmax, may_branch
from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities.pairs import EPS, PLAIN_EXPONENT, real_rows

# scoring: query and context elements multiplied at a time, 7 MB in float32, three of which fit a large cache
_COLUMNS, _ROWS = 1536, 1152
_ALIGNED = 16  # floats in 64 bytes: products whose rows start there are much faster
# training: query elements of a block, which are also the columns of every matrix product in it, and the elements of its
# products, 0.8 MB in float32, read about fifteen times
_TRAINED_COLUMNS, _ELEMENTS = 512, 200_000
_ITEMS = 32  # query items of a block of SCAN at least: sums over q are made of runs of so many numbers


def by_blocks(*tensors: Tensor | None) -> bool:
    """Whether a gradient is wanted of tensors on a processor, where blocks in its cache save time. Other devices have
    none to save, and take the plain form."""
    present = [t for t in tensors if t is not None]
    return (
        any(t.requires_grad for t in present) and may_branch(*present) and all(t.is_cpu and t.numel() for t in present)
    )


@dataclass(frozen=True)
class Block:
    """The attention of the queries of some items over some context items.

    contexts, queries: which items. Queries lie position by position (q before a), so that what is summed over the words
    of a caption is whole rows. products: x_c · y_q. weights: attention before its division by its sum over c, at most
    `largest` in sum. divisor: ‖u‖ + 1e-8 of `attend`, "b c 1 a", where there is one. spare: memory.
    """

    contexts: slice
    queries: slice
    products: Float[Tensor, "b c q a"]
    weights: Float[Tensor, "b c q a"]
    spare: Float[Tensor, "b c q a"]
    divisor: Tensor | None
    largest: float


class Attention:
    """The attention of `attend` over blocks: `blocks` and `trained` go forward, `gradients` back."""

    def __init__(
        self, contexts: Bool[Tensor, "b c"], queries: Bool[Tensor, "a q"], sharpness: float, normalise: str, leak: float
    ):
        self.hidden = None if contexts.all() else ~contexts[:, :, None, None]
        self.queries, self.sharpness, self.leak = queries, sharpness, leak
        self.normalise, self.clipped = normalise, normalise.startswith("clipped")
        self.divided = normalise.endswith("l2norm")

    def blocks(
        self,
        x: Float[Tensor, "b c d"],
        y: Float[Tensor, "a q d"],
        parts: Iterable[tuple[slice, slice]],
        stored: bool = False,
    ) -> Iterator[Block]:
        """One block for each (queries, contexts) of `parts`. Unless stored, the next overwrites its tensors."""
        c, d, q = *x.shape[1:], y.shape[1]
        bound = 1.0  # of |û|: after a division by the norm, and after a softmax
        if not self.divided and self.normalise != "softmax":
            bound = float(x.norm(dim=-1).max() * y.norm(dim=-1).max())
        exponent = self.sharpness * bound
        shifted = exponent > PLAIN_EXPONENT
        largest = 1.0 * c if shifted else c * math.exp(exponent)
        last, memory = None, [x.new_empty(0)] * 3
        for queries, contexts in parts:
            if queries != last:
                last, flat = queries, flat_rows(y[queries])
            n = contexts.stop - contexts.start
            size = n * c * len(flat)
            memory = [x.new_empty(size) if (stored and k < 2) or len(m) < size else m for k, m in enumerate(memory)]
            products, weights, spare = (m[:size].view(n, c, q, -1) for m in memory)
            torch.mm(x[contexts].reshape(n * c, d), flat.T, out=products.view(n * c, -1))
            divisor = self._weigh(products, weights, spare, contexts, queries, shifted)
            yield Block(contexts, queries, products, weights, spare, divisor, largest)

    def trained(self, x: Float[Tensor, "b c d"], y: Float[Tensor, "a q d"], items: int = 1) -> list[Block]:
        """All pairs once, kept for `gradients`. items: query items of a block at least."""
        (b, c, _), (a, q, _) = x.shape, y.shape
        columns = parts_of(a, max(items, _TRAINED_COLUMNS // q))
        parts = ((m, n) for m in columns for n in parts_of(b, max(1, _ELEMENTS // (c * q * (m.stop - m.start)))))
        self.stored = list(self.blocks(x, y, parts, stored=True))
        return self.stored

    def gradients(self, x: Float[Tensor, "b c d"], y: Float[Tensor, "a q d"], step: Callable) -> tuple[Tensor, Tensor]:
        """Those towards x and y. step(block, its queries as rows, where their gradient is added up, where that of its
        contexts is) adds what does not go through the products, and returns the gradients towards the products and the
        Gram matrices of the contexts "b c c"."""
        of_x, of_y = torch.zeros_like(x), torch.zeros_like(y)
        c, d = x.shape[1:]
        for queries, blocks in itertools.groupby(self.stored, lambda block: block.queries):
            flat = flat_rows(y[queries])
            of_flat = torch.zeros_like(flat)
            for block in blocks:
                own, taken = of_x[block.contexts], x[block.contexts]
                of_products, of_gram = step(block, flat, of_flat, own)
                of_products = of_products.view(len(taken) * c, -1)
                own.view(-1, d).addmm_(of_products, flat)
                own.baddbmm_(of_gram, taken)
                of_flat.addmm_(of_products.T, taken.reshape(-1, d))
            of_y[queries].add_(of_flat.view(y.shape[1], -1, d).transpose(0, 1))
        return of_x, of_y

    def towards_products(self, block: Block, grad: Float[Tensor, "b c q a"]) -> Float[Tensor, "b c q a"]:
        """The gradient towards the products of that towards sharpness · û, which is overwritten.

        û = u / (r + ε), r = ‖u‖ over q:   du = dû / (r + ε) − u (Σ_q u · dû) / (r (r + ε)²)
        """
        if self.divided:
            u, s = block.products, block.divisor.reciprocal()
            u = F.leaky_relu(u, self.leak) if self.clipped else u
            smallest = torch.finfo(u.dtype).tiny
            along = (u * grad).sum(2, keepdim=True) / (block.divisor - EPS).clamp(min=smallest) * s.square()
            grad.mul_(s * self.sharpness).addcmul_(u, along, value=-self.sharpness)
        elif self.normalise == "softmax":
            normalised = masked_softmax(block.products, self.queries[block.queries].T[None, None], dim=2)
            grad.sub_((normalised * grad).sum(2, keepdim=True)).mul_(normalised).mul_(self.sharpness)
        else:
            grad.mul_(self.sharpness)
        if self.clipped:
            torch.ops.aten.leaky_relu_backward.grad_input(grad, block.products, self.leak, False, grad_input=grad)
        return grad

    def _weigh(
        self, products: Tensor, weights: Tensor, spare: Tensor, contexts: slice, queries: slice, shifted: bool
    ) -> Tensor | None:
        """Fill `weights` with exp(sharpness · û), 0 on padded contexts, up to a factor per query where that keeps it
        finite. Returns the divisor of û."""
        divisor, hidden = None, None if self.hidden is None else self.hidden[contexts]
        if self.clipped:
            torch.ops.aten.leaky_relu.out(products, self.leak, out=weights)
        else:
            weights.copy_(products)
        if self.divided:
            divisor = torch.mul(weights, weights, out=spare).sum(2, keepdim=True).sqrt_().add_(EPS)
            weights.mul_(divisor.reciprocal().mul_(self.sharpness))
        elif self.normalise == "softmax":
            weights.copy_(masked_softmax(weights, self.queries[queries].T[None, None], dim=2).mul_(self.sharpness))
        else:
            weights.mul_(self.sharpness)
        if shifted:
            seen = weights if hidden is None else torch.where(hidden, -math.inf, weights)
            weights.sub_(seen.amax(1, keepdim=True))
        weights.exp_()
        if hidden is not None:
            weights.masked_fill_(hidden, 0.0)
        return divisor


def attention_blocks(
    contexts: EmbeddingSet,
    queries: EmbeddingSet,
    sharpness: float,
    normalise: str,
    leak: float,
    columns: int = _COLUMNS,
    rows: int = _ROWS,
) -> Iterator[tuple[Block, Float[Tensor, "b q a"]]]:
    """The attention of `attend` (which says what the arguments mean) in small blocks, every pair of items once, without
    gradients; and ‖Σ_c weights x_c‖ of each, by wᵀ (X Xᵀ) w, so that no attended vector is formed."""
    x, y = real_rows(contexts), real_rows(queries)
    (b, c, _), (a, q, _) = x.shape, y.shape
    gram = torch.bmm(x, x.transpose(1, 2), out=x.new_empty(b, c, c))  # also under autocast
    parts = itertools.product(parts_of(a, max(1, columns // q), _ALIGNED), parts_of(b, max(1, rows // c)))
    for block in Attention(contexts.mask, queries.mask, sharpness, normalise, leak).blocks(x, y, parts):
        wide, spare = block.weights.flatten(2), block.spare.flatten(2)
        squares = torch.bmm(gram[block.contexts], wide, out=spare).mul_(wide).sum(1).clamp_(min=0)
        yield block, squares.sqrt_().unflatten(1, (q, -1))


def parts_of(n: int, most: int, multiple: int = 1) -> list[slice]:
    """n items in parts of nearly equal size, none larger than `most`; sizes are multiples of a number that fits, except
    the last."""
    size = -(-n // -(-n // most))
    size = min(most, -(-size // multiple) * multiple) if most >= multiple else size
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def flat_rows(y: Float[Tensor, "a q d"]) -> Float[Tensor, "qa d"]:
    """Elements position by position: the first ones of all items, then the second ones, …"""
    return y.transpose(0, 1).reshape(-1, y.shape[-1])


# What a query element attends to, with its gradient by formula: SCAN.


class AttendedTerms(Function):
    """(Σ_c w p, ‖Σ_c w x‖²), each "b q a", for all pairs of items, with p = x_c · y_q and the attention w of `attend`.

    x "b c d" and y "a q d" have zeros in place of padding. With G = X Xᵀ the second is wᵀ G w. Only first derivatives
    are defined. The products and the attention are stored for the backward pass, two arrays of pairs × contexts ×
    queries; everything else stands for one block at a time.
    Backwards, with gradients f and g of the two:   dw = f p + 2 g G w,   dp = f w + (through the softmax) w (dw − Σ w
    dw),   dX = dp Y + 2 (Σ g w wᵀ) X,   dY = dpᵀ X
    """

    @staticmethod
    def forward(ctx, x: Tensor, y: Tensor, attention: Attention) -> tuple[Tensor, Tensor]:
        shape = len(x), y.shape[1], len(y)
        with torch.autocast("cpu", enabled=False):
            gram, terms, squares = x @ x.transpose(1, 2), x.new_empty(shape), x.new_empty(shape)
            for block in attention.trained(x, y, _ITEMS):
                w = block.weights.div_(block.weights.sum(1, keepdim=True))
                spread = torch.bmm(gram[block.contexts], w.flatten(2)).view_as(w)
                squares[block.contexts, :, block.queries] = spread.mul_(w).sum(1)
                terms[block.contexts, :, block.queries] = torch.mul(w, block.products, out=spread).sum(1)
        ctx.attention = attention
        ctx.save_for_backward(x, y, gram, terms, squares)
        return terms, squares

    @staticmethod
    @once_differentiable
    def backward(ctx, of_terms, of_squares):
        x, y, gram, terms, squares = ctx.saved_tensors
        inner = of_terms * terms + 2 * of_squares * squares  # Σ w dw
        doubled = 2 * of_squares

        def step(block, flat, of_flat, own):
            rows, w, wide = block.contexts, block.weights, block.weights.flatten(2)
            f, g, total = (each[rows, None, :, block.queries] for each in (of_terms, doubled, inner))
            grad = torch.bmm(gram[rows], wide).view_as(w).mul_(g).addcmul_(block.products, f)
            grad = ctx.attention.towards_products(block, grad.sub_(total).mul_(w)).addcmul_(w, f)
            return grad, torch.bmm(w.mul(g).flatten(2), wide.transpose(1, 2))

        with torch.autocast("cpu", enabled=False):
            return *ctx.attention.gradients(x, y, step), None
