"""The answer to a query: items in order, which of them are right, and the rank of every right one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Int

from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import GaussianEmbedding
from xmr_core.evaluation.analysis.element_subsets import keep_elements
from xmr_core.evaluation.engine import checked_k, relevant_ranks, score_matrix
from xmr_core.search.library import Library, elements_of
from xmr_core.search.query import Query, encode, read_words
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.distances import GaussianDistance


@dataclass(frozen=True)
class Settings:
    """How to rank. k: number of answers to show. alpha: α of smooth-Chamfer, 0 for the method's own. elements: numbers
    (from 0) of the query's elements that count, () for all. distance: a test-time distance of distributions
    (similarities.distances), '' for the method's own.

    >>> Settings(k=3).elements
    ()
    """

    k: int = 10
    alpha: float = 0.0
    elements: tuple[int, ...] = ()
    distance: str = ""


@dataclass(frozen=True)
class Ranking:
    """target: modality of the answers, 'images' or 'captions'. scores: of every item, by position. order: positions of
    the k best, best first. table: one row per answer with columns rank (from 1), item, text (of captions) and score,
    and one Boolean column per relevance set where the query is an item of the corpus. relevant: columns kind, item and
    rank of every right answer, best first. unknown_words: words of the sentence that the method does not know.
    nearest: words of it that no training caption has → the training word that each is read as. n: items that were
    ranked, fewer than all where the ranking was restricted."""

    target: str
    scores: np.ndarray
    order: np.ndarray
    table: pd.DataFrame
    relevant: pd.DataFrame
    unknown_words: tuple[str, ...] = ()
    nearest: Mapping[str, str] = field(default_factory=dict)
    n: int = 0


def rank(
    library: Library,
    query: Query,
    settings: Settings = Settings(),
    among: Int[np.ndarray, " n"] | None = None,
    target: str = "",
) -> Ranking:
    """Rank all images, or all captions, of a library for a query.

    among: positions to which the ranking is restricted, ascending; None for all. Scores are those of every item.
    target: modality of the answers, '' for that of the query; an image that ranks images takes the role of a caption.
    Equal scores are in file order. The ranks of right answers never profit from ties.
    Raises: BadInput as encode does, and for settings that the method does not have (check_settings).

    >>> from xmr_core.search import example_library
    >>> rank(example_library(), Query("image", item="0.png")).relevant.values.tolist()
    [['annotated', '0.txt', 2]]
    """
    check_settings(library, settings)
    target = target or query.target
    gallery = library.items(target)  # raises, before anything is encoded, where there are no captions
    encoded = encode(library, query)
    if settings.elements:
        encoded = keep_elements(encoded, settings.elements)
    pair = (gallery, encoded) if target == "images" else (encoded, gallery)
    scores = score_matrix(similarity_of(library, settings), *pair).reshape(-1)
    among = np.arange(len(scores)) if among is None else among
    order = among[np.argsort(-scores[among], kind="stable")[: settings.k]]
    require_finite_scores(scores, library.label)
    ids, table = library.ids(target), answer_table(library, target, order, scores[order])
    rows = []
    for kind, right in _right(library, query).items():
        table[kind] = np.isin(order, right)
        right = right[np.isin(right, among)]
        if len(right):
            own = np.searchsorted(among, right)
            relevance = Relevance.from_positions(np.zeros(len(right)), own, [query.item], ids[among])
            best_first = ids[right[np.argsort(-scores[right], kind="stable")]]
            rows += [
                (kind, *row)
                for row in zip(best_first, relevant_ranks(scores[None, among], relevance).ranks.tolist(), strict=True)
            ]
    relevant = pd.DataFrame(rows, columns=["kind", "item", "rank"])
    return Ranking(target, scores, order, table, relevant, *read_words(library, query), len(among))


def answer_table(library: Library, target: str, positions: np.ndarray, scores: np.ndarray) -> pd.DataFrame:
    """Answers, best first, with columns rank (from 1), item, text (of captions) and score."""
    ranks = np.arange(1, len(positions) + 1)
    table = pd.DataFrame({"rank": ranks, "item": library.ids(target)[positions], "score": scores})
    if target == "captions":
        table.insert(2, "text", library.texts[positions])
    return table


def require_finite_scores(scores: np.ndarray, label: str) -> None:
    """Raise DamagedFile for a score that is NaN or +∞, which no undamaged gallery and model give."""
    if np.isnan(scores).any() or np.isposinf(scores).any():
        raise DamagedFile(
            f"{label} gives scores that are not finite: its gallery or its weights are damaged. Build the index again."
        )


def check_settings(library: Library, settings: Settings) -> None:
    """Check settings. Raises: BadInput for k that is no whole number from 1, and for a setting that the library's
    method does not have.

    >>> from xmr_core.search import example_library
    >>> check_settings(example_library("scan"), Settings(alpha=8))
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: scan is not compared by smooth-Chamfer, so it has no α to change.
    """
    checked_k(settings.k)
    if settings.alpha and "alpha" not in library.method.similarity.settings:
        raise BadInput(f"{library.label} is not compared by smooth-Chamfer, so it has no α to change.")
    if settings.elements and elements_of(library.images) < 2:
        raise BadInput(f"{library.label} has no set of a fixed number of elements to choose from.")
    if settings.distance:
        if not isinstance(library.images, GaussianEmbedding):
            raise BadInput(f"{library.label} makes no distributions, so it has no other distance at test time.")
        GaussianDistance(settings.distance)  # refuses an unknown name


def similarity_of(library: Library, settings: Settings) -> Similarity:
    """The method's own similarity, or the one that the settings put in its place.

    Raises: BadInput for an unknown distance.

    >>> from xmr_core.search import example_library
    >>> similarity_of(example_library("dive"), Settings(alpha=8.0))
    SmoothChamfer(alpha=8.0)
    """
    if settings.distance:
        return GaussianDistance(settings.distance)
    own = library.method.similarity
    return own.replace(alpha=settings.alpha) if settings.alpha else own


def _right(library: Library, query: Query) -> dict[str, np.ndarray]:
    """Relevance set → positions of the right answers. Empty for a sentence, and for an image from elsewhere."""
    if query.kind not in ("caption", "image"):
        return {}
    modality = f"{query.kind}s"
    position = library.position(modality, query.item)
    return {kind: library.relevant(kind, modality, position) for kind in library.relevance_sets}
