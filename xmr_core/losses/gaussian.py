"""Regularisers of distributions: PCME's two, and that of PCME++."""

import math
import warnings

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.checks import require_choice, require_number
from xmr_core.base.errors import BadInput
from xmr_core.base.plain_tensors import as_gaussians, samples_of
from xmr_core.base.types import GaussianEmbedding
from xmr_core.losses.checks import require_one_width

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


def mean_kl_to_normal(
    images: GaussianEmbedding, captions: GaussianEmbedding, most: float = math.inf
) -> Float[Tensor, ""]:
    """½ mean over items and dimensions of [μ² + σ² − 1 − log σ²], images plus captions: the divergence per dimension.

    Unlike `kl_to_normal`, its weight does not depend on batch size and width. most: a modality whose value is larger
    counts as 0, with a warning, as in the authors' code (1e4 there); ∞ keeps every value.
    Raises: BadInput for other items than distributions, or most that is not positive.
    Source: Chun, ICLR 2024 (PCME++), the VIB loss; docs/differences.md#x-78, docs/differences.md#x-79.

    >>> import torch
    >>> items = GaussianEmbedding(mean=torch.ones(2, 3), log_std=torch.zeros(2, 3))
    >>> mean_kl_to_normal(items, items)
    tensor(1.)
    """
    if not most > 0:
        raise BadInput(f"most must be a positive number, got {most!r}.")
    total = 0.0
    for items, what in ((images, "image"), (captions, "caption")):
        items = as_gaussians(items, what)
        log_variance = 2 * items.log_std
        value = (items.mean.square() + log_variance.exp() - 1 - log_variance).mean() / 2
        if value > most:
            warnings.warn(
                f"the divergence of the {what}s is {float(value):.3g} and is left out of this step.", stacklevel=2
            )
            continue
        total = total + value
    return torch.as_tensor(total, device=images.mean.device)


def uniformity(
    images: GaussianEmbedding, captions: GaussianEmbedding, form: str = "official", t: float = 2.0
) -> Float[Tensor, ""]:
    """Samples of both modalities should spread out: small when exp(−t‖x − y‖²) is small for most pairs.

    official: log of the mean over unordered pairs, of 128 points drawn with replacement where there are more than
    16,384 pairs. exact (the paper): the sum over all ordered pairs, no logarithm (docs/differences.md#x-14). The
    paper's weight of 10 belongs to the official form.
    Raises: BadInput for another form, distributions without samples, or, in the official form, fewer than two samples.
    Source: PCME, eq. 9, after Wang & Isola, ICML 2020.

    >>> import torch
    >>> point = GaussianEmbedding(torch.zeros(1, 2), torch.zeros(1, 2), samples=torch.zeros(1, 2, 2))
    >>> uniformity(point, point)
    tensor(0.)
    """
    require_choice("form", form, FORMS)
    require_number("t", t, above=0)
    x, y = samples_of(images, "image"), samples_of(captions, "caption")
    require_one_width(x, y, "samples")
    points = torch.cat([x.flatten(0, 1), y.flatten(0, 1)])
    if form == "official" and len(points) ** 2 > _MOST_PAIRS:
        points = points[torch.randint(len(points), (_DRAWN,), device=points.device)]
    squares = torch.pdist(points).square()
    if form == "exact":
        return 2 * (-t * squares).exp().sum()
    if not len(squares):
        raise BadInput(f"uniformity is a mean over pairs of samples, and there are {len(points)} samples; give two.")
    return (-t * squares).logsumexp(0) - math.log(len(squares))
