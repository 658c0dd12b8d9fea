"""One vector against one vector: the cosine, and order embeddings."""

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.tensors import ANY_LENGTH, Comparable, as_both_vectors
from xmr_core.similarities.base import Similarity, blockwise
from xmr_core.similarities.pairs import in_image_blocks


@blockwise
def cosine(images: Comparable, captions: Comparable, normalise: bool = False) -> Float[Tensor, "i t"]:
    """s(i, t) = x_i · y_t: the cosine when the rows are unit vectors, which is the heads' task (VSE0 leaves images
    longer). normalise: divide by the norms first; without it, plain tensors of other lengths are warned of.

    Shapes: "i d", "t d" (or sets of one, "i 1 d") → "i t", larger is more similar. Never in half precision (see
        pairs.py).
    Raises: BadInput for sets of several elements, or two widths.

    >>> import torch
    >>> cosine(torch.eye(2), torch.tensor([[0.6, 0.8]]))
    tensor([[0.6000],
            [0.8000]])
    """
    x, y = (v.x for v in as_both_vectors(images, captions, normalise))
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


# Order embedding: an image should lie above its captions in every coordinate.


@blockwise
def order(images: Comparable, captions: Comparable) -> Float[Tensor, "i t"]:
    """s(i, t) = −‖max(0, y_t − x_i)‖₂, in (−∞, 0]; 0 when the image dominates the caption.

    The gradient at exactly 0 is taken as 0. Shapes: "i d", "t d" → "i t". Raises: BadInput for two widths.
    Source: Vendrov et al. 2016, as an option of VSE++ (Faghri et al. 2018).

    >>> import torch
    >>> order(torch.tensor([[1.0, 1.0]]), torch.tensor([[0.5, 1.0], [4.0, 5.0]]))
    tensor([[-0., -5.]])
    """
    x, y = (v.x for v in as_both_vectors(images, captions, normalise=ANY_LENGTH))
    return -(y[None, :, :] - x[:, None, :]).relu().norm(dim=-1)


class Order(Similarity):
    """`order` as a similarity. Images and captions play different roles.

    >>> Order().symmetric
    False
    """

    function = staticmethod(order)
    compares, of_units = "vectors", False

    def _fast_scores(self, images, captions):
        images, captions = as_both_vectors(images, captions, normalise=ANY_LENGTH)
        return in_image_blocks(order, images, captions, captions.x.numel())
