"""Match probability of sets (MP): every pair of elements votes through a sigmoid."""

from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor, nn

from xmr_core.base.errors import BadInput
from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities.pairs import element_products, fill_padding, real_rows
from xmr_core.similarities.planes import planes


class MatchProbability(nn.Module):
    """s(I, T) = mean (or sum) over x ∈ I, y ∈ T of σ(a x·y + b).

    Args: a, b: scale and shift. learned: train them (the paper); fixed otherwise (the authors' code, X-46).
        reduction: 'mean' (code) or 'sum' (paper, X-45); they differ by k·l, which changes what a margin means.
    Shapes: "i k d", "t l d", ragged by mask → "i t", in (0, 1) for the mean.
    Raises: BadInput for another reduction.
    Source: Chun et al., CVPR 2021 (PCME) as used on sets in DivE, Table 3 ("MP").
    """

    def __init__(self, a: float = 1.0, b: float = 0.0, learned: bool = False, reduction: str = "mean"):
        super().__init__()
        if reduction not in ("mean", "sum"):
            raise BadInput(f"reduction must be 'mean' or 'sum', got {reduction!r}.")
        self.a = nn.Parameter(torch.tensor(float(a)), requires_grad=learned)
        self.b = nn.Parameter(torch.tensor(float(b)), requires_grad=learned)
        self.reduction = reduction

    def forward(self, images: EmbeddingSet, captions: EmbeddingSet) -> Float[Tensor, "i t"]:
        if (p := planes(images, captions)) is not None:
            total = reduce(Tensor.add_, (m.mul_(self.a).add_(self.b).sigmoid_() for row in p for m in row))
            return total if self.reduction == "sum" else total.div_(len(p) * len(p[0]))
        votes = (self.a * element_products(real_rows(images), real_rows(captions)) + self.b).sigmoid()
        total = fill_padding(votes, images, captions, 0.0).sum((1, 3))
        pairs = images.mask.sum(1)[:, None] * captions.mask.sum(1)[None, :]
        return total if self.reduction == "sum" else total / pairs.clamp(min=1)
