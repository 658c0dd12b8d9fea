"""The closed forms of `gaussian` by name, as similarities: as they are, or as learned log-odds of a match."""

from collections.abc import Callable
from functools import wraps

import torch
from jaxtyping import Float
from torch import Tensor, nn

from xmr_core.base.checks import require_choice, require_number
from xmr_core.base.plain_tensors import as_gaussians
from xmr_core.base.types import GaussianEmbedding
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.gaussian import (
    average_l2,
    bhattacharyya,
    expected_likelihood,
    farthest_dimension,
    jeffreys,
    jeffreys_official,
    kl,
    kl_official,
    mean_only,
    nearest_dimension,
    reverse_kl,
    reverse_kl_official,
    sample_products,
    sampled_distance,
    wasserstein,
)

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


_CLOSED_FORMS = {
    "mean only": mean_only,
    "min": nearest_dimension,
    "max": farthest_dimension,
    "ELK": expected_likelihood,
    "KL": kl,
    "KL (official)": kl_official,
    "reverse KL": reverse_kl,
    "reverse KL (official)": reverse_kl_official,
    "JS": jeffreys,
    "JS (official)": jeffreys_official,
    "Bhattacharyya": bhattacharyya,
    "2-Wasserstein": wasserstein,
    "CSD": sampled_distance,
    "average L2": average_l2,
    "matmul": sample_products,
}
DISTANCES: dict[str, Distance] = {name: _never_half(distance) for name, distance in _CLOSED_FORMS.items()}

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


class DistanceLogit(Similarity):
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

    symmetric, compares = True, "distributions"
    distances = ("CSD", "2-Wasserstein", "mean only")

    def __init__(self, a: float = 5.0, b: float = 5.0, distance: str = "CSD"):
        require_number("a", a, above=0)
        require_number("b", b)
        require_choice("distance", distance, self.distances)
        super().__init__()
        self.a, self.b = nn.Parameter(torch.tensor(float(a))), nn.Parameter(torch.tensor(float(b)))
        self.distance = distance

    def forward(self, images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
        return self.a * DISTANCES[self.distance](images, captions) + self.b

    def extra_repr(self) -> str:
        return f"a={self.a.item():g}, b={self.b.item():g}, distance={self.distance!r}"
