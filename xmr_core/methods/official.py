"""Official checkpoints of nine repositories: read without executing anything, renamed, and loaded in the published
form."""

import argparse
import pickle
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile, is_zipfile

import torch
from torch import Tensor

from xmr_core.base import files
from xmr_core.base.errors import BadInput, DamagedFile, unknown
from xmr_core.base.files import require_plain, require_same_kind
from xmr_core.base.machine import only_shapes
from xmr_core.base.paths import printable
from xmr_core.encoders.image import ResidualRegions
from xmr_core.encoders.text import BertEncoder, bert_of
from xmr_core.methods.common import Inputs
from xmr_core.methods.method import Method
from xmr_core.methods.registry import build

_TEXT = (
    ("txt_enc.embed.", "caption_encoder.embed."),
    ("txt_enc.rnn.", "caption_encoder.rnn."),
    ("txt_enc.cap_rnn.", "caption_encoder.rnn."),
)
# BERT's own names are those of transformers; VSE∞ and CHAN call the projection 'linear', VSE+2AD 'fc'
_BERT = (
    ("txt_enc.bert.", "caption_encoder.model."),
    ("txt_enc.linear.", "caption_encoder.project."),
    ("txt_enc.fc.", "caption_encoder.project."),
)
_GRID = (
    ("img_enc.image_encoder.fc.", "image_encoder.fc."),
    ("img_enc.image_encoder.gpool.", "image_head."),
    ("img_enc.img_proj.", "image_encoder.fc."),
)
_FC = ("img_enc.fc.", "image_encoder.fc.")
_MODALITIES = (("img_enc", "image_head"), ("txt_enc", "caption_head"))


def _pie(theirs: str, ours: str) -> tuple[tuple[str, str], ...]:
    names = {"attention": "", "fc": "fc.", "layer_norm": "layer_norm."}
    return tuple((f"{theirs}.{old}.", f"{ours}.{new}") for old, new in names.items())


def _slots(theirs: str, ours: str) -> tuple[tuple[str, str], ...]:
    block = f"{theirs}.agg_block"
    return (
        (f"{block}.latents", f"{ours}.latents"),
        (f"{block}.layers.0.0.norm.", f"{ours}.norm_query."),
        (f"{block}.layers.0.0.norm_context.", f"{ours}.norm_context."),
        (f"{block}.layers.0.0.fn.to_out.0.", f"{ours}.to_out."),
        (f"{block}.layers.0.0.fn.", f"{ours}."),
        (f"{block}.layers.0.2.norm.", f"{ours}.norm_ff."),
        (f"{block}.layers.0.2.fn.net.0.", f"{ours}.ff_in."),
        (f"{block}.layers.0.2.fn.net.3.", f"{ours}.ff_out."),
        (f"{block}.last_layer.0.", f"{ours}.norm_last."),
        (f"{theirs}.residual_norm.", f"{ours}.norm_global."),
    )


def _global(theirs: str, ours: str) -> tuple[tuple[str, str], ...]:
    names = {"embedding_local.0": "local", "embedding_local.1": "norm_local", "embedding_global.0": "global_linear",
             "embedding_global.1": "norm_global", "embedding_common.0": "common"}  # fmt: skip
    return tuple((f"sim_enc.{theirs}.{old}.", f"{ours}.{new}.") for old, new in names.items())


def _each(make) -> tuple[tuple[str, str], ...]:
    return tuple(pair for theirs, ours in _MODALITIES for pair in make(theirs, ours))


_MLP = (("img_enc.mlp.layers.", "image_encoder.mlp."), ("img_enc.mlp.bns.0.", "image_encoder.norm."))

RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "vse++": (_FC, *_TEXT),
    "pvse": (_FC, *_TEXT, *_each(lambda t, o: _pie(f"{t}.pie_net", o))),
    "pcme": (
        _FC, *_TEXT,
        *_each(lambda t, o: _pie(f"{t}.pie_net", f"{o}.mean")),
        *_each(lambda t, o: ((f"{t}.uncertain_net.attention.", f"{o}."), (f"{t}.uncertain_net.", f"{o}."))),
        ("criterion.negative_scale", "similarity.a"), ("criterion.shift", "similarity.b"),
    ),
    "scan": (_FC, *_TEXT),
    "sgraf": (
        _FC, *_TEXT, *_global("v_global_w", "image_head"), *_global("t_global_w", "caption_head"),
        ("sim_enc.sim_tranloc_w.", "similarity.nodes.local."),
        ("sim_enc.sim_tranglo_w.", "similarity.nodes.global_linear."), ("sim_enc.sim_eval_w.", "similarity.score."),
        ("sim_enc.SAF_module.attn_sim_w.", "similarity.reasoner.weigh."),
        ("sim_enc.SAF_module.bn.", "similarity.reasoner.norm."), ("sim_enc.SGR_module.", "similarity.reasoner.steps."),
    ),
    "vse-infty": (_FC, *_TEXT, *_BERT, *_GRID, *_MLP, *_each(lambda t, o: ((f"{t}.gpool.", f"{o}."),))),
    "vse+2ad": (_FC, *_TEXT, *_BERT, *_GRID, *_MLP, *_each(lambda t, o: ((f"{t}.pool.", f"{o}."),))),
    "dive": (
        _FC, *_TEXT,
        ("img_enc.mlp.fc", "image_encoder.fc"), ("img_enc.mlp.bn.bn.", "image_encoder.norm."),
        *_each(lambda t, o: _slots(f"{t}.spm", o)), *_each(lambda t, o: _pie(f"{t}.spm", o)),
    ),
    "chan": (
        _FC, *_TEXT, *_BERT[:2],
        ("img_enc.feedforward.ln.", "image_encoder.norm."), ("img_enc.feedforward.attn.", "image_encoder.attention."),
    ),
}  # fmt: skip

