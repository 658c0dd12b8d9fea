"""PCME's match probability of two distributions, as log-odds."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from xmr_core.base.checks import require_number
from xmr_core.base.plain_tensors import samples_of
from xmr_core.base.types import GaussianEmbedding
from xmr_core.similarities._kernels.set_scores import match_logit_scores
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.pairs import element_products

DISTANCE_EPS = 1e-6  # under the square root, as in the authors' code


class MatchLogit(Similarity):
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

    symmetric, compares = True, "samples"

    def __init__(self, a: float = 15.0, b: float = 15.0, factor: float = 2.0):
        require_number("a", a, above=0)
        require_number("b", b)
        require_number("factor", factor, above=0, hint="The authors' code has 2, the paper 1.")
        super().__init__()
        self.a, self.b, self.factor = nn.Parameter(torch.tensor(float(a))), nn.Parameter(torch.tensor(float(b))), factor

    def forward(self, images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
        logits = self.factor * (self.b - self.a * sample_distances(images, captions))
        # log p and log(1 − p), each up to the same −log J²
        return F.logsigmoid(logits).logsumexp((1, 3)) - F.logsigmoid(-logits).logsumexp((1, 3))

    def extra_repr(self) -> str:
        return f"a={self.a.item():g}, b={self.b.item():g}, factor={self.factor:g}"

    def _fast_scores(self, images, captions):
        x, y = samples_of(images, "image"), samples_of(captions, "caption")
        return match_logit_scores(x, y, self.factor * float(self.a), self.factor * float(self.b), DISTANCE_EPS)


def sample_distances(
    images: GaussianEmbedding, captions: GaussianEmbedding, eps: float = DISTANCE_EPS
) -> Float[Tensor, "i j t j"]:
    """√(‖z − z′‖² + eps) of all pairs of samples; without eps, the gradient at equal samples is 0.

    Raises: BadInput for distributions without samples.
    """
    x, y = samples_of(images, "image"), samples_of(captions, "caption")
    lengths = [torch.linalg.vector_norm(z, dim=-1).square() for z in (x, y)]  # of a gallery, z.square() would be a copy
    squares = lengths[0][:, :, None, None] + lengths[1][None, None]
    squares = (squares - 2 * element_products(x, y)).clamp(min=0) + eps
    equal = squares == 0  # where the slope of the root is infinite, and its product with that of the clamp undefined
    return torch.where(equal, 0, torch.where(equal, 1, squares).sqrt()) if eps == 0 else squares.sqrt()
