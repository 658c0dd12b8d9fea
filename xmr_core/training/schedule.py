"""Learning-rate schedules as plain functions of the step, so that resuming needs nothing but the step number."""

import math

from xmr_core.base.errors import BadInput

SCHEDULES = ("cosine", "constant", "step")


def lr_factor(step: int, total: int, schedule: str, warmup: int = 0, steps_per_epoch: int = 1, every: int = 15) -> float:
    """The factor on the base learning rate at a 0-based step.

    The first `warmup` steps rise linearly from 1/warmup to 1. After them: 'cosine' falls to 0 at `total`,
    ½(1 + cos π·progress); 'constant' stays; 'step' is ×0.1 every `every` epochs (VSE++).
    """
    if schedule not in SCHEDULES:
        raise BadInput(f"schedule must be one of {', '.join(SCHEDULES)}; got {schedule!r}.")
    if step < warmup:
        return (step + 1) / warmup
    if schedule == "constant":
        return 1.0
    if schedule == "step":
        return 0.1 ** (step // (every * steps_per_epoch))
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))
