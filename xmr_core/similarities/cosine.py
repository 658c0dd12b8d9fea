"""One vector against one vector."""

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.plain_tensors import Comparable, as_vectors, single
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.pairs import same_width


def cosine(images: Comparable, captions: Comparable) -> Float[Tensor, "i t"]:
    """s(i, t) = x_i · y_t: the cosine when the rows are unit vectors, which is the heads' task (VSE0 leaves images
    longer).

    Shapes: "i d", "t d" (or sets of one, "i 1 d") → "i t", larger is more similar. Never in half precision (see
        pairs.py).
    Raises: BadInput for sets of several elements, or two widths.

    >>> import torch
    >>> cosine(torch.eye(2), torch.tensor([[0.6, 0.8]]))
    tensor([[0.6000],
            [0.8000]])
    """
    x, y = (single(as_vectors(r, what).x) for r, what in ((images, "image"), (captions, "caption")))
    same_width(x, y)
    with torch.autocast(x.device.type, enabled=False):
        return x @ y.T


class Cosine(Similarity):
    """`cosine` as a similarity. Half of a score comes from either vector.

    >>> Cosine().symmetric
    True
    """

    function = staticmethod(cosine)
    symmetric, compares = True, "vectors"

    def _parts(self, x, y):
        return ((x @ y.T / 2).flatten(),) * 2
