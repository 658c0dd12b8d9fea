"""Match probability of sets (MP): every pair of elements votes through a sigmoid."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from xmr_core.base.checks import require_flag, require_number
from xmr_core.base.errors import BadInput
from xmr_core.base.plain_tensors import Comparable, as_sets
from xmr_core.similarities._kernels.set_scores import match_probability_scores
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.pairs import element_products, fill_padding, real_rows


class MatchProbability(Similarity):
    """s(I, T) = mean (or sum) over x ∈ I, y ∈ T of sigmoid(a x·y + b).

    Half of a vote counts for either of its two elements.

    Args: a, b: scale and shift. learned: train them (the paper); fixed otherwise (the authors' code,
        docs/differences.md#x-46). reduction: 'mean' (code) or 'sum' (paper, docs/differences.md#x-45); they differ by
        k·l, which changes what a margin means.
    Shapes: "i k d", "t l d", ragged by mask → "i t", in (0, 1) for the mean.
    Raises: BadInput for another reduction, a or b that is not finite, a that is not positive.
    Source: Chun et al., CVPR 2021 (PCME) as used on sets in DivE, Table 3 ("MP").

    >>> import torch
    >>> MatchProbability()(torch.eye(2), torch.tensor([[0.0, 1.0]])).round(decimals=4).flatten().tolist()
    [0.5, 0.7311000227928162]
    """

    symmetric = True

    def __init__(self, a: float = 1.0, b: float = 0.0, learned: bool = False, reduction: str = "mean"):
        require_number("a", a, above=0)
        require_number("b", b)
        require_flag("learned", learned)
        if reduction not in ("mean", "sum"):
            raise BadInput(f"reduction must be 'mean' or 'sum', got {reduction!r}.")
        super().__init__()
        self.a = nn.Parameter(torch.tensor(float(a)), requires_grad=learned)
        self.b = nn.Parameter(torch.tensor(float(b)), requires_grad=learned)
        self.reduction = reduction

    def forward(
        self, images: Comparable, captions: Comparable, image_mask=None, caption_mask=None
    ) -> Float[Tensor, "i t"]:
        images, captions = as_sets(images, captions, image_mask, caption_mask)
        votes = (self.a * element_products(real_rows(images), real_rows(captions)) + self.b).sigmoid()
        total = fill_padding(votes, images, captions, 0.0).sum((1, 3))
        pairs = images.mask.sum(1)[:, None] * captions.mask.sum(1)[None, :]
        return total if self.reduction == "sum" else total / pairs.clamp(min=1)

    def extra_repr(self) -> str:
        return f"a={self.a.item():g}, b={self.b.item():g}, reduction={self.reduction!r}"

    def _fast_scores(self, images, captions):
        return match_probability_scores(*as_sets(images, captions), self.a, self.b, self.reduction)

    def _parts(self, x, y):
        votes = (float(self.a) * (x @ y.T) + float(self.b)).sigmoid() / 2
        votes = votes if self.reduction == "sum" else votes / votes.numel()
        return votes.sum(1), votes.sum(0)
