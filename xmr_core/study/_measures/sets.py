"""What the sets of a trained model hold: the use of their weakest and of their first elements, whether elements gather
by slot, and where slots look in each round."""

from math import isqrt

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from xmr_core.base.types import EmbeddingSet
from xmr_core.data.scenes import object_masks, scenes_of
from xmr_core.evaluation.analysis.attention import attention_entropy, object_overlap
from xmr_core.evaluation.analysis.budgets import FIRST
from xmr_core.evaluation.analysis.circular_variance import circular_variance
from xmr_core.evaluation.analysis.element_map import neighbourhood
from xmr_core.evaluation.analysis.element_subsets import element_ablation, keep_elements, weakest_elements
from xmr_core.evaluation.analysis.representations import encode_split
from xmr_core.evaluation.evaluate import evaluate
from xmr_core.evaluation.results import METRIC_COLUMNS, rsum_values
from xmr_core.evaluation.standard_errors import mean_error
from xmr_core.evaluation.stats import image_error
from xmr_core.similarities.nested import Cut, doubled
from xmr_core.training.runs import TrainedRun

_IMAGES = 200  # of the test split, from its start: enough for a mean, and few enough for all pairs of their elements


def elements(run: TrainedRun) -> pd.DataFrame:
    """RSUM (annotated) with single elements of one modality, as fractions: 'rsum_only' and 'rsum_without' with the
    number of the element as k, and 'rsum_of_weakest_element', what is lost without the one that is worst alone, with
    its error."""
    split, method = run.prepared().splits["test"], run.method()
    images, captions = encode_split(method, split)
    relevances = {"annotated": split.relevance}
    table = element_ablation(method.similarity, images, captions, relevances)
    rows = []
    for line in table[table["side"] != "both"].itertuples():
        word, element = line.kept.split()
        rows.append(("annotated", line.side, f"rsum_{word}", int(element), line.rsum / 100))
    for line in weakest_elements(table).itertuples():
        sets = {"images": images, "captions": captions}
        rest = [k for k in range(sets[line.side].x.shape[1]) if k != line.element]
        sets[line.side] = keep_elements(sets[line.side], rest)
        without = evaluate(method.similarity, sets["images"], sets["captions"], relevances).per_query
        error = mean_error(rsum_values(run.per_query, "annotated") - rsum_values(without, "annotated"))
        rows.append(("annotated", line.side, "rsum_of_weakest_element", 0, line.gain / 100))
        rows.append(("annotated", line.side, "rsum_of_weakest_element_error", 0, error))
    return _table(rows, len(run.per_query[run.per_query["relevance"] == "annotated"]))


def prefixes(run: TrainedRun) -> pd.DataFrame:
    """RSUM (annotated) of the first k elements of every set, a fraction, at k = 1, 2, 4, … and the size of the sets,
    with its error; no row for items of one vector each, or of which one modality has more elements."""
    split, method = run.prepared().splits["test"], run.method()
    images, captions = encode_split(method, split)
    sizes = {items.x.shape[1] if isinstance(items, EmbeddingSet) else 0 for items in (images, captions)}
    if len(sizes) > 1 or sizes == {0}:
        return _table([], 0)
    rows = []
    for k in doubled(*sizes):
        cut = evaluate(Cut(method.similarity, k, k), images, captions, {"annotated": split.relevance})
        values = rsum_values(cut.per_query, "annotated")
        rows.append(("annotated", "both", FIRST, k, float(values.mean())))
        rows.append(("annotated", "both", f"{FIRST}_error", k, mean_error(values)))
    return _table(rows, len(run.per_query[run.per_query["relevance"] == "annotated"]))


def variances(run: TrainedRun) -> pd.DataFrame:
    """The error of the log circular variance of the sets of each modality, which every evaluation gives: that of the
    mean variance by the variance itself, because d log v = dv / v."""
    split = run.prepared().splits["test"]
    owners = {"images": np.arange(len(split.image_rows)), "captions": split.owners}
    rows = []
    for name, items in zip(owners, encode_split(run.method(), split), strict=True):
        if isinstance(items, EmbeddingSet) and items.x.shape[1] > 1:
            values = circular_variance(items).double().clamp(min=1e-12).numpy()
            error = image_error([(values, owners[name])]) / values.mean()
            rows.append(("", name, "log_circular_variance_error", 0, float(error)))
    return _table(rows, len(split.image_rows))


def neighbours(run: TrainedRun) -> pd.DataFrame:
    """Share of the elements of the first images, and of a caption of each, whose nearest other element (cosine) has the
    same number in its set. Chance gives one in K."""
    split = run.prepared().splits["test"].first(_IMAGES)
    images, captions = encode_split(run.method(), split)
    first = np.unique(split.owners, return_index=True)[1]
    share = neighbourhood(images, captions[torch.from_numpy(first)])["same element"]
    return _table([("", "", "same_slot_share", 0, share / 100)], len(images) + len(first))


def attention(run: TrainedRun) -> pd.DataFrame:
    """Where the slots of images look, against the true objects of scenes, on the first images of the test split.

    'attention_overlap' with the round as k (object_overlap); 'attention_overlap_gain', the last round minus the first;
    'attention_overlap_over_others', the last round minus the same with the objects of the next image;
    'attention_entropy_fall', the entropy of a cell's shares in the first round minus that in the last; the three with
    their errors. No row for a corpus that does not know its objects, or features that lie on no square grid.
    """
    prepared, method = run.prepared(), run.method()
    split = prepared.splits["test"].first(_IMAGES)
    if prepared.corpus.name != "scenes" or not hasattr(method.image_head, "attention_maps"):
        return _table([], 0)
    images = split.images_at(np.arange(len(split.image_rows)))
    with torch.inference_mode():
        shares = method.image_head.attention_maps(method.image_encoder(images))[0].mean(2)  # n t k l, over heads
    grid = isqrt(shares.shape[-1])
    if grid**2 != shares.shape[-1]:
        return _table([], 0)
    masks = torch.from_numpy(object_masks(scenes_of(prepared.corpus, "test")[: len(shares)]))
    masks = F.adaptive_avg_pool2d(masks, grid).flatten(2)  # n o l
    entropy, overlap = attention_entropy(shares), object_overlap(shares, masks)
    others = object_overlap(shares[:, -1:], masks.roll(1, 0))[:, 0]
    rows = [("", "images", "attention_overlap", t, float(value)) for t, value in enumerate(overlap.mean(0), 1)]
    for name, values in {
        "attention_overlap_gain": overlap[:, -1] - overlap[:, 0],
        "attention_overlap_over_others": overlap[:, -1] - others,
        "attention_entropy_fall": entropy[:, 0] - entropy[:, -1],
    }.items():
        rows.append(("", "images", name, 0, float(values.mean())))
        rows.append(("", "images", f"{name}_error", 0, mean_error(values.double().numpy())))
    return _table(rows, len(shares))


def _table(rows: list[tuple], n: int) -> pd.DataFrame:
    return pd.DataFrame([(*row, n) for row in rows], columns=METRIC_COLUMNS)
