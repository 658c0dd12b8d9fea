"""Order embedding: an image should lie above its captions in every coordinate."""

from jaxtyping import Float
from torch import Tensor

from xmr_core.base.types import Embedding
from xmr_core.similarities.pairs import same_width


def order(images: Embedding, captions: Embedding) -> Float[Tensor, "i t"]:
    """s(i, t) = −‖max(0, y_t − x_i)‖₂, in (−∞, 0]; 0 when the image dominates the caption.

    The gradient at exactly 0 is taken as 0. Shapes: "i d", "t d" → "i t". Raises: BadInput for two widths.
    Source: Vendrov et al. 2016, as an option of VSE++ (Faghri et al. 2018; METHODS §2).
    """
    same_width(images.x, captions.x)
    return -(captions.x[None, :, :] - images.x[:, None, :]).relu().norm(dim=-1)
