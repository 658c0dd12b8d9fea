"""What a similarity is, beyond a function of two representations, and plain functions in its place."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial, wraps
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from xmr_core.base.errors import BadInput, require_choice
from xmr_core.base.tensors import Comparable, as_set, as_sets
from xmr_core.base.types import Brief, EmbeddingSet, Representation, Rows
from xmr_core.similarities.pairs import steps_of

DIRECTIONS = ("t2i", "i2t")
_PRODUCTS = 1 << 26  # of elements at a time, where no gradient is wanted: 256 MB in float32
MASKS = {"image_mask", "caption_mask"}  # arguments of a plain function that are no options
TYPES: dict[Callable, type["Similarity"]] = {}  # plain function → the similarity that it is the plain form of


@dataclass(frozen=True)
class Contributions(Brief):
    """What the elements of one image and one caption add to their score, padding left out.

    products: dot products of all elements, "k l". images "k", captions "l": what each element adds; together they sum
    to the score. Both are None where the score is no sum over elements.
    """

    products: Float[np.ndarray, "k l"]
    images: Float[np.ndarray, " k"] | None = None
    captions: Float[np.ndarray, " l"] | None = None


@dataclass(frozen=True)
class Range:
    """Values of a setting that make sense, both ends included, and the symbol that papers use for it."""

    low: float
    high: float
    symbol: str


class Similarity(nn.Module):
    """Two representations in, scores[image, caption] out; larger is more alike.

    A subclass writes `forward`, or names a plain function (`function`) whose keyword arguments are its `options`, and
    `check` refuses what the function would. Everything else has a default. Contract: no state between calls, scores of
    a pair independent of the other pairs
    (except for batch statistics in training mode), blind to padding and to the order of elements, float64 results for
    float64 inputs.

    Class attributes:
        symmetric: whether an image can stand where a caption stands, so that images can be compared with images.
        direction: 't2i' where caption elements are queries that attend to image elements, 'i2t' the other way round,
            None where there are no such roles.
        block_scale: how many times larger blocks an evaluation may hand over than the budget of elements allows,
            because `score` cuts them into small ones itself.
        scoring_weight: factor on the loss that is summed over `scorings`; 1 leaves it a plain sum.
        compares: 'vectors', 'sets', 'tokens' (sets as long as the item), 'graphs' (tokens after a global vector),
            'samples' or 'distributions'.
        of_units: whether it is meant for unit vectors, so that plain tensors of other lengths are warned of.
        pairwise: whether large galleries may be cut into blocks; False for a function of which nothing is known.
        ranges: the options that can be changed after training, with sensible ranges.

    >>> import torch
    >>> class MeanProduct(Similarity):
    ...     symmetric = True
    ...     def forward(self, images, captions):
    ...         return images.x.mean(1) @ captions.x.mean(1).T
    >>> sets = as_set(torch.eye(2)[None])
    >>> MeanProduct().score(sets, sets)
    tensor([[0.5000]])
    """

    function: ClassVar[Callable | None] = None
    symmetric: bool = False
    direction: str | None = None
    block_scale: int = 1
    scoring_weight: float = 1.0
    compares: str = "sets"
    of_units: bool = True
    pairwise: bool = True
    ranges: ClassVar[Mapping[str, Range]] = {}

    def __init__(self, **options):
        super().__init__()
        if (plain := type(self).function) is not None:
            inspect.signature(plain).bind(None, None, **options)  # TypeError for an option that it does not have
        self.options = options

    def __init_subclass__(cls, **arguments):
        super().__init_subclass__(**arguments)
        if isinstance(plain := cls.__dict__.get("function"), staticmethod):
            TYPES.setdefault(plain.__func__, cls)  # a second class for the same function does not take its place

    def __call__(self, images: Comparable, captions: Comparable, **masks) -> Float[Tensor, "i t"]:
        # statistics of a batch lie in buffers, and are those of the whole batch
        together = not self.pairwise or (self.training and any(True for _ in self.buffers()))
        call = super().__call__
        return call(images, captions, **masks) if together else in_blocks(call, images, captions, **masks)

    def forward(self, images: Comparable, captions: Comparable, **masks) -> Float[Tensor, "i t"]:
        """The plain form, differentiable: what the equations say, and what training uses."""
        return type(self).function(images, captions, **self.options, **masks)

    @torch.no_grad()
    def score(self, images: Comparable, captions: Comparable) -> Float[Tensor, "i t"]:
        """The same scores without gradients, as fast as they can be had: what evaluation and search use."""
        return in_blocks(self._score, images, captions) if self.pairwise else self._score(images, captions)

    def _score(self, images: Comparable, captions: Comparable) -> Float[Tensor, "i t"]:
        if (fast := self._fast_scores(images, captions)) is None:
            return self(images, captions)
        if self.of_units and not (isinstance(images, Rows) and isinstance(captions, Rows)):
            as_sets(images, captions)  # which warns of other lengths
        return fast

    def scorings(self, images: Comparable, captions: Comparable) -> list[Float[Tensor, "i t"]]:
        """The score matrices over which a loss is summed in training; one, unless a similarity trains several."""
        return [self(images, captions)]

    def contributions(self, image: Comparable, caption: Comparable) -> Contributions:
        """What each element of one image and one caption adds to their score, in float64.

        Raises: BadInput unless both are sets, or single vectors, of one item.
        """
        x, y = _one_item(image, "image"), _one_item(caption, "caption")
        with torch.no_grad():
            parts = self._parts(x, y)
            return Contributions((x @ y.T).numpy(), *(p.numpy() for p in parts or ()))

    def attention(self, images: Comparable, captions: Comparable) -> Float[Tensor, "i t q c"]:
        """Weights of the context elements c for each query element q (see `direction`); rows sum to 1.

        Raises: BadInput for a similarity without attention.
        """
        raise BadInput(f"{self.name} has no attention between elements; take Scan or Sgraf.")

    def element_weights(self, images: Comparable, captions: Comparable) -> dict[str, Float[Tensor, "i t n"]]:
        """How much each node of a pair counts for its score, by the part of the similarity that weighs it.

        Raises: BadInput for a similarity that weighs no nodes.
        """
        raise BadInput(f"{self.name} has no nodes to weigh; take Sgraf.")

    @property
    def settings(self) -> dict[str, float]:
        """Options that can be changed after training, with their values."""
        return {name: self.options[name] for name in self.ranges}

    def replace(self, **settings: float) -> "Similarity":
        """The same similarity with other settings. Raises: BadInput for a setting that it does not have."""
        for name in settings:
            require_choice(f"setting of {self.name}", name, self.ranges)
        if not settings:
            return self
        other = type(self)(**{**self.options, **settings})
        other.load_state_dict(self.state_dict())  # what was learned stays
        return other.train(self.training)

    @property
    def name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())

    def _fast_scores(self, images: Comparable, captions: Comparable) -> Float[Tensor, "i t"] | None:
        """Scores by another way than `forward`, or None where there is no faster one."""
        return None

    def _parts(self, x: Float[Tensor, "k d"], y: Float[Tensor, "l d"]) -> tuple[Tensor, Tensor] | None:
        """What each real element of an image and of a caption adds to the score; None where there is no such sum."""
        return None


def roles(images: EmbeddingSet, captions: EmbeddingSet, direction: str) -> tuple[EmbeddingSet, EmbeddingSet]:
    """(contexts, queries): captions are the queries for 't2i', images for 'i2t'. Raises: BadInput for another word."""
    require_choice("direction", direction, DIRECTIONS)
    return (images, captions) if direction == "t2i" else (captions, images)


def _one_item(items: Comparable, what: str) -> Float[Tensor, "k d"]:
    """The real elements of the only item, in float64."""
    item = as_set(items, what=what)
    if len(item) != 1:
        raise BadInput(f"contributions are those of one image and one caption, got {len(item)} {what}s.")
    return item.x[0][item.mask[0]].detach().cpu().double()


# Galleries that are too large for all products at once.


def in_blocks(
    score: Callable[..., Tensor], images: Comparable, captions: Comparable, **options
) -> Float[Tensor, "i t"]:
    """score(images, captions, …), 64 million products of elements at a time where no gradient is wanted, so that large
    galleries cost little memory beside their scores. options: masks, cut as their items are, and others."""
    i, t = (_elements(items) for items in (images, captions))
    if torch.compiler.is_compiling() or i * t <= _PRODUCTS or _learned(images, captions):
        return score(images, captions, **options)
    i_step, t_step = (max(1, int(len(items) * _PRODUCTS**0.5 / n)) for items, n in ((images, i), (captions, t)))
    out = None
    for rows in steps_of(len(images), i_step):
        for columns in steps_of(len(captions), t_step):
            cuts = {"image_mask": rows, "caption_mask": columns}
            own = {name: v[cuts[name]] if name in cuts and v is not None else v for name, v in options.items()}
            block = score(images[rows], captions[columns], **own)
            out = block.new_empty(len(images), len(captions)) if out is None else out
            out[rows, columns] = block
    return out


def blockwise(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A plain similarity that goes `in_blocks`."""
    signature = inspect.signature(function)

    @wraps(function)
    def call(images: Comparable, captions: Comparable, *arguments, **options) -> Float[Tensor, "i t"]:
        return in_blocks(function, **signature.bind(images, captions, *arguments, **options).arguments)

    return call


