"""A query (a sentence, an image, or an item of the corpus), and its answer: all items in order, which of them are
right, and the rank of every right one. In large galleries an engine proposes items and the exact similarity ranks them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Protocol

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from xmr_core.base.errors import BadInput, DamagedFile, require_choice, require_number
from xmr_core.base.types import Brief, Features, GaussianEmbedding, Pixels, Representation
from xmr_core.data.inputs import ImageLike, one_image, pixels_of
from xmr_core.evaluation.ranks import MODALITIES, Scoring, best_first, checked_k, score_matrix, top_k
from xmr_core.retrieval.library import Library
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.gaussian import GaussianDistance

_NEAR = 1e-4  # of the largest score: more than float32 gets wrong; measured for every query
# kind → modality of the answers
KINDS = {"text": "images", "caption": "images", "image": "captions", "upload": "captions"}
LIKE, UNLIKE = 0.75, 0.15  # of Rocchio's feedback; the query itself has 1 (Manning et al. 2008, section 9.1.1)


@dataclass(frozen=True)
class Query(Brief):
    """One query. kind 'text': a sentence in `text`. 'caption', 'image': an id of the corpus in `item`. 'upload': an
    image from elsewhere in `pixels`, given in any form (data.inputs.pixels_of) and held as uint8 "h w 3"; `text` may
    hold its name.

    similar: images answer an image, and not captions. words: what is said beside such an image ("at night"). like,
    unlike: ids of images that answers should and should not resemble, where images are the answers (`combined`).
    Raises: BadInput for another kind, one without the field that it needs, or fields that its answers cannot have.

    >>> Query("text", "a red circle").target
    'images'
    """

    kind: str
    text: str = ""
    item: str | int = ""
    pixels: np.ndarray | None = field(default=None, compare=False)
    similar: bool = False
    words: str = ""
    like: tuple[str | int, ...] = ()
    unlike: tuple[str | int, ...] = ()

    def __post_init__(self):
        require_choice("kind of query", self.kind, KINDS)
        if (self.similar or self.words) and KINDS[self.kind] == "images":
            raise BadInput(f"similar images and further words need an image as the query, and this is a {self.kind}.")
        if (self.words or self.like or self.unlike) and self.target != "images":
            raise BadInput("captions answer this image; ask for similar images, and words and examples can be added.")
        if self.kind == "upload":
            object.__setattr__(self, "pixels", pixels_of(self.pixels))  # refuses what is no image
        elif (self.text.strip() if self.kind == "text" else self.item) == "":  # 0 is an id
            raise BadInput(f"the {self.kind} is empty; type what the image should show, or give an id.")

    @property
    def target(self) -> str:
        """Modality of the answers: 'images' or 'captions'."""
        return "images" if self.similar else KINDS[self.kind]


def answerable(library: Library, query: Query) -> Query:
    """A query as a library can answer it: where there are no captions, similar images answer an image."""
    return replace(query, similar=True) if query.target == "captions" and library.captions is None else query


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
    last = library.last.get(query.kind)  # a sentence does not push out the image beside which it stands
    if last is None or (last[0].pixels is not query.pixels if query.kind == "upload" else last[0].text != query.text):
        if query.kind == "upload":
            encoded = library.model.encoded("images", uploaded_input(library, query))
        else:
            if library.raw.vocabulary is not None:
                known_words(library, query.text)  # refuses a sentence without any known word
            encoded = library.model.encoded("captions", library.raw.new_captions([query.text]))
        library.last[query.kind] = last = query, encoded
    return last[1]


def uploaded_input(library: Library, query: Query) -> Features | Pixels:
    """The method's input for the image of a query of the kind 'upload'."""
    return library.raw.new_images(one_image(query.pixels, library.raw)[None])


def known_words(library: Library, text: str) -> list[str]:
    """The words of a sentence that the method knows.

    Raises: BadInput for a method that reads word pieces, or where it knows none of the words.
    """
    if library.raw.vocabulary is None:
        raise BadInput("single words can be used only with a vocabulary of words; this method reads word pieces.")
    reading = library.raw.captions.readings([text])[0]
    if not reading.words:
        names = ", ".join(map(repr, reading.unknown)) or f"in {text!r}"
        meant = "".join(f" Did you mean {other!r}?" for other in near_words(library, reading.unknown).values())
        raise BadInput(f"the method knows none of the words {names}; use words of its training captions.{meant}")
    return list(reading.words)


