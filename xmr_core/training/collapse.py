"""Detection of training that goes wrong: divergence stops it at once, and a collapse is reported early with a
remedy.
"""

import math
from dataclasses import dataclass

from xmr_core.base.errors import TrainingFailed

PATIENCE = 40  # steps in a row with equal scores before a collapse is certain
FLAT = 2e-3  # standard deviation of all scores of a batch below which items cannot be told apart


@dataclass
class CollapseWatch:
    """Watches the loss and the spread of the scores of each batch. Its fields are its complete state.

    A hinge loss with hardest negatives has a trap: when all embeddings are equal, every triplet costs exactly the
    margin and no gradient separates them (the loss stays at 51.2, 0.2001 or 0.4, say).

    >>> watch = CollapseWatch()
    >>> [watch.see(0.4, 1e-5, f"step {n}") for n in range(PATIENCE)][-1][:22]
    'training has collapsed'
    """

    steps: int = 0
    flat_steps: int = 0
    reported: bool = False

    def see(self, loss: float, spread: float, step: str) -> str | None:
        """One step. loss: its value. spread: standard deviation of scores "i t". step: where it is, 'epoch 0 step 12'.

        Returns: a sentence for the user the first time that a collapse is certain, else None.
        Raises: TrainingFailed when the loss is not a finite number.
        """
        if not math.isfinite(loss):
            if not self.steps:  # nothing was learned yet
                raise TrainingFailed(
                    f"the loss is {loss} at the first step, before anything was learned. Look for NaN or infinity in "
                    "the features, and in what the method computes of them."
                )
            raise TrainingFailed(
                f"training diverged: the loss is {loss} at {step}. Lower the learning rate (a tenth is a safe try) or "
                "clip harder."
            )
        self.steps += 1
        self.flat_steps = self.flat_steps + 1 if spread < FLAT else 0
        if self.flat_steps < PATIENCE or self.reported:
            return None
        self.reported = True
        return (
            f"training has collapsed: for {PATIENCE} steps up to {step} all scores of a batch are equal to within "
            f"{spread:.1e}. Train the first epochs on all negatives (warmup_epochs of the triplet), lower the learning "
            "rate, or use InfoNCE."
        )


def require_gradient(norm: float, step: str) -> None:
    """Raise TrainingFailed where a gradient has no finite norm although its loss was finite: all weights are lost with
    it. step: where it is, as in `CollapseWatch.see`.

    >>> require_gradient(3.5, "epoch 0 step 1")
    """
    if not math.isfinite(norm):
        raise TrainingFailed(
            f"the gradient has norm {norm} at {step} although the loss is finite. Look for a root, a logarithm or a "
            "division at zero in what the method computes."
        )
