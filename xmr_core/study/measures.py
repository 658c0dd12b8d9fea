"""Numbers of a trained run that an evaluation does not give: where slots look, which words SGRAF trusts, how wide
distributions are."""

from math import isqrt

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from xmr_core.data.scenes import content_words, object_masks, scenes_of
from xmr_core.data.text.tokenisers import rule
from xmr_core.evaluation.analysis.attention import attention_entropy, content_preference, object_overlap
from xmr_core.evaluation.analysis.representations import encode_split
from xmr_core.evaluation.results import METRIC_COLUMNS
from xmr_core.evaluation.standard_errors import mean_error
from xmr_core.evaluation.stats import image_error
from xmr_core.training.runs import TrainedRun

_IMAGES = 200  # of the test split, from its start: enough for a mean
_BEFORE = 2  # nodes of SGRAF before the words: the global vectors and <start>


def attention(run: TrainedRun) -> pd.DataFrame:
    """Where the slots of images look, against the true objects of scenes, on the first images of the test split.

    'attention_overlap' with the round as k (object_overlap); 'attention_overlap_gain', the last round minus the first;
    'attention_overlap_over_others', the last round minus the same with the objects of the next image;
    'attention_entropy_fall', the entropy of a cell's shares in the first round minus that in the last; the three with
    their errors. No row for a corpus that does not know its objects, or features that lie on no square grid.
    """
    prepared, method = run.prepared(), run.method()
    split, rows = prepared.splits["test"].first(_IMAGES), []
    if prepared.corpus.name != "scenes" or not hasattr(method.image_head, "attention_maps"):
        return pd.DataFrame(columns=METRIC_COLUMNS)
    images = split.images_at(np.arange(len(split.image_rows)))
    with torch.inference_mode():
        shares = method.image_head.attention_maps(method.image_encoder(images))[0].mean(2)  # n t k l, over heads
    grid = isqrt(shares.shape[-1])
    if grid**2 != shares.shape[-1]:
        return pd.DataFrame(columns=METRIC_COLUMNS)
    masks = torch.from_numpy(object_masks(scenes_of(prepared.corpus, "test")[: len(shares)]))
    masks = F.adaptive_avg_pool2d(masks, grid).flatten(2)  # n o l
    entropy, overlap = attention_entropy(shares), object_overlap(shares, masks)
    others = object_overlap(shares[:, -1:], masks.roll(1, 0))[:, 0]
    for t, value in enumerate(overlap.mean(0), 1):
        rows.append(("", "images", "attention_overlap", t, float(value), len(shares)))
    for name, values in {
        "attention_overlap_gain": overlap[:, -1] - overlap[:, 0],
        "attention_overlap_over_others": overlap[:, -1] - others,
        "attention_entropy_fall": entropy[:, 0] - entropy[:, -1],
    }.items():
        rows.append(("", "images", name, 0, float(values.mean()), len(shares)))
        rows.append(("", "images", f"{name}_error", 0, mean_error(values.double().numpy()), len(shares)))
    return pd.DataFrame(rows, columns=METRIC_COLUMNS)


def content_weight(run: TrainedRun) -> pd.DataFrame:
    """How much more a word of content weighs in SAF than another word of its caption, beside the caption's own image:
    the mean of content_preference over the captions of the test split, with its error.

    Not a number where no list of such words is known (another corpus than scenes) or captions are no words.
    """
    split, words = run.prepared().splits["test"], run.prepared().vocabulary
    values = np.full(len(split.caption_rows), np.nan)
    if run.config.data.dataset == "scenes" and words is not None:
        method, content = run.method(), content_words()
        images, captions = encode_split(method, split)
        texts = run.prepared().corpus.captions["text"].iloc[split.caption_rows]
        kinds = [[word in content for word in rule(words.tokeniser)(text)] for text in texts]
        for image in np.unique(split.owners):
            own = np.flatnonzero(split.owners == image)
            with torch.inference_mode():
                beta = method.similarity.element_weights(images[int(image)], captions[torch.from_numpy(own)])["SAF"][0]
            is_word, is_content = torch.zeros_like(beta, dtype=torch.bool), torch.zeros_like(beta, dtype=torch.bool)
            for t, kind in enumerate(kinds[t] for t in own):
                is_word[t, _BEFORE : _BEFORE + len(kind)] = True
                is_content[t, _BEFORE : _BEFORE + len(kind)] = torch.tensor(kind)
            values[own] = content_preference(beta, is_word, is_content).numpy()
    known = ~np.isnan(values)
    value = float(values[known].mean()) if known.any() else float("nan")
    rows = [("", "captions", "saf_content_weight", 0, value, known.sum())]
    if known.sum() > 1:
        error = image_error([(values[known], split.owners[known])])
        rows.append(("", "captions", "saf_content_weight_error", 0, error, known.sum()))
    return pd.DataFrame(rows, columns=METRIC_COLUMNS)


def mean_log_std(run: TrainedRun) -> dict[str, float]:
    """Mean of log σ over the test items of each modality ('images', 'captions') and their dimensions, of a method with
    distributions."""
    items = encode_split(run.method(), run.prepared().splits["test"])
    return {name: float(own.log_std.double().mean()) for name, own in zip(("images", "captions"), items, strict=True)}
