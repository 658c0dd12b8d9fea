"""Checkpoints: a trained method as one safetensors file that needs no corpus (weights, options, input sizes and words),
and the authors' files of nine repositories, read without executing anything, renamed, and loaded in the published form.
"""

import argparse
import json
import pickle
import re
import warnings
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile, is_zipfile

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

from xmr_core.base import files
from xmr_core.base.errors import BadInput, DamagedFile, require_choice
from xmr_core.base.files import require_plain, require_same_kind, write_tensors
from xmr_core.base.fingerprint import bytes_hash, content_hash
from xmr_core.base.machine import only_shapes
from xmr_core.base.paths import printable, require_trusted
from xmr_core.base.types import Brief
from xmr_core.encoders.image import ResidualRegions
from xmr_core.encoders.text import BertEncoder, bert_of
from xmr_core.features.pretrained import WordPieces
from xmr_core.features.words import Inert, Vocabulary
from xmr_core.methods.method import Inputs, Method
from xmr_core.methods.registry import build

_KEY = "xmr_core"


def save_method(
    path: str | Path,
    method: Method,
    inputs: Inputs,
    words: Vocabulary | WordPieces,
    form: str = "matched",
    options: dict | None = None,
    about: dict | None = None,
) -> Path:
    """Write a method so that load_method restores it, and any program can read the tensors (safetensors, nothing
    pickled).

    The file is written completely or not at all.
    Args: inputs, form, options: what registry.build made the method from. words: the vocabulary or word pieces that
        number its captions. about: metadata (run, data, results) that JSON can hold.
    Raises: CannotWrite when the folder refuses.
    """
    description = {
        "method": method.address,
        "form": form,
        "options": options or {},
        "inputs": asdict(replace(inputs, word_vectors=None)),
        "words": json.loads(words.to_json()),
        "about": about or {},
    }
    tensors = {k: v.detach().cpu().contiguous() for k, v in method.state_dict().items()}
    description["digest"] = _digest(description, tensors)
    return write_tensors(path, tensors, {_KEY: json.dumps(description)})


def load_method(path: str | Path) -> tuple[Method, Vocabulary | WordPieces, dict]:
    """(method in evaluation mode on the CPU, its words, its metadata) from a file of save_method.

    The words are a Vocabulary, or the WordPieces of a text model. A method on frozen features of images or of a text
    model needs these features; the metadata names the models that made them.
    Raises: BadInput for a missing file or one that save_method did not write; DamagedFile for one that is cut or whose
        tensors do not fit its options.
    """
    return load_with_inputs(path)[:3]


def load_with_inputs(path: str | Path) -> tuple[Method, Vocabulary | WordPieces, dict, Inputs, dict]:
    """load_method, and the sizes, and the method, form and options, from which it was built. Raises: as load_method."""
    path = files.existing_file(path, "checkpoint")
    try:
        with safe_open(path, "pt") as f:
            description = (f.metadata() or {}).get(_KEY)
            if description is None:
                raise BadInput(f"{path.name} does not say which method it holds; save_method did not write it.")
            tensors = {name: f.get_tensor(name) for name in f.keys()}  # noqa: SIM118
        description = json.loads(description)
        if (digest := description.pop("digest", "")) != _digest(description, tensors):
            raise DamagedFile("it was altered" if digest else "an older version wrote it, without a digest")
        require_trusted(description["method"], path.name)
        require_plain(tensors, path.name)
        kind = Vocabulary if "word2idx" in description["words"] else WordPieces
        words = kind.from_json(json.dumps(description["words"]))
        inputs = Inputs(**description["inputs"])
        about, built = description["about"], {name: description[name] for name in ("method", "form", "options")}

        def make() -> Method:
            if "checkpoint" in about:  # of authors, whose tensors say what options do not
                return _made(built["method"], tensors, built["options"])[0]
            return build(built["method"], inputs, built["form"], **built["options"])

        with only_shapes():  # costs no memory, whatever sizes the file asks for
            expected = make().state_dict()
        if {n: t.shape for n, t in tensors.items()} != {n: t.shape for n, t in expected.items()}:
            other = ", or those of another version of transformers" * bool(inputs.image_network or inputs.text_network)
            raise DamagedFile(f"its tensors do not fit its options{other}")
        require_same_kind(tensors, expected, path.name)
        method = make()
        method.load_state_dict(tensors)
    except BadInput:
        raise
    except Exception as e:  # what a hostile description can raise is not limited
        raise DamagedFile(f"{path.name} cannot be read as a method ({first_line(e)}). Save it again.") from None
    return method.eval(), words, about, inputs, built


