"""The types that flow through the study: frozen, one item per row, with no behaviour beyond slicing and moving.

    file → Corpus → Batch → encoder → Features → head → Representation → similarity → scores[image, caption] → loss
                                                             └→ retrieval → RelevantRanks → metrics → rows → figure

Axis letters are the same everywhere: n items, i images, t captions, l local elements (cells, regions, words), k set
elements, d width. In a mask, True is a real element and False is padding.
"""

import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import FunctionType, NoneType

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Int8
from torch import Tensor

from xmr_core.base.errors import BadInput, checked_index


class _Words(reprlib.Repr):
    """Values of fields in a few words each: tensors, arrays and tables by their shapes."""

    def repr_tuple(self, x, level):
        return super().repr_tuple(x, level) if len(x) <= self.maxtuple else f"<{len(x):,} entries>"

    def repr_instance(self, x, level):
        kind = type(x).__name__
        if isinstance(x, torch.nn.Module):
            return f"<{kind} of {sum(p.numel() for p in x.parameters()):,} parameters>"
        if getattr(x, "ndim", 0):
            return f"<{kind} {' × '.join(map(str, x.shape))}>"
        if isinstance(x, Brief):
            return f"<{kind} of {len(x):,}>" if hasattr(x, "__len__") else f"<{kind}>"
        return super().repr_instance(x, level)


class Brief:
    """A dataclass whose `repr` is a few lines, whatever it holds: sizes instead of contents, without functions and
    None."""

    def __init_subclass__(cls, **arguments):
        super().__init_subclass__(**arguments)
        cls.__repr__ = cls.__repr__  # as if of its own, so that @dataclass makes none

    def __repr__(self) -> str:
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.repr}
        said = (f"{n}={_WORDS.repr(v)}" for n, v in values.items() if not isinstance(v, FunctionType | NoneType))
        return f"{type(self).__name__}({', '.join(said)})"


_WORDS = _Words()
_WORDS.maxstring, _WORDS.maxother, _WORDS.maxdict, _WORDS.maxlevel = 80, 80, 20, 3


def distinct(values: np.ndarray) -> np.ndarray:
    """The different values in ascending order: np.unique, by sorting. Without a second result numpy 2.3 and later put
    integers into a hash table, which takes up to 150 times as long (a million pairs: 0.6 s against 4 ms).

    >>> distinct(np.array([3, 1, 3]))
    array([1, 3])
    """
    return np.unique(values, return_index=True)[0]


def as_bool(mask: Tensor) -> Tensor:
    """A mask of Booleans as it is; one of the integers 0 and 1, as tokenizers give them, as Booleans.

    Raises: BadInput for other integers.

    >>> as_bool(torch.tensor([1, 0]))
    tensor([ True, False])
    """
    if mask.is_floating_point() or mask.is_complex() or mask.dtype == torch.bool:
        return mask
    if ((mask != 0) & (mask != 1)).any():
        raise BadInput(f"a mask of integers may hold only 0 and 1, got {int(mask.min())} to {int(mask.max())}.")
    return mask == 1


class Rows(Brief):
    """Items by row: the item axis of every tensor field comes first, and None stays None. A mask may be given as
    integers 0 and 1. `==` tells whether two are one object; compare their tensors instead."""

    def __post_init__(self):
        if isinstance(mask := getattr(self, "mask", None), Tensor) and mask.dtype != torch.bool:
            object.__setattr__(self, "mask", as_bool(mask))

    def _map(self, f):
        changed = {q.name: f(v) for q in fields(self) if isinstance(v := getattr(self, q.name), Tensor)}
        return replace(self, **changed)

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def __getitem__(self, rows):
        """The items at `rows`: a slice, an index or Boolean tensor, or one integer, which keeps the item axis."""
        if isinstance(rows, (int, np.integer)):
            row = checked_index(rows, len(self))
            rows = slice(row, row + 1)
        return self._map(lambda t: t[rows])

    def __iter__(self) -> Iterator:
        """Item by item, each with the item axis."""
        return (self[row] for row in range(len(self)))

    def to(self, *where, non_blocking: bool = False):
        """The same items on another device or in another dtype, which masks and word numbers do not take."""
        places = [x for x in where if not isinstance(x, torch.dtype)]
        return self._map(lambda t: t.to(*(where if t.is_floating_point() else places), non_blocking=non_blocking))

    def pin_memory(self):
        """The same items in memory that a GPU copies from while the host goes on."""
        return self._map(Tensor.pin_memory)


@dataclass(frozen=True, eq=False)
class Tokens(Rows):
    """Captions as word numbers. ids: rows of the vocabulary from `<start>` to `<end>`, 0 on padding."""

    ids: Int[Tensor, "n l"]
    mask: Bool[Tensor, "n l"]


