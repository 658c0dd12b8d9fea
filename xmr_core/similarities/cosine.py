"""One vector against one vector."""

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Embedding, EmbeddingSet, Representation
from xmr_core.similarities.pairs import same_width


def cosine(images: Representation, captions: Representation) -> Float[Tensor, "i t"]:
    """s(i, t) = x_i · y_t: the cosine when the rows are unit vectors, which is the heads' job (VSE0 leaves images longer).

    Shapes: "i d", "t d" (or sets of one, "i 1 d") → "i t", larger is more similar. Never in half precision (see pairs.py).
    Raises: BadInput for sets of several elements, or two widths.
    """
    x, y = _vectors(images), _vectors(captions)
    same_width(x, y)
    with torch.autocast(x.device.type, enabled=False):
        return x @ y.T


def _vectors(given: Embedding | EmbeddingSet) -> Float[Tensor, "n d"]:
    x = given.x
    if isinstance(given, EmbeddingSet):
        if x.shape[1] != 1:
            raise BadInput(f"cosine compares single vectors, got sets of {x.shape[1]}. Use a set similarity such as smooth_chamfer.")
        x = x[:, 0]
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
