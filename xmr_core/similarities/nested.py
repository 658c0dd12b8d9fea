"""Nested sets: train the first elements of every set to stand alone, and compare sets by their first elements only."""

from collections.abc import Iterable

from jaxtyping import Float
from torch import Tensor

from xmr_core.base.errors import BadInput
from xmr_core.base.tensors import ANY_LENGTH, Comparable, as_set, as_sets, may_branch
from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities.base import Contributions, Similarity, as_similarity


def first_elements(sets: Comparable, budget: int | None, what: str = "image") -> Comparable:
    """The first `budget` real elements of every set, "n k d" → "n budget d"; None, or k, gives the sets as they are.

    A set with fewer real elements than the budget keeps those that it has. what: the modality, for messages.
    Raises: BadInput for a budget below 1 or above k.

    >>> import torch
    >>> first_elements(torch.eye(4)[None], 2).x.shape
    torch.Size([1, 2, 4])
    """
    if budget is None:
        return sets
    full = as_set(sets, what=what)
    size = full.x.shape[1]
    if budget > size:
        raise BadInput(f"a budget of {budget} elements is more than the {size} that the sets of the {what}s have.")
    if budget == size:
        return sets
    if may_branch(full.mask) and full.mask[:, :budget].all():
        return EmbeddingSet(full.x[:, :budget], full.mask[:, :budget])
    order = full.mask.logical_not().int().argsort(dim=1, stable=True)[:, :budget]  # padding may stand anywhere
    return EmbeddingSet(full.x.gather(1, order[..., None].expand(-1, -1, full.x.shape[2])), full.mask.gather(1, order))


class _Around(Similarity):
    """A similarity that says of itself whatever the one inside it says. Raises: BadInput unless it compares sets."""

    def __init__(self, similarity: Similarity):
        super().__init__()
        inner = as_similarity(similarity)
        if inner.compares not in ("sets", "tokens"):
            raise BadInput(f"{inner.name} compares {inner.compares}, which have no first elements. Take SmoothChamfer.")
        self.inner, self.of_units = inner, inner.of_units
        self.symmetric, self.direction, self.compares = inner.symmetric, inner.direction, inner.compares
        self.block_scale, self.ranges = inner.block_scale, inner.ranges

    @property
    def settings(self) -> dict[str, float]:
        return self.inner.settings

    @property
    def name(self) -> str:
        return self.inner.name

    def forward(self, images: Comparable, captions: Comparable, **masks) -> Float[Tensor, "i t"]:
        return self.inner(*self._first(*self._sets(images, captions, **masks)))

    def score(self, images: Comparable, captions: Comparable) -> Float[Tensor, "i t"]:
        return self.inner.score(*self._first(*self._sets(images, captions)))

    def contributions(self, image: Comparable, caption: Comparable) -> Contributions:
        return self.inner.contributions(*self._first(image, caption))

    def attention(self, images: Comparable, captions: Comparable) -> Float[Tensor, "i t q c"]:
        return self.inner.attention(*self._first(*self._sets(images, captions)))

    def replace(self, **settings: float) -> Similarity:
        return type(self)(self.inner.replace(**settings), **self.own) if settings else self

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.own.items())

    def _sets(self, images: Comparable, captions: Comparable, **masks) -> tuple[EmbeddingSet, EmbeddingSet]:
        return as_sets(images, captions, **{"normalise": False if self.of_units else ANY_LENGTH, **masks})

    def _first(self, images: Comparable, captions: Comparable) -> tuple[Comparable, Comparable]:
        return images, captions


