"""PCME's two regularisers of distributions."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.errors import unknown
from xmr_core.base.types import GaussianEmbedding

FORMS = ("official", "exact")
_MOST_PAIRS, _DRAWN = 16_384, 128  # of the authors' uniformity: above so many pairs, so many points are drawn


def kl_to_normal(images: GaussianEmbedding, captions: GaussianEmbedding, form: str = "official") -> Float[Tensor, ""]:
    """Σ over both sides, items and dimensions of the divergence from N(0, 1).

    exact: ½ [μ² + σ² − 1 − 2 log σ]. official: ½ [m̄² + e^s − 1 − s] with m̄ the mean of the samples and s = log σ taken for
    a log-variance (X-13).
    Raises: BadInput for another form. Source: PCME, eq. 8 ("VIB").
    """
    if form not in FORMS:
        raise unknown("form", form, FORMS)
    total = 0.0
    for side in (images, captions):
        mean, s = (side.samples.mean(1), side.log_std) if form == "official" else (side.mean, 2 * side.log_std)
        total = total + (mean.square() + s.exp() - 1 - s).sum() / 2
    return total


def uniformity(images: GaussianEmbedding, captions: GaussianEmbedding, form: str = "official", t: float = 2.0) -> Float[Tensor, ""]:
    """Samples of both sides should spread out: small when exp(−t‖x − y‖²) is small for most pairs.

    official: log of the mean over unordered pairs, of 128 points drawn with replacement where there are more than 16,384
    pairs. exact (the paper): the sum over all ordered pairs, no logarithm (X-14). The paper's weight of 10 belongs to the
    official form.
    Raises: BadInput for another form. Source: PCME, eq. 9, after Wang & Isola, ICML 2020.
    """
    if form not in FORMS:
        raise unknown("form", form, FORMS)
    points = torch.cat([images.samples.flatten(0, 1), captions.samples.flatten(0, 1)])
    if form == "official" and len(points) ** 2 > _MOST_PAIRS:
        points = points[torch.randint(len(points), (_DRAWN,), device=points.device)]
    squares = torch.pdist(points).square()
    if form == "exact":
        return 2 * (-t * squares).exp().sum()
    return (-t * squares).logsumexp(0) - math.log(len(squares))
