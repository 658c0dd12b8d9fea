"""Similarities of sets of vectors: the best pair (MIL), match probability, Chamfer, and smooth-Chamfer."""

import math
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor, nn

from xmr_core.base.errors import require_choice, require_flag, require_number
from xmr_core.base.tensors import ANY_LENGTH, Comparable, as_sets, may_branch
from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities import pairs
from xmr_core.similarities.base import Range, Similarity, blockwise
from xmr_core.similarities.pairs import element_products, fill_padding, mean_of_both, real_products, real_rows

_FEW = 64  # elements of one modality that are compared with a gallery as it lies
_MOST = 64  # pairs of elements; of more, one large product is better than many small ones


def pair_matrices(
    images: EmbeddingSet, captions: EmbeddingSet, scale: float = 1.0
) -> list[list[Float[Tensor, "i t"]]] | None:
    """p[x][y] = scale · image element x · caption element y, for all pairs of items; the caller may overwrite them. No
    gradients.

    None where this form does not pay or does not hold: sets with padding, many elements, half precision, no items. One
    product of everything leaves the elements of an item side by side, and to add up four neighbours is several times
    slower than to add two matrices: with K = 4 and D = 1024 the reductions cost 5 to 15 % of the products in this form.
    """
    k, l = images.x.shape[1], captions.x.shape[1]
    small = 0 < k * l <= _MOST and {images.x.dtype, captions.x.dtype} <= {torch.float32, torch.float64}
    if not small or not len(images) or not len(captions) or not (images.mask.all() & captions.mask.all()):
        return None
    i, t = len(images), len(captions)
    with torch.autocast(images.x.device.type, enabled=False):
        if t * l <= _FEW:  # a query: to bring the gallery into another order would cost more than to multiply it
            y = _element_by_element(captions.x) * scale
            return [list((images.x[:, m] @ y.T).split(t, dim=1)) for m in range(k)]
        x = _element_by_element(images.x)
        x = x * scale if scale != 1.0 else x
        if i * k <= _FEW:
            columns = [(x @ captions.x[:, n].T).split(i) for n in range(l)]
            return [list(row) for row in zip(*columns, strict=True)]
        products = x @ _element_by_element(captions.x).T
    return [list(row.split(t, dim=1)) for row in products.split(i)]


def _element_by_element(x: Float[Tensor, "n k d"]) -> Float[Tensor, "kn d"]:
    """The first elements of all items, then the second ones, …"""
    return x.transpose(0, 1).flatten(0, 1)


_PLAIN_PRODUCT = 80.0  # e^±80 is still a float32: products of sums, of which one logarithm is taken instead of one each


def _bound(logits: list[list[Tensor]], x: Tensor, y: Tensor, alpha: float) -> float:
    """A bound of |logit|: the largest, or that of the norms where these are fewer numbers to read."""
    if sum(m.numel() for row in logits for m in row) > x.numel() + y.numel():
        return alpha * pairs.longest_row(x) * pairs.longest_row(y)
    return max(float(m.abs().max()) if m.numel() else 0.0 for row in logits for m in row)


# Multiple-instance similarity: the best pair of elements decides.


@blockwise
def max_pairwise(
    images: Comparable, captions: Comparable, image_mask=None, caption_mask=None, normalise: bool = False
) -> Float[Tensor, "i t"]:
    """s(I, T) = max over x ∈ I, y ∈ T of x·y, in [−1, 1]. Shapes: "i k d", "t l d", ragged by mask → "i t".
    normalise: see `cosine`.

    Source: Song & Soleymani, CVPR 2019 (PVSE), "MIL"; DivE, Table 3.

    >>> import torch
    >>> max_pairwise(torch.eye(2)[None], torch.tensor([[[0.6, 0.8]]]))
    tensor([[0.8000]])
    """
    images, captions = as_sets(images, captions, image_mask, caption_mask, normalise)
    return real_products(images, captions).amax((1, 3))