@dataclass(frozen=True, eq=False)
class Pixels(Rows):
    """Images as RGB numbers in [0, 1], for encoders that learn from pixels."""

    x: Float[Tensor, "n 3 h w"]


@dataclass(frozen=True, eq=False)
class Features(Rows):
    """Local features, one vector per cell, region or word, and a global feature of the item.

    global_feat is None where frozen features hold local vectors only; the encoder then pools them itself. Frozen
    features whose local vectors were reduced hold the pooled vector of full width, "n e". spread_feats: local vectors
    of a second branch, which only the variance of a distribution reads; None where both read the same.
    """

    local_feats: Float[Tensor, "n l e"]
    mask: Bool[Tensor, "n l"]
    global_feat: Float[Tensor, "n d"] | None = None
    spread_feats: Float[Tensor, "n l e"] | None = None


@dataclass(frozen=True, eq=False)
class Embedding(Rows):
    """One vector per item, of unit L2 norm unless the method says otherwise."""

    x: Float[Tensor, "n d"]


@dataclass(frozen=True, eq=False)
class EmbeddingSet(Rows):
    """A set of vectors per item: tokens of SCAN and SGRAF, slots of DivE, heads of PVSE.

    residual: the set before it was fused with the global feature, which the diversity losses read. attention: weight of
    each local feature for each of the first a elements, for visualisation; None unless requested. All elements have
    such weights in DivE and PVSE, and the global one alone, which comes first, in SGRAF.
    """

    x: Float[Tensor, "n k d"]
    mask: Bool[Tensor, "n k"]
    residual: Float[Tensor, "n k d"] | None = None
    attention: Float[Tensor, "n a l"] | None = None


@dataclass(frozen=True, eq=False)
class GaussianEmbedding(Rows):
    """A normal distribution with a diagonal covariance per item.

    mean: unit L2 norm. log_std: natural logarithm of σ per dimension, unbounded. samples: draws from it, not
    renormalised; None where nothing that is computed needs them."""

    mean: Float[Tensor, "n d"]
    log_std: Float[Tensor, "n d"]
    samples: Float[Tensor, "n j d"] | None = None


Representation = Embedding | EmbeddingSet | GaussianEmbedding


@dataclass(frozen=True)
class Batch(Brief):
    """What one training step reads. match[i, t] is True where caption t is annotated as describing image i; of mixed
    images it is the degree in [0, 1] to which it does. As integers it is 1 or 0, or −1 for a pair that is neither.

    image_rows and caption_rows are row numbers in the tables of the corpus, not in a split."""

    images: Features | Pixels
    captions: Tokens
    match: Bool[Tensor, "i t"] | Float[Tensor, "i t"] | Int8[Tensor, "i t"]
    image_rows: Int[Tensor, " i"]
    caption_rows: Int[Tensor, " t"]

    def to(self, *where, non_blocking: bool = False) -> "Batch":
        """The same batch on another device."""
        return self._map(lambda part: part.to(*where, non_blocking=non_blocking))

    def pin_memory(self) -> "Batch":
        """As `Rows.pin_memory`."""
        return self._map(lambda part: part.pin_memory())

    def _map(self, f: Callable) -> "Batch":
        return replace(self, **{name: f(getattr(self, name)) for name in ("images", "captions", "match")})


@dataclass(frozen=True)
class RelevantRanks(Brief):
    """The second narrow waist: for each query, the 1-based rank of every item relevant to it, ascending.

    ranks[indptr[q]:indptr[q + 1]] belong to query q. Ties never help: an irrelevant item of equal score goes first.
    n_gallery: how many items were ranked. Nothing to the right of this type knows scores.
    """

    indptr: Int[np.ndarray, " q1"]
    ranks: Int[np.ndarray, " r"]
    n_gallery: int

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, query: int) -> np.ndarray:
        query = checked_index(query, len(self))
        return self.ranks[self.indptr[query] : self.indptr[query + 1]]


