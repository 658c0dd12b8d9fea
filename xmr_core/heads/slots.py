"""Heads of sets: PIE-Net, DivE's set prediction by slot attention, and the position codes that it adds."""

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from xmr_core.base.errors import BadInput, require_choice, require_flag, require_number
from xmr_core.base.tensors import as_features, global_of, masked_softmax
from xmr_core.base.types import EmbeddingSet, Features


class PIENet(nn.Module):
    """K elements from K attention maps over the local features.

    A = softmax over valid inputs of W₂ tanh(W₁ X)  ("n l k", no biases)
    r_k = dropout(sigmoid(W_f Σ_l A_lk X_l + b_f)),   residual = r
    element k = LN(global + r_k)/‖·‖₂ with one LayerNorm for all k.

    Args: d_local: width of X. d: joint width. slots: K. d_hidden: width inside the attention, ⌊d_local/2⌋ by default.
    Shapes: local_feats "n l d_local", global_feat "n d" → EmbeddingSet x "n k d", residual "n k d", attention "n k l".
    Raises: BadInput for K < 1 or features without a global vector or an item without a real element.
    Source: Song & Soleymani, CVPR 2019 (PVSE); docs/methods/pvse.md.

    >>> import torch
    >>> PIENet(3, 2, slots=4)(torch.rand(5, 6, 3), global_feat=torch.rand(5, 2)).x.shape
    torch.Size([5, 4, 2])
    """

    def __init__(self, d_local: int, d: int, slots: int, d_hidden: int | None = None, dropout: float = 0.0):
        super().__init__()
        require_number("slots", slots, low=1)
        self.w_1, self.w_2, self.fc = attention_layers(d_local, d, slots, d_hidden)
        self.layer_norm = nn.LayerNorm(d)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, features: Features | Tensor, mask: Tensor | None = None, global_feat: Tensor | None = None
    ) -> EmbeddingSet:
        features = as_features(features, mask, global_feat, self.fc.in_features)
        added = global_of(features, "PIE-Net adds the global feature")
        x, attention = attended(self, features)
        attention = attention.transpose(1, 2)  # n k l
        residual = self.dropout(self.fc(attention @ x).sigmoid())
        elements = F.normalize(self.layer_norm(added.unsqueeze(1) + residual), dim=-1)
        mask = torch.ones(elements.shape[:2], dtype=torch.bool, device=x.device)
        return EmbeddingSet(elements, mask, residual=residual, attention=attention)


def attention_layers(d_local: int, d: int, slots: int, d_hidden: int | None) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
    """W₁, W₂ and W_f of PIE-Net, uniform after Xavier."""
    hidden = d_hidden or d_local // 2
    layers = nn.Linear(d_local, hidden, bias=False), nn.Linear(hidden, slots, bias=False), nn.Linear(d_local, d)
    for layer in layers:
        nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layers[2].bias)
    return layers


def attended(layers: nn.Module, features: Features) -> tuple[Float[Tensor, "n l e"], Float[Tensor, "n l k"]]:
    """(local features with zeros on padding, the weights over them) by the layers w_1 and w_2 of PIE-Net."""
    x = torch.where(features.mask[..., None], features.local_feats, 0.0)  # a weight of 0 does not silence a NaN
    return x, masked_softmax(layers.w_2(layers.w_1(x).tanh()), features.mask[..., None], dim=1)


def sine_1d(
    mask: Bool[Tensor, "n l"], d: int, dtype: torch.dtype, by_own_length: bool = True
) -> Float[Tensor, "n l d"]:
    """Codes of word positions p = 1, 2, … with θ_p = 2π p/(length + 1e-6): channel 2i sin(θ/10000^{2i/d}), 2i+1 cos of
    the same.

    by_own_length: length is each caption's own; False uses the padded length for all (the authors' code,
        docs/differences.md#x-44).
    """
    n, l = mask.shape
    if by_own_length:  # padding counts nowhere, also before or between words
        index, length = mask.cumsum(1).to(dtype), mask.sum(1, keepdim=True).to(dtype)
    else:
        index = torch.arange(1, l + 1, device=mask.device, dtype=dtype).expand(n, l)
        length = torch.full((n, 1), l, device=mask.device, dtype=dtype)
    return _waves(2 * math.pi * index / (length + 1e-6), d)


