"""The first stage of stacked cross attention: every query element attends to all elements of the other item (SCAN,
SGRAF)."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.checks import require_choice, require_number
from xmr_core.base.masked import masked_softmax
from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities.pairs import element_products, real_rows

NORMALISATIONS = ("clipped_l2norm", "l2norm", "clipped", "no_norm", "softmax")
EPS = 1e-8  # of the authors' norms and cosines


def unit(x: Tensor, dim: int = -1) -> Tensor:
    """x / (‖x‖ + 1e-8), the authors' normalisation. The small norm is inverted, not the large x divided: the gradient
    of a product needs fewer passes over x than that of a quotient."""
    return x * (torch.linalg.vector_norm(x, dim=dim, keepdim=True) + EPS).reciprocal()


def attend(
    contexts: EmbeddingSet,
    queries: EmbeddingSet,
    sharpness: float,
    normalise: str = "clipped_l2norm",
    leak: float = 0.1,
) -> tuple[Float[Tensor, "b c a q"], Float[Tensor, "b c a q"]]:
    """(products, attention) of every query element over the elements of every context item, all pairs at once.

    p = x_c · y_q;   u = leakyReLU(p) if clipped, else p;   û = u / (‖u‖ over the queries of one item + 1e-8);
    attention = softmax over c of sharpness · û

    Args: contexts "b c d", queries "a q d", ragged by mask. sharpness: λ₁ of SCAN, λ of SGRAF, dimensionless, > 0.
        normalise: 'clipped_l2norm' (all of the above), 'l2norm' (no leaky ReLU), 'clipped' (no division), 'no_norm'
        (neither), 'softmax' (û = softmax of p over the queries of one item). leak: slope below 0; the authors' code has
        0.1, their paper 0 (docs/differences.md#x-22). Attention is 0 on padded contexts; on padded queries it means
        nothing.
    Raises: BadInput for an unknown normalisation or a sharpness that is not positive and finite.
    Source: Lee et al., ECCV 2018 (SCAN), §3.1; Diao et al., AAAI 2021 (SGRAF), §3.1.
    """
    check_attention(sharpness, normalise)
    require_number("leak", leak)
    products = element_products(real_rows(contexts), real_rows(queries))  # b c a q, 0 where either is padding
    u = F.leaky_relu(products, leak) if normalise.startswith("clipped") else products
    if normalise.endswith("l2norm"):
        u = unit(u, dim=3)
    elif normalise == "softmax":
        u = masked_softmax(u, queries.mask, dim=3)
    return products, masked_softmax(sharpness * u, contexts.mask[:, :, None, None], dim=1)


def check_attention(sharpness: float, normalise: str) -> None:
    """Raise BadInput as `attend` does."""
    require_choice("normalisation of the attention", normalise, NORMALISATIONS)
    require_number("the sharpness of the attention", sharpness, above=0, hint="SCAN uses 9 (t2i) and 4 (i2t).")