@dataclass(frozen=True)
class Corpus(Brief):
    """Images, captions, and which of them are relevant to which, whatever they were read from.

    images: index image_id; columns split, plus what the source needs (path, …).
    captions: index caption_id; columns image_id, text, split. A caption belongs to the split of its image.
    fingerprint: 16 hex digits that change when any image, caption or split changes. They name content, never a place.
    image_fingerprint: the same for the images alone, which is what frozen image features depend on.
    read_pixels: (image row numbers, pixels of the result's side, one Crop per row, Fit) → uint8 RGB "n h w 3"; all but
        the first have defaults (features.images). Not called where features are cached; None for a corpus of features.
    features: "images l e", an array or JoinedRows, of a corpus that has region features and no images.
    boxes: "images l 4", x1 y1 x2 y2 of each region (unit: about['boxes']). Drawn alone, so no part of a fingerprint.
    relevance_sets: name of a kind of relevance ('annotated', 'exhaustive', …) → function(split) → Relevance with
        captions as queries and images as gallery. 'annotated' comes first.
    grades: name of a kind of human judgment → rows image_id, caption_id, grade (its unit is in the reader's docstring).
    faults: what was wrong in the files and tolerated, with counts: {'captions of a missing image': 5, …}.
    about: facts that features need, such as the side of images in pixels.
    """

    name: str
    images: pd.DataFrame
    captions: pd.DataFrame
    fingerprint: str
    read_pixels: Callable[..., np.ndarray] | None
    relevance_sets: Mapping[str, Callable]
    image_fingerprint: str = ""
    features: object = None
    boxes: object = None
    grades: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    faults: Mapping[str, int] = field(default_factory=dict)
    about: Mapping[str, object] = field(default_factory=dict)

    def __repr__(self) -> str:  # the fields are tables and arrays, which would fill a screen
        splits = self.images["split"].value_counts(sort=False).items()
        counts = f"{len(self.images):,} images ({', '.join(f'{split} {n:,}' for split, n in splits)})"
        return f"<Corpus {self.name}: {counts}, {len(self.captions):,} captions; {', '.join(self.relevance_sets)}>"

    def rows(self, split: str) -> tuple[np.ndarray, np.ndarray]:
        """(image row numbers, caption row numbers) of a split, in file order."""
        images, captions = (np.flatnonzero(t["split"].to_numpy() == split) for t in (self.images, self.captions))
        return images, captions


# The splits of a corpus: one is learned from, one chooses, and one decides.


SPLITS = ("train", "val", "test")


def widened(sets: EmbeddingSet, k: int) -> EmbeddingSet:
    """Sets padded to k elements; sets that have as many or more are returned unchanged.

    >>> widened(EmbeddingSet(torch.ones(1, 2, 3), torch.ones(1, 2, dtype=torch.bool)), 4).mask.tolist()
    [[True, True, False, False]]
    """
    missing = k - sets.x.shape[1]
    if missing <= 0:
        return sets
    return EmbeddingSet(F.pad(sets.x, (0, 0, 0, missing)), F.pad(sets.mask, (0, missing)))


def joined(parts: list[Representation], *more: str) -> Representation:
    """One representation of all parts, sets padded to the largest. Attention is dropped, whose width differs between
    parts, and the residual, unless `more` names it.

    >>> len(joined([Embedding(torch.eye(2)), Embedding(torch.eye(2))]))
    4
    """
    names = ("x", "mask", "mean", "log_std", "samples", *more)
    names = [name for name in names if getattr(parts[0], name, None) is not None]
    if isinstance(parts[0], EmbeddingSet):
        parts = [widened(p, max(q.x.shape[1] for q in parts)) for p in parts]
    return type(parts[0])(**{name: torch.cat([getattr(p, name) for p in parts]) for name in names})


