"""Pretrained models of transformers, loaded from a local folder or by hub name, or built again from their architecture.

Code that comes with a model is never run, pickled weights are read as tensors only, and torchvision is not needed.
"""

import json
import pickle
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import nn

from xmr_core.base.devices import alone
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.data.features.model_folder import (
    ModelFolder,
    find_pretrained,
    library,
    quiet,
    read_settings,
    weight_files,
)

Source = Path | str | ModelFolder  # a folder, or a hub name
_TOWERS = {"image": "vision_config", "text": "text_config"}  # in the config of a model of two towers
_READS = {"image": "pixel_values", "text": "input_ids"}
_KINDS = {
    "image": "a model of images",
    "text": "an encoder of text",
    "both": "a dual encoder such as CLIP or SigLIP",
}
_NOT_ARCHITECTURE = (
    "_name_or_path", "architectures", "dtype", "id2label", "label2id", "torch_dtype", "transformers_version",
)  # fmt: skip


@dataclass(frozen=True)
class Pretrained:
    """A loaded model in float32, in eval mode. Every tensor is from its file; a pooler that the file lacks is None."""

    model: nn.Module
    config: object
    folder: ModelFolder


def load_pretrained(source: Source, kind: str) -> Pretrained:
    """A pretrained model. kind: 'image', 'text' (of a model of two towers, that tower), or 'both' towers together.

    Raises: BadInput for what find_pretrained refuses, an architecture that transformers does not know or that needs
        code of its own, weights that lack a tensor or do not fit the config, pickled weights with more in them than
        tensors, or a model of another kind; DamagedFile for a truncated weight file.
    """
    folder = find_pretrained(source)
    name, config = folder.name, tower_config(folder, kind)
    if type(config) not in library().MODEL_MAPPING:
        raise BadInput(f"{name}: transformers has no model for a {config.model_type} alone. Choose another model here.")
    weights = weight_files(folder.path, name)[0]
    try:
        with alone, quiet():
            model, report = library().AutoModel.from_pretrained(
                folder.path,
                config=config,
                dtype=torch.float32,  # not the file's: half precision is slow or wrong on a CPU
                use_safetensors=weights.suffix == ".safetensors",
                weights_only=True,
                trust_remote_code=False,
                local_files_only=True,
                output_loading_info=True,
            )
    except SafetensorError as e:
        raise DamagedFile(f"{name}: the weights are no whole safetensors file ({e}). Copy them again.") from None
    except pickle.UnpicklingError:
        raise BadInput(
            f"{name}: pytorch_model.bin holds more than tensors and is not opened. Convert it to model.safetensors."
        ) from None
    except MemoryError:
        raise
    except Exception as e:  # whatever transformers raises for a file that it cannot use
        raise BadInput(
            f"{name} cannot be loaded as a model ({_first_line(e)}). Are config.json and weights of one model?"
        ) from e
    poolers = {tensor for tensor in report["missing_keys"] if "pooler" in tensor.split(".")}
    if missing := sorted(set(report["missing_keys"]) - poolers):
        kind_of_model = type(model).__name__
        raise BadInput(
            f"{name}: the weights lack tensor {missing[0]!r} (and {len(missing) - 1} more) of a {kind_of_model}."
        )
    if poolers and hasattr(model, "pooler"):
        model.pooler = None  # its weights would be random
    _check_kind(model, kind, name)
    return Pretrained(model.eval(), config, folder)


def tower_config(folder: ModelFolder, kind: str):
    """The config of a model, or of one of its two towers."""
    settings = read_settings(folder.path / "config.json")
    name, model_type = folder.name, settings.get("model_type")
    try:
        with quiet():
            config = library().AutoConfig.from_pretrained(folder.path, trust_remote_code=False, local_files_only=True)
    except Exception as e:
        if "auto_map" in settings:
            fault = "brings code of its own, which is never run. Choose a model that transformers knows by itself."
            raise BadInput(f"{name} {fault}") from None
        if model_type not in library().CONFIG_MAPPING:
            fault = f"transformers {library().__version__} knows no architecture {model_type!r}"
            raise BadInput(f"{name}: {fault} (model_type in config.json).") from None
        raise BadInput(f"{name}: config.json does not describe a {model_type} ({_first_line(e)}).") from e
    dual = all(hasattr(config, tower) for tower in _TOWERS.values())
    return getattr(config, _TOWERS[kind]) if dual and kind != "both" else config


def architecture(source: Source, kind: str) -> dict:
    """What builds the same network again without its folder: the config as JSON values."""
    values = json.loads(tower_config(find_pretrained(source), kind).to_json_string())
    return {key: value for key, value in values.items() if key not in _NOT_ARCHITECTURE}


def build(architecture: dict, kind: str) -> nn.Module:
    """The network with random weights, without a learned pooler. Raises: BadInput for an unknown architecture."""
    model_type = str(architecture.get("model_type"))
    try:
        with alone, quiet():
            config = library().AutoConfig.for_model(**architecture)
            model = library().AutoModel.from_config(config, dtype=torch.float32, trust_remote_code=False)
    except Exception as e:
        raise BadInput(f"no model can be built from the architecture {model_type!r} ({_first_line(e)}).") from e
    _check_kind(model, kind, model_type)
    pooler = getattr(model, "pooler", None)
    if pooler is not None and next(pooler.parameters(), None) is not None:  # a plain mean may stay
        model.pooler = None
    return model


def copy_weights(network: nn.Module, source: Source, kind: str) -> str:
    """Fill a network from `build` with the weights of a folder or hub name; returns their identity.

    Raises: BadInput for a network of another shape, and what load_pretrained refuses.
    """
    loaded = load_pretrained(source, kind)
    tensors = {k: v for k, v in loaded.model.state_dict().items() if "pooler" not in k.split(".")}
    shapes, wanted = ({k: v.shape for k, v in t.items()} for t in (tensors, network.state_dict()))
    if wrong := sorted({name for name, _ in shapes.items() ^ wanted.items()}):
        raise BadInput(
            f"{loaded.folder.name} is another network: tensor {wrong[0]!r} (and {len(wrong) - 1} more) does not fit."
        )
    network.load_state_dict(tensors)
    return loaded.folder.identity


def _check_kind(model: nn.Module, kind: str, name: str) -> None:
    dual = all(hasattr(model, f"get_{tower}_features") for tower in _TOWERS)
    fits = dual if kind == "both" else not dual and model.main_input_name == _READS[kind]
    if not fits or getattr(model.config, "is_encoder_decoder", False):
        raise BadInput(f"{name} is a {type(model).__name__}, not {_KINDS[kind]}. Give the folder or name of one.")


def _first_line(e: Exception) -> str:
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    return f"{type(e).__name__}: {' '.join(lines[:2])[:160]}"
