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
from xmr_core.data.features.model_folder import ModelFolder, find_pretrained, library, model_files, quiet, read_settings

LOCAL = {"trust_remote_code": False, "local_files_only": True}  # for every from_pretrained
Source = Path | str | ModelFolder  # a folder, or a hub name
_TOWERS = {"image": "vision_config", "text": "text_config"}  # in the config of a model of two towers
_READS = {"image": "pixel_values", "text": "input_ids"}
_KINDS = {"image": "a model of images", "text": "an encoder of text", "both": "a dual encoder such as CLIP or SigLIP"}
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
    try:
        with alone, quiet():
            model, report = library().AutoModel.from_pretrained(
                folder.path,
                config=config,
                dtype=torch.float32,  # not the file's: half precision is slow or wrong on a CPU
                use_safetensors=model_files(folder.path, name)[1].suffix == ".safetensors",
                weights_only=True,
                output_loading_info=True,
                **LOCAL,
            )
    except SafetensorError as e:
        raise DamagedFile(f"{name}: the weights are no whole safetensors file ({e}). Copy them again.") from None
    except pickle.UnpicklingError:
        raise BadInput(
            f"{name}: its pickled weights are more than tensors. Convert them to model.safetensors."
        ) from None
    except MemoryError:
        raise
    except Exception as e:  # whatever transformers raises for a file that it cannot use
        fault = f"{name} cannot be loaded as a model ({_first_line(e)})"
        raise BadInput(f"{fault}. Are config.json and weights of one model?") from e
    poolers = {tensor for tensor in report["missing_keys"] if "pooler" in tensor.split(".")}
    if missing := sorted(set(report["missing_keys"]) - poolers):
        raise BadInput(f"{name}: the weights lack {len(missing)} tensors of a {type(model).__name__}: {missing[0]!r} …")
    if poolers and hasattr(model, "pooler"):
        model.pooler = None  # its weights would be random
    _check_kind(model, kind, name)
    return Pretrained(model.eval(), config, folder)


def tower_config(folder: ModelFolder, kind: str):
    """The config of a model, or of one of its two towers."""
    try:
        with quiet():
            config = library().AutoConfig.from_pretrained(folder.path, **LOCAL)
    except Exception as e:
        settings = read_settings(folder.path / "config.json")
        fault = f"does not describe a {settings.get('model_type')!r} to transformers {library().__version__}"
        if "auto_map" in settings:
            fault = "names code of its own, which is never run"
        raise BadInput(f"{folder.name}: config.json {fault} ({_first_line(e)}). Choose another model.") from e
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
    try:
        network.load_state_dict(tensors)
    except RuntimeError as e:
        raise BadInput(f"{loaded.folder.name} is another network ({_first_line(e)}).") from None
    return loaded.folder.identity


def _check_kind(model: nn.Module, kind: str, name: str) -> None:
    dual = all(hasattr(model, f"get_{tower}_features") for tower in _TOWERS)
    fits = dual if kind == "both" else not dual and model.main_input_name == _READS[kind]
    if not fits or getattr(model.config, "is_encoder_decoder", False):
        raise BadInput(f"{name} is a {type(model).__name__}, not {_KINDS[kind]}. Give the folder or name of one.")


def _first_line(e: Exception) -> str:
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    return f"{type(e).__name__}: {' '.join(lines[:2])[:160]}"
