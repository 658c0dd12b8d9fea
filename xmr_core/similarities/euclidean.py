"""Smooth-Chamfer on Euclidean distances instead of cosines."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.plain_tensors import Comparable, as_sets
from xmr_core.similarities.base import Range, Similarity
from xmr_core.similarities.chamfer import check_alpha, smooth_parts
from xmr_core.similarities.pairs import (
    by_images,
    fill_padding,
    mean_over_captions_elements,
    mean_over_images_elements,
    real_rows,
    same_width,
)


def euclidean_smooth_chamfer(
    images: Comparable, captions: Comparable, alpha: float = 16.0, image_mask=None, caption_mask=None
) -> Float[Tensor, "i t"]:
    """s(I, T) = 1/(2α|I|) Σ_x log Σ_y e^{−α‖x−y‖} + 1/(2α|T|) Σ_y log Σ_x e^{−α‖x−y‖}: minus a smooth Chamfer distance.

    Args: images "i k d", captions "t l d", ragged by mask; any length of rows. alpha: inverse of a length, > 0.
    Returns: "i t", larger is more alike; at most (log k + log l)/2α. The gradient of ‖x − y‖ at x = y is taken as 0.
    Raises: BadInput unless alpha is positive and finite, for two widths or a set without a real element.
    Source: an option in DivE's code that its paper does not use (Kim, Kim & Kwak, CVPR 2023), where it is a distance:
        the minus of this.

    >>> import torch
    >>> euclidean_smooth_chamfer(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]))
    tensor([[-5.]])
    """
    check_alpha(alpha)
    images, captions = as_sets(images, captions, image_mask, caption_mask)
    x, y = real_rows(images), real_rows(captions)
    same_width(x, y)
    near = fill_padding(-alpha * _distances(x, y), images, captions, -math.inf)
    total = mean_over_images_elements(near.logsumexp(3), images) + mean_over_captions_elements(
        near.logsumexp(1), captions
    )
    return total / (2 * alpha)


class EuclideanSmoothChamfer(Similarity):
    """`euclidean_smooth_chamfer` as a similarity. An element adds its own term of the sum.

    >>> EuclideanSmoothChamfer(alpha=4.0)
    EuclideanSmoothChamfer(alpha=4.0)
    """

    function = staticmethod(euclidean_smooth_chamfer)
    symmetric = True
    ranges = {"alpha": Range(1.0, 128.0, "α")}

    def __init__(self, alpha: float = 16.0):
        check_alpha(alpha)
        super().__init__(alpha=float(alpha))

    def _fast_scores(self, images, captions):
        images, captions = as_sets(images, captions)
        return by_images(self.forward, images, captions, captions.x.numel() * images.x.shape[1])

    def _parts(self, x, y):
        return smooth_parts(-_distances(x[None], y[None])[0, :, 0], self.options["alpha"])


def _distances(x: Float[Tensor, "i k d"], y: Float[Tensor, "t l d"]) -> Float[Tensor, "i k t l"]:
    """From differences, not from ‖x‖² + ‖y‖² − 2x·y: near 0 that form loses half of its digits."""
    return torch.linalg.vector_norm(x[:, :, None, None] - y[None, None], dim=-1)
