"""How a run is trained, and what happened while it was."""

from dataclasses import dataclass, field

from xmr_core.base.errors import BadInput


@dataclass(frozen=True)
class TrainConfig:
    """How to train.

    Args: epochs: at least 1. lr: learning rate of AdamW, in (0, 1). weight_decay: of AdamW, on matrices only. clip: the
            norm that gradients are clipped to, 0 for no clipping.
        schedule: see lr_factor; warmup_steps rise linearly, decay_every counts epochs.
        precision: 'float32', or 'bfloat16' for autocast; 'auto' is bfloat16 on a GPU and float32 on a CPU.
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
        checks = {
            "epochs": self.epochs >= 1,
            "lr": 0 < self.lr < 1,
            "weight_decay": self.weight_decay >= 0,
            "clip": self.clip >= 0,
            "threads": self.threads >= 1,
            "seed": self.seed >= 0,
            "pretrained_lr": 0 <= self.pretrained_lr <= 1,
            "freeze_epochs": self.freeze_epochs >= 0,
            "unfreeze_every": self.unfreeze_every >= 0,
            "precision": self.precision in ("auto", "float32", "bfloat16"),
        }
        for name, valid in checks.items():
            if not valid:
                raise BadInput(
                    f"{name} = {getattr(self, name)!r} is out of range. See TrainConfig for what is allowed."
                )


@dataclass
class History:
    """What happened. epochs: one dict per finished epoch, with epoch, loss and its terms, lr, value and seconds.

    best_epoch: 0-based epoch of the best value on the validation split, whose weights stay. messages: warnings.

    >>> History().best_epoch
    -1
    """

    epochs: list[dict] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    best_epoch: int = -1
    best_value: float = -float("inf")
    seconds: float = 0.0
