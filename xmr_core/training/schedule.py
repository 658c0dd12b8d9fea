"""Learning-rate schedules as plain functions of the step, so that a resumed run needs the step number alone."""

import math

from xmr_core.base.errors import BadInput

SCHEDULES = ("cosine", "constant", "step")


def lr_factor(
    step: int, total: int, schedule: str, warmup: int = 0, steps_per_epoch: int = 1, every: int = 15
) -> float:
    """The factor on the base learning rate at a 0-based step.

    The first `warmup` steps rise linearly from 1/warmup to 1. Then 'cosine' falls to 0 at `total`, as
    ½(1 + cos π·progress); 'constant' stays at 1; 'step' is multiplied by 0.1 every `every` epochs (VSE++).
    Raises: BadInput for another schedule.

    >>> [lr_factor(step, 10, "cosine", warmup=2) for step in (0, 1, 6, 10)]
    [0.5, 1.0, 0.5, 0.0]
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