def sine_2d(cells: int, d: int, device: torch.device, dtype: torch.dtype) -> Float[Tensor, "1 l d"]:
    """Codes of a square grid, read row by row: the first d/2 channels code the row, the last d/2 the column.

    Raises: BadInput when the cells do not form a square or d is odd.
    """
    edge = math.isqrt(cells)
    if edge * edge != cells or d % 2:
        raise BadInput(f"2-D positions need a square grid and an even width, got {cells} cells and width {d}.")
    angle = 2 * math.pi * torch.arange(1, edge + 1, device=device, dtype=dtype) / (edge + 1e-6)
    code = _waves(angle, d // 2)  # edge d/2
    rows = code[:, None].expand(edge, edge, -1)
    columns = code[None, :].expand(edge, edge, -1)
    return torch.cat([rows, columns], -1).reshape(1, cells, d)


def _waves(angle: Float[Tensor, "..."], d: int) -> Float[Tensor, "... d"]:
    channel = torch.arange(d, device=angle.device)
    scaled = angle[..., None] / 10000 ** (2 * (channel // 2).to(angle.dtype) / d)
    return torch.where(channel % 2 == 0, scaled.sin(), scaled.cos())


class Projected(nn.Module):
    """The sets of another head with elements of another width: element = W x / ‖W x‖₂, x of that head and W "w d".

    head: makes sets of width d, "n k d" → "n k w". Its residual and attention stay as they are.

    >>> import torch
    >>> Projected(PIENet(3, 2, slots=4), 2, 7)(torch.rand(5, 6, 3), global_feat=torch.rand(5, 2)).x.shape
    torch.Size([5, 4, 7])
    """

    def __init__(self, head: nn.Module, d: int, width: int):
        super().__init__()
        self.head, self.linear = head, nn.Linear(d, width, bias=False)

    def forward(self, *features, **more) -> EmbeddingSet:
        sets = self.head(*features, **more)
        return replace(sets, x=F.normalize(self.linear(sets.x), dim=-1))


# DivE's set prediction: slots compete for the local features, several times over.


_CHOICES = {
    "positions": ("none", "sine1d", "sine2d"),
    "padding": ("masked", "official"),
    "softmax_over": ("slots", "inputs"),
    "query": ("learned", "sampled"),
    "update": ("residual", "gru"),
}
_EPS = 1e-7  # of the renormalisation over inputs


class SlotBlock(nn.Module):
    """What one round of slot attention learns: the layers of q, k, v and the output, the feed-forward, their
    LayerNorms, and the GRU cell with update 'gru'. `SlotHead` computes with them."""

    def __init__(self, d_local: int, d: int, inner: int, ff_mult: int, update: str):
        super().__init__()
        _add_layers(self, d_local, d, inner, ff_mult)
        self.cell = nn.GRUCell(d, d) if update == "gru" else None


class SlotHead(nn.Module):
    """K set elements by T rounds of slot attention over the local features.

    E⁰ = learned slots "k d"; for t = 1…T, in heads of width head_width and without biases:
        q = LN_q(E) W_q,  k = (LN_c(X) + pos) W_k,  v = LN_c(X) W_v
        A = softmax over the k slots of q kᵀ/√head_width;   Â = A / (Σ_inputs A + 1e-7)
        Ē = dropout(Â v W_o + b_o) + E;   E ← W₂ dropout(GELU(W₁ LN_f(Ē) + b₁)) + b₂ + Ē
    P = LN_last(E^T);   element k = (P_k + LN_g(global)) / ‖·‖₂;   residual = P.

    Args: padding: 'masked' removes padded inputs after the slot softmax and counts text positions on each caption's own
        length; 'official' reproduces the authors' code, where a padded input keeps weight 1/K in every slot
        (docs/differences.md#x-43) and positions are scaled by the padded length (docs/differences.md#x-44).
        softmax_over: 'inputs' turns the block into a transformer (Table 3 right; no code by the authors).
        query 'sampled': E⁰ = μ + σ ⊙ ε, fresh noise while training, one fixed draw "k d" for all items in eval mode
        (with ε = 0 all slots would be one). update 'gru': a GRU cell instead of the first residual sum (App. B.3; no
        code by the authors). use_global: False leaves LN_g(global) out (App. B.3). weight_sharing: True uses one set
        of weights in all T rounds, as the paper does. False gives round t a set of its own, all of W, b, LN_q, LN_c,
        LN_f and the GRU cell, under the names `blocks.{t-1}.…`: T times the parameters, an option of the authors' code.
        E⁰, LN_last and LN_g are there once in both.
    Shapes: local_feats "n l d_local", global_feat "n d" → EmbeddingSet x "n k d", residual "n k d",
        attention "n k l" of the last round, averaged over heads.
    Raises: BadInput for K, T, heads or head_width < 1, an unknown choice, features without the global vector that is
        needed, or an item without a real element.
    Source: Kim, Kim & Kwak, CVPR 2023 (DivE), §3; the block is that of the authors' code.

    >>> import torch
    >>> SlotHead(3, 8, slots=4, head_width=2)(torch.rand(5, 6, 3), global_feat=torch.rand(5, 8)).x.shape
    torch.Size([5, 4, 8])
    """

    def __init__(
        self,
        d_local: int,
        d: int,
        slots: int = 4,
        iterations: int = 4,
        heads: int = 4,
        head_width: int = 512,
        ff_mult: int = 4,
        dropout: float = 0.1,
        positions: str = "none",
        padding: str = "masked",
        softmax_over: str = "slots",
        query: str = "learned",
        update: str = "residual",
        use_global: bool = True,
        weight_sharing: bool = True,
    ):
        super().__init__()
        for name, value in (("slots", slots), ("iterations", iterations), ("heads", heads), ("head_width", head_width)):
            require_number(name, value, low=1)
        require_flag("use_global", use_global)
        require_flag("weight_sharing", weight_sharing)
        choices = dict(positions=positions, padding=padding, softmax_over=softmax_over, query=query, update=update)
        for name, value in choices.items():
            require_choice(name, value, _CHOICES[name])
        self.d_local, self.slots, self.iterations, self.heads = d_local, slots, iterations, heads
        self.positions, self.padding, self.softmax_over, self.use_global = positions, padding, softmax_over, use_global
        inner = heads * head_width
        if query == "learned":
            self.latents = nn.Parameter(torch.randn(slots, d))
        else:
            self.mean, self.log_std = (nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, d))) for _ in range(2))
            draw = torch.randn(slots, d, generator=torch.Generator().manual_seed(0))
            self.register_buffer("eval_noise", draw, persistent=False)
        self.sampled = query == "sampled"
        self.blocks = None
        if weight_sharing:  # the head itself is the block of all rounds
            _add_layers(self, d_local, d, inner, ff_mult)
        else:
            self.blocks = nn.ModuleList(SlotBlock(d_local, d, inner, ff_mult, update) for _ in range(iterations))
        self.norm_last = nn.LayerNorm(d)
        self.norm_global = nn.LayerNorm(d) if use_global else None
        if weight_sharing:
            self.cell = nn.GRUCell(d, d) if update == "gru" else None
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, features: Features | Tensor, mask: Tensor | None = None, global_feat: Tensor | None = None
    ) -> EmbeddingSet:
        features = as_features(features, mask, global_feat, self.d_local)
        prediction, attention = self._predict(features)
        fused = prediction
        if self.use_global:
            added = global_of(features, "this head (unless use_global=False) adds the global feature")
            fused = prediction + self.norm_global(added).unsqueeze(1)
        mask = torch.ones(fused.shape[:2], dtype=torch.bool, device=fused.device)
        return EmbeddingSet(F.normalize(fused, dim=-1), mask, residual=prediction, attention=attention[-1][1].mean(1))

    def attention_maps(self, features: Features) -> tuple[Float[Tensor, "n t h k l"], Float[Tensor, "n t h k l"]]:
        """(softmax over slots, the same renormalised over inputs) at each of the T rounds and for each head, for
        visualisation."""
        maps = self._predict(as_features(features, width=self.d_local))[1]
        return tuple(torch.stack(kind, 1) for kind in zip(*maps, strict=True))

    def _predict(self, features: Features) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        x, valid = features.local_feats, features.mask[:, None, None, :]  # n 1 1 l
        if self.padding == "masked":
            # a wild pad would leave LayerNorm as NaN, and NaN · 0 is NaN
            x = torch.where(features.mask[..., None], x, 0.0)
        slots, maps, previous = self._start(x.shape[0]), [], None  # len() would fix the number in an exported graph
        for block in self.blocks or [self] * self.iterations:
            if block is not previous:  # shared weights give the same keys and values in all rounds
                keys, values = self._read(block, x, features.mask)
                previous = block
            query = self._split(block.to_q(block.norm_query(slots)))  # n h k w
            logits = query @ keys.transpose(-1, -2) / query.shape[-1] ** 0.5  # n h k l
            raw, weights = self._weigh(logits, valid)
            maps.append((raw, weights))
            update = self.dropout(block.to_out((weights @ values).transpose(1, 2).flatten(2)))  # n k d
            if block.cell is None:
                slots = update + slots
            else:
                slots = block.cell(update.flatten(0, 1), slots.flatten(0, 1)).view_as(slots)
            slots = block.ff_out(self.dropout(F.gelu(block.ff_in(block.norm_ff(slots))))) + slots
        return self.norm_last(slots), maps

    def _read(self, block: nn.Module, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the inputs, "n h l w" each."""
        context = block.norm_context(x)
        keys = block.to_k(context + self._position(context, mask))
        return self._split(keys), self._split(block.to_v(context))

    def _weigh(self, logits: Float[Tensor, "n h k l"], valid: Tensor) -> tuple[Tensor, Tensor]:
        """(A, Â) of the docstring of the class."""
        if self.softmax_over == "inputs":
            weights = masked_softmax(logits, valid, dim=-1)
            return weights, weights
        if self.padding == "official":
            raw = logits.masked_fill(~valid, torch.finfo(logits.dtype).min).softmax(-2)
        else:
            raw = logits.softmax(-2).masked_fill(~valid, 0.0)
        return raw, raw / (raw.sum(-1, keepdim=True) + _EPS)

    def _start(self, n: int) -> Float[Tensor, "n k d"]:
        if not self.sampled:
            return self.latents.expand(n, -1, -1)
        mean = self.mean.expand(n, self.slots, -1)
        return mean + self.log_std.exp() * (torch.randn_like(mean) if self.training else self.eval_noise)

    def _split(self, x: Float[Tensor, "n m i"]) -> Float[Tensor, "n h m w"]:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def _position(self, x: Tensor, mask: Tensor) -> Tensor | float:
        if self.positions == "none":
            return 0.0
        if self.positions == "sine2d":
            return sine_2d(x.shape[1], x.shape[2], x.device, x.dtype)
        return sine_1d(mask, x.shape[2], x.dtype, by_own_length=self.padding == "masked")


def _add_layers(to: nn.Module, d_local: int, d: int, inner: int, ff_mult: int) -> None:
    """The layers of one block, under the names that checkpoints know."""
    to.norm_query, to.norm_context = nn.LayerNorm(d), nn.LayerNorm(d_local)
    to.to_q = nn.Linear(d, inner, bias=False)
    to.to_k = nn.Linear(d_local, inner, bias=False)
    to.to_v = nn.Linear(d_local, inner, bias=False)
    to.to_out = nn.Linear(inner, d)
    to.norm_ff = nn.LayerNorm(d)
    to.ff_in, to.ff_out = nn.Linear(d, ff_mult * d), nn.Linear(ff_mult * d, d)
