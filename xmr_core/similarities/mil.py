"""Multiple-instance similarity: the best pair of elements decides."""

import math

from jaxtyping import Float
from torch import Tensor

from xmr_core.base.plain_tensors import Comparable, as_sets
from xmr_core.similarities._kernels.set_scores import max_pairwise_scores
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.pairs import element_products, fill_padding, real_rows


def max_pairwise(images: Comparable, captions: Comparable, image_mask=None, caption_mask=None) -> Float[Tensor, "i t"]:
    """s(I, T) = max over x ∈ I, y ∈ T of x·y, in [−1, 1]. Shapes: "i k d", "t l d", ragged by mask → "i t".

    Source: Song & Soleymani, CVPR 2019 (PVSE), "MIL"; DivE, Table 3.

    >>> import torch
    >>> max_pairwise(torch.eye(2)[None], torch.tensor([[[0.6, 0.8]]]))
    tensor([[0.8000]])
    """
    images, captions = as_sets(images, captions, image_mask, caption_mask)
    products = element_products(real_rows(images), real_rows(captions))  # i k t l
    return fill_padding(products, images, captions, -math.inf).amax((1, 3))


class MaxPairwise(Similarity):
    """`max_pairwise` as a similarity. The two elements of the best pair add one half each; the others add nothing.

    >>> import torch
    >>> MaxPairwise().contributions(torch.eye(2)[None], torch.tensor([[[0.6, 0.8]]])).images.round(6)
    array([0. , 0.4])
    """

    function = staticmethod(max_pairwise)
    symmetric = True

    def _fast_scores(self, images, captions):
        return max_pairwise_scores(*as_sets(images, captions))

    def _parts(self, x, y):
        products = x @ y.T
        best = products == products.max()
        best &= best.flatten().cumsum(0).view_as(best) == 1  # one pair, should several be as good
        return (best * products / 2).sum(1), (best * products / 2).sum(0)
