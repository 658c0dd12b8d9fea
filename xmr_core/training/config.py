"""Learning-rate schedules as plain functions of the step, so that a resumed run needs the step number alone."""

import math
from dataclasses import dataclass, field

from xmr_core.base.checks import LARGEST, LARGEST_SEED, require_fields
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


# How a run is trained, and what happened while it was.


PRECISIONS = ("auto", "float32", "bfloat16")
_LIMITS = {
    "epochs": (1, 1_000_000), "lr": (0, 0.999999), "weight_decay": (0, LARGEST), "clip": (0, LARGEST),
    "warmup_steps": (0, LARGEST), "decay_every": (1, 1_000_000), "threads": (1, 4096), "seed": (0, LARGEST_SEED),
    "pretrained_lr": (0, 1), "freeze_epochs": (0, 1_000_000), "unfreeze_every": (0, 1_000_000),
}  # fmt: skip


@dataclass(frozen=True)
class TrainConfig:
    """How to train.

    Args: epochs: at least 1. lr: learning rate of AdamW, in (0, 1). weight_decay: of AdamW, on matrices only. clip: the
            norm that gradients are clipped to, 0 for no clipping.
        schedule: see lr_factor; warmup_steps rise linearly, decay_every counts epochs.
        precision: 'float32', without TF32 on a GPU, or 'bfloat16' for autocast; 'auto' is bfloat16 on a GPU and
            float32 on a CPU.
        pretrained_lr: factor in [0, 1] on the rate of pretrained networks that are fine-tuned. freeze_epochs,
            unfreeze_every: when their stages learn (stages_learning).
        threads: CPU threads of one run. They are part of a run's identity, because another order of sums gives other
            bits.
    Raises: BadInput for a value out of range.

    >>> TrainConfig(epochs=3).lr
    0.001
    """

    epochs: int = 8
    lr: float = 1e-3
    weight_decay: float = 1e-4
    clip: float = 2.0
    schedule: str = "cosine"
    warmup_steps: int = 20
    decay_every: int = 15
    precision: str = "auto"
    threads: int = 1
    seed: int = 0
    pretrained_lr: float = 0.1
    freeze_epochs: int = 1
    unfreeze_every: int = 0

    def __post_init__(self):
        require_fields(self, _LIMITS, {"schedule": SCHEDULES, "precision": PRECISIONS})
        if not self.lr > 0:
            raise BadInput(f"lr must be positive, got {self.lr!r}.")


@dataclass
class History:
    """What happened. epochs: one dict per finished epoch, with epoch, loss and its terms, lr, value and seconds.

    best_epoch: 0-based epoch of the best value on the validation split, whose weights stay. messages: warnings.
    seconds: of a core since the start, all threads together, on a CPU; by the wall clock on another device.

    >>> History().best_epoch
    -1
    """

    epochs: list[dict] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    best_epoch: int = -1
    best_value: float = -float("inf")
    seconds: float = 0.0
