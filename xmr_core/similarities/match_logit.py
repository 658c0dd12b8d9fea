"""PCME's match probability of two distributions, as log-odds."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from xmr_core.base.errors import BadInput
from xmr_core.base.types import EmbeddingSet, GaussianEmbedding
from xmr_core.similarities.pairs import element_products
from xmr_core.similarities.planes import planes

_PLAIN = 80.0  # e^−80 is a float32 still
DISTANCE_EPS = 1e-6  # under the square root, as in the authors' code


class MatchLogit(nn.Module):
    """s = log p / (1 − p) with p = mean over the J² pairs of samples of σ(factor · (−a ‖z − z′‖ + b)).

    Log-odds keep the order of p, never overflow, and make the soft contrastive loss a binary cross-entropy of s.

    Args: a, b: learned scale and shift (15, 15 on COCO, 5, 5 on CUB). factor: 2 in the authors' code, e^l/(e^l + e^−l);
        1 in the paper (X-10). The distance is √(Σ(z − z′)² + 1e-6).
    Shapes: samples "i j d", "t j d" → "i t". Raises: BadInput for a factor that is not positive and finite.
    Source: Chun et al., CVPR 2021 (PCME), eq. 3–4.
    """

    def __init__(self, a: float = 15.0, b: float = 15.0, factor: float = 2.0):
        super().__init__()
        if not 0 < factor < math.inf:
            raise BadInput(f"factor must be a positive, finite number, got {factor}. The authors' code has 2, the paper 1.")
        self.a, self.b, self.factor = nn.Parameter(torch.tensor(float(a))), nn.Parameter(torch.tensor(float(b))), factor

    def forward(self, images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"]:
        if (found := self._scored(images, captions)) is not None:
            return found
        logits = self.factor * (self.b - self.a * sample_distances(images, captions))
        # log p and log(1 − p), each up to the same −log J²
        return F.logsigmoid(logits).logsumexp((1, 3)) - F.logsigmoid(-logits).logsumexp((1, 3))

    def _scored(self, images: GaussianEmbedding, captions: GaussianEmbedding) -> Float[Tensor, "i t"] | None:
        """The same pair of samples by pair of samples, for scoring; None where that does not hold (planes), or where a probability is too
        small for a plain sum."""
        x, y = (EmbeddingSet(s.samples, s.samples.new_ones(s.samples.shape[:2], dtype=torch.bool)) for s in (images, captions))
        if (p := planes(x, y, -2.0)) is None:
            return None
        lengths = [torch.linalg.vector_norm(s.x, dim=-1).square() for s in (x, y)]
        farthest = sum(float(n.max()) ** 0.5 for n in lengths)
        a, b = self.factor * float(self.a), self.factor * float(self.b)
        if max(abs(b), abs(b - a * farthest)) > _PLAIN:  # logits lie between
            return None
        yes = no = 0.0
        for m, row in enumerate(p):
            for n, plane in enumerate(row):
                squares = plane.add_(lengths[0][:, m, None]).add_(lengths[1][None, :, n]).clamp_(min=0)
                logits = squares.add_(DISTANCE_EPS).sqrt_().mul_(-a).add_(b)
                no = no + (-logits).sigmoid_()
                yes = yes + logits.sigmoid_()
        return yes.log_() - no.log_()


def sample_distances(images: GaussianEmbedding, captions: GaussianEmbedding, eps: float = DISTANCE_EPS) -> Float[Tensor, "i j t j"]:
    """√(‖z − z′‖² + eps) of all pairs of samples."""
    x, y = (s.samples.float() if s.samples.dtype in (torch.float16, torch.bfloat16) else s.samples for s in (images, captions))
    lengths = [torch.linalg.vector_norm(z, dim=-1).square() for z in (x, y)]  # of a gallery, z.square() would be a copy
    squares = lengths[0][:, :, None, None] + lengths[1][None, None]
    return ((squares - 2 * element_products(x, y)).clamp(min=0) + eps).sqrt()
