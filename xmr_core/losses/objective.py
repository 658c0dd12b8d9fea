"""What is minimised: one loss on scores plus weighted regularisers on representations, with an optional warm-up."""

from collections.abc import Callable, Mapping

from torch import Tensor, nn

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Embedding, Representation


class Objective(nn.Module):
    """total = score_loss(scores, match) + Σ weight · regulariser(images, captions).

    Args: score_loss: function or module of (scores, match). regularisers: name → (weight, function of the two
        representations); skipped for methods with one vector per item, which have nothing to keep apart.
        warmup_loss: replaces score_loss while epoch < warmup_epochs: all negatives before the hardest keeps an untrained
        model from collapsing (METHODS §1.7).
    Raises: BadInput for negative weights, or warm-up epochs without a warm-up loss.
    """

    def __init__(
        self,
        score_loss: Callable[[Tensor, Tensor], Tensor],
        regularisers: Mapping[str, tuple[float, Callable]] | None = None,
        warmup_loss: Callable[[Tensor, Tensor], Tensor] | None = None,
        warmup_epochs: int = 0,
    ):
        super().__init__()
        self.regularisers = dict(regularisers or {})
        if not all(weight >= 0 for weight, _ in self.regularisers.values()) or warmup_epochs < 0:
            raise BadInput("weights of regularisers and warmup_epochs must be 0 or more.")
        if warmup_epochs and warmup_loss is None:
            raise BadInput(f"warmup_epochs is {warmup_epochs} but there is no warmup_loss. Give one, or 0 epochs.")
        self.score_loss, self.warmup_loss, self.warmup_epochs = score_loss, warmup_loss, warmup_epochs

    def forward(
        self, scores: Tensor, match: Tensor, images: Representation, captions: Representation, epoch: int = 0
    ) -> tuple[Tensor, dict[str, Tensor]]:
        loss = self.warmup_loss if epoch < self.warmup_epochs else self.score_loss
        terms = {"score": loss(scores, match)}
        total = terms["score"]
        for name, (weight, regulariser) in self.regularisers.items():
            if weight and not isinstance(images, Embedding):
                terms[name] = regulariser(images, captions)
                total = total + weight * terms[name]
        return total, terms
