"""Does training go wrong? Divergence stops it at once; a collapse is named early, with what to do about it."""

import math
from dataclasses import dataclass

from xmr_core.base.errors import TrainingFailed

PATIENCE = 40  # steps in a row that must look collapsed
FLAT = 2e-3  # standard deviation of all in-batch scores below which items are indistinguishable


@dataclass
class CollapseWatch:
    """Watches loss and spread of the in-batch scores, step by step. Its two fields are its whole state.

    A hinge loss with hardest negatives has a trap: all embeddings equal gives every triplet exactly the margin, and no
    gradient that separates them (the field's "loss stuck at 51.2", "0.2001" or "0.4"; docs/methods/index.md#methods-hinge).
    """

    flat_steps: int = 0
    reported: bool = False

    def see(self, loss: float, spread: float, where: str) -> str | None:
        """One step. loss: its value. spread: standard deviation of scores "i t". where: 'epoch 0 step 12'.

        Returns: a sentence for the user the first time a collapse is certain, else None.
        Raises: TrainingFailed when the loss is not a number.
        """
        if not math.isfinite(loss):
            raise TrainingFailed(
                f"training diverged: the loss is {loss} at {where}. Lower the learning rate (a tenth is a safe try) or clip harder."
            )
        self.flat_steps = self.flat_steps + 1 if spread < FLAT else 0
        if self.flat_steps < PATIENCE or self.reported:
            return None
        self.reported = True
        return (
            f"training has collapsed: for {PATIENCE} steps up to {where} all in-batch scores are equal to within {spread:.1e}. "
            "Train the first epochs on all negatives (warmup_epochs of the triplet), lower the learning rate, or use InfoNCE."
        )
