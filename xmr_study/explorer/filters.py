"""Which items a ranking is restricted to: by split, judgment, text, rank change, or a selection on the map; what
judgments of people say of a method, and which queries are worth judging."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, require_choice
from xmr_core.base.fingerprint import content_hash
from xmr_core.base.types import Relevance
from xmr_core.evaluation import metrics
from xmr_core.evaluation.ranks import relevant_ranks
from xmr_core.features.words import small
from xmr_core.retrieval.export import vectors_of
from xmr_core.retrieval.judgments import Judgments, Key
from xmr_core.retrieval.library import Library
from xmr_core.retrieval.ranking import Query, Ranking, Settings, answer_table, rank

MARKS = ("", "judged", "unjudged", "right", "wrong")  # '' for all answers


@dataclass(frozen=True)
class Filter:
    """What an answer must be. split: of the item, '' for any. marked: one of MARKS, for the present query. text:
    letters that its captions or its name contain, whatever their case. moved: by how many ranks two methods must differ
    at least, 0 for any. images, captions: ids that were selected on the map, () for all.

    Raises: BadInput for another word in marked.
    """

    split: str = ""
    marked: str = ""
    text: str = ""
    moved: int = 0
    images: tuple[str, ...] = ()
    captions: tuple[str, ...] = ()

    def __post_init__(self):
        require_choice("mark", self.marked, MARKS)


def passing(
    library: Library, query: Query, wanted: Filter, judgments: Judgments | None = None
) -> Int[np.ndarray, " n"] | None:
    """Positions of the items of the query's target that pass a filter, rank changes excepted; None for all of them.

    Raises: BadInput where none passes.

    >>> from xmr_core.retrieval import example_library
    >>> passing(example_library(), Query("text", "a ring"), Filter(text="ring")).tolist()
    [2]
    """
    ids, modality = library.ids(query.target), query.target
    if not len(ids):
        return None  # what asks for them says so
    keep = np.ones(len(ids), bool)
    if wanted.split:
        if library.splits is None:
            raise BadInput("these images have no splits to choose from.")
        keep &= library.split_of_each(modality) == wanted.split
    if selected := wanted.images if modality == "images" else wanted.captions:
        keep &= np.isin(ids.astype(str), [*map(str, selected)])
    if wanted.text.strip():
        needle = plain(wanted.text)
        keep &= np.array([needle in text for text in searchable(library, modality)], bool)
    if wanted.marked:
        answers = judgments.verdicts.get(query_key(query), {}) if judgments else {}
        marks = np.array([answers.get((modality, str(i)), "") for i in ids], object)
        keep &= {"judged": marks != "", "unjudged": marks == ""}.get(wanted.marked, marks == wanted.marked)
    if not keep.any():
        raise BadInput(f"none of the {len(ids):,} {modality} passes the filter; loosen it.")
    return None if keep.all() else np.flatnonzero(keep)


def changed_ranks(
    first: Ranking, second: Ranking, least: int, among: Int[np.ndarray, " n"] | None = None
) -> Int[np.ndarray, " n"]:
    """Positions, of those in `among`, of the items whose ranks in two rankings of one query differ by at least so many.

    Raises: BadInput where there is none.
    """
    ranks = [np.empty(len(r.scores), np.int64) for r in (first, second)]
    for out, ranking in zip(ranks, (first, second), strict=True):
        out[np.argsort(-ranking.scores, kind="stable")] = np.arange(len(out))
    moved = np.flatnonzero(np.abs(ranks[0] - ranks[1]) >= least)
    moved = moved if among is None else np.intersect1d(moved, among)
    if not len(moved):
        raise BadInput(f"no answer changes its rank by {least:,} or more between the two methods.")
    return moved


def plain(text: object) -> str:
    """A text as filters compare it: small letters, single blanks, plain apostrophes."""
    return " ".join(small(str(text)).split())


def searchable(library: Library, modality: str) -> list[str]:
    """What a filter by text looks through, in small letters: a caption; the name of an image and its captions."""

    def compute() -> list[str]:
        if modality == "captions":
            return [plain(text) for text in library.texts]
        out = [plain(i) for i in library.image_ids]
        if "annotated" in library.relevance_sets:
            own = library.relevance_sets["annotated"]
            for caption, image in zip(own.queries.tolist(), own.indices.tolist(), strict=True):
                out[image] += "\n" + plain(library.texts[caption])
        return out

    return library.once(("searchable", modality), compute)


def query_key(query: Query) -> Key:
    """How judgments name a query: ('text', the sentence), or ('caption', 'image' or 'similar', the id); 'similar' asks
    for images like one.

    >>> query_key(Query("text", "a dog"))
    ('text', 'a dog')
    """
    kind = "similar" if query.similar else query.kind
    return (kind, str(query.item)) if query.kind in ("caption", "image") else (kind, query.text.strip())


def judgments_path(library: Library) -> Path:
    """Where judgments of a library's items are: in `judgments` under XMR_HOME, by the place of an index, which may be
    somebody else's folder, or by the ids of the images, so that all methods share them."""
    key = [str(i) for i in library.image_ids] if library.folder is None else str(library.folder.resolve())
    return paths.root() / "judgments" / f"{content_hash(key)}.jsonl"


