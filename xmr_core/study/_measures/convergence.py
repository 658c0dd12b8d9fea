"""How fast a run learned, and how many negatives AdOpt takes before and after."""

import numpy as np
import pandas as pd
import torch

from xmr_core.base.errors import BadInput
from xmr_core.data.batches import Batches
from xmr_core.evaluation.results import METRIC_COLUMNS
from xmr_core.losses.adaptive_clustering import AdaptiveClustering
from xmr_core.methods.method import Method
from xmr_core.methods.registry import build
from xmr_core.study.adaptive import value_after
from xmr_core.training.runs import TrainedRun

BATCHES = 20


def convergence(run: TrainedRun) -> pd.DataFrame:
    """RSUM on the validation split after a tenth of the epochs, a fraction: how fast a run learned. Epochs until a
    share of its own last value would call a run fast that stays at a plateau."""
    value = value_after(run.history["value"], 0.1)
    row = ("annotated", "both", "rsum_after_a_tenth", 0, value, len(run.history))
    return pd.DataFrame([row], columns=METRIC_COLUMNS)


def negatives_per_128(method: Method, batches: Batches, epoch: int) -> dict[str, float]:
    """K of AdOpt for queries of each direction: the mean of 128 · K / candidates of a row, over the first 20 batches of
    an epoch.

    The method reads in eval mode, so nothing is dropped. Raises: BadInput for a method with another objective.
    """
    loss = method.objective.score_loss
    if not isinstance(loss, AdaptiveClustering):
        raise BadInput(f"{method.name} has another objective than AdOpt here, which takes no number of negatives.")
    plan, counts = batches.plan(epoch), {"i2t": [], "t2i": []}
    method.eval()
    with torch.inference_mode():
        for step in range(min(len(plan), BATCHES)):
            batch = batches.batch(epoch, step, plan).to(method.device)
            images, captions = method.encode_images(batch.images), method.encode_captions(batch.captions)
            scores = method.similarity.scorings(images, captions)[0]
            for direction, s, match in (("i2t", scores, batch.match), ("t2i", scores.T, batch.match.T)):
                counts[direction].append(128 * loss.how_many(s, match) / s.shape[1])
    return {direction: float(np.mean(values)) for direction, values in counts.items()}


def negatives(run: TrainedRun) -> pd.DataFrame:
    """K of AdOpt for rows of 128 candidates: how far it falls from the untrained method to the kept weights
    ('negatives_fall'), and 5.5 minus its last value ('negatives_below_5': above 0 where K rounds to 5 or fewer).

    Both are counted on training batches of the last epoch, before augmentation.
    """
    config, prepared = run.config, run.prepared()
    batches = Batches(
        prepared.splits["train"], config.batch_images, config.captions_per_image, config.train.seed, config.unit,
        config.positives,
    )  # fmt: skip
    torch.manual_seed(config.train.seed)  # the weights that the run began with
    untrained = build(config.method, prepared.inputs, config.form, **config.options)
    prepared.load_pretrained(untrained)
    epoch = config.train.epochs - 1
    start, end = (negatives_per_128(method, batches, epoch) for method in (untrained, run.method()))
    rows = []
    for d in ("i2t", "t2i"):
        rows.append(("", d, "negatives_fall", 0, start[d] - end[d], BATCHES))
        rows.append(("", d, "negatives_below_5", 0, 5.5 - end[d], BATCHES))
    return pd.DataFrame(rows, columns=METRIC_COLUMNS)
