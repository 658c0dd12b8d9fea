"""Scores of small sets without padding, read from one matrix for each pair of elements (pair_matrices).

Every function gives "i t", or None where that form does not pay or does not hold and the plain form is to be taken.
"""

import math
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities._kernels.pair_matrices import pair_matrices
from xmr_core.similarities.pairs import PLAIN_EXPONENT, longest_row

_PLAIN_PRODUCT = 80.0  # e^±80 is still a float32: products of sums, of which one logarithm is taken instead of one each
_PLAIN_LOGIT = 80.0  # e^−80 is a float32 still


def smooth_chamfer_scores(images: EmbeddingSet, captions: EmbeddingSet, alpha: float) -> Float[Tensor, "i t"] | None:
    logits = pair_matrices(images, captions, alpha)
    if logits is None or (bound := _bound(logits, images.x, captions.x, alpha)) > PLAIN_EXPONENT:
        return None
    near = [[m.exp_() for m in row] for row in logits]
    total = 0.0
    for groups in (near, list(zip(*near, strict=True))):
        sums = (reduce(torch.add, group) for group in groups)
        if len(groups) * (bound + math.log(len(groups[0]))) <= _PLAIN_PRODUCT:
            logs = reduce(torch.mul, sums).log()
        else:
            logs = sum(s.log() for s in sums)
        total = logs.div_(len(groups)).add_(total)
    return total.div_(2 * alpha)


def chamfer_scores(images: EmbeddingSet, captions: EmbeddingSet) -> Float[Tensor, "i t"] | None:
    if (p := pair_matrices(images, captions)) is None:
        return None
    k, l = len(p), len(p[0])
    rows = sum((reduce(torch.maximum, row) for row in p), 0.0) / (2 * k)
    return rows.add_(sum(reduce(torch.maximum, column) for column in zip(*p, strict=True)), alpha=1 / (2 * l))


def max_pairwise_scores(images: EmbeddingSet, captions: EmbeddingSet) -> Float[Tensor, "i t"] | None:
    p = pair_matrices(images, captions)
    return None if p is None else reduce(torch.maximum, (m for row in p for m in row))


def match_probability_scores(
    images: EmbeddingSet, captions: EmbeddingSet, a: Tensor, b: Tensor, reduction: str
) -> Float[Tensor, "i t"] | None:
    if (p := pair_matrices(images, captions)) is None:
        return None
    total = reduce(Tensor.add_, (m.mul_(a).add_(b).sigmoid_() for row in p for m in row))
    return total if reduction == "sum" else total.div_(len(p) * len(p[0]))


def match_logit_scores(
    x: Float[Tensor, "i j d"], y: Float[Tensor, "t j d"], scale: float, shift: float, eps: float
) -> Float[Tensor, "i t"] | None:
    """Of samples, with logits shift − scale · distance. None also where a probability is too small for a plain sum."""
    sets = (EmbeddingSet(s, s.new_ones(s.shape[:2], dtype=torch.bool)) for s in (x, y))
    if (p := pair_matrices(*sets, -2.0)) is None:
        return None
    lengths = [torch.linalg.vector_norm(s, dim=-1).square() for s in (x, y)]
    farthest = sum(float(n.max()) ** 0.5 for n in lengths)
    if max(abs(shift), abs(shift - scale * farthest)) > _PLAIN_LOGIT:  # logits lie between
        return None
    yes = no = 0.0
    for m, row in enumerate(p):
        for n, products in enumerate(row):
            squares = products.add_(lengths[0][:, m, None]).add_(lengths[1][None, :, n]).clamp_(min=0)
            logits = squares.add_(eps).sqrt_().mul_(-scale).add_(shift)
            no = no + (-logits).sigmoid_()
            yes = yes + logits.sigmoid_()
    return yes.log_() - no.log_()


def _bound(logits: list[list[Tensor]], x: Tensor, y: Tensor, alpha: float) -> float:
    """A bound of |logit|: the largest, or that of the norms where these are fewer numbers to read."""
    if sum(m.numel() for row in logits for m in row) > x.numel() + y.numel():
        return alpha * longest_row(x) * longest_row(y)
    return max(float(m.abs().max()) if m.numel() else 0.0 for row in logits for m in row)