def _elements(items: Comparable) -> int:
    """Vectors of all items, at least, that are multiplied with those of the other modality."""
    if isinstance(items, Rows):
        samples = getattr(items, "samples", None)
        items = getattr(items, fields(items)[0].name) if samples is None else samples
    if isinstance(items, list | tuple):
        return sum(math.prod(getattr(part, "shape", ())[:-1]) for part in items)
    return math.prod(getattr(items, "shape", ())[:-1])


def _learned(*modalities: Comparable) -> bool:
    """Whether a gradient towards what is compared is wanted."""
    tensors = (t for items in modalities for t in (vars(items).values() if isinstance(items, Rows) else [items]))
    return torch.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in tensors)


# Plain functions in the place of a similarity.


class FunctionSimilarity(Similarity):
    """A function of (images, captions) as a similarity of which nothing else is known. It receives what it is given.

    >>> import torch
    >>> FunctionSimilarity(lambda images, captions: images @ captions.T)(torch.eye(2), torch.eye(2)).shape
    torch.Size([2, 2])
    """

    pairwise = False

    def __init__(self, function: Callable[[Representation, Representation], Tensor]):
        super().__init__()
        bound = _bound(function)
        self.wrapped, self.arguments, self.keywords = bound.func, bound.args, bound.keywords

    def forward(self, images: Representation, captions: Representation) -> Float[Tensor, "i t"]:
        return self.wrapped(*self.arguments, images, captions, **self.keywords)

    def scorings(self, images: Representation, captions: Representation) -> list[Float[Tensor, "i t"]]:
        several = getattr(self.wrapped, "scorings", super().scorings)
        return several(images, captions)

    @property
    def name(self) -> str:
        return getattr(self.wrapped, "__name__", type(self.wrapped).__name__)


def as_similarity(function: Similarity | Callable[[Representation, Representation], Tensor]) -> Similarity:
    """A Similarity as it is; a plain function of this package (with keywords bound by `partial`, or without) as the
    similarity whose plain form it is; any other function as a FunctionSimilarity.

    >>> from functools import partial
    >>> from xmr_core.similarities.sets import smooth_chamfer
    >>> as_similarity(partial(smooth_chamfer, alpha=4.0))
    SmoothChamfer(alpha=4.0)
    """
    bound = _bound(function)
    if not bound.args:
        if isinstance(bound.func, Similarity) and not bound.keywords:
            return bound.func
        form = TYPES.get(bound.func) if bound.func.__hash__ else None
        # of scan `normalise` names a way of attention
        if form is not None and not MASKS & set(bound.keywords) and bound.keywords.get("normalise") is not True:
            return form(**bound.keywords)
    return FunctionSimilarity(function)


def _bound(function: object) -> partial:
    if not callable(function) or isinstance(getattr(function, "func", function), type):
        raise BadInput(f"a similarity must be a Similarity or a function of (images, captions), got {function!r}.")
    return function if isinstance(function, partial) else partial(function)