def near_words(library: Library, words: Iterable[str]) -> dict[str, str]:
    """Unknown word → the word of the vocabulary that is spelt most like it, where one is; {} for word pieces.

    >>> from xmr_core.retrieval import example_library
    >>> near_words(example_library(), ["squares", "zebra"])
    {'squares': 'square'}
    """
    vocabulary = [] if library.raw.vocabulary is None else [*library.raw.vocabulary.numbers]
    nearest = {word: get_close_matches(word, vocabulary, n=1, cutoff=0.82) for word in words}
    return {word: close[0] for word, close in nearest.items() if close}


def not_read(library: Library, query: Query) -> dict[str, object]:
    """What is not read of a typed sentence, or of the words beside an image, as it stands there.

    unknown_words: words, or pieces of a text model, that the method does not know. nearest: words that no training
    caption has → the training word that each is read as. cut: the end of a sentence that is longer than a text model
    reads.
    """
    if not (text := query.text if query.kind == "text" else query.words):
        return {"unknown_words": (), "nearest": {}, "cut": ""}
    raw, reading = library.raw, library.raw.captions.readings([text])[0]
    table = raw.captions.nearest or {}
    nearest = {w: table[w] for w in reading.words if table and w not in raw.vocabulary.numbers}
    return {"unknown_words": reading.unknown, "nearest": nearest, "cut": reading.cut}


@dataclass(frozen=True)
class Settings:
    """How to rank. k: number of answers to show. alpha: α of smooth-Chamfer, 0 for the method's own. distance: a
    test-time distance of distributions (similarities.gaussian.DISTANCES), '' for the method's own."""

    k: int = 10
    alpha: float = 0.0
    distance: str = ""


@dataclass(frozen=True)
class Ranking(Brief):
    """target: modality of the answers, 'images' or 'captions'. scores: of every item, by position. order: positions of
    the k best, best first. table: one row per answer with columns rank (from 1), item, text (of captions) and score,
    and one Boolean column per relevance set where the query is an item of the corpus. relevant: columns kind, item and
    rank of every right answer, best first. unknown_words, nearest, cut: as `not_read`. among: positions that were
    ranked, fewer than all where the ranking was restricted."""

    target: str
    scores: np.ndarray
    order: np.ndarray
    table: pd.DataFrame
    relevant: pd.DataFrame
    unknown_words: tuple[str, ...] = ()
    nearest: Mapping[str, str] = field(default_factory=dict)
    among: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    cut: str = ""


def rank(
    library: Library,
    query: Query,
    settings: Settings = Settings(),
    among: Int[np.ndarray, " n"] | None = None,
) -> Ranking:
    """Rank all images, or all captions, of a library for a query.

    among: positions to which the ranking is restricted, ascending; None for all. Scores are those of every item. An
    image that ranks images takes the role of a caption, and is no answer to itself.
    Equal scores are in file order. The ranks of right answers never profit from ties.
    Raises: BadInput as encode does, for settings that the method does not have, for k below 1, and for similar images
        by a method that compares images with captions only.

    >>> from xmr_core.retrieval import example_library
    >>> rank(example_library(), Query("image", item="0.png")).relevant.values.tolist()
    [['annotated', '0.txt', 2]]
    """
    similarity, target = similarity_of(library, settings), query.target
    checked_k(settings.k)
    library.items(target)  # raises, before anything is encoded, where there are no captions
    _require_images_compared(library, query, similarity)
    scores = combined(library, query, similarity)
    among = np.arange(len(scores)) if among is None else among
    if query.similar and query.kind == "image":
        among = np.setdiff1d(among, library.position("images", query.item))
        if not len(among):
            raise BadInput("there is no other image that could be like this one.")
    order = among[np.argsort(-scores[among], kind="stable")[: settings.k]]
    ids, table, rows = library.ids(target), answer_table(library, target, order, scores[order]), []
    # a sentence, or an image from elsewhere, has no right answer
    for kind in library.relevance_sets if query.kind in ("caption", "image") and not query.similar else ():
        modality = f"{query.kind}s"
        right = library.relevant(kind, modality, library.position(modality, query.item))
        table[kind] = np.isin(order, right)
        right = right[np.isin(right, among)]
        others = scores[np.setdiff1d(among, right)]
        best_first = right[np.argsort(-scores[right], kind="stable")]
        rows += [(kind, ids[item], n + int((others >= scores[item]).sum())) for n, item in enumerate(best_first, 1)]
    relevant = pd.DataFrame(rows, columns=["kind", "item", "rank"])
    return Ranking(target, scores, order, table, relevant, among=among, **not_read(library, query))


