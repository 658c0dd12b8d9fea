"""Smooth-Chamfer on Euclidean distances instead of cosines."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.errors import BadInput
from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities.pairs import (
    fill_padding,
    mean_over_captions_elements,
    mean_over_images_elements,
    real_rows,
    same_width,
)


def euclidean_smooth_chamfer(images: EmbeddingSet, captions: EmbeddingSet, alpha: float = 16.0) -> Float[Tensor, "i t"]:
    """s(I, T) = 1/(2α|I|) Σ_x log Σ_y e^{−α‖x−y‖} + 1/(2α|T|) Σ_y log Σ_x e^{−α‖x−y‖}: minus a smooth Chamfer distance.

    Args: images "i k d", captions "t l d", ragged by mask; any length of rows. alpha: inverse of a length, > 0.
    Returns: "i t", larger is more alike; at most (log k + log l)/2α. The gradient of ‖x − y‖ at x = y is taken as 0.
    Raises: BadInput unless alpha is positive and finite, for two widths or a set without a real element.
    Source: an option in DivE's code that its paper does not use (Kim, Kim & Kwak, CVPR 2023; METHODS §9.3), where it is a
        distance: the minus of this.
    """
    if not 0 < alpha < math.inf:
        raise BadInput(f"alpha must be a positive, finite number, got {alpha}.")
    x, y = real_rows(images), real_rows(captions)
    same_width(x, y)
    # differences, not ‖x‖² + ‖y‖² − 2x·y: near 0 that form loses half of its digits
    distances = torch.linalg.vector_norm(x[:, :, None, None] - y[None, None], dim=-1)  # i k t l
    near = fill_padding(-alpha * distances, images, captions, -math.inf)
    both = mean_over_images_elements(near.logsumexp(3), images) + mean_over_captions_elements(near.logsumexp(1), captions)
    return both / (2 * alpha)
