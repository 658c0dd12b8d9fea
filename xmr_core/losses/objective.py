"""What is minimised: one loss on scores plus weighted regularisers on representations, with an optional warm-up."""

from collections.abc import Callable, Mapping
from functools import partial

from torch import Tensor, nn

from xmr_core.base.errors import BadInput, require_number
from xmr_core.base.types import Embedding, Representation


class Objective(nn.Module):
    """total = score_loss(scores, match) + Σ weight · regulariser(images, captions).

    Args: score_loss: function or module of (scores, match). regularisers: name → (weight, function of the two
        representations). One that is about the elements of sets (losses.regularisers.of_sets: diversity, MMD) is left
        out where an item is one vector, which has nothing to keep apart.
        warmup_loss: replaces score_loss while epoch < warmup_epochs: all negatives before the hardest keeps an
        untrained model from collapsing.
    Raises: BadInput for negative weights, regularisers of another form or named 'score', warm-up epochs without a
        warm-up loss, or what is no function; when called, for a loss that returns no tensor, or a regulariser that
        returns no single number.

    >>> import torch
    >>> from xmr_core.base.types import Embedding
    >>> from xmr_core.losses.scores import hinge_triplet
    >>> items = Embedding(torch.eye(2))
    >>> Objective(hinge_triplet)(torch.eye(2), torch.eye(2, dtype=torch.bool), items, items)
    (tensor(0.), {'score': tensor(0.)})
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
        for name, pair in self.regularisers.items():
            if not isinstance(pair, tuple | list) or len(pair) != 2 or not callable(pair[1]) or name == "score":
                raise BadInput(f"regularisers are given as {{name: (weight, function)}}, got {name!r}: {pair!r}.")
            require_number(f"the weight of {name}", pair[0], low=0)
        require_number("warmup_epochs", warmup_epochs, low=0)
        if warmup_epochs and warmup_loss is None:
            raise BadInput(f"warmup_epochs is {warmup_epochs} but there is no warmup_loss. Give one, or 0 epochs.")
        for loss in (score_loss, warmup_loss or score_loss):
            if isinstance(loss, type) or not callable(loss):
                raise BadInput(f"a loss must be a function or a module of (scores, match), got {loss!r}.")
        self.score_loss, self.warmup_loss, self.warmup_epochs = score_loss, warmup_loss, warmup_epochs

    def forward(
        self, scores: Tensor, match: Tensor, images: Representation, captions: Representation, epoch: int = 0
    ) -> tuple[Tensor, dict[str, Tensor]]:
        loss = self.warmup_loss if epoch < self.warmup_epochs else self.score_loss
        total = _number("loss", loss(scores, match))
        terms = {"score": total}
        for name, (weight, regulariser) in self.regularisers.items():
            if weight and not (isinstance(images, Embedding) and _is_of_sets(regulariser)):
                terms[name] = _number(f"regulariser {name}", regulariser(images, captions))
                total = total + weight * terms[name]
        return total, terms


def _number(what: str, value: object) -> Tensor:
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise BadInput(f"the {what} must return a tensor with one number, got {type(value).__name__}.")
    return value


def _is_of_sets(regulariser: Callable) -> bool:
    while isinstance(regulariser, partial):
        regulariser = regulariser.func
    return getattr(regulariser, "of_sets", False)
