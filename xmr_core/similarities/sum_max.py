"""Late interaction: every query element counts its best partner."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.checks import require_choice
from xmr_core.base.plain_tensors import Comparable, as_sets
from xmr_core.similarities.base import DIRECTIONS, Similarity, roles
from xmr_core.similarities.pairs import element_products, fill_padding, real_rows


def sum_max(
    images: Comparable, captions: Comparable, direction: str = "t2i", image_mask=None, caption_mask=None
) -> Float[Tensor, "i t"]:
    """Each query element counts its best partner: t2i Σ_words max_regions x·y, i2t Σ_regions max_words x·y.

    Returns: "i t", in ±(number of queries). Raises: BadInput for another direction.
    Source: SCAN, Table 3 ("sum-max", after Karpathy & Fei-Fei, CVPR 2015); not in the authors' code.

    >>> import torch
    >>> sum_max(torch.eye(2)[None], torch.eye(2)[None])
    tensor([[2.]])
    """
    contexts, queries = roles(*as_sets(images, captions, image_mask, caption_mask), direction)
    products = element_products(real_rows(contexts), real_rows(queries))
    best = fill_padding(products, contexts, queries, -math.inf).amax(1)  # b a q
    scores = torch.where(queries.mask, best, 0.0).sum(2)
    return scores if direction == "t2i" else scores.T


class SumMax(Similarity):
    """`sum_max` as a similarity. Each query element adds its own term; the elements that it is compared with add
    nothing.

    >>> SumMax("i2t").direction
    'i2t'
    """

    function = staticmethod(sum_max)
    compares = "tokens"

    def __init__(self, direction: str = "t2i"):
        require_choice("direction", direction, DIRECTIONS)
        super().__init__(direction=direction)
        self.direction = direction

    def _parts(self, x, y):
        products = x @ y.T
        if self.direction == "t2i":
            return products.new_zeros(len(x)), products.amax(0)
        return products.amax(1), products.new_zeros(len(y))