@dataclass(frozen=True)
class Relevance(Brief):
    """The relevant gallery items of each query, as compressed rows.

    indices[indptr[q]:indptr[q + 1]] are the gallery positions relevant to query q, ascending, without repeats.
    query_ids, gallery_ids: what the positions mean. Queries and gallery may differ from the corpus (ECCV Caption takes
    1,332 captions as queries against 5,000 images), a query may have several relevant items, and an item several
    queries.
    Raises: BadInput for lists of positions that do not fit the ids.

    >>> Relevance.from_pairs([("c0", "i0"), ("c1", "i0")], ["c0", "c1"], ["i0", "i1"]).counts.tolist()
    [1, 1]
    """

    indptr: Int[np.ndarray, " q1"]
    indices: Int[np.ndarray, " r"]
    query_ids: np.ndarray
    gallery_ids: np.ndarray

    def __post_init__(self):
        if any(part.ndim != 1 or (len(part) and part.dtype.kind not in "iu") for part in (self.indptr, self.indices)):
            raise BadInput("indptr and indices are lists of whole numbers.")
        outside = len(self.indices) and not 0 <= self.indices.min() <= self.indices.max() < len(self.gallery_ids)
        ends = [0, *self.indptr[-1:].tolist()] == [*self.indptr[:1].tolist(), len(self.indices)]
        if len(self.indptr) != len(self.query_ids) + 1 or outside or not ends or (np.diff(self.indptr) < 0).any():
            rises = "indptr rises from 0 to the number of pairs, with one entry more than queries"
            raise BadInput(f"{rises}, and relevant positions lie in the gallery.")

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple], query_ids: Sequence, gallery_ids: Sequence) -> "Relevance":
        """Build from (query_id, gallery_id) pairs; repeated pairs count once.

        Raises: BadInput if an id of a pair is in neither list or a list repeats an id.
        """
        queries, gallery = _positions(query_ids, "query"), _positions(gallery_ids, "gallery")
        pairs = list(pairs)
        try:
            q = np.fromiter((queries[a] for a, _ in pairs), np.int64, len(pairs))
            g = np.fromiter((gallery[b] for _, b in pairs), np.int64, len(pairs))
        except KeyError as e:
            raise BadInput(f"id {e.args[0]!r} occurs in a relevant pair but in neither id list.") from None
        return cls.from_positions(q, g, query_ids, gallery_ids)

    @classmethod
    def from_positions(
        cls, query: np.ndarray, gallery: np.ndarray, query_ids: Sequence, gallery_ids: Sequence
    ) -> "Relevance":
        """Build from two equally long arrays of positions; order and repeats do not matter.

        Raises: BadInput for different lengths, or a position that no query or no gallery item has.
        """
        query, gallery = np.asarray(query, np.int64), np.asarray(gallery, np.int64)
        if query.shape != gallery.shape:
            raise BadInput(f"each pair needs two positions, got {query.size:,} and {gallery.size:,}.")
        for positions, ids, what in ((query, query_ids, "queries"), (gallery, gallery_ids, "gallery items")):
            if len(positions) and not 0 <= positions.min() <= positions.max() < len(ids):
                raise BadInput(f"positions of {len(ids):,} {what} go from {positions.min():,} to {positions.max():,}.")
        keys = distinct(query * len(gallery_ids) + gallery)
        q, g = np.divmod(keys, max(len(gallery_ids), 1))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(q, minlength=len(query_ids)))]).astype(np.int64)
        return cls(indptr, g, np.asarray(query_ids), np.asarray(gallery_ids))

    @classmethod
    def from_matrix(cls, relevant: Bool[np.ndarray, "q g"], query_ids: Sequence, gallery_ids: Sequence) -> "Relevance":
        """Build from a dense Boolean matrix, numpy or torch. Raises: BadInput for another shape than the ids have."""
        relevant = np.asarray(relevant)
        if relevant.shape != (len(query_ids), len(gallery_ids)):
            raise BadInput(f"a relevance matrix must be queries × gallery items, got shape {relevant.shape}.")
        return cls.from_positions(*np.nonzero(relevant), query_ids, gallery_ids)

    def __len__(self) -> int:
        return len(self.query_ids)

    def __getitem__(self, query: int) -> np.ndarray:
        """Gallery positions relevant to the query at this position."""
        query = checked_index(query, len(self))
        return self.indices[self.indptr[query] : self.indptr[query + 1]]

    @property
    def counts(self) -> Int[np.ndarray, " q"]:
        """How many gallery items are relevant to each query."""
        return np.diff(self.indptr)

    @property
    def queries(self) -> Int[np.ndarray, " r"]:
        """The query position of every entry of `indices`."""
        return np.repeat(np.arange(len(self)), self.counts)

    def transpose(self) -> "Relevance":
        """The same pairs in the other direction: gallery items become queries."""
        return Relevance.from_positions(self.indices, self.queries, self.gallery_ids, self.query_ids)

    def restrict(self, queries: np.ndarray, gallery: np.ndarray) -> "Relevance":
        """The relevance among some positions of queries and gallery (a fold), renumbered in that order."""
        new_query, new_item = np.full(len(self.query_ids), -1), np.full(len(self.gallery_ids), -1)
        new_query[queries], new_item[gallery] = np.arange(len(queries)), np.arange(len(gallery))
        q, g = new_query[self.queries], new_item[self.indices]
        keep = (q >= 0) & (g >= 0)
        return Relevance.from_positions(q[keep], g[keep], self.query_ids[queries], self.gallery_ids[gallery])

    def dense(self, queries: np.ndarray, gallery: np.ndarray) -> Bool[np.ndarray, "q g"]:
        """match[q, g] for a batch of positions (repeats allowed)."""
        distinct, column = np.unique(gallery, return_inverse=True)
        rows = np.repeat(np.arange(len(queries)), np.array([len(self[q]) for q in queries], int))
        items = np.concatenate([self.indices[:0], *(self[q] for q in queries)])
        present, out = np.isin(items, distinct), np.zeros((len(queries), len(distinct)), bool)
        out[rows[present], np.searchsorted(distinct, items[present])] = True
        return out[:, column]


def _positions(ids: Sequence, which: str) -> dict:
    positions = {name: position for position, name in enumerate(ids)}
    if len(positions) != len(ids):
        raise BadInput(f"{which} ids repeat: {len(ids)} given, {len(positions)} distinct. Give each id once.")
    return positions
