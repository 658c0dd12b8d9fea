"""A query (a sentence, an image, or an item of the corpus), and its answer: all items in order, which of them are
right, and the rank of every right one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int

from xmr_core.base.errors import BadInput, DamagedFile, require_choice
from xmr_core.base.types import Features, GaussianEmbedding, Pixels, Relevance, Representation
from xmr_core.data.inputs import one_image, pixels_of
from xmr_core.evaluation.ranks import checked_k, relevant_ranks, score_matrix
from xmr_core.features.words import rule
from xmr_core.retrieval.library import Library
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
        if self.kind == "upload":
            pixels_of(self.pixels)  # refuses what is no image
        elif (self.text.strip() if self.kind == "text" else self.item) == "":  # 0 is an id
            raise BadInput(f"the {self.kind} is empty; type what the image should show, or give an id.")

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
        device = library.method.device
        with torch.inference_mode():
            if query.kind == "upload":
                encoded = library.method.encode_images(uploaded_input(library, query).to(device))
            else:
                if library.raw.vocabulary is not None:
                    known_words(library, query.text)  # refuses a sentence without any known word
                encoded = library.method.encode_captions(library.raw.new_captions([query.text]).to(device))
        library.last.update(encoded=encoded.to("cpu"), query=query)
    return library.last["encoded"]


def uploaded_input(library: Library, query: Query) -> Features | Pixels:
    """The method's input for the image of a query of the kind 'upload'."""
    return library.raw.new_images(one_image(query.pixels, library.raw)[None])


def known_words(library: Library, text: str) -> list[str]:
    """The words of a sentence that the method knows.

    Raises: BadInput for a method that reads word pieces, or where it knows none of the words.
    """
    if library.raw.vocabulary is None:
        raise BadInput("single words can be used only with a vocabulary of words; this method reads word pieces.")
    words, unknown_words = library.raw.words_of(text)
    if not words:
        names = ", ".join(map(repr, unknown_words)) or f"in {text!r}"
        raise BadInput(f"the method knows none of the words {names}; use words of its training captions.")
    return words


def read_words(library: Library, query: Query) -> tuple[tuple[str, ...], dict[str, str]]:
    """(words of a sentence that the method does not know, words that no training caption has → the training word that
    each is read as); of a typed sentence only."""
    if query.kind != "text":
        return (), {}
    raw, nearest = library.raw, {}
    if raw.captions.nearest:
        words, table = rule(raw.vocabulary.tokeniser)(query.text), raw.captions.nearest
        nearest = {w: table[w] for w in words if w not in raw.vocabulary.numbers and w in table}
    return tuple(raw.words_of(query.text)[1]), nearest


@dataclass(frozen=True)
class Settings:
    """How to rank. k: number of answers to show. alpha: α of smooth-Chamfer, 0 for the method's own. distance: a
    test-time distance of distributions (similarities.distances), '' for the method's own."""

    k: int = 10
    alpha: float = 0.0
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
    Raises: BadInput as encode does, for settings that the method does not have, and for k below 1.

    >>> from xmr_core.retrieval import example_library
    >>> rank(example_library(), Query("image", item="0.png")).relevant.values.tolist()
    [['annotated', '0.txt', 2]]
    """
    similarity = similarity_of(library, settings)
    checked_k(settings.k)
    target = target or query.target
    gallery = library.items(target)  # raises, before anything is encoded, where there are no captions
    encoded = encode(library, query)
    pair = (gallery, encoded) if target == "images" else (encoded, gallery)
    scores = score_matrix(similarity, *pair).reshape(-1)
    among = np.arange(len(scores)) if among is None else among
    order = among[np.argsort(-scores[among], kind="stable")[: settings.k]]
    ids, table, rows = library.ids(target), answer_table(library, target, order, scores[order]), []
    # a sentence, or an image from elsewhere, has no right answer
    for kind in library.relevance_sets if query.kind in ("caption", "image") else ():
        modality = f"{query.kind}s"
        right = library.relevant(kind, modality, library.position(modality, query.item))
        table[kind] = np.isin(order, right)
        right = right[np.isin(right, among)]
        if len(right):
            own = np.searchsorted(among, right)
            relevance = Relevance.from_positions(np.zeros(len(right)), own, [query.item], ids[among])
            best_first = ids[right[np.argsort(-scores[right], kind="stable")]]
            ranks = relevant_ranks(scores[None, among], relevance).ranks.tolist()
            rows += zip([kind] * len(ranks), best_first, ranks, strict=True)
    relevant = pd.DataFrame(rows, columns=["kind", "item", "rank"])
    return Ranking(target, scores, order, table, relevant, *read_words(library, query), len(among))


def answer_table(library: Library, target: str, positions: np.ndarray, scores: np.ndarray) -> pd.DataFrame:
    """Answers, best first, with columns rank (from 1), item, text (of captions) and score. Raises: DamagedFile for a
    score that is NaN or +∞, which no undamaged gallery and model give."""
    if not (scores < np.inf).all():
        raise DamagedFile(f"{library.label} gives scores that are not finite: its gallery or its weights are damaged.")
    ranks = np.arange(1, len(positions) + 1)
    table = pd.DataFrame({"rank": ranks, "item": library.ids(target)[positions], "score": scores})
    if target == "captions":
        table.insert(2, "text", library.texts[positions])
    return table


def similarity_of(library: Library, settings: Settings) -> Similarity:
    """The method's own similarity, or the one that the settings put in its place. Raises: BadInput for a setting that
    the method does not have.

    >>> from xmr_core.retrieval import example_library
    >>> similarity_of(example_library("dive"), Settings(alpha=8.0))
    SmoothChamfer(alpha=8.0)
    """
    own = library.method.similarity
    if settings.alpha and "alpha" not in own.settings:
        raise BadInput(f"{library.label} is not compared by smooth-Chamfer, so it has no α to change.")
    if settings.distance and not isinstance(library.images, GaussianEmbedding):
        raise BadInput(f"{library.label} makes no distributions, so it has no other distance at test time.")
    if settings.distance:
        return GaussianDistance(settings.distance)
    return own.replace(alpha=settings.alpha) if settings.alpha else own
