"""Hard negatives of a model: which images belong into one batch, because their captions are taken for each other's."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Int

from xmr_core.base.types import Relevance
from xmr_core.data.batches import Split
from xmr_core.evaluation.analysis.representations import encode_split
from xmr_core.evaluation.ranks import Scoring, best
from xmr_core.methods.method import Method

_CANDIDATES = 20  # captions looked at for each image that is wanted


def hard_images(method: Method, split: Split, known: Iterable[Relevance], k: int) -> Int[np.ndarray, "i k"]:
    """For each image of a split the k other images whose captions a model finds nearest to it, nearest first; −1 where
    there are fewer.

    A caption that is known to be true of the image is left out, by whatever kind of relevance, so that what is mined is
    wrong as far as the corpus knows. known: kinds of relevance of this split (annotated, exhaustive, human, …).
    """
    images, captions = encode_split(method, split)
    scores = Scoring(method.similarity, images, captions, device=method.device)
    found = best(scores, min(len(captions), _CANDIDATES * k), "images")[1]
    true = [relevance.transpose() for relevance in known]
    out = np.full((len(images), k), -1)
    for image, nearest in enumerate(found):
        right = np.concatenate([relevance[image] for relevance in true])
        owners = split.owners[nearest[np.isin(nearest, right, invert=True)]]
        _, first = np.unique(owners, return_index=True)
        hard = owners[np.sort(first)][:k]
        out[image, : len(hard)] = hard
    return out


def side_by_side(order: Int[np.ndarray, " i"], hard: Int[np.ndarray, "i k"]) -> Int[np.ndarray, " i"]:
    """An order of images in which each is followed by those of its hard ones that have no place yet: batches cut from
    it hold hard negatives, and every image stays in an epoch once.

    >>> side_by_side(np.array([2, 0, 1, 3]), np.array([[1], [0], [3], [-1]])).tolist()
    [2, 3, 0, 1]
    """
    placed, out = np.zeros(len(order) + 1, bool), []
    placed[-1] = True  # of −1
    for image in order:
        if not placed[image]:
            group = [*dict.fromkeys([image, *(other for other in hard[image] if not placed[other])])]
            placed[group] = True
            out += group
    return np.array(out)
