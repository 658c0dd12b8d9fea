"""The types that flow through the study. Frozen, row-wise, no behaviour beyond slicing and moving.

    file → Corpus → Batch → encoder → Features → head → Representation → similarity → scores[image, caption] → loss
                                                             └→ retrieval → RelevantRanks → metrics → rows → figure

Axis letters, everywhere the same: n items, i images, t captions, l local elements (cells, regions, words), k set
elements, d width. Mask True = real element, False = padding.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Rows:
    """Items stored row-wise: every tensor field has the item axis first; fields that are None stay None."""

    def _map(self, f):
        changed = {q.name: f(v) for q in fields(self) if isinstance(v := getattr(self, q.name), Tensor)}
        return replace(self, **changed)

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def __getitem__(self, rows):
        """The items `rows` (slice, index tensor or Boolean tensor); one integer keeps the item axis."""
        rows = slice(rows, rows + 1 or None) if isinstance(rows, int) else rows
        return self._map(lambda t: t[rows])

    def to(self, *where):
        return self._map(lambda t: t.to(*where))


@dataclass(frozen=True)
class Tokens(Rows):
    """Captions as word numbers. ids: vocabulary rows, `<start>` … `<end>` included, 0 on padding."""

    ids: Int[Tensor, "n l"]
    mask: Bool[Tensor, "n l"]


@dataclass(frozen=True)
class Pixels(Rows):
    """Pictures as numbers in [0, 1], RGB, for encoders that learn from pixels."""

    x: Float[Tensor, "n 3 h w"]


@dataclass(frozen=True)
class Features(Rows):
    """What an encoder makes: one vector per cell, region or word, and one for the whole item.

    global_feat is None for frozen features that carry local vectors only; the encoder then pools its own. Frozen features
    whose local vectors were reduced bring the pooled vector of full width ("n e" then, before any encoder).
    """

    local_feats: Float[Tensor, "n l e"]
    mask: Bool[Tensor, "n l"]
    global_feat: Float[Tensor, "n d"] | None = None


@dataclass(frozen=True)
class Embedding(Rows):
    """One vector per item (unit L2 norm unless the recipe says otherwise)."""

    x: Float[Tensor, "n d"]


@dataclass(frozen=True)
class EmbeddingSet(Rows):
    """A set of vectors per item. Tokens of SCAN and SGRAF, slots of DivE and heads of PVSE are all this.

    residual: the set before it was fused with the global feature, read by the diversity losses.
    attention: weight of each local element for each set element, "n k l", for pictures; None unless asked for.
    """

    x: Float[Tensor, "n k d"]
    mask: Bool[Tensor, "n k"]
    residual: Float[Tensor, "n k d"] | None = None
    attention: Float[Tensor, "n k l"] | None = None


@dataclass(frozen=True)
class GaussianEmbedding(Rows):
    """A normal distribution with a diagonal covariance per item.

    mean: unit L2 norm. log_std: natural logarithm of σ per dimension, unbounded. samples: draws from it, not renormalised; None
    where nothing that is computed needs them.
    """

    mean: Float[Tensor, "n d"]
    log_std: Float[Tensor, "n d"]
    samples: Float[Tensor, "n j d"] | None = None


Representation = Embedding | EmbeddingSet | GaussianEmbedding


@dataclass(frozen=True)
class Batch:
    """What one training step sees. match[i, t] is True where caption t is annotated as describing image i.

    image_rows and caption_rows are row numbers in the corpus tables (not in a split).
    """

    images: Features | Pixels
    captions: Tokens
    match: Bool[Tensor, "i t"]
    image_rows: Int[Tensor, " i"]
    caption_rows: Int[Tensor, " t"]

    def to(self, *where) -> "Batch":
        return replace(self, images=self.images.to(*where), captions=self.captions.to(*where), match=self.match.to(*where))


@dataclass(frozen=True)
class RelevantRanks:
    """The second narrow waist: for each query, the 1-based rank of every item relevant to it, ascending.

    ranks[indptr[q]:indptr[q + 1]] belongs to query q. Ties never help: an irrelevant item with an equal score counts as
    ranked before. n_gallery: how many items were ranked. Right of here nothing knows scores.
    """

    indptr: Int[np.ndarray, " q1"]
    ranks: Int[np.ndarray, " r"]
    n_gallery: int

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, query: int) -> np.ndarray:
        return self.ranks[self.indptr[query] : self.indptr[query + 1]]


@dataclass(frozen=True)
class Corpus:
    """Images, captions and who is relevant to whom, whatever they were read from.

    images: index image_id; columns split, plus what the source needs (path, …).
    captions: index caption_id; columns image_id, text, split. A caption's split is its image's.
    fingerprint: 16 hex digits that change when any image, caption or split changes: content, never where it lies.
    picture_fingerprint: the same for the pictures alone, which is what frozen image features depend on.
    read_pixels: (image row numbers, side of the result in pixels, one data.pictures.Crop per row) → uint8 "n h w 3" (RGB);
        the last two have defaults. None for a corpus of features. Never called for features that are already cached.
    features: "images l e", an array or JoinedRows (data.row_file), of a corpus that brings region features and no pictures.
    judges: name of a kind of relevance ('annotated', 'exhaustive', …) → function(split) → Relevance with captions as
        queries and images as gallery. 'annotated' comes first.
    grades: name of a kind of human judgment → rows image_id, caption_id, grade (its unit is in the reader's docstring).
    faults: what was wrong in the files and tolerated, counted: {'captions of a missing image': 5, …}.
    """

    name: str
    images: pd.DataFrame
    captions: pd.DataFrame
    fingerprint: str
    read_pixels: Callable[..., np.ndarray] | None
    judges: Mapping[str, Callable]
    picture_fingerprint: str = ""
    features: object = None
    grades: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    faults: Mapping[str, int] = field(default_factory=dict)
    about: Mapping[str, object] = field(default_factory=dict)

    def rows(self, split: str) -> tuple[np.ndarray, np.ndarray]:
        """(image row numbers, caption row numbers) of a split, in file order."""
        return (
            np.flatnonzero(self.images["split"].to_numpy() == split),
            np.flatnonzero(self.captions["split"].to_numpy() == split),
        )