_SAMPLE, _TOP = 200, 10  # captions that are compared, and answers of each
_BLOCK = 1024  # images whose neighbours are sought at a time
_NO_ROWS = pd.DataFrame(columns=["kind", "item", "rank"])


def assessed_r_precision(
    library: Library, query: Query, scores: Float[np.ndarray, " n"], judgments: Judgments
) -> tuple[float, int]:
    """(R-Precision of one query by annotations and judgments together, number of right answers); NaN for none.

    scores: of all items that the query can be answered by.

    >>> from pathlib import Path
    >>> from xmr_core.retrieval import example_library
    >>> judgments = Judgments(Path("none"), {("text", "a ring"): {("images", "1.png"): "right"}})
    >>> assessed_r_precision(example_library(), Query("text", "a ring"), np.array([0.1, 0.3, 0.2]), judgments)
    (1.0, 1)
    """
    key, right = query_key(query), set()
    if query.kind in ("caption", "image") and not query.similar and "annotated" in library.relevance_sets:
        position = library.position(f"{query.kind}s", query.item)
        right = {*library.relevant("annotated", f"{query.kind}s", position).tolist()}
    places = library.once(
        ("places", query.target), lambda: {str(i): n for n, i in enumerate(library.ids(query.target))}
    )
    for (modality, item), verdict in judgments.verdicts.get(key, {}).items():
        if modality == query.target and item in places:
            (right.add if verdict == "right" else right.discard)(places[item])
    if not right:
        return np.nan, 0
    right = sorted(right)
    relevance = Relevance.from_positions(np.zeros(len(right)), right, [0], library.ids(query.target))
    return float(metrics.r_precision(relevant_ranks(scores[None], relevance))[0]), len(right)


def disagreements(first: Library, second: Library, seed: int = 0) -> list[Query]:
    """Captions to which two methods give the most different answers, of a random sample of 200: first those whose best
    ten have the fewest images in common.

    Raises: BadInput for libraries of different images, or without captions.

    >>> from xmr_core.retrieval import example_library
    >>> len(disagreements(example_library("dive"), example_library("pcme")))
    3
    """
    if not np.array_equal(first.image_ids, second.image_ids):
        raise BadInput(f"{first.label} and {second.label} have different images, so they cannot be compared.")
    if not len(first.caption_ids):
        raise BadInput("this library has no captions by which to compare two methods.")
    sample = np.random.default_rng(seed).permutation(len(first.caption_ids))[:_SAMPLE]
    rows = []
    for position in sample.tolist():
        query = Query("caption", item=first.caption_ids[position])
        best = [set(rank(library, query, Settings(k=_TOP)).order.tolist()) for library in (first, second)]
        rows.append((len(best[0] & best[1]), query))
    return [query for _, query in sorted(rows, key=lambda row: row[0])]


def doubles(library: Library, most: int = 60) -> tuple[Ranking, list[str]]:
    """(pairs of images that look most alike to a method, a note for each image). Pair n stands in two rows that follow
    each other and have rank n; its score is the cosine of the two vectors (export.vectors_of). The note says the split
    of an image whose pair lies in two, which leaks from one into the other.

    >>> from xmr_core.retrieval import example_library
    >>> doubles(example_library(), most=1)[0].order.tolist()
    [0, 1]
    """
    vectors = torch.nn.functional.normalize(torch.from_numpy(vectors_of(library.images)), dim=-1)
    best = [torch.topk(block @ vectors.T, min(4, len(vectors))) for block in vectors.split(_BLOCK)]
    scores, other = (torch.cat([getattr(b, name) for b in best]).numpy() for name in ("values", "indices"))
    pairs: dict[tuple[int, int], float] = {}
    for first, row in enumerate(zip(other.tolist(), scores.tolist(), strict=True)):
        pairs |= {(min(first, p), max(first, p)): score for p, score in zip(*row, strict=True) if p != first}
    closest = sorted(pairs, key=lambda pair: -pairs[pair])[:most]
    splits, order = library.split_of_each("images"), np.array(closest, np.int64).reshape(-1)
    values = np.repeat([pairs[pair] for pair in closest], 2)
    table = answer_table(library, "images", order, values).assign(rank=1 + np.arange(len(order)) // 2)
    notes = [f"split {splits[p]}" if splits[pair[0]] != splits[pair[1]] else "" for pair in closest for p in pair]
    return Ranking("images", values, order, table, _NO_ROWS, among=order), notes


def unjudged_queries(library: Library, judgments: Judgments, seed: int = 0) -> list[Query]:
    """Captions of which no answer is judged, in random order. Raises: BadInput where there is none.

    >>> from pathlib import Path
    >>> from xmr_core.retrieval import example_library
    >>> len(unjudged_queries(example_library(), Judgments(Path("none"))))
    3
    """
    order = np.random.default_rng(seed).permutation(len(library.caption_ids))
    queries = [Query("caption", item=library.caption_ids[n]) for n in order]
    queries = [query for query in queries if not judgments.verdicts.get(query_key(query))]
    if not queries:
        raise BadInput("every caption has an answer that is judged." if len(order) else "this library has no captions.")
    return queries
