"""Relevance sets: which gallery items are relevant to which queries, sparse and many-to-many."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from xmr_core.base.checks import checked_index
from xmr_core.base.errors import BadInput


@dataclass(frozen=True)
class Relevance:
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
        outside = len(self.indices) and not 0 <= self.indices.min() <= self.indices.max() < len(self.gallery_ids)
        if len(self.indptr) != len(self.query_ids) + 1 or outside:
            raise BadInput("indptr needs one entry more than queries, and relevant positions lie in the gallery.")

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
                raise BadInput(
                    f"positions of {len(ids):,} {what} reach from {positions.min():,} to {positions.max():,}."
                )
        keys = np.unique(query * len(gallery_ids) + gallery)
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
        out = np.zeros((len(queries), len(gallery)), bool)
        order = np.argsort(gallery, kind="stable")
        ordered = np.asarray(gallery)[order]
        for row, q in enumerate(queries):
            out[row, order[np.isin(ordered, self[q])]] = True
        return out


def _positions(ids: Sequence, which: str) -> dict:
    positions = {name: position for position, name in enumerate(ids)}
    if len(positions) != len(ids):
        raise BadInput(f"{which} ids repeat: {len(ids)} given, {len(positions)} distinct. Give each id once.")
    return positions