class MaxPairwise(Similarity):
    """`max_pairwise` as a similarity. The two elements of the best pair add one half each; the others add nothing.

    >>> import torch
    >>> MaxPairwise().contributions(torch.eye(2)[None], torch.tensor([[[0.6, 0.8]]])).images.round(6)
    array([0. , 0.4])
    """

    function = staticmethod(max_pairwise)
    symmetric = True

    def _fast_scores(self, images, captions):
        p = pair_matrices(*as_sets(images, captions, normalise=ANY_LENGTH))
        return None if p is None else reduce(torch.maximum, (m for row in p for m in row))

    def _parts(self, x, y):
        products = x @ y.T
        best = products == products.max()
        best &= best.flatten().cumsum(0).view_as(best) == 1  # one pair, should several be as good
        return (best * products / 2).sum(1), (best * products / 2).sum(0)


# Match probability of sets (MP): every pair of elements votes through a sigmoid.


class MatchProbability(Similarity):
    """s(I, T) = mean (or sum) over x ∈ I, y ∈ T of sigmoid(a x·y + b).

    Half of a vote counts for either of its two elements.

    Args: a, b: scale and shift. learned: train them (the paper); fixed otherwise (the authors' code,
        docs/differences.md#x-46). reduction: 'mean' (code) or 'sum' (paper, docs/differences.md#x-45); they differ by
        k·l, which changes what a margin means.
    Shapes: "i k d", "t l d", ragged by mask → "i t", in (0, 1) for the mean.
    Raises: BadInput for another reduction, a or b that is not finite, a that is not positive.
    Source: Chun et al., CVPR 2021 (PCME) as used on sets in DivE, Table 3 ("MP").

    >>> import torch
    >>> MatchProbability()(torch.eye(2), torch.tensor([[0.0, 1.0]])).round(decimals=4).flatten().tolist()
    [0.5, 0.7311000227928162]
    """

    symmetric = True

    def __init__(self, a: float = 1.0, b: float = 0.0, learned: bool = False, reduction: str = "mean"):
        require_number("a", a, above=0)
        require_number("b", b)
        require_flag("learned", learned)
        require_choice("reduction", reduction, ("mean", "sum"))
        super().__init__()
        self.a = nn.Parameter(torch.tensor(float(a)), requires_grad=learned)
        self.b = nn.Parameter(torch.tensor(float(b)), requires_grad=learned)
        self.reduction = reduction

    def forward(
        self, images: Comparable, captions: Comparable, image_mask=None, caption_mask=None, normalise: bool = False
    ) -> Float[Tensor, "i t"]:
        images, captions = as_sets(images, captions, image_mask, caption_mask, normalise)
        votes = (self.a * element_products(real_rows(images), real_rows(captions)) + self.b).sigmoid()
        total = fill_padding(votes, images, captions, 0.0).sum((1, 3))
        pairs = images.mask.sum(1)[:, None] * captions.mask.sum(1)[None, :]
        return total if self.reduction == "sum" else total / pairs.clamp(min=1)

    def extra_repr(self) -> str:
        return f"a={self.a.item():g}, b={self.b.item():g}, reduction={self.reduction!r}"

    def _fast_scores(self, images, captions):
        if (p := pair_matrices(*as_sets(images, captions, normalise=ANY_LENGTH))) is None:
            return None
        total = reduce(Tensor.add_, (m.mul_(self.a).add_(self.b).sigmoid_() for row in p for m in row))
        return total if self.reduction == "sum" else total.div_(len(p) * len(p[0]))

    def _parts(self, x, y):
        votes = (float(self.a) * (x @ y.T) + float(self.b)).sigmoid() / 2
        votes = votes if self.reduction == "sum" else votes / votes.numel()
        return votes.sum(1), votes.sum(0)


# Chamfer and smooth-Chamfer similarity of two embedding sets.


