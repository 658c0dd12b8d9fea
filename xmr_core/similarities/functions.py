"""Plain functions in the place of a similarity."""

from collections.abc import Callable
from functools import partial

from jaxtyping import Float
from torch import Tensor

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Representation
from xmr_core.similarities.base import MASKS, TYPES, Similarity


class FunctionSimilarity(Similarity):
    """A function of (images, captions) as a similarity of which nothing else is known. It receives what it is given.

    >>> import torch
    >>> FunctionSimilarity(lambda images, captions: images @ captions.T)(torch.eye(2), torch.eye(2)).shape
    torch.Size([2, 2])
    """

    def __init__(self, function: Callable[[Representation, Representation], Tensor]):
        super().__init__()
        if not callable(function):
            raise BadInput(
                f"a similarity must be a Similarity or a function of (images, captions), got {type(function).__name__}."
            )
        bound = function if isinstance(function, partial) else partial(function)
        if isinstance(bound.func, type):
            name = bound.func.__name__
            raise BadInput(f"a similarity must be an object or a function, got the class {name}; write {name}(…).")
        # a module registers itself
        self.wrapped, self.arguments, self.keywords = bound.func, bound.args, bound.keywords

    def forward(self, images: Representation, captions: Representation) -> Float[Tensor, "i t"]:
        return self.wrapped(*self.arguments, images, captions, **self.keywords)

    def scorings(self, images: Representation, captions: Representation) -> list[Float[Tensor, "i t"]]:
        several = getattr(self.wrapped, "scorings", None)
        return several(images, captions) if several else super().scorings(images, captions)

    @property
    def name(self) -> str:
        return getattr(self.wrapped, "__name__", type(self.wrapped).__name__)


def as_similarity(function: Similarity | Callable[[Representation, Representation], Tensor]) -> Similarity:
    """A Similarity as it is; a plain function of this package (with keywords bound by `partial`, or without) as the
    similarity whose plain form it is; any other function as a FunctionSimilarity.

    >>> from functools import partial
    >>> from xmr_core.similarities.chamfer import smooth_chamfer
    >>> as_similarity(partial(smooth_chamfer, alpha=4.0))
    SmoothChamfer(alpha=4.0)
    """
    if isinstance(function, Similarity):
        return function
    bare, keywords = function, {}
    if isinstance(function, partial) and not function.args:
        bare, keywords = function.func, function.keywords
    if isinstance(bare, Similarity) and not keywords:
        return bare
    form = TYPES.get(bare) if callable(bare) and bare.__hash__ else None
    if form is not None and not MASKS & set(keywords):
        return form(**keywords)
    return FunctionSimilarity(function)