# inside a name that one of the rules has changed
INNER = {".graph_query_w.": ".query.", ".graph_key_w.": ".key.", ".sim_graph_w.": ".graph."}

# left out: a BatchNorm that the authors' forward pass never uses, and the CNN, whose features are our input
UNUSED = ("img_enc.mlp.bns.1.", "img_enc.cnn.", "img_enc.backbone.")
UNUSED_OF = {"chan": ("txt_enc.fc.",)}  # of one method: a linear layer of its bi-GRU, which is never applied


def renamed(method: str, name: str) -> str | None:
    """Our name of an official tensor, or None when no rule fits it.

    >>> renamed("scan", "img_enc.fc.weight")
    'image_encoder.fc.weight'
    """
    for old, new in RULES[method]:
        if name.startswith(old):
            name = new + name[len(old) :]
            for a, b in INNER.items():
                name = name.replace(a, b)
            return name
    return None


# Checkpoints of nine repositories, in three layouts, read without executing what is pickled in them.


PARTS = ("img_enc.", "txt_enc.", "sim_enc.")  # of files that hold a list, in its order


@dataclass(frozen=True)
class Official:
    """The contents of an authors' file. tensors: by the authors' names, 'img_enc.…', 'txt_enc.…', 'sim_enc.…',
    'criterion.…'. options: the training options in the file. word2idx: its vocabulary, if there is one (PCME)."""

    tensors: dict[str, Tensor]
    options: dict
    word2idx: dict[str, int] | None = None


def read_official(path: str | Path) -> Official:
    """Read a checkpoint of VSE++, PVSE, PCME, SCAN, SGRAF, VSE∞, VSE+2AD, DivE or CHAN.

    Layouts: a list of state dicts under 'model' (VSE++, SCAN, SGRAF, VSE∞, CHAN), one state dict under 'model' (DivE,
    VSE+2AD, PVSE in training, PCME with 'criterion' beside it), a bare state dict (PVSE's releases); zip files and the
    older streams. A leading 'module.' of DataParallel is dropped. Only tensors, plain containers and argparse.Namespace
    are unpickled.
    Raises: BadInput for a missing file, one that needs any other object, or one without a state dict; DamagedFile for
        one that cannot be read to its end.
    """
    path = files.existing_file(path, "checkpoint")
    try:
        _require_stored(path)
        with torch.serialization.safe_globals([argparse.Namespace]), warnings.catch_warnings():
            # Files of Python 2 need the encoding. torch warns that it is not used, although it is.
            warnings.filterwarnings("ignore", "pickle_load_args only works")
            content = torch.load(path, map_location="cpu", weights_only=True, encoding="latin1")
    except BadInput:
        raise
    except Exception as e:  # a damaged file raises errors of many kinds
        if isinstance(e, pickle.UnpicklingError) and ("Unsupported" in str(e) or "GLOBAL" in str(e)):
            raise BadInput(f"{path.name} asks to run code while it is read: {first_line(e)}. Refused.") from None
        raise DamagedFile(f"{path.name} cannot be read as a checkpoint ({first_line(e)}). Fetch it again.") from None
    return _contents(content, path.name)


def _require_stored(path: Path) -> None:
    """Refuse a zip file whose members are compressed: torch writes none, and a small one may expand without end."""
    if is_zipfile(path):
        with ZipFile(path) as packed:
            members = packed.infolist()
        size = path.stat().st_size
        if any(m.compress_type != ZIP_STORED for m in members) or sum(m.file_size for m in members) > size:
            raise BadInput(f"{path.name} holds compressed or overlapping parts, as torch writes none. Refused.")


def first_line(e: Exception) -> str:
    """The first line of an error's message, at most 200 letters, or its class where there is no message."""
    return printable((str(e).strip().splitlines() or [type(e).__name__])[0])[:200]


def _contents(content, name: str) -> Official:
    model = content.get("model", content) if isinstance(content, dict) else content
    if isinstance(model, (list, tuple)):
        tensors = {prefix + k: v for prefix, part in zip(PARTS, model, strict=False) for k, v in _plain(part).items()}
    elif isinstance(model, dict):
        tensors = _plain(model)
    else:
        tensors = {}
    if not tensors:
        raise BadInput(f"{name} holds no state dict, alone, in a list or under 'model'.")
    extra = content if isinstance(content, dict) and "model" in content else {}
    tensors |= {f"criterion.{k}": v for k, v in _plain(extra.get("criterion", {})).items()}
    require_plain(tensors, name)
    options = next((extra[k] for k in ("opt", "args", "config") if k in extra), {})
    options = vars(options) if isinstance(options, argparse.Namespace) else options
    words = extra.get("word2idx") if isinstance(extra.get("word2idx"), dict) else None
    return Official(tensors, dict(options) if isinstance(options, dict) else {}, words)


def _plain(part) -> dict[str, Tensor]:
    """The tensors of a state dict, without DataParallel's prefix."""
    items = part.items() if isinstance(part, dict) else ()
    items = [(k, v) for k, v in items if isinstance(k, str) and isinstance(v, Tensor)]
    return {k.removeprefix("module.").replace(".module.", "."): v for k, v in items}


# From an official file to a Method in its published form.


_load_BERT = "caption_encoder.model."
_BERT_SIZES = [
    *(f"{_load_BERT}embeddings.{kind}_embeddings.weight" for kind in ("word", "position", "token_type")),
    f"{_load_BERT}encoder.layer.0.intermediate.dense.bias",
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
    bert = {k.removeprefix(_load_BERT): v for k, v in ours.items() if k.startswith(_load_BERT)}
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
