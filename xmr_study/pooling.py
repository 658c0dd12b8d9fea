"""What a trained pooling has learned, and how long poolings take."""

import time

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Features
from xmr_core.data.batches import Split
from xmr_core.heads.gpo import GPOHead, sorted_channels
from xmr_core.heads.pooling import AdaptivePoolHead, KMaxPool, MaxPool, MeanPool, SoftPool, aggregator
from xmr_core.methods.method import Method

TIMED = {  # VSE+2AD, Table 4, in its order, with the mean for its "Manual", which is two poolings
    "LIP": "lip", "seq2seq": "seq2seq", "GCN": "gcn", "self-attention": "self-attention", "AdaPool": "adapool",
    "SoftPool": "softpool", "GPO": "gpo", "mean": "mean", "5-max": "k-max", "AdPool": "",
}  # fmt: skip
COLUMNS = ["panel", "label", "rank", "weight", "share"]


def weights_by_rank(head: nn.Module, features: Features) -> Tensor | None:
    """What the k-th largest value of a channel counts, the mean over items and channels: "l"; None for a pooling whose
    weights do not follow ranks. features: of items that all have all their l elements.

    >>> weights_by_rank(KMaxPool(2, 2, k=2), Features(torch.rand(3, 4, 2), torch.ones(3, 4, dtype=torch.bool))).tolist()
    [0.5, 0.5, 0.0, 0.0]
    """
    length = features.mask.shape[1]
    ranks = torch.arange(length)
    if isinstance(head, MaxPool):
        return (ranks == 0).float()
    if isinstance(head, MeanPool):
        return torch.full((length,), 1 / length)
    if isinstance(head, KMaxPool):
        return (ranks < head.k).float() / min(head.k, length)
    if isinstance(head, GPOHead):
        return head.weights(features.mask).mean(0)
    if isinstance(head, SoftPool | AdaptivePoolHead):
        softmax = sorted_channels(head.join(features.local_feats), features.mask).softmax(1)
        if isinstance(head, AdaptivePoolHead):
            *_, token, balance = head.parts(features)
            softmax = balance[:, :1, None] * token + balance[:, 1:, None] * softmax
        return softmax.mean((0, 2))
    return None


def rank_weights(method: Method, split: Split, label: str = "", most: int = 200) -> pd.DataFrame:
    """`weights_by_rank` of both heads, for the items among the first `most` of a split that have the commonest number
    of features: columns panel (modality and that number), label, rank (from 1), weight, and share, the mean weight of
    AdPool's token level (NaN for other poolings). No rows for a pooling without ranks.

    Raises: BadInput for a method whose heads are no poolings.
    """
    lines = []
    for modality in ("images", "captions"):
        head = method.image_head if modality == "images" else method.caption_head
        items = getattr(split, f"{modality}_at")(np.arange(min(most, len(split.image_rows))))
        with torch.inference_mode():
            features = (method.image_encoder if modality == "images" else method.caption_encoder)(items)
            if features.local_feats is None:
                raise BadInput(f"{method.name} pools no local features.")
            lengths = features.mask.sum(1)
            length = int(lengths.mode().values)
            own = (lengths == length).nonzero()[:, 0]
            picked = Features(features.local_feats[own], features.mask[own])
            short = picked.local_feats[picked.mask].unflatten(0, (len(own), length))  # without padding
            picked = Features(short, torch.ones(len(own), length, dtype=torch.bool))
            weights = weights_by_rank(head, picked)
            share = float(head.parts(picked)[3][:, 0].mean()) if isinstance(head, AdaptivePoolHead) else float("nan")
        for rank, weight in enumerate([] if weights is None else weights.tolist(), 1):
            lines.append((f"{modality}, {length} features", label, rank, weight, share))
    return pd.DataFrame(lines, columns=COLUMNS)


def speeds(repeats: int = 5, items: int = 64, features: int = 36, d: int = 256) -> pd.DataFrame:
    """Milliseconds of each pooling for random items, the least of `repeats` after one that does not count, and how
    many times faster than GCN it is, as the paper's Table 4 counts. Columns pooling, ms, speed.

    >>> list(speeds(1, items=2, features=3, d=8).columns)
    ['pooling', 'ms', 'speed']
    """
    x = Features(torch.randn(items, features, d), torch.ones(items, features, dtype=torch.bool))
    lines = []
    for label, name in TIMED.items():
        head = (aggregator(name, d, d) if name else AdaptivePoolHead(d, d)).eval()
        seconds = []
        with torch.inference_mode():
            for _ in range(repeats + 1):
                started = time.perf_counter()
                head(x)
                seconds.append(time.perf_counter() - started)
        lines.append((label, 1000 * min(seconds[1:])))
    table = pd.DataFrame(lines, columns=["pooling", "ms"])
    return table.assign(speed=table.set_index("pooling")["ms"]["GCN"] / table["ms"])
