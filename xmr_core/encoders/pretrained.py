"""Pretrained networks of transformers as encoders: their stages, text and vision models, and CLIP with two branches."""

import json
from collections.abc import Collection
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from xmr_core.base.errors import BadInput, require, require_choice
from xmr_core.base.tensors import masked_max, masked_mean, require_element, require_elements
from xmr_core.base.types import Features, Pixels, Tokens
from xmr_core.encoders.image import GridEncoder
from xmr_core.features.images import check_shape
from xmr_core.features.pretrained import Scaling, build, copy_weights, find_layout, text_of_dual


class FineTuned(nn.Module):
    """An encoder around a pretrained network, `backbone`, whose stages can be opened for learning one after the other.

    A subclass sets `kind` ('image', 'text', or 'both' for a tower of a dual encoder), then `backbone`, and calls
    find_stages when it is built. untrained: names of parameters ('backbone.…') that never learn. lora: rank of the
    adapters that learn in place of the backbone's weights, from the first step and as new parameters do; 0 for none.
    """

    kind: str
    backbone: nn.Module

    def find_stages(self, untrained: Collection[str] = (), lora: int = 0) -> None:
        """Note the stages of the backbone and let all of them learn; with adapters there are none."""
        if lora:
            adapt(self.backbone, lora)
        stages = [] if lora else stage_prefixes(self.backbone, "backbone.")
        self.stages, self._untrained = stages, frozenset(untrained)
        self.train_stages(len(self.stages))

    def load_weights(self, source: Path | str) -> str:
        """Fill the backbone with the weights of a folder or hub name; returns their identity.

        Raises: RuntimeError for another network.
        """
        return copy_weights(self.backbone, source, self.kind)

    def stage_prefixes(self) -> list[tuple[str, ...]]:
        """Groups of prefixes of parameter names, from the output to the input; for unfreezing and learning rates."""
        return self.stages

    def train_stages(self, count: int) -> None:
        """Let the last `count` stages of the backbone learn, and no others; what comes after the backbone learns."""
        for name, parameter in self.named_parameters():
            stage = next((n for n, group in enumerate(self.stages) if name.startswith(group)), None)
            if stage is not None:
                parameter.requires_grad_(stage < count and name not in self._untrained)


def adapt(network: nn.Module, rank: int) -> None:
    """Give every linear layer W of a network of transformers an adapter, W + B A of a rank, whose A starts at random
    and B at zero, so that nothing changes before the first step; W no longer learns. torch's own attention (SigLIP's
    pooling) reads weights and no layers, and gets none.

    Raises: BadInput without the package peft, or for a network without linear layers.
    Source: Hu et al., ICLR 2022 (LoRA).
    """
    require("lora", "adapters", "peft")
    from peft import LoraConfig, inject_adapter_in_model

    inside = tuple(f"{n}." for n, m in network.named_modules() if isinstance(m, nn.MultiheadAttention))  # reads weights
    names = [n for n, m in network.named_modules() if isinstance(m, nn.Linear) and not n.startswith(inside or "\n")]
    if not names:
        raise BadInput(f"lora adapts linear layers, and a {type(network).__name__} has none. Leave lora out.")
    inject_adapter_in_model(LoraConfig(r=rank, lora_alpha=rank, target_modules=names), network)


def stage_prefixes(model: nn.Module, prefix: str = "") -> list[tuple[str, ...]]:
    """Groups of prefixes of parameter names, the last stage first; every parameter begins with those of exactly one
    group.

    A stage is an element of the outermost lists of modules (the stages of a ResNet or Swin, the layers of a
    transformer), with what follows it up to the next (a norm). What comes before the first stage (embeddings, stem) is
    the last group. A group fits str.startswith. prefix: put before every name ('backbone.').

    >>> stage_prefixes(nn.ModuleDict({"stem": nn.Linear(2, 2), "layers": nn.ModuleList([nn.Linear(2, 2)])}))
    [('layers.0.',), ('stem.',)]
    """
    groups: list[list[str]] = [[]]

    def walk(module: nn.Module, path: str) -> None:
        groups[-1].extend(path + name for name, _ in module.named_parameters(recurse=False))
        for name, child in module.named_children():
            inner = f"{path}{name}."
            if not _has_parameters(child):
                continue
            if isinstance(child, nn.ModuleList):
                groups.extend([f"{inner}{number}."] for number, part in child.named_children() if _has_parameters(part))
            elif any(isinstance(part, nn.ModuleList) for part in child.modules()):
                walk(child, inner)
            else:
                groups[-1].append(inner)

    walk(model, prefix)
    return [tuple(group) for group in reversed(groups) if group]


