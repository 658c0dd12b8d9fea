"""The k best answers to each query, without a matrix of all scores."""

import numpy as np
import torch
from jaxtyping import Float, Int

from xmr_core.errors import BadInput
from xmr_core.retrieval import Similarity, score_blocks
from xmr_core.types import Representation


def top_k(
    similarity: Similarity, queries: Representation, gallery: Representation, k: int, asking: str
) -> tuple[Float[np.ndarray, "q k"], Int[np.ndarray, "q k"]]:
    """(scores, positions in the gallery), best first, equal scores in file order; k is cut to the size of the gallery.

    asking: which side asks, 'captions' (pictures answer) or 'images' (captions answer).
    Raises: BadInput for another word, k < 1, or a score that is not a number.
    """
    if asking not in ("captions", "images") or k < 1:
        raise BadInput(f"asking must be 'captions' or 'images' and k at least 1, got {asking!r} and {k}.")
    k = min(k, len(gallery))
    best = [(torch.empty(0), torch.empty(0, dtype=torch.long)) for _ in range(len(queries))]
    sides = (gallery, queries) if asking == "captions" else (queries, gallery)
    for rows, columns, scores in score_blocks(similarity, *sides):
        scores, asked, answers = (scores.T, columns, rows) if asking == "captions" else (scores, rows, columns)
        scores = scores.float().cpu()
        if scores.isnan().any():
            raise BadInput("a score is not a number; look for NaN in features or weights.")
        for q, row in zip(range(asked.start, asked.stop), scores, strict=True):
            least = row.topk(min(k, len(row))).values[-1]  # topk alone may choose any of several equal scores
            at = (row >= least).nonzero()[:, 0]
            values, places = torch.cat([best[q][0], row[at]]), torch.cat([best[q][1], at + answers.start])
            order = values.argsort(descending=True, stable=True)[:k]
            best[q] = values[order], places[order]
    return np.stack([v.numpy() for v, _ in best]), np.stack([p.numpy() for _, p in best])
