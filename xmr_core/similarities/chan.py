"""CHAN: what every query element finds in the other item by hard or soft assignment, and a pooling over them."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from xmr_core.base.errors import require_choice, require_flag, require_number
from xmr_core.base.tensors import ANY_LENGTH, Comparable, as_sets, masked_softmax
from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities.base import Range, Similarity, blockwise
from xmr_core.similarities.maxsim import best_partners
from xmr_core.similarities.pairs import best_products, bucket_by_length
from xmr_core.similarities.scan import aggregated, attended_cosines, scan_attention, scan_scores, terms_of_queries

CODINGS = {"vha": "t2i", "tha": "i2t", "vsa": "i2t"}  # coding → direction: words or regions are the queries
POOLINGS = ("lse", "mean", "sum", "max", "softmax")
RANGES = {"alpha": Range(0.01, 1.0, "α"), "beta": Range(0.01, 1.0, "β")}


@blockwise
def chan(
    images: Comparable,
    captions: Comparable,
    coding: str = "vha",
    pooling: str = "lse",
    alpha: float = 0.1,
    beta: float = 0.1,
    divide: bool = False,
    image_mask=None,
    caption_mask=None,
    normalise: bool = False,
) -> Float[Tensor, "i t"]:
    """Every query element finds its partner in the other item, and how well each of them is matched is pooled.

    Coding: the relevance r of each query element, a cosine for unit vectors.
        vha  r_l = max_k v_k·t_l                                      words, each with its best region
        tha  r_k = max_l v_k·t_l                                      regions, each with its best word
        vsa  r_k = cos(v_k, Σ_l softmax_l(v_k·t_l / α) t_l)           regions, each with the words it attends to
    Pooling over the n real query elements of an item:
        max, mean, sum;   softmax  Σ r e^{r/β} / Σ e^{r/β};
        lse  log Σ e^{r/β}, as the authors compute it, or with divide β log Σ e^{r/β}, as their paper has it

    Args: images "i k d", captions "t l d", ragged by mask. alpha: temperature of the soft assignment, read by 'vsa'
        only. beta: temperature of 'lse' and 'softmax', dimensionless. divide: multiply 'lse' by β, so that scores are
        on the scale of cosines (docs/differences.md#x-85); read by 'lse' only. image_mask "i k", caption_mask "t l":
        beside plain tensors only, True for real elements. normalise: see `cosine`. A cosine of −1 is a value like any
        other (docs/differences.md#x-87), and padding has the weight 0 (docs/differences.md#x-86).
    Returns: "i t"; for unit vectors max, mean and softmax lie in [−1, 1], sum in ±n, lse in [−1/β, 1/β] + log n, times
        β with divide.
    Raises: BadInput for an unknown coding or pooling, or a temperature that is not positive and finite.
    Source: Pan et al., CVPR 2023 (CHAN), equation numbers unverified; docs/methods/chan.md. vha + sum is `sum_max`,
        vsa + mean is `scan` (i2t, no_norm, sharpness 1/α), ½(vha + tha, mean) is `chamfer`.

    >>> import torch
    >>> chan(torch.eye(2)[None], torch.eye(2)[:, None], pooling="mean")
    tensor([[1., 1.]])
    >>> chan(torch.eye(2)[None], torch.eye(2)[None], beta=1.0, divide=True)  # 1 + log 2
    tensor([[1.6931]])
    """
    _check(coding, pooling, alpha, beta, divide)
    images, captions = as_sets(images, captions, image_mask, caption_mask, normalise)

    def score(images: EmbeddingSet, captions: EmbeddingSet) -> Tensor:
        relevance, mask = _coded(images, captions, coding, alpha)
        return _scaled(pooled(relevance, mask, pooling, 1 / beta, 2), pooling, beta, divide)

    return bucket_by_length(score, images, captions)


def _check(coding: str, pooling: str, alpha: float, beta: float, divide: bool) -> None:
    """Raise BadInput as `chan` does."""
    require_choice("coding", coding, CODINGS)
    require_choice("pooling", pooling, POOLINGS)
    require_number("alpha", alpha, above=0, hint="CHAN uses 0.1.")
    require_number("beta", beta, above=0, hint="CHAN uses 0.1.")
    require_flag("divide", divide)


class Chan(Similarity):
    """`chan` as a similarity. With pooling 'mean' or 'sum' each query element adds its own term, and the elements that
    it is compared with add nothing. Attention is that of the coding: 1 on the best partner, or the weights of 'vsa'.
    Its settings are the temperatures that coding and pooling read.

    >>> Chan("vsa").settings, Chan("tha", "mean").settings, Chan("tha").direction
    ({'alpha': 0.1, 'beta': 0.1}, {}, 'i2t')
    """

    function = staticmethod(chan)
    compares = "tokens"

    def __init__(
        self, coding: str = "vha", pooling: str = "lse", alpha: float = 0.1, beta: float = 0.1, divide: bool = False
    ):
        _check(coding, pooling, alpha, beta, divide)
        super().__init__(coding=coding, pooling=pooling, alpha=float(alpha), beta=float(beta), divide=divide)
        self.direction = CODINGS[coding]
        is_read = {"alpha": coding == "vsa", "beta": pooling in ("lse", "softmax")}
        self.ranges = {name: RANGES[name] for name in RANGES if is_read[name]}
        self.block_scale = 8 if coding == "vsa" else 1  # its scores without gradients cut blocks as those of Scan do

    def attention(self, images: Comparable, captions: Comparable) -> Float[Tensor, "i t q c"]:
        if self.options["coding"] == "vsa":
            return scan_attention(images, captions, "i2t", 1 / self.options["alpha"], "no_norm")
        return best_partners(images, captions, self.direction)

    def _fast_scores(self, images, captions):
        o = self.options
        if o["coding"] != "vsa":
            return None

        def score(images: EmbeddingSet, captions: EmbeddingSet) -> Tensor:
            how = (1 / o["alpha"], o["pooling"], 1 / o["beta"], "no_norm", 0.0)
            return _scaled(scan_scores(captions, images, *how, pooled).T, o["pooling"], o["beta"], o["divide"])

        return bucket_by_length(score, *as_sets(images, captions, normalise=ANY_LENGTH), split_equal=False)

    def _parts(self, x, y):
        o = self.options
        if o["pooling"] not in ("mean", "sum"):
            return None
        terms = _coded(*as_sets(x[None], y[None]), o["coding"], o["alpha"])[0].flatten()
        return terms_of_queries(terms, len(x if self.direction == "t2i" else y), self.direction, o["pooling"])


def pooled(
    relevance: Float[Tensor, "..."], mask: Bool[Tensor, "..."], how: str, scale: float, dim: int
) -> Float[Tensor, "i t"]:
    """Relevances put together over the real query elements along `dim`: `scan.aggregated`, and 'softmax' with weights
    e^{scale · r}. 'lse' is divided by its scale here.
    """
    if how != "softmax":
        return aggregated(relevance, mask, how, scale, dim)
    relevance = torch.where(mask, relevance, 0.0)  # padding may be −inf, and 0 · −inf is NaN
    return (masked_softmax(scale * relevance, mask, dim=dim) * relevance).sum(dim)


def _coded(
    images: EmbeddingSet, captions: EmbeddingSet, coding: str, alpha: float
) -> tuple[Float[Tensor, "i t q"], Bool[Tensor, "#i #t q"]]:
    """(relevance of each query element, which are real; the mask has length 1 on the axis of the other item)."""
    if coding == "vsa":
        relevance = attended_cosines(captions, images, 1 / alpha, "no_norm", 0.0).transpose(0, 1)  # i t k
    else:
        (relevance,) = best_products(images, captions, CODINGS[coding])
        relevance = relevance if coding == "vha" else relevance.transpose(1, 2)
    return relevance, captions.mask[None] if coding == "vha" else images.mask[:, None]


def _scaled(scores: Float[Tensor, "i t"], pooling: str, beta: float, divide: bool) -> Float[Tensor, "i t"]:
    """'lse' undone of its division, unless that is wanted."""
    return scores / beta if pooling == "lse" and not divide else scores