def _has_parameters(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None


# Encoders of captions that a text model of transformers has read: frozen states, or the model fine-tuned.


SUMMARIES = ("first", "last", "max", "mean")


class StatesEncoder(nn.Module):
    """Encoder that learns on frozen word-piece states.

        y = W x + b,   local = y + MLP(LayerNorm(y)),   global = dropout(max over valid pieces of local)

    MLP is d → d → d with GELU and dropout, as in GridEncoder. There is no vector of place: states depend on it already.
    Shapes: Features local_feats "n l d_in" → Features(local_feats "n l d", global_feat "n d"), same mask.
    Raises: BadInput for another width, a caption without a piece, numbers that are not finite.

    >>> states = Features(torch.zeros(2, 4, 5), torch.ones(2, 4, dtype=torch.bool))
    >>> StatesEncoder(5, 8)(states).global_feat.shape
    torch.Size([2, 8])
    """

    def __init__(self, d_in: int, d: int, dropout: float = 0.1):
        super().__init__()
        self.project = nn.Linear(d_in, d)
        self.local_width = d  # of local_feats
        self.refine = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU(), nn.Dropout(dropout), nn.Linear(d, d))
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Features) -> Features:
        x = states.local_feats
        require_elements(x, states.mask, self.project.in_features, "caption")
        y = self.project(x.to(self.project.weight.dtype))
        local = y + self.refine(y)
        return Features(local, states.mask, self.dropout(masked_max(local, states.mask[..., None], dim=1)))


class TextBackbone(FineTuned):
    """A text model to be fine-tuned: local = W h_l + b of every last state h, global = dropout(a summary of local).

    summary: the 'first' piece (BERT's [CLS], as in BertEncoder), the 'last' (CLIP's end of text), or 'max' or 'mean'
    over all pieces; '' for the one in the description, which is the first where it names none.
    Args: description: from describe_text; a saved method needs no folder to be built again. Weights are random until
        load_weights. d: joint width.
    Shapes: Tokens "n l" → Features(local_feats "n l d", global_feat "n d"). Parameters of the pretrained network are
        named 'backbone.…'.
    Raises: BadInput for another summary, a caption without a piece.

    Example: `TextBackbone(describe_text("bert-base-uncased"), d=256)`, then `.load_weights(...)` with the same name.
    """

    kind = "text"

    def __init__(self, description: str, d: int, summary: str = "", dropout: float = 0.0):
        super().__init__()
        values = json.loads(description)
        summary = summary or values.get("summary", "first")
        require_choice("summary", summary, SUMMARIES)
        self.backbone = build(values["architecture"], "text")
        self.project = nn.Linear(self.backbone.config.hidden_size, d)
        self.local_width = d  # of local_feats
        self.dropout, self.summary = nn.Dropout(dropout), summary
        fixed = [f"backbone.{n}" for n, p in self.backbone.named_parameters() if not p.requires_grad]
        self.find_stages(fixed, values.get("lora", 0))

    def forward(self, tokens: Tokens) -> Features:
        require_element(tokens.mask, "caption")
        states = self.backbone(input_ids=tokens.ids, attention_mask=tokens.mask.long()).last_hidden_state
        local = self.project(states)
        return Features(local, tokens.mask, self.dropout(self._summary(local, tokens.mask)))

    def _summary(self, local: Tensor, mask: Tensor) -> Tensor:
        if self.summary == "first":
            return local[:, 0]
        if self.summary == "last":
            return local[torch.arange(local.shape[0], device=local.device), mask.sum(1) - 1]
        return (masked_max if self.summary == "max" else masked_mean)(local, mask[..., None], dim=1)


# Any vision model of transformers as an image encoder that is fine-tuned.


