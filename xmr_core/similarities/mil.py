"""Multiple-instance similarity: the best pair of elements decides."""

import math
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities.pairs import element_products, fill_padding, real_rows
from xmr_core.similarities.planes import planes


def max_pairwise(images: EmbeddingSet, captions: EmbeddingSet) -> Float[Tensor, "i t"]:
    """s(I, T) = max over x ∈ I, y ∈ T of x·y, in [−1, 1]. Shapes: "i k d", "t l d", ragged by mask → "i t".

    Source: Song & Soleymani, CVPR 2019 (PVSE), "MIL"; DivE, Table 3.
    """
    if (p := planes(images, captions)) is not None:
        return reduce(torch.maximum, (m for row in p for m in row))
    products = element_products(real_rows(images), real_rows(captions))  # i k t l
    return fill_padding(products, images, captions, -math.inf).amax((1, 3))