class Nested(_Around):
    """A set similarity that is trained on prefixes of the sets: the first k elements, for every k in `prefixes`.

    ℒ = 1/|P| Σ_{k ∈ P} ℒ_score(s(I⁽ᵏ⁾, T⁽ᵏ⁾)) + regularisers(I, T), where I⁽ᵏ⁾ are the first k elements of I.

    Everything else is the similarity inside: scores, contributions and attention are those of the full sets, and its
    learned parameters are trained by all prefixes. `Truncated` compares by fewer elements after training.

    Args: similarity: of sets (SmoothChamfer, MaxPairwise, …). prefixes: numbers of elements, each at least 1,
        increasing; end with the size of the sets if the full sets shall be trained.
    Shapes: "i k d", "t l d", ragged by mask → "i t"; `scorings` gives one "i t" for each prefix.
    Raises: BadInput for a similarity of anything but sets, for prefixes that are no increasing numbers of at least 1,
        and, when scored, for a prefix above the size of the sets.
    Source: prefixes of a set with equal weights, after MetaEmbed (ICLR 2026; docs/differences.md#x-96 and #x-97), which
        nests pairs of different numbers; nesting itself, in the width of a vector, is Kusupati et al., NeurIPS 2022.
        docs/methods/nested_sets.md.

    >>> import torch
    >>> from xmr_core.similarities import MaxPairwise
    >>> images, captions = torch.eye(2)[None], torch.tensor([[[0.6, 0.8], [1.0, 0.0]]])
    >>> [scores.item() for scores in Nested(MaxPairwise(), (1, 2)).scorings(images, captions)]
    [0.6000000238418579, 1.0]
    """

    def __init__(self, similarity: Similarity, prefixes: Iterable[int] = (1, 2, 4)):
        super().__init__(similarity)
        self.prefixes = tuple(prefixes)
        increasing = sorted({*self.prefixes}) == [*self.prefixes]
        if not self.prefixes or not increasing or not all(_is_budget(prefix) for prefix in self.prefixes):
            raise BadInput(f"prefixes must be increasing numbers of at least 1, as 1, 2, 4; got {list(self.prefixes)}.")
        self.scoring_weight, self.own = 1.0 / len(self.prefixes), {"prefixes": self.prefixes}

    @classmethod
    def doubling(cls, similarity: Similarity, slots: int) -> "Nested":
        """With the prefixes 1, 2, 4, … below the number of slots, and all slots. Raises: BadInput for a single slot.

        >>> from xmr_core.similarities import Chamfer
        >>> Nested.doubling(Chamfer(), 6).prefixes
        (1, 2, 4, 6)
        """
        if slots < 2:
            raise BadInput(f"nested sets need at least 2 slots, got {slots}. Give slots=4, or leave nested out.")
        return cls(similarity, doubled(slots))

    def scorings(self, images: Comparable, captions: Comparable) -> list[Float[Tensor, "i t"]]:
        """One score matrix for each prefix, shortest first."""
        images, captions = self._sets(images, captions)
        pairs = ((first_elements(images, k), first_elements(captions, k, "caption")) for k in self.prefixes)
        return [self.inner(*pair) for pair in pairs]


class Truncated(_Around):
    """A set similarity with a budget: it reads the first elements of image sets and of caption sets, and no others.

    s(I, T) = s_inner(I⁽ʳ⁾, T⁽ᵠ⁾) with r = `images` and q = `captions` elements. A pair costs r·q products, not k·l.

    Args: similarity: of sets, nested or not; it is shared, not copied. images, captions: numbers of elements, at least
        1; None for all, which gives the scores of the similarity itself to the last bit.
    Shapes: "i k d", "t l d", ragged by mask → "i t". A set with fewer real elements than the budget keeps its own.
    Raises: BadInput for a similarity of anything but sets, and for a budget below 1 or above the size of the sets.
    Note: normalisers of a similarity are those of the elements that are read. Smooth-Chamfer then holds the offset
        ½ (ln r + ln q)/α: do not compare its scores, or one threshold, across budgets before subtracting it. Rankings
        at one budget are not affected.
    Source: as Nested; budgets of the two modalities may differ, as in MetaEmbed.

    >>> import torch
    >>> from xmr_core.similarities import Chamfer
    >>> Truncated(Chamfer(), images=1)(torch.eye(2)[None], torch.eye(2)[None])
    tensor([[0.7500]])
    """

    def __init__(self, similarity: Similarity, images: int | None = None, captions: int | None = None):
        super().__init__(similarity)
        self.images, self.captions = images, captions
        self.own = {"images": images, "captions": captions}
        if not all(budget is None or _is_budget(budget) for budget in self.own.values()):
            raise BadInput(f"numbers of elements must be whole, at least 1, or None for all; got {self.own}.")
        self.symmetric = self.inner.symmetric and images == captions

    def _first(self, images: Comparable, captions: Comparable) -> tuple[Comparable, Comparable]:
        return first_elements(images, self.images), first_elements(captions, self.captions, "caption")


def doubled(size: int) -> tuple[int, ...]:
    """1, 2, 4, … below `size`, and `size` itself.

    >>> doubled(4), doubled(6)
    ((1, 2, 4), (1, 2, 4, 6))
    """
    return (*(2**n for n in range((size - 1).bit_length())), size)


def _is_budget(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size >= 1
