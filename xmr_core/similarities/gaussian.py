"""What else can compare two normal distributions with diagonal covariances, in closed form, after training.

All are similarities (larger is more alike) of "i d" with "t d" → "i t", the minus of a distance. μ, σ and Δ = μ₁ − μ₂
are per dimension, 1 the image, 2 the caption, all sums over dimensions. For a divergence that is not symmetric it
matters which of the two is the query: `kl` is right for images as queries, `reverse_kl` for captions.
Source: Chun et al., CVPR 2021 (PCME), App. B; docs/differences.md#x-16 and the next three compare paper and code.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.plain_tensors import samples_of
from xmr_core.base.types import GaussianEmbedding
from xmr_core.similarities.match_logit import sample_distances
from xmr_core.similarities.pairs import same_width

_BLOCK = 1 << 24  # elements of one i × t × d block


def mean_only(images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
    """−Σ Δ²; orders as the cosine of the means, which are unit vectors."""
    return -_squares(images.mean, captions.mean)


def nearest_dimension(images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
    """−min Δ² over dimensions: `min` of the authors' evaluator, not in the paper."""
    return _pairwise(lambda m1, _, m2, __: (m1 - m2).square().amin(-1), images, captions)


def farthest_dimension(images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
    """−max Δ² over dimensions: `max` of the authors' evaluator, not in the paper."""
    return _pairwise(lambda m1, _, m2, __: (m1 - m2).square().amax(-1), images, captions)


def expected_likelihood(images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
    """ELK: −½ Σ [Δ²/(σ₁² + σ₂²) + log(σ₁² + σ₂²)], log of ∫ p₁ p₂ up to a constant; with one σ an item, products."""
    if (v := _one_variance(images, captions)) is not None:
        return -(_squares(images.mean, captions.mean) / v + images.mean.shape[1] * v.log()) / 2

    def distance(m1, s1, m2, s2):
        variance = (2 * s1).exp() + (2 * s2).exp()
        return ((m1 - m2).square() / variance + variance.log()).sum(-1) / 2

    return _pairwise(distance, images, captions)


def kl(images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
    """−KL(p₁‖p₂) = −½ Σ [2(log σ₂ − log σ₁) + (σ₁² + Δ²)/σ₂² − 1]: the true divergence.

    By matrix products, whose float32 loses digits with σ⁻²: at log σ = −9 and 256 dimensions scores are off by units.
    Ranks are settled in double precision; give doubles where the values themselves matter.
    """

    logarithms = captions.log_std.sum(1)[None] - images.log_std.sum(1)[:, None]
    return -logarithms - (_scaled_squares(images, captions) - images.mean.shape[1]) / 2


def reverse_kl(images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
    """−KL(p₂‖p₁)."""
    return kl(captions, images).T


def kl_official(images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
    """−Σ [Δ²/σ₂² + 2(log σ₁ − log σ₂) + σ₁²/σ₂²]: what the authors' evaluator computes; its logarithm has the other
    sign (docs/differences.md#x-16)."""

    logarithms = images.log_std.sum(1)[:, None] - captions.log_std.sum(1)[None]
    return -_scaled_squares(images, captions) - 2 * logarithms


def reverse_kl_official(images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
    """kl_official with the roles swapped."""
    return kl_official(captions, images).T


def jeffreys(images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
    """−½ [KL(p₁‖p₂) + KL(p₂‖p₁)], called JS in the paper; the logarithms cancel (docs/differences.md#x-17)."""
    return (kl(images, captions) + reverse_kl(images, captions)) / 2


def jeffreys_official(images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
    """−Σ [(Δ² + σ₁²)/σ₂² + (Δ² + σ₂²)/σ₁²] = 4 · jeffreys − 2d, the same order."""
    return kl_official(images, captions) + reverse_kl_official(images, captions)


def bhattacharyya(images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
    """−¼ Σ [Δ²/(σ₁² + σ₂²) + 2 log(σ₁/σ₂ + σ₂/σ₁) − 2 log 2]: 0 for equal distributions. With one σ per item, matrix
    products."""
    if (v := _one_variance(images, captions)) is not None:
        s1, s2 = images.log_std[:, :1], captions.log_std[None, :, 0]
        quotient = torch.logaddexp(s1 - s2, s2 - s1) - math.log(2)
        return -(_squares(images.mean, captions.mean) / v + 2 * images.mean.shape[1] * quotient) / 4

    def distance(m1, s1, m2, s2):
        quotient = torch.logaddexp(s1 - s2, s2 - s1) - torch.log(torch.tensor(2.0, dtype=s1.dtype))
        return ((m1 - m2).square() / ((2 * s1).exp() + (2 * s2).exp()) + 2 * quotient).sum(-1) / 4

    return _pairwise(distance, images, captions)


def wasserstein(images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
    """−W₂² = −Σ [Δ² + (σ₁ − σ₂)²] (docs/differences.md#x-18)."""
    return -_squares(images.mean, captions.mean) - _squares(images.log_std.exp(), captions.log_std.exp())


def sampled_distance(images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
    """CSD: −Σ [Δ² + σ₁² + σ₂²] = −E‖z₁ − z₂‖² for independent draws: the closed form that PCME++ trains with (Chun,
    ICLR 2024, §3.2). One matrix product."""
    variances = [(2 * items.log_std).exp().sum(1) for items in (images, captions)]
    return -_squares(images.mean, captions.mean) - variances[0][:, None] - variances[1]


def average_l2(images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
    """−mean over the J² pairs of samples of ‖z − z′‖ (a row of the paper's Table 1; absent from the code,
    docs/differences.md#x-19)."""
    return -sample_distances(images, captions, eps=0.0).mean((1, 3))


def sample_products(images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
    """Σ over the J² pairs of samples of z · z′: the authors' `matmul`, used while training; one matrix product."""
    x, y = samples_of(images, "image"), samples_of(captions, "caption")
    same_width(x, y)
    return x.sum(1) @ y.sum(1).T


def _squares(x: Float[Tensor, "i d"], y: Float[Tensor, "t d"]) -> Float[Tensor, "i t"]:
    """Σ (x − y)² of all pairs, by one matrix product."""
    same_width(x, y)
    with torch.autocast(x.device.type, enabled=False):
        return (x.square().sum(1)[:, None] + y.square().sum(1)[None] - 2 * x @ y.T).clamp(min=0)


def _scaled_squares(images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
    """Σ (σ₁² + Δ²)/σ₂² of all pairs = (σ₁² + μ₁²) · σ₂⁻² − 2 μ₁ · (μ₂ σ₂⁻²) + Σ μ₂² σ₂⁻²."""
    same_width(images.mean, captions.mean)
    inverse = (-2 * captions.log_std).exp()
    with torch.autocast(inverse.device.type, enabled=False):
        squares = ((2 * images.log_std).exp() + images.mean.square()) @ inverse.T
        return squares - 2 * images.mean @ (captions.mean * inverse).T + (captions.mean.square() * inverse).sum(1)[None]


def _one_variance(images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"] | None:
    """σ₁² + σ₂² where every item has the same σ in all dimensions, else None."""
    same_width(images.mean, captions.mean)
    if not all(bool((s.log_std == s.log_std[:, :1]).all()) for s in (images, captions)):
        return None
    return (2 * images.log_std[:, :1]).exp() + (2 * captions.log_std[None, :, 0]).exp()


def _pairwise(distance: Callable, images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
    """−distance(μ₁, log σ₁, μ₂, log σ₂) of all pairs, in blocks of images."""
    same_width(images.mean, captions.mean)
    mean, log_std = captions.mean[None], captions.log_std[None]
    step = max(1, _BLOCK // max(1, captions.mean.numel()))
    blocks = (slice(start, start + step) for start in range(0, max(1, len(images)), step))
    return -torch.cat([distance(images.mean[b, None], images.log_std[b, None], mean, log_std) for b in blocks])
