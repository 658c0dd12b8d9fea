"""Which images are relevant to a caption: its own, those of its class, or those that show nearly the same objects."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from xmr_core.base.checks import require_number
from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance

ZETAS = (0, 1, 2)  # PMRP is the mean over these; docs/differences.md#x-50


@dataclass(frozen=True)
class TwoWayRelevance(Relevance):
    """A Relevance whose two directions were judged separately, so that the transpose has pairs of its own.

    The lists of this object are those of its queries; `backward` is the other direction. It can be transposed and
    restricted like any Relevance, so evaluation treats it like any other.
    Raises: BadInput, when the ids of `backward` are not those of this object, in the same order, with the roles
        swapped.
    >>> forward = Relevance.from_pairs([("c1", "i2")], ["c1", "c2"], ["i1", "i2"])
    >>> backward = Relevance.from_pairs([("i1", "c1"), ("i2", "c1")], ["i1", "i2"], ["c1", "c2"])
    >>> TwoWayRelevance.join(forward, backward).transpose().counts
    array([1, 1])
    """

    backward: Relevance

    def __post_init__(self):
        super().__post_init__()
        pairs = (self.query_ids, self.backward.gallery_ids), (self.gallery_ids, self.backward.query_ids)
        if not all(np.array_equal(*pair) for pair in pairs):
            raise BadInput("two directions need the same ids: the queries of the one are the gallery of the other.")

    @classmethod
    def join(cls, forward: Relevance, backward: Relevance) -> "TwoWayRelevance":
        """From two directions, such as captions → images and images → captions."""
        return cls(forward.indptr, forward.indices, forward.query_ids, forward.gallery_ids, backward)

    def transpose(self) -> "TwoWayRelevance":
        """The other direction, as it was judged."""
        forward = Relevance(self.indptr, self.indices, self.query_ids, self.gallery_ids)
        return TwoWayRelevance.join(self.backward, forward)

    def restrict(self, queries: np.ndarray, gallery: np.ndarray) -> "TwoWayRelevance":
        """Both directions among some positions only, renumbered in that order."""
        return TwoWayRelevance.join(super().restrict(queries, gallery), self.backward.restrict(gallery, queries))


def annotated_relevance(
    images: pd.DataFrame, captions: pd.DataFrame, more_pairs: Mapping[str, Iterable[tuple]] | None = None
) -> dict[str, Callable[[str], Relevance]]:
    """Relevance sets, name → split → Relevance, with captions as queries and images as gallery.

    'annotated' comes first: a caption and its own image. Args: images: index image_id, column split. captions: index
    caption_id, columns image_id and split. more_pairs: names of further sets, and the (caption_id, image_id) pairs that
    each of them adds to the annotated ones; pairs with an id that is not in the split are left out.
    >>> images = pd.DataFrame({"split": "test"}, index=["i1", "i2"])
    >>> captions = pd.DataFrame({"image_id": ["i1", "i2"], "split": "test"}, index=["c1", "c2"])
    >>> sets = annotated_relevance(images, captions, {"human": [("c1", "i2")]})
    >>> [sets[name]("test").counts.tolist() for name in sets]
    [[1, 1], [2, 1]]
    """
    more_pairs = {"annotated": (), **{name: list(pairs) for name, pairs in (more_pairs or {}).items()}}

    @cache
    def relevance(name: str, split: str) -> Relevance:
        owner = captions.loc[captions["split"] == split, "image_id"]
        gallery = images.index[images["split"] == split]
        queries, members = set(owner.index), set(gallery)
        more = [(c, i) for c, i in more_pairs[name] if c in queries and i in members]
        return Relevance.from_pairs([*owner.items(), *more], owner.index.to_numpy(), gallery.to_numpy())

    return {name: partial(relevance, name) for name in more_pairs}


def plausible_match(
    codes: Int[np.ndarray, "i c"],
    image_of: Int[np.ndarray, " t"],
    zeta: int,
    labelled: Bool[np.ndarray, " i"] | None = None,
    caption_ids: Sequence | None = None,
    image_ids: Sequence | None = None,
) -> Relevance:
    """Captions as queries, images as gallery; relevant where Σ_c |codes[image_of[t], c] − codes[i, c]| ≤ ζ.

    Args: codes: 1 where an image shows an object of class c, else 0. image_of: position of the image for which a
        caption was written. zeta: how many classes may differ, ≥ 0. labelled: False removes an image from the gallery
        and its captions from the queries (48 of COCO's 5,000 images have no label). Ids default to positions.
    Raises: BadInput for a negative ζ, codes other than 0 and 1, or shapes that do not fit.
    Source: Chun et al., CVPR 2021 (PCME): PMRP is the mean R-Precision over ζ = 0, 1, 2;
    docs/evaluation.md#evaluation-pmrp.
    >>> plausible_match(np.array([[1, 0], [1, 1], [0, 1]]), np.arange(3), zeta=1).counts
    array([2, 3, 2])
    """
    codes, image_of = np.asarray(codes), np.asarray(image_of)
    labelled = np.ones(len(codes), bool) if labelled is None else np.asarray(labelled, bool)
    require_number("ζ", zeta, 0, hint="PMRP averages 0, 1 and 2.")
    if codes.ndim != 2 or not np.isin(codes, (0, 1)).all() or len(labelled) != len(codes):
        raise BadInput(f"label codes are 0 or 1, images × classes; got {codes.shape}, and {len(labelled)} labels.")
    if len(image_of) and not 0 <= image_of.min() <= image_of.max() < len(codes):
        raise BadInput(f"captions are of images 0 … {len(codes) - 1}, got {image_of.min()} … {image_of.max()}.")
    x = codes.astype(np.int32)
    near = x.sum(1)[:, None] + x.sum(1)[None] - 2 * x @ x.T <= zeta  # Hamming distance of codes of 0 and 1
    caption_ids = np.arange(len(image_of)) if caption_ids is None else caption_ids
    image_ids = np.arange(len(codes)) if image_ids is None else image_ids
    relevance = Relevance.from_matrix(near[image_of], caption_ids, image_ids)
    return relevance.restrict(np.flatnonzero(labelled[image_of]), np.flatnonzero(labelled))


def same_class(
    query_class: Sequence,
    gallery_class: Sequence,
    query_ids: Sequence | None = None,
    gallery_ids: Sequence | None = None,
) -> Relevance:
    """Relevant is every item of the query's class; docs/evaluation.md#evaluation-cub. Ids default to positions.

    >>> same_class(["gull", "wren"], ["wren", "wren", "gull"]).counts
    array([1, 2])
    """
    query_class, gallery_class = np.asarray(query_class), np.asarray(gallery_class)
    query_ids = np.arange(len(query_class)) if query_ids is None else query_ids
    gallery_ids = np.arange(len(gallery_class)) if gallery_ids is None else gallery_ids
    return Relevance.from_matrix(query_class[:, None] == gallery_class[None], query_ids, gallery_ids)
