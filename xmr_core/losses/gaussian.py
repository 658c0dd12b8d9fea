"""PCME's two regularisers of distributions."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.checks import require_choice, require_number
from xmr_core.base.plain_tensors import as_gaussians, samples_of
from xmr_core.base.types import GaussianEmbedding

FORMS = ("official", "exact")
_MOST_PAIRS, _DRAWN = 16_384, 128  # of the authors' uniformity: above so many pairs, so many points are drawn


def kl_to_normal(images: GaussianEmbedding, captions: GaussianEmbedding, form: str = "official") -> Float[Tensor, ""]:
    """Σ over both modalities, items and dimensions of the divergence from N(0, 1).

    exact: ½ [μ² + σ² − 1 − 2 log σ]. official: ½ [m̄² + e^s − 1 − s] with m̄ the mean of the samples and s = log σ
    taken for a log-variance (docs/differences.md#x-13).
    Raises: BadInput for another form, or for distributions without samples in the official one.
    Source: PCME, eq. 8 ("VIB").

    >>> import torch
    >>> normal = GaussianEmbedding(mean=torch.zeros(1, 3), log_std=torch.zeros(1, 3))
    >>> kl_to_normal(normal, normal, "exact")
    tensor(0.)
    """
    require_choice("form", form, FORMS)
    total = 0.0
    for items, what in ((images, "image"), (captions, "caption")):
        items = as_gaussians(items, what)
        mean, s = (
            (samples_of(items, what).mean(1), items.log_std) if form == "official" else (items.mean, 2 * items.log_std)
        )
        total = total + (mean.square() + s.exp() - 1 - s).sum() / 2
    return total


def uniformity(
    images: GaussianEmbedding, captions: GaussianEmbedding, form: str = "official", t: float = 2.0
) -> Float[Tensor, ""]:
    """Samples of both modalities should spread out: small when exp(−t‖x − y‖²) is small for most pairs.

    official: log of the mean over unordered pairs, of 128 points drawn with replacement where there are more than
    16,384 pairs. exact (the paper): the sum over all ordered pairs, no logarithm (docs/differences.md#x-14). The
    paper's weight of 10 belongs to the official form.
    Raises: BadInput for another form, or distributions without samples.
    Source: PCME, eq. 9, after Wang & Isola, ICML 2020.

    >>> import torch
    >>> point = GaussianEmbedding(torch.zeros(1, 2), torch.zeros(1, 2), samples=torch.zeros(1, 2, 2))
    >>> uniformity(point, point)
    tensor(0.)
    """
    require_choice("form", form, FORMS)
    require_number("t", t, above=0)
    points = torch.cat([samples_of(images, "image").flatten(0, 1), samples_of(captions, "caption").flatten(0, 1)])
    if form == "official" and len(points) ** 2 > _MOST_PAIRS:
        points = points[torch.randint(len(points), (_DRAWN,), device=points.device)]
    squares = torch.pdist(points).square()
    if form == "exact":
        return 2 * (-t * squares).exp().sum()
    return (-t * squares).logsumexp(0) - math.log(len(squares))
