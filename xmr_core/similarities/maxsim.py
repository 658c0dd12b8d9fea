"""Late interaction (MaxSim, sum-max): every query element counts its best partner; see docs/methods/maxsim.md."""

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.errors import require_choice
from xmr_core.base.tensors import Comparable, as_sets
from xmr_core.similarities.base import DIRECTIONS, Similarity, blockwise, roles
from xmr_core.similarities.pairs import best_products, real_products
from xmr_core.similarities.scan import aggregated

QUERIES = (*DIRECTIONS, "both")  # which modality's elements look for partners
SUMS = ("sum", "mean")


@blockwise
def sum_max(
    images: Comparable,
    captions: Comparable,
    direction: str = "t2i",
    aggregate: str = "sum",
    image_mask=None,
    caption_mask=None,
    normalise: bool = False,
) -> Float[Tensor, "i t"]:
    """Each query element counts its best partner.

    t2i: Σ_words max_regions x·y,   i2t: Σ_regions max_words x·y,   both: the sum of the two.
    'mean' divides each direction by its own number of real query elements.

    Args: images "i k d", captions "t l d", ragged by mask. image_mask "i k", caption_mask "t l": beside plain tensors
        only, True for real elements. normalise: see `cosine`. Padding is left out of the maximum; it is no partner with
        the product 0, which would win against negative products (docs/differences.md#x-94).
    Returns: "i t". For unit vectors 'sum' lies in ±(number of queries), 'mean' in [−1, 1], or [−2, 2] for 'both',
        where it is twice `chamfer`.
    Raises: BadInput for another direction or aggregation.
    Source: Khattab & Zaharia, SIGIR 2020 (ColBERT): 'sum' with the query as queries. SCAN, Table 3 ("sum-max", after
        Karpathy & Fei-Fei, CVPR 2015; not in the authors' code). 'both' is ours.

    >>> import torch
    >>> sum_max(torch.eye(2)[None], torch.eye(2)[None])
    tensor([[2.]])
    >>> sum_max(torch.eye(2)[None], torch.eye(2)[:, None], direction="both", aggregate="mean")
    tensor([[1.5000, 1.5000]])
    """
    _check(direction, aggregate)
    images, captions = as_sets(images, captions, image_mask, caption_mask, normalise)
    axes = {"t2i": (captions.mask[None], 2), "i2t": (images.mask[:, :, None], 1)}
    directions = DIRECTIONS if direction == "both" else (direction,)
    best = zip(directions, best_products(images, captions, *directions), strict=True)
    scores = [aggregated(products, axes[way][0], aggregate, 1.0, axes[way][1]) for way, products in best]
    return sum(scores[1:], scores[0])


def best_partners(
    images: Comparable, captions: Comparable, direction: str = "t2i", image_mask=None, caption_mask=None
) -> Float[Tensor, "i t q c"]:
    """The attention of hard assignment, for visualisation: 1 where element c of the other item is the best partner of
    the query element q, else 0. The first of several equal partners is taken.

    Returns: rows over real elements c sum to 1; those of padded q mean nothing. Raises: BadInput for another direction.

    >>> import torch
    >>> best_partners(torch.eye(2)[None], torch.eye(2)[None].flip(1))[0, 0]
    tensor([[0., 1.],
            [1., 0.]])
    """
    images, captions = as_sets(images, captions, image_mask, caption_mask)
    contexts, _ = roles(images, captions, direction)
    products = real_products(images, captions).permute(*((0, 2, 3, 1) if direction == "t2i" else (0, 2, 1, 3)))
    best = torch.nn.functional.one_hot(products.argmax(-1), contexts.mask.shape[1])
    return best.to(products.dtype)


def _check(direction: str, aggregate: str) -> None:
    require_choice("direction", direction, QUERIES)
    require_choice("aggregation", aggregate, SUMS)


class SumMax(Similarity):
    """`sum_max` as a similarity. Each query element adds its own term; the elements that it is compared with add
    nothing. It is symmetric where both modalities are queries.

    >>> SumMax("i2t").direction
    'i2t'
    >>> SumMax("both", "mean").symmetric
    True
    """

    function = staticmethod(sum_max)
    compares = "tokens"

    def __init__(self, direction: str = "t2i", aggregate: str = "sum"):
        _check(direction, aggregate)
        super().__init__(direction=direction, aggregate=aggregate)
        self.symmetric = direction == "both"
        self.direction = None if self.symmetric else direction

    def attention(self, images: Comparable, captions: Comparable) -> Float[Tensor, "i t q c"]:
        return best_partners(images, captions, self.options["direction"])

    def _parts(self, x, y):
        products = x @ y.T
        images, captions = products.amax(1), products.amax(0)
        if self.options["aggregate"] == "mean":
            images, captions = images / len(x), captions / len(y)
        of_images, of_captions = {"t2i": (0, 1), "i2t": (1, 0), "both": (1, 1)}[self.options["direction"]]
        return images * of_images, captions * of_captions