class VisionBackbone(FineTuned):
    """A vision model to be fine-tuned, and the study's GridEncoder on its cells.

        local, global = GridEncoder(cells of the last states of backbone(scaled pixels))

    Args: description: from describe_vision; a saved method needs no folder to be built again. Weights are random until
        load_weights. d: joint width. freeze_norm: BatchNorm layers stay in eval mode, and their scale and shift are
        buffers instead of parameters, so that no optimiser or unfreezing reaches them. class_token: the token before
        the cells enters the global feature too, as GridEncoder's g.
    Shapes: Pixels x "n 3 h w" in [0, 1] → Features(local_feats "n l d", global_feat "n d"); h and w are `resolution`.
    Parameters of the pretrained network are named 'backbone.…'. Those that no cell depends on (poolers, a norm after
    the class token) do not learn.
    Raises: BadInput for a class token that the model does not have, images of another resolution.

    Example: `VisionBackbone(describe_vision("facebook/dinov2-small"), d=256)`, then `.load_weights(...)` with the same
    name.
    """

    kind = "image"

    def __init__(
        self, description: str, d: int, dropout: float = 0.1, freeze_norm: bool = True, class_token: bool = False
    ):
        super().__init__()
        values = json.loads(description)
        shape, self.scaling, self.class_token = values["architecture"], Scaling(**values["scaling"]), class_token
        self.resolution, model_type = self.scaling.resolution, str(shape.get("model_type"))
        with torch.device("meta"):  # its shapes, without memory or work
            plan = build(shape, "image").eval()
            self.layout = find_layout(plan, self.resolution, model_type)
            untrained = _without_influence(plan, self.resolution)
        if class_token and not self.layout.before:
            raise BadInput(f"a {model_type} has no class token; leave class_token out.")
        self.backbone = build(shape, "image")
        for name, value in zip(("mean", "std"), self.scaling.tensors(), strict=True):
            self.register_buffer(name, value, persistent=False)  # the description has them
        self.norms = [m for m in self.backbone.modules() if isinstance(m, _BatchNorm)] if freeze_norm else []
        for norm in self.norms:
            _parameters_to_buffers(norm)
        width, cells = self.layout.width, self.layout.cells
        self.cells = GridEncoder(width, d, cells, dropout, width if class_token else 0)
        self.find_stages(untrained, values.get("lora", 0))

    def train(self, mode: bool = True) -> "VisionBackbone":
        super().train(mode)
        for norm in self.norms:
            norm.eval()
        return self

    def forward(self, pixels: Pixels) -> Features:
        check_shape((*pixels.x.shape[2:], pixels.x.shape[1]), self.resolution)
        states = self.backbone(pixel_values=self.scaling.apply(pixels.x, self.mean, self.std)).last_hidden_state
        cells = self.layout.cells_of(states)
        mask = torch.ones(cells.shape[:2], dtype=torch.bool, device=cells.device)
        return self.cells(Features(cells, mask, states[:, 0] if self.class_token else None))


def _without_influence(model: nn.Module, resolution: int) -> set[str]:
    """Names ('backbone.…') of parameters that no state depends on, or that the model keeps fixed (sine codes)."""
    states = model(pixel_values=torch.zeros(1, 3, resolution, resolution)).last_hidden_state
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    gradients = torch.autograd.grad(states.sum(), list(learned.values()), allow_unused=True)
    influential = {name for name, g in zip(learned, gradients, strict=True) if g is not None}
    return {f"backbone.{name}" for name, _ in model.named_parameters() if name not in influential}


def _parameters_to_buffers(norm: _BatchNorm) -> None:
    for name in ("weight", "bias"):
        if (value := getattr(norm, name)) is not None:
            delattr(norm, name)
            norm.register_buffer(name, value.detach())


# One tower of a dual encoder (CLIP, SigLIP, …) with its own projection.


_PROJECTIONS = tuple(
    f"backbone.{name}" for name in ("visual_projection", "text_projection", "vision_model.head", "text_model.head")
)


class DualTower(FineTuned):
    """A tower of a dual encoder to be fine-tuned, for images or for captions.

        local = W h_l + b of every last state h,   global = the tower's own vector, before it is normalised

    Args: description: from describe_dual; a saved method needs no folder to be built again. Weights are random until
        load_weights. d: width of local, which must be that of the tower's own vectors; 0 for no local features but
        these vectors themselves. The tower's own projection learns from the first step, whatever the stages do.
    Shapes: Pixels "n 3 h w" in [0, 1], or Tokens "n l" → Features(local_feats "n l d", global_feat "n d").
    Raises: BadInput for another d, images of another resolution, a caption without a piece.

    Example: `DualTower(describe_dual("openai/clip-vit-base-patch32", "image"), d=512)`, then `.load_weights` of that
    name.
    """

    kind = "both"

    def __init__(self, description: str, d: int = 0, dropout: float = 0.0):
        super().__init__()
        self.values = values = json.loads(description)
        self.reads, network = values["dual"], build(values["architecture"], "both")
        own = "vis" if self.reads == "image" else "text"
        for name, _ in [*network.named_children(), *network.named_parameters(recurse=False)]:
            if not name.startswith(own):
                delattr(network, name)
        self.backbone, config = network, network.config
        hidden = (config.vision_config if self.reads == "image" else config.text_config).hidden_size
        width = getattr(config, "projection_dim", 0) or config.vision_config.hidden_size
        if d not in (0, width):
            raise BadInput(f"d must be {width}, the width of this model's own vectors, got {d}.")
        self.project, self.local_width = nn.Linear(hidden, d) if d else None, width
        self.dropout = nn.Dropout(dropout)
        if self.reads == "image":
            self.scaling = Scaling(**values["scaling"])
            self.resolution = self.scaling.resolution
            for name, value in zip(("mean", "std"), self.scaling.tensors(), strict=True):
                self.register_buffer(name, value, persistent=False)  # the description has them
        self.find_stages(lora=values.get("lora", 0))
        stages = [tuple(p for p in group if not p.startswith(_PROJECTIONS)) for group in self.stages]
        self.stages = [group for group in stages if group]

    def forward(self, items: Pixels | Tokens) -> Features:
        if self.reads == "image":
            check_shape((*items.x.shape[2:], items.x.shape[1]), self.resolution)
            read = self.backbone.get_image_features(pixel_values=self.scaling.apply(items.x, self.mean, self.std))
            mask = torch.ones(read.last_hidden_state.shape[:2], dtype=torch.bool, device=items.x.device)
        else:
            require_element(items.mask, "caption")
            read, mask = text_of_dual(self.backbone, items, self.values["pad"], self.values["length"]), items.mask
        own = read.pooler_output
        if self.project is None:
            return Features(own[:, None], mask[:, :1], own)
        local = self.project(read.last_hidden_state[:, : mask.shape[1]])
        return Features(self.dropout(local), mask, own)


