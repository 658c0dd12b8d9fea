"""A trained model as others read it, without this package: for transformers, for sentence-transformers, as ONNX."""

import copy
import json
import shutil
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

from xmr_core.base import files
from xmr_core.base.errors import BadInput, require, require_choice
from xmr_core.base.tensors import unchecked
from xmr_core.base.types import EmbeddingSet, GaussianEmbedding, Pixels, Tokens
from xmr_core.encoders.pretrained import DualTower, FineTuned, TextBackbone
from xmr_core.features.images import Fit
from xmr_core.features.pretrained import READ_PADDING, WordPieces, build, quiet
from xmr_core.heads.pooling import GlobalHead
from xmr_core.methods.method import Method
from xmr_core.models.model import Model

FORMS = ("transformers", "sentence-transformers", "onnx")


def export(model: Model, folder: Path | str, form: str) -> Path:
    """Write a model into a new folder that other packages read. Returns the folder.

    form: 'transformers': a fine-tuned dual encoder as save_pretrained writes it, with tokenizer and preprocessor;
        adapters are merged into the weights. 'sentence-transformers': the captions' side of a model of one vector whose
        text model was fine-tuned: network, pooling, linear layer, unit length. 'onnx': `images.onnx` and
        `captions.onnx`, from what `model.raw` reads to representations, for each side whose network learned here.
    Raises: BadInput for another form, a model that the form cannot hold, a folder that is not empty, or a missing
        package; CannotWrite.
    """
    require_choice("form", form, FORMS)
    folder = files.make_folder(folder)
    if any(folder.iterdir()):
        raise BadInput(f"{folder} is not empty. Give a new folder.")
    method = copy.deepcopy(model.method).cpu().eval() if isinstance(model.method, Method) else None
    for encoder in (method.image_encoder, method.caption_encoder) if method else ():
        if isinstance(encoder, FineTuned):
            _merge(encoder.backbone)
    try:
        {"transformers": _dual, "sentence-transformers": _sentences, "onnx": _graphs}[form](model, method, folder)
    except BaseException:  # nothing half-written stays
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def _merge(network: nn.Module) -> None:
    """Add what adapters learned to the weights, and take the adapters away."""
    for name, module in [*network.named_modules()]:
        if hasattr(module, "base_layer") and hasattr(module, "merge"):
            module.merge()
            parent, _, last = name.rpartition(".")
            setattr(network.get_submodule(parent), last, module.base_layer)


