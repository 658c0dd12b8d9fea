"""The answer to a query: items in order, which of them are right, and where every right one stands."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import GaussianEmbedding
from xmr_core.evaluation.analysis.element_subsets import keep_elements
from xmr_core.evaluation.engine import relevant_ranks, score_matrix
from xmr_core.search.library import Library, elements_of
from xmr_core.search.query import Query, encode, words_of
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.gaussian import GaussianDistance


@dataclass(frozen=True)
class Settings:
    """How to rank. k: answers shown. alpha: α of the similarity, 0 for the method's own. elements: numbers (from 0) of the query's
    set elements that count, () for all. distance: a test-time distance of Gaussians (similarities.gaussian), '' for the trained one."""

    k: int = 10
    alpha: float = 0.0
    elements: tuple[int, ...] = ()
    distance: str = ""


@dataclass(frozen=True)
class Ranking:
    """target: 'images' or 'captions'. scores: of every item. order: the k best positions, best first. table: a row per answer: rank (from 1),
    item, text (captions), score, and a column per kind of relevance where the query is an item of the corpus.
    relevant: columns kind, item, rank of every right answer, best first. unknown_words: of a sentence, words that were not understood."""

    target: str
    scores: np.ndarray
    order: np.ndarray
    table: pd.DataFrame
    relevant: pd.DataFrame
    unknown_words: tuple[str, ...] = ()


def rank(library: Library, query: Query, settings: Settings = Settings()) -> Ranking:
    """Rank one side of a library for a query. Equal scores are ranked in file order; ranks of right answers never profit from ties.

    Raises: BadInput as encode does, and for settings that the method does not have (check_settings).
    """
    check_settings(library, settings)
    gallery = library.items(query.target)  # before anything is encoded: it may not be there
    asked = encode(library, query)
    if settings.elements:
        asked = keep_elements(asked, settings.elements)
    similarity = similarity_of(library, settings)
    if query.target == "images":
        scores = score_matrix(similarity, gallery, asked)[:, 0]
    else:
        scores = score_matrix(similarity, asked, gallery)[0]
    order = np.argsort(-scores, kind="stable")[: settings.k]
    ids = library.ids(query.target)
    table = pd.DataFrame({"rank": np.arange(1, len(order) + 1), "item": ids[order], "score": scores[order]})
    if query.target == "captions":
        table.insert(2, "text", library.texts[order])
    found = []
    for kind, right in _right(library, query).items():
        table[kind] = np.isin(order, right)
        if len(right):
            ranks = relevant_ranks(scores[None], Relevance.from_positions(np.zeros(len(right)), right, [query.item], ids)).ranks
            found += zip([kind] * len(right), ids[right[np.argsort(-scores[right], kind="stable")]], ranks.tolist(), strict=True)
    strange = words_of(library, query.text)[1] if query.kind == "text" else []
    return Ranking(query.target, scores, order, table, pd.DataFrame(found, columns=["kind", "item", "rank"]), tuple(strange))


def check_settings(library: Library, settings: Settings) -> None:
    """Raises BadInput for what the library's method does not have."""
    if settings.k < 1:
        raise BadInput(f"k must be at least 1, got {settings.k}.")
    if settings.alpha and "alpha" not in library.method.similarity.settings:
        raise BadInput(f"{library.label} is not compared by smooth-Chamfer, so it has no α to change.")
    if settings.elements and elements_of(library.images) < 2:
        raise BadInput(f"{library.label} has no set of a fixed number of elements to choose from.")
    if settings.distance:
        if not isinstance(library.images, GaussianEmbedding):
            raise BadInput(f"{library.label} makes no distributions, so it has no other distance at test time.")
        GaussianDistance(settings.distance)  # refuses an unknown name


def similarity_of(library: Library, settings: Settings) -> Similarity:
    """The method's own similarity, or the one that the settings put in its place."""
    if settings.distance:
        return GaussianDistance(settings.distance)
    own = library.method.similarity
    return own.replace(alpha=settings.alpha) if settings.alpha else own


def _right(library: Library, query: Query) -> dict[str, np.ndarray]:
    """kind → positions of right answers; empty for a sentence or picture from elsewhere."""
    if query.kind not in ("caption", "image"):
        return {}
    side = f"{query.kind}s"
    at = library.position(side, query.item)
    return {kind: library.relevant(kind, side, at) for kind in library.judges}
