"""Relevance that was judged in each direction for itself."""

from dataclasses import dataclass

import numpy as np

from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance


@dataclass(frozen=True)
class BothWays(Relevance):
    """A Relevance whose transpose is not its own pairs turned round but what was judged when asked from the other side.

    The lists of the object itself belong to its queries; `back` holds the other direction, its queries being this one's gallery.
    Everything that evaluates both directions of a Relevance by transpose and restrict works on it as it is.
    Raises: BadInput when the ids of `back` are not these ids, in this order, the other way round.
    """

    back: Relevance

    def __post_init__(self):
        super().__post_init__()
        if not (np.array_equal(self.query_ids, self.back.gallery_ids) and np.array_equal(self.gallery_ids, self.back.query_ids)):
            raise BadInput("two directions of one relevance need the same ids: the queries of the one are the gallery of the other.")

    @classmethod
    def of(cls, there: Relevance, back: Relevance) -> "BothWays":
        """there: e.g. captions → images; back: images → captions."""
        return cls(there.indptr, there.indices, there.query_ids, there.gallery_ids, back)

    def transpose(self) -> "BothWays":
        """The other direction as it was judged."""
        return BothWays.of(self.back, Relevance(self.indptr, self.indices, self.query_ids, self.gallery_ids))

    def restrict(self, queries: np.ndarray, gallery: np.ndarray) -> "BothWays":
        """Both directions among some positions only, renumbered in that order."""
        return BothWays.of(super().restrict(queries, gallery), self.back.restrict(gallery, queries))
