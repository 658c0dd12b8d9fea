"""A query: a sentence, an image, or an item of the corpus."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from xmr_core.base.checks import require_choice
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import Features, GaussianEmbedding, Pixels, Representation
from xmr_core.data.inputs import one_image, pixels_of
from xmr_core.evaluation.analysis.elements import keep_elements
from xmr_core.evaluation.ranks import checked_k, relevant_ranks
from xmr_core.evaluation.scoring import in_double, items_in_double, score_matrix
from xmr_core.features.words import rule
from xmr_core.retrieval.library import Library, elements_of
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.gaussian import GaussianDistance

# kind → modality of the answers
KINDS = {"text": "images", "caption": "images", "image": "captions", "upload": "captions"}


@dataclass(frozen=True)
class Query:
    """One query. kind 'text': a sentence in `text`. 'caption', 'image': an id of the corpus in `item`. 'upload': an
    image from elsewhere in `pixels`, uint8 "h w 3" of any size; `text` may hold its name.

    Raises: BadInput for another kind, or one without the field that it needs.

    >>> Query("text", "a red circle").target
    'images'
    """

    kind: str
    text: str = ""
    item: str | int = ""
    pixels: np.ndarray | None = field(default=None, compare=False)

    def __post_init__(self):
        require_choice("kind of query", self.kind, KINDS)
        if self.kind == "text" and not self.text.strip():
            raise BadInput("the sentence is empty; type what the image should show.")
        if self.kind in ("caption", "image") and self.item == "":  # 0 is an id
            raise BadInput(f"a query by {self.kind} needs the id of one.")
        if self.kind == "upload":
            pixels_of(self.pixels)  # refuses what is no image

    @property
    def target(self) -> str:
        """Modality of the answers: 'images' or 'captions'."""
        return KINDS[self.kind]


def encode(library: Library, query: Query) -> Representation:
    """The representation of a query. That of an item of the corpus is read; sentences and images are encoded, once for
    a query that is ranked again with other settings.

    Raises: BadInput for an unknown id, a sentence of which the method knows no word, or an image for a method on region
        features.
    """
    if query.kind == "caption":
        return library.items("captions")[library.position("captions", query.item)]
    if query.kind == "image":
        return library.images[library.position("images", query.item)]
    if library.last.get("query") is not query:
        library.last.update(encoded=_encode(library, query), query=query)
    return library.last["encoded"]


def uploaded_input(library: Library, query: Query) -> Features | Pixels:
    """The method's input for the image of a query of the kind 'upload'."""
    return library.prepared.new_images(one_image(query.pixels, library.prepared)[None])


def _encode(library: Library, query: Query) -> Representation:
    device = library.method.device
    with torch.inference_mode():
        if query.kind == "upload":
            return library.method.encode_images(uploaded_input(library, query).to(device)).to("cpu")
        if library.prepared.vocabulary is not None:
            known_words(library, query.text)  # refuses a sentence without any known word
        return library.method.encode_captions(library.prepared.new_captions([query.text]).to(device)).to("cpu")


def known_words(library: Library, text: str) -> list[str]:
    """The words of a sentence that the method knows.

    Raises: BadInput for a method that reads word pieces, or where it knows none of the words.
    """
    if library.prepared.vocabulary is None:
        raise BadInput("single words can be used only with a vocabulary of words; this method reads word pieces.")
    words, unknown_words = library.prepared.words_of(text)
    if not words:
        names = ", ".join(map(repr, unknown_words)) or f"in {text!r}"
        raise BadInput(f"the method knows none of the words {names}; use words of its training captions.")
    return words


def read_words(library: Library, query: Query) -> tuple[tuple[str, ...], dict[str, str]]:
    """(words of a sentence that the method does not know, words that no training caption has → the training word that
    each is read as); of a typed sentence only."""
    if query.kind != "text":
        return (), {}
    raw, words = library.prepared, []
    nearest = raw.captions.nearest or {}
    if raw.vocabulary is not None:
        words = [w for w in rule(raw.vocabulary.tokeniser)(query.text) if w not in raw.vocabulary.numbers]
    return tuple(raw.words_of(query.text)[1]), {w: nearest[w] for w in words if w in nearest}


# The exact order of a few items, which a fast search proposed.


_NEAR = 1e-5  # of the largest score: what float32 may get wrong; measured again for every query
_TIE = 1e-12  # of the largest score: what float64 may get wrong


def best_of(
    similarity: Similarity, query: Representation, gallery: Representation, items: np.ndarray, k: int, modality: str
) -> tuple[np.ndarray, np.ndarray]:
    """(scores in float64, positions) of the best k of some items. Where fast scores are too close to tell an order,
    those in double precision decide; items that it cannot tell apart stand in file order.

    items: positions, ascending. modality: of the query.

    >>> from xmr_core.base.types import Embedding
    >>> from xmr_core.similarities import Cosine
    >>> gallery = Embedding(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]))
    >>> best_of(Cosine(), gallery[:1], gallery, np.array([1, 2]), 1, "captions")[1].tolist()
    [2]
    """
    chosen = gallery[torch.from_numpy(items)]
    fast = _scores(similarity, query, chosen, modality).double().numpy()
    double = in_double(similarity)
    margin = _NEAR * max(1.0, np.abs(fast[np.isfinite(fast)]).max(initial=0.0))
    k = min(k, len(items))
    while True:
        close = np.flatnonzero(fast >= np.partition(fast, -k)[-k] - margin)
        exact = (
            _scores(double, items_in_double(query), items_in_double(chosen[torch.from_numpy(close)]), modality)
            .double()
            .numpy()
        )
        with np.errstate(invalid="ignore"):
            off = np.nan_to_num(np.abs(exact - fast[close]), nan=0.0).max()
        if not off or 4 * off <= margin or len(close) == len(items):
            break
        margin = 8 * off
    order = np.lexsort((close, -exact))
    with np.errstate(invalid="ignore"):  # −∞ − −∞
        gaps = exact[order][:-1] - exact[order][1:] > _TIE * max(1.0, np.abs(exact).max())
    order = order[np.lexsort((close[order], np.cumsum(np.concatenate([[False], gaps]))))][:k]
    return exact[order], items[close[order]]


def _scores(similarity: Similarity, query: Representation, items: Representation, modality: str) -> Tensor:
    return similarity.score(items, query)[:, 0] if modality == "captions" else similarity.score(query, items)[0]


# The answer to a query: items in order, which of them are right, and the rank of every right one.


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

    >>> from xmr_core.retrieval import example_library
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

    >>> from xmr_core.retrieval import example_library
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

    >>> from xmr_core.retrieval import example_library
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