# CLIP's two towers, each ending in two branches: its own last blocks for means, new ones for variances.


class ClipBranches(FineTuned):
    """A tower of CLIP whose first L − U blocks both branches share.

        local_feats = what the tower's own last U blocks make of it   (captions: after the tower's last norm)
        spread_feats = what U new blocks of the same kind make of it  (no norm, random at the start)

    A subclass says which tower. Args: description: from describe_vision or describe_text of a CLIP. blocks: U.
    Parameters of the pretrained network are named 'backbone.…'; the new blocks, 'spread_blocks.…', always learn.
    Raises: BadInput for a model that is not a CLIP, or as many blocks as the tower has.
    Source: Chun, ICLR 2024 (PCME++), §3.5; the new blocks start at random as in its code (docs/differences.md#x-83).
    """

    def __init__(self, description: str, blocks: int = 1):
        super().__init__()
        self.values = json.loads(description)
        shape = self.values["architecture"]
        if not str(shape.get("model_type")).startswith("clip"):
            raise BadInput(f"PCME++ branches off a CLIP, got a {shape.get('model_type')}. Give the folder of a CLIP.")
        self.backbone = build(shape, self.kind)
        own = next(m for m in self.backbone.modules() if isinstance(m, nn.ModuleList))
        if not 1 <= blocks < len(own):
            raise BadInput(f"blocks must lie between 1 and {len(own) - 1}, one less than the tower has; got {blocks}.")
        self.shared = len(own) - blocks
        self.spread_blocks = nn.ModuleList(type(own[0])(self.backbone.config) for _ in range(blocks))
        self.local_width = self.backbone.config.hidden_size  # of spread_feats too
        # those that no feature depends on do not learn
        self.find_stages([f"backbone.{n}" for n, _ in self.backbone.named_parameters() if self.unread in n])

    def _branches(self, attend: Tensor | None = None, **inputs: Tensor) -> tuple[Tensor, Tensor]:
        """(local, spread). attend: added to the attention of the new blocks, "1 1 l l"."""
        out = self.backbone(**inputs, output_hidden_states=True)
        spread = out.hidden_states[self.shared]
        for block in self.spread_blocks:
            spread = block(spread, attend)
            spread = spread[0] if isinstance(spread, tuple) else spread
        return out.last_hidden_state, spread


class ClipImageBranches(ClipBranches):
    """The image tower. Pixels "n 3 h w" in [0, 1] → Features over class token and cells; h and w are `resolution`.

    Example: `ClipImageBranches(describe_vision("openai/clip-vit-base-patch32"))`, then `.load_weights` of that name.
    """

    kind, unread = "image", "post_layernorm"

    def __init__(self, description: str, blocks: int = 1):
        super().__init__(description, blocks)
        self.scaling = Scaling(**self.values["scaling"])
        self.resolution = self.scaling.resolution
        for name, value in zip(("mean", "std"), self.scaling.tensors(), strict=True):
            self.register_buffer(name, value, persistent=False)  # the description has them

    def forward(self, pixels: Pixels) -> Features:
        check_shape((*pixels.x.shape[2:], pixels.x.shape[1]), self.resolution)
        local, spread = self._branches(pixel_values=self.scaling.apply(pixels.x, self.mean, self.std))
        return Features(local, local.new_ones(local.shape[:2], dtype=torch.bool), spread_feats=spread)


class ClipTextBranches(ClipBranches):
    """The caption tower, which reads from left to right. Tokens "n l" → Features over the tokens of each caption."""

    kind, unread = "text", "\0"  # every parameter has a say

    def forward(self, tokens: Tokens) -> Features:
        require_element(tokens.mask, "caption")
        l = tokens.ids.shape[1]
        weight = self.spread_blocks[0].layer_norm1.weight
        later = torch.full((l, l), -torch.inf, device=weight.device, dtype=weight.dtype).triu(1)[None, None]
        local, spread = self._branches(later, input_ids=tokens.ids, attention_mask=tokens.mask.long())
        return Features(local, tokens.mask, spread_feats=spread)