def _require_images_compared(library: Library, query: Query, similarity: Similarity) -> None:
    if (query.similar or query.like or query.unlike) and not similarity.symmetric:
        fault = f"{library.label} compares images with captions only by {similarity}, so it finds no similar images"
        raise BadInput(f"{fault}; type a sentence, or take another method.")


def combined(library: Library, query: Query, similarity: Similarity) -> Float[np.ndarray, " n"]:
    """The score of each item that can answer a query.

    With words or examples beside the query: q + w + 0.75 · mean(like) − 0.15 · mean(unlike), the feedback of Rocchio
    (Manning et al. 2008, section 9.1.1) on scores, so that it works for every representation. Each is the score of one
    query less its mean over the gallery, divided by its standard deviation, because images resemble images more than
    sentences do.
    """

    def scored(items: Representation) -> Float[np.ndarray, "n q"]:
        gallery = library.items(query.target)
        return score_matrix(similarity, gallery, items) if query.target == "images" else (
            score_matrix(similarity, items, gallery).T
        )  # fmt: skip

    parts = [(1.0, encode(library, query))]
    if query.words:
        parts.append((1.0, encode(library, Query("text", query.words))))
    for weight, ids in ((LIKE, query.like), (-UNLIKE, query.unlike)):
        if ids:
            parts.append((weight, library.images[np.array([library.position("images", i) for i in ids])]))
    if len(parts) == 1:
        return scored(parts[0][1])[:, 0]
    out = np.zeros(len(library.ids(query.target)))
    for weight, items in parts:
        scores = scored(items).astype(np.float64)
        spread = scores.std(0)
        out += weight * ((scores - scores.mean(0)) / np.where(spread > 0, spread, 1)).mean(1)
    return out


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


class Proposer(Protocol):
    """An engine that holds the elements of a gallery. Whatever has these two is searched by `two_stage`.

    gallery: the items themselves, from which proposed ones are scored.
    """

    gallery: Representation

    def propose(self, queries: Representation, n: int) -> list[Int[np.ndarray, " p"]]:
        """For each query the positions of the items that hold the n elements nearest to each of its own elements,
        ascending, each once."""
        ...


def search(
    library: Library, text: str = "", image: ImageLike | None = None, k: int = 10, elements: Proposer | None = None
) -> pd.DataFrame:
    """The k best answers to a sentence or to an image.

    Images answer a sentence. Captions answer an image; where the library has no captions, similar images answer it.
    `explain.explained` says why.

    Args:
        library: an index or any other Library. image: a file, a PIL image, or pixels.
        elements: the elements of the library's images in an engine (open_elements, open_engine). The images are then
            searched in two stages (two_stage) instead of being compared one by one. Captions are always compared one by
            one.
    Returns: columns rank (from 1), item, text (of captions) and score. Equal scores are in file order.
        table.attrs has unknown_words, nearest and cut of the sentence, as `not_read` says.
    Raises: BadInput for no query or two, for an image where there are no captions and the method cannot compare images
        with images, and as rank; DamagedFile for an image file that cannot be read.

    >>> from xmr_core.retrieval import example_library
    >>> search(example_library(), "a red zebra", k=2).attrs["unknown_words"]
    ('zebra',)
    """
    if not isinstance(text, str) or bool(text.strip()) == (image is not None):
        raise BadInput("search for one sentence or one image, and not both.")
    query = answerable(library, Query("text", text) if image is None else Query("upload", pixels=image))
    target = query.target
    if elements is None or target == "captions":
        table = rank(library, query, Settings(k=k)).table
    else:
        _require_images_compared(library, query, library.method.similarity)
        scores, positions = two_stage(elements, encode(library, query), library.method.similarity, k)
        filled = positions[0] >= 0
        table = answer_table(library, target, positions[0][filled], scores[0][filled])
    table.attrs |= not_read(library, query)
    return table


