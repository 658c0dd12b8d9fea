"""VSE+2AD: two poolings, one over entire tokens and one per channel, and a balance between them."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from xmr_core.base.errors import BadInput, require_choice, require_flag
from xmr_core.base.tensors import as_features, masked_softmax
from xmr_core.base.types import Embedding, Features
from xmr_core.heads.gpo import joined, sorted_channels

PADDING = ("masked", "official")
TOKEN_WEIGHTS = ("matrix", "scalar")
LEVELS = ("both", "token", "embedding")


class AdaptivePoolHead(nn.Module):
    """x = l2(ω_tok t_tok + ω_emb t_emb), on U = the tokens with every channel sorted, largest first.

        t_emb = Σ_k softmax_k(U) ⊙ U        t_tok = Σ_k θ_k ⊙ U_k,  θ = softmax over k of ReLU(U W + b)
        (ω_tok, ω_emb) = softmax(t_tok · w_b + b_b, t_emb · w_b + b_b)

    Args: d_local, d: widths; a linear layer joins them first where they differ. padding: 'masked', or 'official', where
        padded rows keep the logit ReLU(b) and so thin out the others (docs/differences.md#x-30). token_weights:
        'matrix' W "d d" with ReLU (the authors' code) or 'scalar' W "d 1" without (the paper,
        docs/differences.md#x-31). levels: 'both', or one of them alone (Table 3). balance: None to learn ω_tok; or, as
        in Table C-2, a fixed ω_tok in [0, 1], or 'random' for one drawn in [0, 1) when the head is made, and stored.
    Shapes: local_feats "n l d_local" → Embedding "n d".
    Raises: BadInput for an unknown choice, a balance outside [0, 1] or an item without a token.
    Source: Zhang, Shu et al., EACL 2023 (VSE+2AD), adaptive pooling; docs/methods/vse_2ad.md.

    >>> import torch
    >>> AdaptivePoolHead(3, 2)(torch.rand(5, 4, 3)).x.shape
    torch.Size([5, 2])
    """

    def __init__(
        self,
        d_local: int,
        d: int,
        padding: str = "masked",
        token_weights: str = "matrix",
        levels: str = "both",
        balance: float | str | None = None,
        normalise: bool = True,
    ):
        super().__init__()
        require_choice("padding", padding, PADDING)
        require_choice("token_weights", token_weights, TOKEN_WEIGHTS)
        require_choice("levels", levels, LEVELS)
        require_flag("normalise", normalise)
        if isinstance(balance, str):
            require_choice("balance", balance, ("random",))
        elif balance is not None and not 0 <= balance <= 1:
            raise BadInput(f"balance is the weight of the token level, in [0, 1], or None to learn it; got {balance}.")
        self.join = nn.Linear(d_local, d) if d_local != d else nn.Identity()
        self.d_local = d_local
        self.padding, self.token_weights, self.levels = padding, token_weights, levels
        self.fixed, self.normalise = balance, normalise
        self.linear, self.balance = nn.Linear(d, d if token_weights == "matrix" else 1), nn.Linear(d, 1)
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        if balance == "random":  # a buffer: it is stored with the weights and never trained
            self.register_buffer("share", torch.rand(()))

    def forward(self, features: Features | Tensor, mask: Tensor | None = None) -> Embedding:
        token, embedding, _, balance = self.parts(features, mask)
        pooled = balance[:, :1] * token + balance[:, 1:] * embedding
        return Embedding(F.normalize(pooled, dim=-1) if self.normalise else pooled)

    def parts(
        self, features: Features | Tensor, mask: Tensor | None = None
    ) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n d"], Float[Tensor, "n l d"], Float[Tensor, "n 2"]]:
        """(t_tok, t_emb, θ by rank, (ω_tok, ω_emb)), for visualisation."""
        features = as_features(features, mask, width=self.d_local)
        u = sorted_channels(joined(self.join, features), features.mask)
        valid = (torch.arange(u.shape[1], device=u.device) < features.mask.sum(1, keepdim=True))[..., None]  # n l 1
        embedding = (masked_softmax(u, valid, dim=1) * u).sum(1)
        logits = self.linear(u).relu() if self.token_weights == "matrix" else self.linear(u)
        weights = logits.softmax(1) if self.padding == "official" else masked_softmax(logits, valid, dim=1)
        token = (weights * u).sum(1)
        return token, embedding, weights.expand_as(u), self._balance(token, embedding)

    def _balance(self, token: Tensor, embedding: Tensor) -> Float[Tensor, "n 2"]:
        if self.levels == "both" and self.fixed == "random":
            return torch.stack([self.share, 1 - self.share]).to(token.dtype).expand(len(token), 2)
        if self.levels != "both" or self.fixed is not None:
            share = {"both": self.fixed, "token": 1.0, "embedding": 0.0}[self.levels]
            return token.new_tensor([share, 1 - share]).expand(len(token), 2)
        return torch.cat([self.balance(token), self.balance(embedding)], 1).softmax(1)