def _tokenizer(pieces: WordPieces, folder: Path, masked: bool = True) -> None:
    """Write a tokenizer as transformers reads it. masked: whether it gives a mask; one that reads padding gets none."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer.from_str(pieces.backend)
    name, unknown = tokenizer.id_to_token, json.loads(pieces.backend)["model"].get("unk_token")
    others = {"unk_token": unknown, "mask_token": name(pieces.mask) if pieces.mask >= 0 else None}
    others["mask_token"] = None if others["mask_token"] == unknown else others["mask_token"]
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=pieces.max_length, pad_token=name(pieces.pad),
        extra_special_tokens=[name(i) for i in pieces.special if i != pieces.pad],
        model_input_names=["input_ids", *(["attention_mask"] if masked else [])],
        **{key: token for key, token in others.items() if token},
    )  # fmt: skip
    made.save_pretrained(folder)


def _dual(model: Model, method: Method | None, folder: Path) -> None:
    towers = () if method is None else (method.image_encoder, method.caption_encoder)
    if not towers or not all(isinstance(tower, DualTower) and tower.project is None for tower in towers):
        raise BadInput(
            f"transformers has no model for {model.label}: only method clip leaves a dual encoder as it was."
        )
    image, text = towers
    network, loss = build(image.values["architecture"], "both"), method.objective.score_loss
    state = {**image.backbone.state_dict(), **text.backbone.state_dict()}
    learned = {"logit_scale": getattr(loss, "log_scale", None), "logit_bias": getattr(loss, "bias", None)}
    for name, value in learned.items():
        if hasattr(network, name):
            start = image.values.get(name.removeprefix("logit_"), 0.0)
            start = torch.tensor(start) if value is None else value.detach()
            state[name] = start.reshape(getattr(network, name).shape)
    network.load_state_dict(state)
    with quiet():
        network.save_pretrained(folder)
    _tokenizer(model.raw.pieces, folder, masked=network.config.model_type not in READ_PADDING)
    scaling, fit = image.scaling, model.raw.fit or Fit(image.resolution, keeps_ratio=False)
    edge = {"shortest_edge": fit.edge} if fit.keeps_ratio else {"height": fit.edge, "width": fit.edge}
    square = {"height": image.resolution, "width": image.resolution}
    settings = {
        "image_processor_type": "CLIPImageProcessor", "do_resize": True, "size": edge, "resample": fit.resample,
        "do_center_crop": True, "crop_size": square, "do_rescale": True, "rescale_factor": scaling.factor / 255,
        "do_normalize": True, "image_mean": scaling.mean, "image_std": scaling.std, "do_convert_rgb": True,
    }  # fmt: skip
    files.write_json(folder / "preprocessor_config.json", settings)


def _sentences(model: Model, method: Method | None, folder: Path) -> None:
    text, head = (method.caption_encoder, method.caption_head) if method else (None, None)
    plain = isinstance(head, GlobalHead) and head.normalise and not head.absolute
    pooling = {"first": "cls", "mean": "mean", "last": "lasttoken"}.get(getattr(text, "summary", ""))
    if not isinstance(text, TextBackbone) or not plain or pooling is None:
        needed = "a fine-tuned text model read at its first or last piece or by the mean, and one vector (VSE++)"
        raise BadInput(f"sentence-transformers holds {needed}; {model.label} is another.")
    require("sentence-transformers", "export", "sentence_transformers")
    from sentence_transformers import SentenceTransformer, models

    (d, hidden), dense = text.project.weight.shape, None
    with tempfile.TemporaryDirectory() as place, quiet():
        text.backbone.save_pretrained(place)
        _tokenizer(model.raw.pieces, Path(place))
        network = models.Transformer(place, max_seq_length=model.raw.pieces.max_length)
        dense = models.Dense(hidden, d, bias=True, activation_function=nn.Identity())
        dense.linear.load_state_dict(text.project.state_dict())
        pool = models.Pooling(hidden, pooling_mode=pooling)
        SentenceTransformer(modules=[network, pool, dense, models.Normalize()], device="cpu").save(str(folder))


class _Numbers(nn.Module):
    """One side of a method on plain tensors, as a graph has them."""

    def __init__(self, encoder: nn.Module, head: nn.Module, kind: type):
        super().__init__()
        self.encoder, self.head, self.kind = encoder, head, kind

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        made = self.head(self.encoder(self.kind(*tensors)))
        names = {EmbeddingSet: ("x", "mask"), GaussianEmbedding: ("mean", "log_std")}.get(type(made), ("x",))
        return tuple(getattr(made, name) for name in names)


def _graphs(model: Model, method: Method | None, folder: Path) -> None:
    require("onnx", "export", "onnx", "onnxscript")
    learned = [
        (name, getattr(method, f"{side}_encoder"), getattr(method, f"{side}_head"))
        for name, side in (("images", "image"), ("captions", "caption"))
        if isinstance(getattr(method, f"{side}_encoder", None), FineTuned)
    ]
    if not learned:
        raise BadInput(f"onnx holds networks that were fine-tuned here; {model.label} has none.")
    items, words = (torch.export.Dim(name, min=1) for name in ("items", "words"))
    for name, encoder, head in learned:
        if name == "images":
            size = model.raw.inputs.resolution
            kind, tensors, shapes = Pixels, {"pixels": torch.rand(2, 3, size, size)}, ({0: items},)
        else:
            tokens = model.raw.new_captions(["a b", "a"])
            kind, tensors, shapes = Tokens, {"ids": tokens.ids, "mask": tokens.mask}, ({0: items, 1: words},) * 2
        graph = _Numbers(encoder, head, kind)
        with torch.no_grad(), unchecked(), quiet():
            outputs = [f"{name}_{n}" for n in range(len(graph(*tensors.values())))]
            try:
                program = torch.onnx.export(
                    graph, (*tensors.values(),), input_names=[*tensors], output_names=outputs, dynamo=True,
                    dynamic_shapes=(shapes,), verbose=False,
                )  # fmt: skip
            except torch.onnx.OnnxExporterError as e:  # generalised pooling asks a number how many weights it makes
                reason = f"{type(e).__name__}: torch makes no graph of its {type(head).__name__}"
                raise BadInput(f"onnx cannot hold the {name} of {model.label} ({reason}).") from e
            if isinstance(program.model.graph.inputs[0].shape[0], int):
                raise BadInput(f"onnx would hold {name} of {model.label} for one number of items alone.")
            program.save(folder / f"{name}.onnx")
