"""Multiple-instance similarity: the best pair of elements decides."""

from jaxtyping import Float
from torch import Tensor

from xmr_core.similarities.pairs import element_masks, element_products
from xmr_core.masked import masked_max
from xmr_core.types import EmbeddingSet


def max_pairwise(images: EmbeddingSet, captions: EmbeddingSet) -> Float[Tensor, "i t"]:
    """s(I, T) = max over x ∈ I, y ∈ T of x·y, in [−1, 1]. Shapes: "i k d", "t l d", ragged by mask → "i t".

    Source: Song & Soleymani, CVPR 2019 (PVSE), "MIL"; DivE, Table 3.
    """
    products = element_products(images, captions)
    of_image, of_caption = element_masks(images, captions)
    return masked_max(masked_max(products, of_caption, dim=3, keepdim=True), of_image, dim=1).squeeze(-1)