@blockwise
def smooth_chamfer(
    images: Comparable,
    captions: Comparable,
    alpha: float = 16.0,
    image_mask=None,
    caption_mask=None,
    normalise: bool = False,
) -> Float[Tensor, "i t"]:
    """Every element of each set looks for partners in the other, softly.

    s(I, T) = 1/(2α|I|) Σ_x log Σ_y e^{α x·y} + 1/(2α|T|) Σ_y log Σ_x e^{α x·y}

    Args: images "i k d", captions "t l d": unit rows, ragged by mask. alpha: inverse temperature, dimensionless, > 0;
        α → ∞ gives `chamfer`. image_mask "i k", caption_mask "t l": beside plain tensors only, True for real elements.
        normalise: see `cosine`.
    Returns: "i t", larger is more similar, at most 1 + (log k + log l)/2α, at least −1 plus the same; the cosine when
        k = l = 1.
    Raises: BadInput unless alpha is positive and finite.
    Source: Kim, Kim & Kwak, CVPR 2023 (DivE), smooth-Chamfer similarity; docs/methods/dive.md.
    Note: log Σ grows by log(l)/α with the size of a set. That is harmless for fixed sizes and favours long token sets.
        While α|x·y| cannot pass 40, one plain exponential serves both sums, without loss; past it each sum is shifted
        by its own maximum.

    >>> import torch
    >>> smooth_chamfer(torch.eye(2)[None], torch.eye(2)[:, None], alpha=100.0)
    tensor([[0.7500, 0.7500]])
    """
    _check_alpha(alpha)
    images, captions = as_sets(images, captions, image_mask, caption_mask, normalise)
    x, y = real_rows(images), real_rows(captions)
    plain = may_branch(x, y) and alpha * pairs.longest_row(x) * pairs.longest_row(y) <= pairs.PLAIN_EXPONENT
    logits = element_products(x, y).mul_(alpha)  # i k t l
    if plain:
        near = fill_padding(logits.exp_(), images, captions, 0.0)
        in_caption, in_image = near.sum(3).log(), near.sum(1).log()  # i k t, i t l
    else:
        logits = fill_padding(logits, images, captions, -math.inf)
        in_caption, in_image = logits.logsumexp(3), logits.logsumexp(1)
    return mean_of_both(in_caption, in_image, images, captions) / (2 * alpha)


@blockwise
def chamfer(
    images: Comparable, captions: Comparable, image_mask=None, caption_mask=None, normalise: bool = False
) -> Float[Tensor, "i t"]:
    """Every element of each set counts its best partner in the other.

    s(I, T) = 1/(2|I|) Σ_x max_y x·y + 1/(2|T|) Σ_y max_x x·y, in [−1, 1].

    Shapes, masks and normalise as in smooth_chamfer. Source: DivE, Table 3 ("Chamfer").

    >>> import torch
    >>> chamfer(torch.eye(2)[None], torch.eye(2)[:, None])
    tensor([[0.7500, 0.7500]])
    """
    images, captions = as_sets(images, captions, image_mask, caption_mask, normalise)
    return mean_of_both(*pairs.best_products(images, captions, "i2t", "t2i"), images, captions) / 2


def _check_alpha(alpha: float) -> None:
    """Raise BadInput unless alpha is a positive, finite number."""
    require_number("alpha", alpha, above=0, hint="DivE uses 16; 1 to 64 is the usual range.")


class SmoothChamfer(Similarity):
    """`smooth_chamfer` as a similarity. An element adds its own term of the sum.

    >>> SmoothChamfer().replace(alpha=4.0).settings
    {'alpha': 4.0}
    """

    function = staticmethod(smooth_chamfer)
    symmetric = True
    ranges = {"alpha": Range(1.0, 128.0, "α")}

    def __init__(self, alpha: float = 16.0):
        _check_alpha(alpha)
        super().__init__(alpha=float(alpha))

    def _fast_scores(self, images, captions):
        images, captions = as_sets(images, captions, normalise=ANY_LENGTH)
        alpha = self.options["alpha"]
        logits = pair_matrices(images, captions, alpha)
        if logits is None or (bound := _bound(logits, images.x, captions.x, alpha)) > pairs.PLAIN_EXPONENT:
            return None
        near = [[m.exp_() for m in row] for row in logits]
        total = 0.0
        for groups in (near, list(zip(*near, strict=True))):
            sums = (reduce(torch.add, group) for group in groups)
            together = len(groups) * (bound + math.log(len(groups[0]))) <= _PLAIN_PRODUCT
            logs = reduce(torch.mul, sums).log() if together else sum(s.log() for s in sums)
            total = logs.div_(len(groups)).add_(total)
        return total.div_(2 * alpha)

    def _parts(self, x, y):
        return _smooth_parts(x @ y.T, self.options["alpha"])


