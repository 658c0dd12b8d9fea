"""Which items a ranking is restricted to: by split, tag, judgment, text, rank change, or a selection on the map."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int

from xmr_core.base import paths
from xmr_core.base.checks import require_choice
from xmr_core.base.errors import BadInput
from xmr_core.base.fingerprint import content_hash
from xmr_core.evaluation.judgments import Judgments, Key
from xmr_core.search.library import Library
from xmr_core.search.query import Query
from xmr_core.search.ranking import Ranking

MARKS = ("", "judged", "unjudged", "right", "wrong")  # '' for all answers


@dataclass(frozen=True)
class Filter:
    """What an answer must be. split, tag: of the item, '' for any. marked: one of MARKS, for the present query. text:
    letters that its captions or its name contain, whatever their case. moved: by how many ranks two methods must differ
    at least, 0 for any. images, captions: ids that were selected on the map, () for all.

    Raises: BadInput for another word in marked.
    """

    split: str = ""
    tag: str = ""
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

    >>> from xmr_core.search import example_library
    >>> passing(example_library(), Query("text", "a ring"), Filter(text="ring")).tolist()
    [2]
    """
    ids, modality = library.ids(query.target), query.target
    if not len(ids):
        return None  # what asks for them says so
    keep = np.ones(len(ids), bool)
    if wanted.split:
        keep &= _splits(library, modality) == wanted.split
    if selected := wanted.images if modality == "images" else wanted.captions:
        keep &= np.isin(ids.astype(str), list(selected))
    if wanted.text.strip():
        needle = wanted.text.strip().lower()
        keep &= np.array([needle in text for text in searchable(library, modality)], bool)
    if wanted.tag or wanted.marked:
        judgments = judgments or Judgments(Path())
        if wanted.tag:
            keep &= np.array([wanted.tag in judgments.tags.get((modality, str(i)), ()) for i in ids], bool)
        if wanted.marked:
            answers = judgments.verdicts.get(query_key(query), {})
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


def searchable(library: Library, modality: str) -> list[str]:
    """What a filter by text looks through, in small letters: a caption; the name of an image and its captions."""

    def compute() -> list[str]:
        if modality == "captions":
            return [str(text).lower() for text in library.texts]
        out = [str(i).lower() for i in library.image_ids]
        if "annotated" in library.relevance_sets:
            own = library.relevance_sets["annotated"]
            for caption, image in zip(own.queries.tolist(), own.indices.tolist(), strict=True):
                out[image] += "\n" + str(library.texts[caption]).lower()
        return out

    return library.once(("searchable", modality), compute)


def query_key(query: Query) -> Key:
    """How judgments name a query: ('text', the sentence), or ('caption' or 'image', the id).

    >>> query_key(Query("text", "a dog"))
    ('text', 'a dog')
    """
    return (query.kind, str(query.item)) if query.kind in ("caption", "image") else (query.kind, query.text.strip())


def judgments_path(library: Library) -> Path:
    """Where judgments of a library's items are: in the folder of an index; otherwise in `judgments` under XMR_HOME, by
    the ids of its images, so that all methods share them."""
    if (folder := getattr(library, "folder", None)) is not None:
        return folder / "judgments.jsonl"
    return paths.root() / "judgments" / f"{content_hash([str(i) for i in library.image_ids])}.jsonl"


def _splits(library: Library, modality: str) -> np.ndarray:
    """The split of each item; a caption has that of its image. Raises: BadInput where no split is known."""
    if library.splits is None:
        raise BadInput("these images have no splits to choose from.")
    if modality == "captions" and (library.own_images() < 0).any():
        raise BadInput("some captions have no image, so they have no split; filter by something else.")
    return library.split_of_each(modality)
