"""From an official file to a Method in its published form."""

import re
from pathlib import Path

import torch
from torch import Tensor

from xmr_core.base.errors import BadInput, unknown
from xmr_core.base.shapes import only_shapes
from xmr_core.base.weights import require_same_kind
from xmr_core.encoders.bert import BertEncoder, bert_of
from xmr_core.encoders.regions import ResidualRegions
from xmr_core.methods.checkpoints.names import RULES, UNUSED, UNUSED_OF, renamed
from xmr_core.methods.checkpoints.read import read_official
from xmr_core.methods.common import Inputs
from xmr_core.methods.method import Method
from xmr_core.methods.registry import build

_BERT = "caption_encoder.model."
_BERT_SIZES = [
    *(f"{_BERT}embeddings.{kind}_embeddings.weight" for kind in ("word", "position", "token_type")),
    f"{_BERT}encoder.layer.0.intermediate.dense.bias",
]
_MATRICES = ("image_head.latents", "image_head.w_2.weight", "image_head.norm_local.weight", "similarity.score.weight")
_REPEATED = re.compile(r"(.*\.agg_block\.layers\.)([1-9]\d*)(\..*)")


def load_official(path: str | Path, method: str, **options) -> Method:
    """The published form of a method with the weights of an official file, in evaluation mode, on the CPU.

    The file gives widths, vocabulary size, K, graph steps and head, and whether captions went through BERT or images
    through a CNN. The weights of a CNN are left out, because its cells are our input. options: any other option of the
    method, for example alpha.
    Raises: BadInput for an unknown method, or, in one message, for tensors that are missing, that no rule fits, or
        whose shape does not fit; and as read_official.
    """
    return official_with_inputs(path, method, **options)[0]


def official_with_inputs(path: str | Path, method: str, **options) -> tuple[Method, Inputs]:
    """load_official, and the sizes from which the method was built. Raises: as load_official."""
    if method not in RULES:
        raise unknown("method", method, RULES)
    name, surplus, unused = Path(path).name, [], (*UNUSED, *UNUSED_OF.get(method, ()))
    ours: dict[str, Tensor] = {}
    for key, value in _without_repeats(read_official(path).tensors, name).items():
        if key.startswith(unused) or key.endswith("position_ids"):
            continue
        if (new := renamed(method, key)) is None:
            surplus.append(key)
        else:
            ours[new] = value
    ours = _without_scalar_norm(ours)
    bert = {k.removeprefix(_BERT): v for k, v in ours.items() if k.startswith(_BERT)}
    needed = ["image_encoder.fc.weight", *(_BERT_SIZES if bert else ["caption_encoder.embed.weight"])]
    absent = [k for k in needed if k not in ours]
    axes = {k: 1 if k.endswith((".bias", "norm_local.weight")) else 2 for k in (*needed, *_MATRICES)}
    flat = [f"{k}: {tuple(ours[k].shape)}" for k, n in axes.items() if k in ours and ours[k].ndim != n]
    _complain(name, method, absent, surplus if absent else [], flat)
    with only_shapes():  # costs no memory, whatever sizes the file asks for
        ours = _fitted(name, method, ours, surplus, _made(method, ours, bert, options)[0].state_dict())
    made, inputs = _made(method, ours, bert, options)
    made.load_state_dict(ours, strict=False)  # but for the batches that a BatchNorm has seen, which some files lack
    return made.eval(), inputs


def _made(method: str, ours: dict[str, Tensor], bert: dict, options: dict) -> tuple[Method, Inputs]:
    """The untrained method in the sizes of a file."""
    embed = ours.get("caption_encoder.embed.weight", torch.empty(1, 1))  # of a GRU; BERT has its own
    cells = len(ours.get("image_head.norm_local.weight", torch.empty(36)))
    width = ours["image_encoder.fc.weight"].shape[1]
    inputs = Inputs(width, cells, len(embed), word_dim=embed.shape[1], ordered_cells=False)
    made = build(method, inputs, "published", **{**_options(ours, method), **options})
    if bert:
        made.caption_encoder = BertEncoder(bert_of(bert), len(ours["image_encoder.fc.weight"]))
    if isinstance(made.image_encoder, ResidualRegions) and not any(k.startswith("image_encoder.mlp.") for k in ours):
        fc = made.image_encoder.fc
        made.image_encoder = ResidualRegions(fc.in_features, fc.out_features, mlp=False)
    return made, inputs


def _fitted(
    name: str, method: str, ours: dict[str, Tensor], surplus: list[str], expected: dict[str, Tensor]
) -> dict[str, Tensor]:
    """The tensors of a file in the shapes that the method has. Raises: BadInput for others, all in one message."""
    ours = {k: v.view(()) if k in expected and expected[k].ndim == 0 and v.numel() == 1 else v for k, v in ours.items()}
    missing = [k for k in expected if k not in ours and not k.endswith("num_batches_tracked")]
    surplus = surplus + [k for k in ours if k not in expected]
    different = [k for k, v in ours.items() if k in expected and v.shape != expected[k].shape]
    shapes = [f"{k}: {tuple(ours[k].shape)} for {tuple(expected[k].shape)}" for k in different]
    _complain(name, method, missing, surplus, shapes)
    require_same_kind(ours, expected, name)
    return ours


def _options(ours: dict[str, Tensor], method: str) -> dict:
    """The options of the method that follow from the shapes."""
    out = {"d": ours["image_encoder.fc.weight"].shape[0]}
    if method == "dive":
        out["head"] = "slots" if "image_head.latents" in ours else "pie-net"
    if method in ("dive", "pvse"):
        out["slots"] = len(ours.get("image_head.latents", ours.get("image_head.w_2.weight", torch.empty(1))))
    if method == "chan":
        out["self_attention"] = "image_encoder.norm.weight" in ours
    if method == "sgraf":
        out["reasoner"] = "saf" if "similarity.reasoner.norm.weight" in ours else "sgr"
        out["steps"] = max(1, sum(k.endswith(".query.weight") for k in ours))
        out["m"] = ours["similarity.score.weight"].shape[1] if "similarity.score.weight" in ours else 256
    return out


def _without_repeats(tensors: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """DivE stores its one shared block once per iteration. All copies must be equal, and one is returned.

    Raises: BadInput for copies that differ.
    """
    single = {}
    for key, value in tensors.items():
        if repeat := _REPEATED.fullmatch(key):
            first = repeat[1] + "0" + repeat[3]
            if first not in tensors or not torch.equal(tensors[first], value):
                raise BadInput(f"{name}: {key} differs from {first}; DivE shares them between its iterations.")
        else:
            single[key] = value
    return single


def _without_scalar_norm(ours: dict[str, Tensor]) -> dict[str, Tensor]:
    """SCAN's weight-normalised linear layer as the plain layer that it computes: W = g V / ‖V‖."""
    g, v = (ours.get(f"image_encoder.fc.weight_{k}") for k in "gv")
    if g is None or v is None:
        return ours
    others = {k: t for k, t in ours.items() if not k.startswith("image_encoder.fc.weight_")}
    return others | {"image_encoder.fc.weight": g * v / v.norm()}


def _complain(name: str, method: str, missing: list[str], surplus: list[str], shapes: list[str]) -> None:
    lists = (("missing", missing), ("surplus", surplus), ("of another shape", shapes))
    faults = [f"{len(items)} {what}: {', '.join(items[:6])}" for what, items in lists if items]
    if faults:
        raise BadInput(f"{name} is not a checkpoint of {method} as published. " + "; ".join(faults) + ".")