def _digest(description: dict, tensors: dict) -> str:
    """Names the description and every tensor with its name, type, shape and bytes."""
    numbers = {}
    for name, t in sorted(tensors.items()):
        held = t.contiguous().flatten().view(torch.uint8).numpy().tobytes() if t.numel() else b""
        numbers[name] = [str(t.dtype), list(t.shape), bytes_hash(held)]
    return content_hash([json.loads(json.dumps(description)), numbers])


# Names of the authors' tensors, and ours. The first rule that fits counts.

_FC = ("img_enc.fc.", "image_encoder.fc.")
_TEXT = tuple((f"txt_enc.{old}.", f"caption_encoder.{new}.") for old, new in (
    ("embed", "embed"), ("rnn", "rnn"), ("cap_rnn", "rnn"),
))  # fmt: skip
# BERT's own names are those of transformers; VSE∞ and CHAN call the projection 'linear', VSE+2AD 'fc'
_BERT = tuple((f"txt_enc.{old}.", f"caption_encoder.{new}.") for old, new in (
    ("bert", "model"), ("linear", "project"), ("fc", "project"),
))  # fmt: skip
_REGIONS = (
    ("img_enc.image_encoder.fc.", "image_encoder.fc."), ("img_enc.image_encoder.gpool.", "image_head."),
    ("img_enc.img_proj.", "image_encoder.fc."), ("img_enc.mlp.layers.", "image_encoder.mlp."),
    ("img_enc.mlp.bns.0.", "image_encoder.norm."),
)  # fmt: skip


def _both(names: dict[str, str], theirs: tuple[str, str] = ("img_enc", "txt_enc")) -> tuple[tuple[str, str], ...]:
    """The same names in the heads of both modalities."""
    heads = zip(theirs, ("image_head", "caption_head"), strict=True)
    return tuple((f"{their}.{old}", f"{our}.{new}") for their, our in heads for old, new in names.items())


def _pie(theirs: str, ours: str = "") -> dict[str, str]:
    names = {"attention": "", "fc": "fc.", "layer_norm": "layer_norm."}
    return {f"{theirs}.{old}.": f"{ours}{new}" for old, new in names.items()}


_SLOTS = {
    "latents": "latents", "layers.0.0.norm.": "norm_query.", "layers.0.0.norm_context.": "norm_context.",
    "layers.0.0.fn.to_out.0.": "to_out.", "layers.0.0.fn.": "", "layers.0.2.norm.": "norm_ff.",
    "layers.0.2.fn.net.0.": "ff_in.", "layers.0.2.fn.net.3.": "ff_out.", "last_layer.0.": "norm_last.",
}  # fmt: skip
_GLOBAL = {
    "embedding_local.0.": "local.", "embedding_local.1.": "norm_local.", "embedding_global.0.": "global_linear.",
    "embedding_global.1.": "norm_global.", "embedding_common.0.": "common.",
}  # fmt: skip

RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "vse++": (_FC, *_TEXT),
    "pvse": (_FC, *_TEXT, *_both(_pie("pie_net"))),
    "pcme": (
        _FC, *_TEXT, *_both(_pie("pie_net", "mean.")), *_both({"uncertain_net.attention.": "", "uncertain_net.": ""}),
        ("criterion.negative_scale", "similarity.a"), ("criterion.shift", "similarity.b"),
    ),
    "scan": (_FC, *_TEXT),
    "sgraf": (
        _FC, *_TEXT, *_both(_GLOBAL, ("sim_enc.v_global_w", "sim_enc.t_global_w")),
        ("sim_enc.sim_tranloc_w.", "similarity.nodes.local."),
        ("sim_enc.sim_tranglo_w.", "similarity.nodes.global_linear."), ("sim_enc.sim_eval_w.", "similarity.score."),
        ("sim_enc.SAF_module.attn_sim_w.", "similarity.reasoner.weigh."),
        ("sim_enc.SAF_module.bn.", "similarity.reasoner.norm."), ("sim_enc.SGR_module.", "similarity.reasoner.steps."),
    ),
    "vse-infty": (_FC, *_TEXT, *_BERT, *_REGIONS, *_both({"gpool.": ""})),
    "vse+2ad": (_FC, *_TEXT, *_BERT, *_REGIONS, *_both({"pool.": ""})),
    "dive": (
        _FC, *_TEXT, ("img_enc.mlp.fc", "image_encoder.fc"), ("img_enc.mlp.bn.bn.", "image_encoder.norm."),
        *_both({f"spm.agg_block.{old}": new for old, new in _SLOTS.items()}),
        *_both({"spm.residual_norm.": "norm_global.", **_pie("spm")}),
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


PARTS = ("img_enc.", "txt_enc.", "sim_enc.")  # of files that hold a list, in its order
_KEYS = ("model", "state_dict", "model_state_dict", "net")  # of the state dict among other things


def _number(kind: Inert, raw: bytes | str = b"") -> float | None:
    """A number of numpy, as Python's own; None for what is no plain number."""
    code, raw = f"{kind.state[1]}{kind.arguments[0]}", raw.encode("latin1") if isinstance(raw, str) else raw
    return np.frombuffer(raw, code)[0].item() if re.fullmatch(r"[<>=|][bfiu][1248]", code) else None


# Arrays and types of numpy, and paths, are inert: the real ones would take from a file the address of any memory
_CORES = ("numpy.core.", "numpy._core.")  # of its versions 1 and 2
_PLAIN = [argparse.Namespace, (Inert, "numpy.dtype"), (Inert, "numpy.ndarray")]
_PLAIN += [(Inert, core + name) for core in _CORES for name in ("multiarray._reconstruct", "numeric._frombuffer")]
_PLAIN += [(_number, f"{core}multiarray.scalar") for core in _CORES]
_PLAIN += [(Inert, f"pathlib{inner}.{kind}Path") for inner in ("", "._local") for kind in ("Posix", "Windows")]


@dataclass(frozen=True)
class Official(Brief):
    """The contents of an authors' file. tensors: by the authors' names, 'img_enc.…', 'txt_enc.…', 'sim_enc.…',
    'criterion.…'. options: the training options in the file. word2idx: its vocabulary, if there is one (PCME)."""

    tensors: dict[str, Tensor]
    options: dict
    word2idx: dict[str, int] | None = None


def read_official(path: str | Path) -> Official:
    """Read a checkpoint of VSE++, PVSE, PCME, SCAN, SGRAF, VSE∞, VSE+2AD, DivE or CHAN.

    Layouts: a list of state dicts under 'model' (VSE++, SCAN, SGRAF, VSE∞, CHAN), one state dict under 'model' (DivE,
    VSE+2AD, PVSE in training, PCME with 'criterion' beside it), a bare state dict (PVSE's releases); also under
    'state_dict', 'model_state_dict' or 'net'; zip files and the older streams. A leading 'module.' of DataParallel is
    dropped. Only tensors, plain containers, argparse.Namespace, and numbers of numpy are unpickled.
    Raises: BadInput for a missing file, one that needs any other object, or one without a state dict; DamagedFile for
        one that cannot be read to its end.
    """
    path = files.existing_file(path, "checkpoint")
    try:
        _require_stored(path)
        with torch.serialization.safe_globals(_PLAIN), warnings.catch_warnings():
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
    extra, model = {}, content
    while isinstance(model, dict) and (key := next((k for k in _KEYS if isinstance(model.get(k), dict | list)), "")):
        extra, model = model, model[key]
    if isinstance(model, (list, tuple)):
        tensors = {prefix + k: v for prefix, part in zip(PARTS, model, strict=False) for k, v in _plain(part).items()}
    else:
        tensors = _plain(model)
    if not tensors:
        raise BadInput(f"{name} holds no state dict, alone, in a list or under {', '.join(map(repr, _KEYS))}.")
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


_WEIGHT, _OUR_BERT = "image_encoder.fc.weight", "caption_encoder.model."
_BERT_SIZES = [
    *(f"{_OUR_BERT}embeddings.{kind}_embeddings.weight" for kind in ("word", "position", "token_type")),
    f"{_OUR_BERT}encoder.layer.0.intermediate.dense.bias",
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
    require_choice("method", method, RULES)
    name, surplus, unused = Path(path).name, [], (*UNUSED, *UNUSED_OF.get(method, ()))
    ours: dict[str, Tensor] = {}
    for key, value in _without_repeats(read_official(path).tensors, name).items():
        if key.startswith(unused) or key.endswith("position_ids"):
            continue
        if (new := renamed(method, key)) is None:
            surplus.append(key)
        else:
            ours[new] = value
    if {_WEIGHT + "_g", _WEIGHT + "_v"} <= ours.keys():  # SCAN's weight-normalised layer computes W = g V / ‖V‖
        g, v = ours.pop(_WEIGHT + "_g"), ours.pop(_WEIGHT + "_v")
        ours[_WEIGHT] = g * v / v.norm()
    bert = any(k.startswith(_OUR_BERT) for k in ours)
    needed = [_WEIGHT, *(_BERT_SIZES if bert else ["caption_encoder.embed.weight"])]
    absent = [k for k in needed if k not in ours]
    axes = {k: 1 if k.endswith((".bias", "norm_local.weight")) else 2 for k in (*needed, *_MATRICES)}
    flat = [f"{k}: {tuple(ours[k].shape)}" for k, n in axes.items() if k in ours and ours[k].ndim != n]
    _complain(name, method, absent, surplus if absent else [], flat)
    with only_shapes():  # costs no memory, whatever sizes the file asks for
        expected = _made(method, ours, options)[0].state_dict()
        ours |= {k: v.view(()) for k, v in ours.items() if k in expected and not expected[k].ndim and v.numel() == 1}
    missing = [k for k in expected if k not in ours and not k.endswith("num_batches_tracked")]
    surplus += [k for k in ours if k not in expected]
    different = [k for k, v in ours.items() if k in expected and v.shape != expected[k].shape]
    shapes = [f"{k}: {tuple(ours[k].shape)} for {tuple(expected[k].shape)}" for k in different]
    _complain(name, method, missing, surplus, shapes)
    require_same_kind(ours, expected, name)
    made, inputs = _made(method, ours, options)
    made.load_state_dict(ours, strict=False)  # but for the batches that a BatchNorm has seen, which some files lack
    return made.eval(), inputs


def _made(method: str, ours: dict[str, Tensor], options: dict) -> tuple[Method, Inputs]:
    """The untrained method in the sizes of a file."""
    bert = {k.removeprefix(_OUR_BERT): v for k, v in ours.items() if k.startswith(_OUR_BERT)}
    embed = ours.get("caption_encoder.embed.weight", torch.empty(1, 1))  # of a GRU; BERT has its own
    cells = len(ours.get("image_head.norm_local.weight", torch.empty(36)))
    d, width = ours[_WEIGHT].shape
    inputs = Inputs(width, cells, len(embed), word_dim=embed.shape[1], ordered_cells=False)
    made = build(method, inputs, "published", **{"d": d, **_options(ours, method), **options})
    if bert:
        made.caption_encoder = BertEncoder(bert_of(bert), d)
    if isinstance(made.image_encoder, ResidualRegions) and not any(k.startswith("image_encoder.mlp.") for k in ours):
        made.image_encoder = ResidualRegions(width, made.image_encoder.fc.out_features, mlp=False)
    return made, inputs


def _options(ours: dict[str, Tensor], method: str) -> dict:
    """The options of the method that follow from the shapes."""
    out = {}
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


def _complain(name: str, method: str, missing: list[str], surplus: list[str], shapes: list[str]) -> None:
    lists = (("missing", missing), ("surplus", surplus), ("of another shape", shapes))
    faults = [f"{len(items)} {what}: {', '.join(items[:6])}" for what, items in lists if items]
    if faults:
        raise BadInput(f"{name} is not a checkpoint of {method} as published. " + "; ".join(faults) + ".")
