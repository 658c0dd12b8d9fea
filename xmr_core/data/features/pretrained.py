"""Pretrained models of transformers, loaded silently from a local folder or by hub name, or built again from their architecture.

Code that comes with a model is never run, pickled weights are read as tensors only, and torchvision is not needed.
"""

import json
import pickle
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import nn

from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.data.features.model_folder import Found, find_pretrained, library, quiet, read_settings, weight_files

KINDS = {"image": "vision", "text": "text"}  # → which tower of a model that has both
_READS = {"image": "pixel_values", "text": "input_ids"}


@dataclass(frozen=True)
class Pretrained:
    """A loaded model in float32, in eval mode, every tensor of it from the file; a pooler that the file lacks is None."""

    model: nn.Module
    config: object
    found: Found


def load_pretrained(source: Path | str | Found, kind: str) -> Pretrained:
    """The model of a kind: 'image' or 'text' (of a model with two towers, that tower), or 'both' (the two together).

    Raises: BadInput for what find_pretrained refuses, an architecture that transformers does not know or that would need
        code of its own, weights that lack a tensor or do not fit the config, pickled weights with more in them than tensors,
        a model of another kind; DamagedFile for a truncated weight file.
    """
    found = source if isinstance(source, Found) else find_pretrained(source)
    given, config = found.given, tower_config(found, kind)
    if type(config) not in library().MODEL_MAPPING:
        raise BadInput(f"{given}: transformers has no model for a {config.model_type} alone. Give another model for this part.")
    safe = weight_files(found.folder, given)[0].suffix == ".safetensors"
    try:
        with quiet():
            model, report = library().AutoModel.from_pretrained(
                found.folder,
                config=config,
                dtype=torch.float32,  # not the file's: half precision is slow or wrong on a CPU
                use_safetensors=safe,
                weights_only=True,
                trust_remote_code=False,
                local_files_only=True,
                output_loading_info=True,
            )
    except SafetensorError as e:
        raise DamagedFile(f"{given}: the weights are no whole safetensors file ({e}). Copy them again.") from None
    except pickle.UnpicklingError:
        raise BadInput(f"{given}: pytorch_model.bin holds more than tensors and is not opened. Convert it to model.safetensors.") from None
    except MemoryError:
        raise
    except Exception as e:  # whatever a foreign library raises for a file it cannot use
        raise BadInput(f"{given} cannot be loaded as a model ({_first_line(e)}). Are config.json and weights of one model?") from e
    poolers = {name for name in report["missing_keys"] if "pooler" in name.split(".")}
    if lost := sorted(set(report["missing_keys"]) - poolers):
        raise BadInput(f"{given}: the weights lack tensor {lost[0]!r} (and {len(lost) - 1} more) of a {type(model).__name__}.")
    if poolers and hasattr(model, "pooler"):
        model.pooler = None  # it would be random
    _check_kind(model, kind, given)
    return Pretrained(model.eval(), config, found)


def tower_config(found: Found, kind: str):
    """The config of a model, or of one of its two towers."""
    config = _config(found.folder, found.given)
    if kind != "both" and all(hasattr(config, f"{tower}_config") for tower in KINDS.values()):
        return getattr(config, f"{KINDS[kind]}_config")
    return config


def architecture(source: Path | str | Found, kind: str) -> dict:
    """What builds the same network again without its folder: the config as JSON-able values."""
    found = source if isinstance(source, Found) else find_pretrained(source)
    values = json.loads(tower_config(found, kind).to_json_string())
    beside = ("_name_or_path", "architectures", "dtype", "id2label", "label2id", "torch_dtype", "transformers_version")
    return {key: value for key, value in values.items() if key not in beside}


def build(architecture: dict, kind: str) -> nn.Module:
    """The network with random weights, without a pooler that learns. Raises BadInput for values that no known architecture takes."""
    try:
        with quiet():
            config = library().AutoConfig.for_model(**architecture)
            model = library().AutoModel.from_config(config, dtype=torch.float32, trust_remote_code=False)
    except Exception as e:
        raise BadInput(f"no model can be built from the architecture {architecture.get('model_type')!r} ({_first_line(e)}).") from e
    _check_kind(model, kind, str(architecture.get("model_type")))
    pooler = getattr(model, "pooler", None)
    if pooler is not None and next(pooler.parameters(), None) is not None:  # a plain mean may stay
        model.pooler = None
    return model


def copy_weights(into: nn.Module, source: Path | str | Found, kind: str) -> str:
    """Fill a network from `build` with the weights of a folder or hub name; returns their identity.

    Raises: BadInput for a network of another shape, and what load_pretrained refuses.
    """
    loaded = load_pretrained(source, kind)
    given, wanted = {k: v for k, v in loaded.model.state_dict().items() if "pooler" not in k.split(".")}, into.state_dict()
    wrong = sorted(
        name for name in given.keys() | wanted.keys() if name not in given or name not in wanted or given[name].shape != wanted[name].shape
    )
    if wrong:
        raise BadInput(f"{loaded.found.given} is another network: tensor {wrong[0]!r} (and {len(wrong) - 1} more) does not fit.")
    into.load_state_dict(given)
    return loaded.found.identity


def _config(folder: Path, given: str):
    raw = read_settings(folder / "config.json")
    kind = raw.get("model_type")
    try:
        with quiet():
            return library().AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as e:
        if "auto_map" in raw:
            raise BadInput(
                f"{given} brings code of its own, which is never run. Choose a model that transformers knows by itself."
            ) from None
        if kind not in library().CONFIG_MAPPING:
            raise BadInput(
                f"{given}: transformers {library().__version__} knows no architecture {kind!r} (model_type in config.json)."
            ) from None
        raise BadInput(f"{given}: config.json does not describe a {kind} ({_first_line(e)}).") from e


def _check_kind(model: nn.Module, kind: str, given: str) -> None:
    dual = all(hasattr(model, f"get_{side}_features") for side in KINDS)
    fits = dual if kind == "both" else not dual and model.main_input_name == _READS[kind]
    if not fits or getattr(model.config, "is_encoder_decoder", False):
        wanted = {"image": "a model of pictures", "text": "an encoder of text", "both": "a dual encoder such as CLIP or SigLIP"}[kind]
        raise BadInput(f"{given} is a {type(model).__name__}, not {wanted}. Give the folder or name of one.")


def _first_line(e: Exception) -> str:
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    return f"{type(e).__name__}: {' '.join(lines[:2])[:160]}"
