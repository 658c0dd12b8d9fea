"""Similarities of two normal distributions: PCME's match probability of samples, and closed forms."""

import math
from collections.abc import Callable
from functools import wraps

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from xmr_core.base.errors import require_choice, require_number
from xmr_core.base.tensors import as_gaussians, may_branch, require_same_width, samples_of
from xmr_core.base.types import EmbeddingSet, GaussianEmbedding
from xmr_core.similarities.base import Similarity, blockwise
from xmr_core.similarities.pairs import element_products, in_image_blocks
from xmr_core.similarities.sets import pair_matrices

_PLAIN_LOGIT = 80.0  # e^−80 is a float32 still
DISTANCE_EPS = 1e-6  # under the square root, as in the authors' code


class _Logit(Similarity):
    """Log-odds with a learned scale a and shift b."""

    symmetric = True

    def __init__(self, a: float, b: float, **options):
        require_number("a", a, above=0)
        require_number("b", b)
        super().__init__(**options)
        self.a, self.b = nn.Parameter(torch.tensor(float(a))), nn.Parameter(torch.tensor(float(b)))

    def extra_repr(self) -> str:
        return ", ".join((f"a={self.a.item():g}", f"b={self.b.item():g}", super().extra_repr()))


class MatchLogit(_Logit):
    """s = log p / (1 − p) with p = mean over the J² pairs of samples of sigmoid(factor · (−a ‖z − z′‖ + b)).

    Log-odds keep the order of p, never overflow, and make the soft contrastive loss a binary cross-entropy of s.

    Args: a, b: learned scale and shift (15, 15 on COCO, 5, 5 on CUB). factor: 2 in the authors' code, e^l/(e^l + e^−l);
        1 in the paper (docs/differences.md#x-10). The distance is √(Σ(z − z′)² + 1e-6).
    Shapes: samples "i j d", "t j d" → "i t".
    Raises: BadInput for a or a factor that is not positive and finite, b that is not finite, distributions without
        samples.
    Source: Chun et al., CVPR 2021 (PCME), eq. 3–4.

    >>> import torch
    >>> from xmr_core.base.types import GaussianEmbedding
    >>> item = GaussianEmbedding(torch.zeros(1, 2), torch.zeros(1, 2), samples=torch.zeros(1, 3, 2))
    >>> MatchLogit(5.0, 5.0)(item, item).round().item()
    10.0
    """

    compares = "samples"

    def __init__(self, a: float = 15.0, b: float = 15.0, factor: float = 2.0):
        require_number("factor", factor, above=0, hint="The authors' code has 2, the paper 1.")
        super().__init__(a, b, factor=factor)
        self.factor = factor

    def forward(self, images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
        logits = self.factor * (self.b - self.a * sample_distances(images, captions))
        # log p and log(1 − p), each up to the same −log J²
        return F.logsigmoid(logits).logsumexp((1, 3)) - F.logsigmoid(-logits).logsumexp((1, 3))

    def _fast_scores(self, images, captions):
        """None also where a probability is too small for a plain sum."""
        x, y = samples_of(images, "image"), samples_of(captions, "caption")
        scale, shift = self.factor * float(self.a), self.factor * float(self.b)
        sets = (EmbeddingSet(s, s.new_ones(s.shape[:2], dtype=torch.bool)) for s in (x, y))
        if (p := pair_matrices(*sets, -2.0)) is None:
            return None
        lengths = [torch.linalg.vector_norm(s, dim=-1).square() for s in (x, y)]
        farthest = sum(float(n.max()) ** 0.5 for n in lengths)
        if max(abs(shift), abs(shift - scale * farthest)) > _PLAIN_LOGIT:  # logits lie between
            return None
        yes = no = 0.0
        for m, row in enumerate(p):
            for n, products in enumerate(row):
                squares = products.add_(lengths[0][:, m, None]).add_(lengths[1][None, :, n]).clamp_(min=0)
                logits = squares.add_(DISTANCE_EPS).sqrt_().mul_(-scale).add_(shift)
                no = no + (-logits).sigmoid_()
                yes = yes + logits.sigmoid_()
        return yes.log_() - no.log_()


def sample_distances(
    images: GaussianEmbedding, captions: GaussianEmbedding, eps: float = DISTANCE_EPS
) -> Float[Tensor, "i j t j"]:
    """√(‖z − z′‖² + eps) of all pairs of samples; without eps, the gradient at equal samples is 0.

    Raises: BadInput for distributions without samples.
    """
    x, y = samples_of(images, "image"), samples_of(captions, "caption")
    require_same_width(x, y)
    lengths = [torch.linalg.vector_norm(z, dim=-1).square() for z in (x, y)]  # of a gallery, z.square() would be a copy
    squares = lengths[0][:, :, None, None] + lengths[1][None, None]
    squares = (squares - 2 * element_products(x, y)).clamp(min=0) + eps
    equal = squares == 0  # where the slope of the root is infinite, and its product with that of the clamp undefined
    return torch.where(equal, 0, torch.where(equal, 1, squares).sqrt()) if eps == 0 else squares.sqrt()


# What else can compare two normal distributions with diagonal covariances, in closed form, after training.


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
        quotient = torch.logaddexp(s1 - s2, s2 - s1) - math.log(2)
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
    require_same_width(x, y)
    return x.sum(1) @ y.sum(1).T


def _squares(x: Float[Tensor, "i d"], y: Float[Tensor, "t d"]) -> Float[Tensor, "i t"]:
    """Σ (x − y)² of all pairs, by one matrix product."""
    require_same_width(x, y)
    with torch.autocast(x.device.type, enabled=False):
        return (x.square().sum(1)[:, None] + y.square().sum(1)[None] - 2 * x @ y.T).clamp(min=0)


def _scaled_squares(images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
    """Σ (σ₁² + Δ²)/σ₂² of all pairs = (σ₁² + μ₁²) · σ₂⁻² − 2 μ₁ · (μ₂ σ₂⁻²) + Σ μ₂² σ₂⁻²."""
    require_same_width(images.mean, captions.mean)
    inverse = (-2 * captions.log_std).exp()
    with torch.autocast(inverse.device.type, enabled=False):
        squares = ((2 * images.log_std).exp() + images.mean.square()) @ inverse.T
        return squares - 2 * images.mean @ (captions.mean * inverse).T + (captions.mean.square() * inverse).sum(1)[None]


def _one_variance(images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"] | None:
    """σ₁² + σ₂² where every item has the same σ in all dimensions, else None."""
    require_same_width(images.mean, captions.mean)
    spreads = images.log_std, captions.log_std
    if not may_branch(*spreads) or not all(bool((s == s[:, :1]).all()) for s in spreads):
        return None
    return (2 * images.log_std[:, :1]).exp() + (2 * captions.log_std[None, :, 0]).exp()


def _pairwise(distance: Callable, images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
    """−distance(μ₁, log σ₁, μ₂, log σ₂) of all pairs, in blocks of images."""
    require_same_width(images.mean, captions.mean)

    def score(x: GaussianEmbedding, y: GaussianEmbedding) -> Tensor:
        return distance(x.mean[:, None], x.log_std[:, None], y.mean[None], y.log_std[None])

    return -in_image_blocks(score, images, captions, captions.mean.numel())


# The closed forms of `gaussian` by name, as similarities: as they are, or as learned log-odds of a match.


Distance = Callable[[GaussianEmbedding, GaussianEmbedding], Tensor]


def _never_half(distance: Distance) -> Distance:
    """The distance of checked distributions in float32 at least, also inside autocast: half precision has three digits,
    and e^{−2 log σ} leaves its range.
    """

    @wraps(distance)
    def call(images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
        images, captions = as_gaussians(images, "image"), as_gaussians(captions, "caption")
        with torch.autocast(images.mean.device.type, enabled=False):
            return distance(images, captions)

    return call


DISTANCES: dict[str, Distance] = {
    name: blockwise(_never_half(distance))
    for name, distance in {
        "mean only": mean_only, "min": nearest_dimension, "max": farthest_dimension,
        "ELK": expected_likelihood, "KL": kl, "KL (official)": kl_official,
        "reverse KL": reverse_kl, "reverse KL (official)": reverse_kl_official, "JS": jeffreys,
        "JS (official)": jeffreys_official, "Bhattacharyya": bhattacharyya,
        "2-Wasserstein": wasserstein, "CSD": sampled_distance, "average L2": average_l2,
        "matmul": sample_products,
    }.items()
}  # fmt: skip
SAMPLED = ("average L2", "matmul")  # read samples, which not every distribution has
_ONE_WAY = ("KL", "KL (official)", "reverse KL", "reverse KL (official)")


def distances_of(items: GaussianEmbedding) -> list[str]:
    """The names in DISTANCES that can compare these distributions: those of samples only where there are any.

    >>> items = GaussianEmbedding(mean=torch.eye(2), log_std=torch.zeros(2, 2))
    >>> set(DISTANCES) - set(distances_of(items)) == set(SAMPLED)
    True
    """
    return [name for name in DISTANCES if items.samples is not None or name not in SAMPLED]


class GaussianDistance(Similarity):
    """One of DISTANCES by name, as a similarity.

    Raises: BadInput for another name; when called, for anything but distributions, and where samples are needed that
        they do not have ('average L2', 'matmul').

    >>> import torch
    >>> from xmr_core.base.types import GaussianEmbedding
    >>> items = GaussianEmbedding(mean=torch.eye(2), log_std=torch.zeros(2, 2))
    >>> GaussianDistance("2-Wasserstein")(items, items)
    tensor([[-0., -2.],
            [-2., -0.]])
    """

    def __init__(self, name: str):
        require_choice("distance", name, DISTANCES)
        super().__init__()
        self.distance, self.symmetric = name, name not in _ONE_WAY
        self.compares = "samples" if name in SAMPLED else "distributions"

    def forward(self, images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
        return DISTANCES[self.distance](images, captions)

    def extra_repr(self) -> str:
        return repr(self.distance)


class DistanceLogit(_Logit):
    """z = b − a · d, d one of three distances between two distributions: log-odds that two items match.

        CSD             d = ‖μ₁ − μ₂‖² + Σ σ₁² + Σ σ₂² = E‖z₁ − z₂‖²
        2-Wasserstein   d = ‖μ₁ − μ₂‖² + ‖σ₁ − σ₂‖²         (an ablation of the paper, which does not learn)
        mean only       d = ‖μ₁ − μ₂‖²                      (docs/differences.md#x-76)

    All are matrix products. With equal Σ σ² for all items the order is that of the cosine of the means.
    Args: a, b: learned scale and shift; both 5 in PCME++. distance: the name in DISTANCES.
    Shapes: distributions "i d", "t d" → "i t", at most b while a > 0.
    Raises: BadInput for a that is not positive and finite, b that is not finite, another distance.
    Source: Chun, ICLR 2024 (PCME++), §3.2; docs/methods/pcmepp.md.

    >>> items = GaussianEmbedding(mean=torch.eye(2), log_std=torch.full((2, 2), -torch.inf))
    >>> DistanceLogit()(items, items).tolist()
    [[5.0, -5.0], [-5.0, 5.0]]
    """

    compares = "distributions"
    distances = ("CSD", "2-Wasserstein", "mean only")

    def __init__(self, a: float = 5.0, b: float = 5.0, distance: str = "CSD"):
        require_choice("distance", distance, self.distances)
        super().__init__(a, b, distance=distance)
        self.distance = distance

    def forward(self, images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
        return self.a * DISTANCES[self.distance](images, captions) + self.b
