"""How fast a run learns, and how many negatives AdOpt takes while it does."""

from collections.abc import Sequence

import pandas as pd
import torch

from xmr_core.base.errors import BadInput
from xmr_core.data.batches import Batches
from xmr_core.data.prepare import prepare
from xmr_core.losses.adaptive_clustering import AdaptiveClustering
from xmr_core.methods.registry import build
from xmr_core.training.loop import OwnState, train
from xmr_core.training.runs import RunConfig

SHARE = 0.95


def epochs_to(values: Sequence[float], share: float = SHARE) -> float:
    """When a curve first reaches share · its last value: epochs, straight lines between the ends of epochs and from 0
    before the first, so that runs with few epochs are told apart.

    Raises: BadInput for no value, or a last value that is not positive.

    >>> epochs_to([2.0, 3.0, 4.0], share=0.875)
    2.5
    """
    values = [0.0, *map(float, values)]
    if len(values) < 2 or not values[-1] > 0:
        raise BadInput("a run without epochs, or one that ends at 0, has no epoch in which it had learned nearly all.")
    goal = share * values[-1]
    after = next(n for n, value in enumerate(values) if value >= goal)
    before = values[after - 1]
    return after - 1 + (goal - before) / (values[after] - before)


def negatives_in_training(config: RunConfig) -> pd.DataFrame:
    """K of every training step of a run: columns step (from 1), epoch (from 1), i2t, t2i, and the candidates that a row
    offers, 'i2t of' and 't2i of'.

    The method is trained anew, from the weights and with the batches of the run, but without augmentation and without
    being kept. Raises: BadInput for a method whose objective is not AdOpt.

    >>> from xmr_core.study import base_config
    >>> negatives_in_training(base_config("vse++", device="cpu", size="tiny", d=8))
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: vse++ has another objective than AdOpt here...
    """
    prepared = prepare(config.data, device=config.device)
    own = OwnState(config.train, config.device)
    with own.inside():
        torch.manual_seed(config.train.seed)
        method = build(config.method, prepared.inputs, config.form, **config.options).to(config.device)
        prepared.load_pretrained(method)
    loss = method.objective.score_loss
    if not isinstance(loss, AdaptiveClustering):
        raise BadInput(f"{config.method} has another objective than AdOpt here, which takes no number of negatives.")
    batches = Batches(
        prepared.splits["train"], config.batch_images, config.captions_per_image, config.train.seed, config.unit,
        config.positives,
    )  # fmt: skip
    train(method, batches, lambda method: {"value": 0.0}, config.train, own=own)
    plans = [batches.plan(epoch) for epoch in range(config.train.epochs)]
    sizes = [(len(captions), len(images)) for plan in plans for images, captions in plan]
    table = pd.DataFrame([(i2t, t2i) for t2i, i2t in loss.history], columns=["i2t", "t2i"])
    table.insert(0, "step", range(1, len(table) + 1))
    table.insert(1, "epoch", [n + 1 for n, plan in enumerate(plans) for _ in plan])
    return table.assign(**{"i2t of": [c for c, _ in sizes], "t2i of": [i for _, i in sizes]})