class Chamfer(Similarity):
    """`chamfer` as a similarity. An element adds its own term of the sum.

    >>> Chamfer().symmetric
    True
    """

    function = staticmethod(chamfer)
    symmetric = True

    def _fast_scores(self, images, captions):
        if (p := pair_matrices(*as_sets(images, captions, normalise=ANY_LENGTH))) is None:
            return None
        rows = sum(reduce(torch.maximum, row) for row in p) / (2 * len(p))
        columns = sum(reduce(torch.maximum, column) for column in zip(*p, strict=True))
        return rows.add_(columns, alpha=1 / (2 * len(p[0])))

    def _parts(self, x, y):
        products = x @ y.T
        return products.amax(1) / (2 * len(x)), products.amax(0) / (2 * len(y))


def _smooth_parts(near: Float[Tensor, "k l"], alpha: float) -> tuple[Tensor, Tensor]:
    """What each element of two sets adds to a smooth-Chamfer score, of how near their elements are to each other."""
    return tuple((alpha * near).logsumexp(dim) / (2 * alpha * near.shape[1 - dim]) for dim in (1, 0))


# Smooth-Chamfer on Euclidean distances instead of cosines.


@blockwise
def euclidean_smooth_chamfer(
    images: Comparable, captions: Comparable, alpha: float = 16.0, image_mask=None, caption_mask=None
) -> Float[Tensor, "i t"]:
    """s(I, T) = 1/(2α|I|) Σ_x log Σ_y e^{−α‖x−y‖} + 1/(2α|T|) Σ_y log Σ_x e^{−α‖x−y‖}: minus a smooth Chamfer distance.

    Args: images "i k d", captions "t l d", ragged by mask; any length of rows. alpha: inverse of a length, > 0.
    Returns: "i t", larger is more alike; at most (log k + log l)/2α. The gradient of ‖x − y‖ at x = y is taken as 0.
    Raises: BadInput unless alpha is positive and finite, for two widths or a set without a real element.
    Source: an option in DivE's code that its paper does not use (Kim, Kim & Kwak, CVPR 2023), where it is a distance:
        the minus of this.

    >>> import torch
    >>> euclidean_smooth_chamfer(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]))
    tensor([[-5.]])
    """
    _check_alpha(alpha)
    images, captions = as_sets(images, captions, image_mask, caption_mask, normalise=ANY_LENGTH)
    x, y = real_rows(images), real_rows(captions)
    near = fill_padding(-alpha * _distances(x, y), images, captions, -math.inf)
    return mean_of_both(near.logsumexp(3), near.logsumexp(1), images, captions) / (2 * alpha)


class EuclideanSmoothChamfer(SmoothChamfer):
    """`euclidean_smooth_chamfer` as a similarity. An element adds its own term of the sum.

    >>> EuclideanSmoothChamfer(alpha=4.0)
    EuclideanSmoothChamfer(alpha=4.0)
    """

    function = staticmethod(euclidean_smooth_chamfer)
    of_units = False

    def _fast_scores(self, images, captions):
        images, captions = as_sets(images, captions, normalise=ANY_LENGTH)
        return pairs.in_image_blocks(self.forward, images, captions, captions.x.numel() * images.x.shape[1])

    def _parts(self, x, y):
        return _smooth_parts(-_distances(x[None], y[None])[0, :, 0], self.options["alpha"])


def _distances(x: Float[Tensor, "i k d"], y: Float[Tensor, "t l d"]) -> Float[Tensor, "i k t l"]:
    """From differences, not from ‖x‖² + ‖y‖² − 2x·y: near 0 that form loses half of its digits."""
    return torch.linalg.vector_norm(x[:, :, None, None] - y[None, None], dim=-1)
