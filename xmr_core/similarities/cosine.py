"""One vector against one vector."""

from jaxtyping import Float
from torch import Tensor

from xmr_core.types import Embedding


def cosine(images: Embedding, captions: Embedding) -> Float[Tensor, "i t"]:
    """s(i, t) = x_i · y_t: the cosine when the rows are unit vectors, which is the heads' job (VSE0 leaves images longer).

    Shapes: "i d", "t d" → "i t", larger is more similar.
    """
    return images.x @ captions.x.T