def two_stage(
    index: Proposer,
    queries: Representation,
    similarity: Similarity,
    k: int = 10,
    per_element: int = 100,
    modality: str = "captions",
) -> tuple[Float[np.ndarray, "q k"], Int[np.ndarray, "q k"]]:
    """(scores, positions) of the best k items for every query among those that an engine proposes; −∞ and −1 where
    fewer were proposed, equal scores in file order.

    Every real element of a query proposes the items of the `per_element` elements nearest to it by cosine; a
    distribution proposes by its mean. All proposed items are taken from the gallery and scored exactly, so a returned
    item has the score of exact search. An item is missed if the engine, whose vectors nobody checks, holds none of its
    elements near one of the query's; `recall` measures how often.

    Args:
        index: Elements or any other Proposer. modality: of the queries: 'captions' (the gallery holds images) or
            'images'.
    Raises: BadInput for k or per_element below 1, another modality, or another width than the gallery's.
    """
    require_choice("modality", modality, MODALITIES)
    checked_k(k)
    require_number("per_element", per_element, 1)
    scoring = Scoring(similarity, *((index.gallery, queries) if modality == "captions" else (queries, index.gallery)))
    scores, positions = np.full((len(queries), k), -np.inf, np.float32), np.full((len(queries), k), -1, np.int64)
    for q, items in enumerate(index.propose(queries, per_element)):
        if len(items):
            best, order = _best_of(scoring, q, items, k, modality)
            scores[q, : len(best)], positions[q, : len(best)] = best, order
    return scores, positions


def recall(
    index: Proposer,
    queries: Representation,
    similarity: Similarity,
    k: int = 10,
    per_element: int = 100,
    modality: str = "captions",
) -> float:
    """Share of the k best items of exact search that two_stage finds, in any order, over the given queries, in [0, 1].

    Args and raises: as two_stage. Every item of the gallery is compared with every query, so give a sample of queries.
    """
    proposed = two_stage(index, queries, similarity, k, per_element, modality)[1]
    exact = top_k(similarity, queries, index.gallery, k, modality)[1]
    return float(np.mean([np.isin(e, f).mean() for e, f in zip(exact, proposed, strict=True)]))


def _best_of(
    scoring: Scoring, q: int, items: Int[np.ndarray, " n"], k: int, modality: str
) -> tuple[Float[np.ndarray, " k"], Int[np.ndarray, " k"]]:
    """(scores in float64, positions) of the best k of some items for one query. Fast scores choose the items that are
    scored exactly (top_k would first measure their error, which takes longer than scoring a few items); items that
    float64 cannot tell apart stand in file order."""
    query, k = np.array([q]), min(k, len(items))

    def scored(form: Callable, chosen: np.ndarray) -> Float[np.ndarray, " n"]:
        return (form(chosen, query) if modality == "captions" else form(query, chosen)).double().numpy().reshape(-1)

    fast = scored(scoring.block, items)
    margin = _NEAR * max(1.0, np.abs(fast[np.isfinite(fast)]).max(initial=0.0))
    close = np.flatnonzero(fast >= np.partition(fast, -k)[-k] - margin)
    exact = scored(scoring.exact, items[close])
    with np.errstate(invalid="ignore"):  # −∞ − −∞
        if 4 * np.nan_to_num(np.abs(exact - fast[close])).max() > margin:  # fast scores cannot choose
            close, exact = np.arange(len(items)), scored(scoring.exact, items)
    return best_first(scoring, exact, items[close], k)
