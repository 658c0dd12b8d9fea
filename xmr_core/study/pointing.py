"""Whether words and slots look at objects, where the corpus knows its objects."""

from math import isqrt

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from xmr_core.data.scenes import object_masks, scenes_of, shape_words
from xmr_core.data.text.tokenisers import rule
from xmr_core.evaluation.analysis.attention import pointing, slot_attention
from xmr_core.evaluation.analysis.representations import encode_split
from xmr_core.evaluation.results import METRIC_COLUMNS
from xmr_core.training.runs import TrainedRun

_IMAGES = 200  # of the test split, from its start


def words(run: TrainedRun) -> pd.DataFrame:
    """Looks of the words that name an object ("circle", "crosses"), each at its caption's own image, against all
    objects of that shape there: 'word_pointing' (share of hits), 'word_pointing_chance' (of random looks),
    'word_overlap' (intersection over union). No row for another corpus than scenes, or captions that are no words.
    Raises: BadInput for a method whose words do not attend to cells.
    """
    prepared, method, names = run.prepared(), run.method(), shape_words()
    if prepared.corpus.name != "scenes" or prepared.vocabulary is None:
        return pd.DataFrame(columns=METRIC_COLUMNS)
    split, read = prepared.splits["test"].first(_IMAGES), rule(prepared.vocabulary.tokeniser)
    images, captions = encode_split(method, split)
    texts = prepared.corpus.captions["text"].iloc[split.caption_rows].tolist()
    attended, masks = [], []
    for image, (present, shapes, own_masks) in enumerate(_objects(run, len(split.image_rows))):
        own = np.flatnonzero(split.owners == image)
        with torch.inference_mode():
            attention = method.similarity.attention(images[image], captions[torch.from_numpy(own)])[0]  # t q l
        for t, weights in zip(own, attention, strict=True):
            for place, word in enumerate(read(texts[t]), 1):  # <start> comes before the words
                named = present & (shapes == names.get(word, -1))
                if named.any():
                    attended.append(weights[place])
                    masks.append(_on_grid(own_masks[named].max(0)[None], weights.shape[-1])[0])
    if not attended:
        return pd.DataFrame(columns=METRIC_COLUMNS)
    return _rows("word", torch.stack(attended), torch.stack(masks))


def slots(run: TrainedRun) -> pd.DataFrame:
    """The look of each slot in the last round against all objects of its image: 'slot_pointing',
    'slot_pointing_chance', 'slot_overlap'. No row for another corpus than scenes.
    Raises: BadInput for a method without slots.
    """
    split = run.prepared().splits["test"].first(_IMAGES)
    if run.prepared().corpus.name != "scenes":
        return pd.DataFrame(columns=METRIC_COLUMNS)
    last = slot_attention(run.method(), split.images_at(np.arange(len(split.image_rows))))[:, -1]  # n k l
    every = np.stack([masks.max(0) for *_, masks in _objects(run, len(last))])
    masks = _on_grid(every, last.shape[-1])[:, None].expand_as(last)
    return _rows("slot", last.flatten(0, 1), masks.flatten(0, 1))


def _objects(run: TrainedRun, n: int):
    """(which objects are there, their shapes, their masks) of each of the first n test images."""
    scenes = scenes_of(run.prepared().corpus, "test")[:n]
    return zip(scenes.present, scenes.shape, object_masks(scenes), strict=True)


def _on_grid(masks: np.ndarray, cells: int) -> torch.Tensor:
    return F.adaptive_avg_pool2d(torch.from_numpy(masks), isqrt(cells)).flatten(1)


def _rows(name: str, weights: torch.Tensor, masks: torch.Tensor) -> pd.DataFrame:
    hit, share, overlap = (float(x.mean()) for x in pointing(weights, masks))
    values = {f"{name}_pointing": hit, f"{name}_pointing_chance": share, f"{name}_overlap": overlap}
    rows = [("", "images", metric, 0, value, len(weights)) for metric, value in values.items()]
    return pd.DataFrame(rows, columns=METRIC_COLUMNS)
