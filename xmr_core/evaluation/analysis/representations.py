"""How spread out the elements of a set are on the unit sphere."""

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.errors import BadInput
from xmr_core.base.masked import masked_mean
from xmr_core.base.types import EmbeddingSet, Representation, joined
from xmr_core.data.batches import Split
from xmr_core.evaluation.results import METRIC_COLUMNS
from xmr_core.methods.method import Method


def circular_variance(sets: EmbeddingSet) -> Float[Tensor, " n"]:
    """1 − ‖m‖₂ for each set, m the mean over valid elements of x_k/‖x_k‖₂; in [0, 1], 0 when all point one way.

    Computed as mean ‖x_k − m‖² / (1 + ‖m‖), which is the same for unit vectors and keeps its digits near 0, where a
    difference from 1 would be rounding alone.
    Source: DivE (Kim et al., CVPR 2023), §4.6 and Table 3.

    >>> import torch
    >>> sets = EmbeddingSet(torch.eye(2)[None], torch.ones(1, 2, dtype=torch.bool))
    >>> circular_variance(sets)
    tensor([0.2929])
    """
    x = F.normalize(sets.x, dim=-1)
    m = masked_mean(x, sets.mask[..., None], dim=1)
    return masked_mean((x - m[:, None]).square().sum(-1), sets.mask, dim=1) / (1 + m.norm(dim=-1))


def log_circular_variance(sets: EmbeddingSet, order: str = "mean-then-log") -> Float[Tensor, ""]:
    """Natural logarithm of the circular variance over sets; the paper does not say in which order mean and log are
    taken.

    order: 'mean-then-log' or 'log-then-mean'. A variance below 1e-12 counts as 1e-12, so that collapsed sets give a
    number.
    Raises: BadInput for another order.

    >>> import torch
    >>> log_circular_variance(EmbeddingSet(torch.ones(3, 2, 1), torch.ones(3, 2, dtype=torch.bool))).item() < -27
    True
    """
    variance = circular_variance(sets).double().clamp(min=1e-12)
    if order == "mean-then-log":
        return variance.mean().log()
    if order == "log-then-mean":
        return variance.log().mean()
    raise BadInput(f"order must be 'mean-then-log' or 'log-then-mean', got {order!r}.")


_CHUNK = 256


def encode_split(method: Method, split: Split) -> tuple[Representation, Representation]:
    """(images, captions) of a split in split order, on the CPU. The method should be in evaluation mode."""
    device = method.device
    with torch.inference_mode():
        images = [method.encode_images(split.images_at(r).to(device)).to("cpu") for r in _chunks(len(split.image_rows))]
        # Captions of similar length are encoded together: there is less padding, and the numbers are the same.
        order = np.argsort(split.lengths, kind="stable")
        captions = [
            method.encode_captions(split.captions_at(order[r]).to(device)).to("cpu") for r in _chunks(len(order))
        ]
    return joined(images), joined(captions)[torch.from_numpy(np.argsort(order, kind="stable"))]


def set_spread(images: Representation, captions: Representation) -> pd.DataFrame:
    """Rows for the metrics table: log circular variance of the sets of each modality (natural log of the mean over
    items).

    There are no rows for one vector per item, whose variance is 0.

    >>> sets = EmbeddingSet(torch.eye(2)[None], torch.ones(1, 2, dtype=torch.bool))
    >>> set_spread(sets, sets)["direction"].tolist()
    ['images', 'captions']
    """
    rows = [
        ("", modality, "log_circular_variance", 0, float(log_circular_variance(sets)), len(sets))
        for modality, sets in (("images", images), ("captions", captions))
        if isinstance(sets, EmbeddingSet) and sets.x.shape[1] > 1
    ]
    return pd.DataFrame(rows, columns=METRIC_COLUMNS)


def _chunks(n: int) -> list[np.ndarray]:
    return np.split(np.arange(n), range(_CHUNK, n, _CHUNK))
