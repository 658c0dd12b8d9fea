"""Encoding a whole split, and how spread out the elements of its sets are."""

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from xmr_core.base.types import EmbeddingSet, Representation
from xmr_core.data.batches import Split
from xmr_core.evaluation.analysis.circular_variance import log_circular_variance
from xmr_core.methods.method import Method

_CHUNK = 256


def encode_split(method: Method, side: Split) -> tuple[Representation, Representation]:
    """(images, captions) of a split in split order, on the CPU. The method should be in eval mode."""
    device = method.device
    with torch.inference_mode():
        images = [method.encode_images(side.images_at(rows).to(device)).to("cpu") for rows in _chunks(len(side.image_rows))]
        # captions of similar length together: less padding, same numbers
        by_length = np.argsort(side.lengths, kind="stable")
        captions = [method.encode_captions(side.captions_at(by_length[rows]).to(device)).to("cpu") for rows in _chunks(len(by_length))]
    back = torch.from_numpy(np.argsort(by_length, kind="stable"))
    return _join(images), _join(captions)[back]


def set_spread(images: Representation, captions: Representation) -> pd.DataFrame:
    """Rows for the metrics table: log circular variance of the sets of each side (natural log of the mean over items).

    Empty for methods with one vector per item, whose variance is 0.
    """
    rows = [
        {
            "relevance": "",
            "direction": side,
            "metric": "log_circular_variance",
            "k": 0,
            "value": float(log_circular_variance(sets)),
            "n_queries": len(sets),
        }
        for side, sets in (("images", images), ("captions", captions))
        if isinstance(sets, EmbeddingSet) and sets.x.shape[1] > 1
    ]
    return pd.DataFrame(rows)


def _chunks(n: int) -> list[np.ndarray]:
    return [np.arange(at, min(at + _CHUNK, n)) for at in range(0, n, _CHUNK)]


def _join(parts: list[Representation]) -> Representation:
    """One representation of all chunks. Attention and residuals are dropped: their width differs between chunks of captions."""
    names = [n for n in ("x", "mask", "mean", "log_std", "samples") if hasattr(parts[0], n)]
    if isinstance(parts[0], EmbeddingSet):
        widest = max(p.x.shape[1] for p in parts)
        parts = [p if p.x.shape[1] == widest else _widened(p, widest) for p in parts]
    return type(parts[0])(**{name: torch.cat([getattr(p, name) for p in parts]) for name in names})


def _widened(s: EmbeddingSet, k: int) -> EmbeddingSet:
    """Padded to k elements: chunks of captions differ in length where the elements are words."""
    more = k - s.x.shape[1]
    return EmbeddingSet(F.pad(s.x, (0, 0, 0, more)), F.pad(s.mask, (0, more)))
