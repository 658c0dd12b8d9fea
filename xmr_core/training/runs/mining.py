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


def hard_images(method: Method, split: Split, relevances: Iterable[Relevance], k: int) -> Int[np.ndarray, "i k"]:
    """For each image of a split the k other images whose captions a model finds nearest to it, nearest first; −1 where
    there are fewer.

    An image with any caption that is known to be true of the other is left out, by whatever kind of relevance: all that
    it brings into a batch is wrong as far as the corpus knows. relevances: kinds of relevance of this split (annotated,
    exhaustive, human, …).
    """
    images, captions = encode_split(method, split)
    scores = Scoring(method.similarity, images, captions, device=method.device)
    nearest_captions = best(scores, min(len(captions), _CANDIDATES * k), "images")[1]
    true = [relevance.transpose() for relevance in relevances]
    out = np.full((len(images), k), -1)
    for image, nearest in enumerate(nearest_captions):
        right = np.concatenate([relevance[image] for relevance in true])
        owners = split.owners[nearest]
        owners = owners[np.isin(owners, split.owners[right], invert=True)]
        _, first = np.unique(owners, return_index=True)
        hard = owners[np.sort(first)][:k]
        out[image, : len(hard)] = hard
    return out
