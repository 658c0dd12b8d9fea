"""VSE+2AD's objective: a contrastive loss whose number of negatives follows how far training has come."""

import math
from numbers import Integral

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from xmr_core.base.errors import BadInput, require_choice, require_flag, require_number
from xmr_core.base.tensors import checking, is_traced
from xmr_core.losses.scores import check_scores, mean_of_pairs

FORMS = ("official", "paper")
MODES = ("adaptive", "constant", "random")
_LARGEST_STATE = 1e6  # of cosines it is below 4; a cosine of anything larger is a random number


class AdaptiveClustering(nn.Module):
    """AdOpt: per positive pair, cross-entropy against the K negatives of its row that score highest; both directions.

    official: K = clamp(⌊cos((align + uniform)^power) B⌋ + 1, 1, B − 1), align = mean score of the positives, uniform =
        mean of exp(−s) over all entries with the positives set to 0; logits [s⁺, s⁻ + margin]/τ; half the sum of both
        directions. Negatives are the top K of the row with its positives set to 0, so that a positive is its own
        negative where fewer than K others exceed 0 (docs/differences.md#x-32); own_negatives=False takes them out.
    paper: K = clamp(⌊B cos((γ_a + γ_u) π/4)⌋, 1, B − 1), γ_a = align, γ_u = log mean e^s; only negatives in the
        denominator, no margin, the sum of both directions (docs/differences.md#x-33 to #x-36). Its K stays near B for
        every plausible model.

    It reads the scores of all pairs, so that none can be left out (`reads_all`).

    Args: temperature: τ. mode: 'adaptive', 'constant' (`negatives`, the authors' 3) or 'random' (uniform in 1 … B − 1).
        power: 1.25. B is the number of captions a row offers.
    Shapes: scores, match "i t" → scalar. history: K of (captions as queries, images as queries) of every call in
        training that is neither compiled nor mapped.
    Raises: BadInput for unknown choices, K < 1, τ ≤ 0, a batch in which a row has no positive or no negative.
    Source: Zhang, Shu et al., EACL 2023 (VSE+2AD), adaptive objective; docs/methods/vse_2ad.md.

    >>> import torch
    >>> loss = AdaptiveClustering(mode="constant", negatives=1, margin=0.0, temperature=1.0)
    >>> loss(torch.eye(2), torch.eye(2, dtype=torch.bool))
    tensor(0.5032)
    """

    reads_all = True

    def __init__(
        self,
        form: str = "official",
        mode: str = "adaptive",
        negatives: int = 3,
        temperature: float = 0.05,
        margin: float = 0.2,
        power: float = 1.25,
        own_negatives: bool = True,
    ):
        super().__init__()
        require_choice("form", form, FORMS)
        require_choice("mode", mode, MODES)
        if not isinstance(negatives, Integral) or isinstance(negatives, bool) or not 1 <= negatives <= 10**9:
            raise BadInput(f"negatives must be a whole number of at least 1, got {negatives!r}. VSE+2AD uses 3.")
        require_number("temperature", temperature, above=0, hint="VSE+2AD uses 0.05.")
        require_number("margin", margin)
        require_number("power", power)
        require_flag("own_negatives", own_negatives)
        self.form, self.mode, self.negatives, self.temperature = form, mode, negatives, temperature
        self.margin, self.power, self.own_negatives = margin, power, own_negatives
        self._chosen: list[Tensor] = []

    def forward(self, scores: Float[Tensor, "i t"], match: Bool[Tensor, "i t"]) -> Float[Tensor, ""]:
        scores, match = check_scores(scores, match, soft="Positives and negatives are counted here.")
        if checking() and not all(m.any(axis).all() for m in (match, ~match) for axis in (0, 1)):
            raise BadInput("every image and caption needs a matching and a non-matching partner.")
        ways = ((scores.T, match.T), (scores, match))
        chosen = tuple(self.how_many(*way) for way in ways)
        if self.training and not is_traced(scores, match):
            self._chosen.append(torch.stack(chosen))
        total = sum(self._one_way(*way, k) for way, k in zip(ways, chosen, strict=True))
        return total / 2 if self.form == "official" else total

    @property
    def history(self) -> list[tuple[int, int]]:
        return [tuple(k.tolist()) for k in self._chosen]

    @torch.no_grad()
    def how_many(self, scores: Float[Tensor, "q g"], match: Bool[Tensor, "q g"]) -> Int[Tensor, ""]:
        """K for queries as rows; it stays on the device of the scores."""
        b = scores.shape[1]
        if self.mode == "adaptive":
            k = self._by_state(scores, match, b)
        else:
            k = self.negatives if self.mode == "constant" else int(torch.randint(1, b, ()))
            k = torch.full((), k, device=scores.device)
        return k.clamp(1, max(1, b - 1))

    def _by_state(self, scores: Tensor, match: Tensor, b: int) -> Tensor:
        state = self.alignment(scores, match)
        if self.form == "official":
            state = state + self.uniformity(scores, match)
            k = ((state.clamp(min=0) ** self.power).cos() * b).trunc() + 1  # a negative base would have no real power
        else:
            state = state + scores.logsumexp((0, 1)) - math.log(scores.numel())
            k = (b * (state * math.pi / 4).cos()).floor()
        # also of NaN: all negatives, and the training loop names the loss
        return torch.where(state.abs() < _LARGEST_STATE, k, b).long()

    @staticmethod
    @torch.no_grad()
    def alignment(scores: Tensor, match: Tensor) -> Float[Tensor, ""]:
        """Mean score of the matching pairs."""
        return mean_of_pairs(scores, match)

    @staticmethod
    @torch.no_grad()
    def uniformity(scores: Tensor, match: Tensor) -> Float[Tensor, ""]:
        """Mean of exp(−s) over all pairs, s = 0 for matching ones."""
        return (-scores.masked_fill(match, 0.0)).exp().mean()

    @torch.no_grad()
    def hardest(self, scores: Float[Tensor, "q g"], match: Bool[Tensor, "q g"]) -> Int[Tensor, "q g"]:
        """All columns, the hardest negatives of every row first; see own_negatives for what may be among them."""
        fill = 0.0 if self.form == "official" and self.own_negatives else -torch.inf
        return scores.masked_fill(match, fill).argsort(dim=1, descending=True, stable=True)

    def _one_way(self, scores: Tensor, match: Tensor, k: Int[Tensor, ""]) -> Tensor:
        hardest = self.hardest(scores, match)
        left_out = torch.arange(scores.shape[1], device=scores.device) >= k
        if not (self.form == "official" and self.own_negatives):  # a row with fewer than k negatives takes those it has
            left_out = left_out | match.gather(1, hardest)
        negatives = scores.gather(1, hardest).masked_fill(left_out, -torch.inf)
        positive = scores / self.temperature
        if self.form == "paper":
            return mean_of_pairs((negatives / self.temperature).logsumexp(1, keepdim=True) - positive, match)
        others = ((negatives + self.margin) / self.temperature).logsumexp(1, keepdim=True)
        return mean_of_pairs(torch.logaddexp(positive, others) - positive, match)
