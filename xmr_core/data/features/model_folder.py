"""Where a pretrained model lies, and what its files are: a local folder, or the cached copy of a hub name."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, DamagedFile

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # the first that is there
_HUB_FILES = ("*.json", "*.txt", "*.model", "model.safetensors", "model-*-of-*.safetensors")


@dataclass(frozen=True)
class Found:
    """Where a model lies. given: what the user wrote. identity: 'resnet-' and 16 hex digits of the bytes of config.json and
    the weights, whatever the folder is called; for a hub name 'name@commit'."""

    folder: Path
    identity: str
    given: str


def find_pretrained(source: Path | str) -> Found:
    """A folder that transformers can load from: the one given, or the cached copy of a hub name ('name', 'owner/name', with '@revision').

    A cached copy is used as it is, without asking whether there is a newer one; only what is not cached is fetched.
    Raises: BadInput for a path that does not exist, a folder without config.json or weights, or a name that is not cached
        while the hub cannot be reached.
    """
    given, folder = str(source), Path(source).expanduser()
    if folder.is_dir():
        _need_config(folder, given)
        files = weight_files(folder, given)
        content = paths.content_hash([paths.file_hash(file) for file in (folder / "config.json", *files)])
        return Found(folder, f"{read_settings(folder / 'config.json').get('model_type')}-{content}", given)
    name, _, revision = given.partition("@")
    if folder.exists() or not re.fullmatch(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", name):
        what = "is a file" if folder.exists() else "does not exist"
        raise BadInput(f"{given} {what}. Give the folder that holds config.json and model.safetensors, or a hub name.")
    folder = _hub_folder(name, revision or None)
    _need_config(folder, given)
    weight_files(folder, given)
    return Found(folder, f"{name}@{folder.name}", given)


def weight_files(folder: Path, given: str) -> list[Path]:
    """The files that hold the weights, all there; one, or the shards that an index lists.

    Raises: BadInput when there are none, or naming a shard that is missing; DamagedFile for an index that is not JSON.
    """
    for name in _WEIGHTS:
        index = folder / f"{name}.index.json"
        if (folder / name).exists():
            return [folder / name]
        if index.exists():
            shards = _shards(index)
            if lost := [shard for shard in shards if not (folder / shard).exists()]:
                raise BadInput(f"{given}: weight file {lost[0]} is missing ({len(lost)} of {len(shards)} are). Copy it into the folder.")
            return [folder / shard for shard in shards]
    others = sorted(f.name for f in folder.iterdir() if f.suffix in (".bin", ".h5", ".msgpack", ".pt", ".pth", ".ckpt", ".onnx"))
    seen = f"; {others[0]} is of another kind" if others else ""
    raise BadInput(f"{given} holds no weights: model.safetensors is needed{seen}. Copy or convert it into the folder.")


def read_settings(file: Path) -> dict:
    """A JSON file that came with a model. Raises DamagedFile when it is none."""
    try:
        told = paths.read_json(file)
    except DamagedFile:
        told = None
    if not isinstance(told, dict):
        raise DamagedFile(f"{file} is not the JSON that belongs there. Copy it again.")
    return told


@cache
def library() -> ModuleType:
    """The package transformers, which is slow to import, told that there is no torchvision.

    It imports one wherever one is installed, and then fails with it where it does not fit torch; nothing here needs it.
    """
    hidden = "torchvision" not in sys.modules
    if hidden:
        sys.modules["torchvision"] = None  # 'not installed', which transformers asks once, on import, and remembers
    try:
        import transformers
    finally:
        if hidden:
            del sys.modules["torchvision"]
    return transformers


@contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' progress bars, reports and advice; errors still come."""
    logging = library().utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error(), logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _shards(index: Path) -> list[str]:
    try:
        return sorted({str(name) for name in read_settings(index)["weight_map"].values()})
    except (KeyError, AttributeError):
        raise DamagedFile(f"{index} lists no weight files. Copy it again.") from None


def _need_config(folder: Path, given: str) -> None:
    if not (folder / "config.json").exists():
        raise BadInput(f"{given} holds no config.json. Give the folder that save_pretrained wrote, or a hub name.")


def _hub_folder(name: str, revision: str | None) -> Path:
    """The cached copy of a model on the hub, fetched if it is not cached whole."""
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(name, revision=revision, local_files_only=True))
        if (folder / "config.json").exists() and weight_files(folder, name):
            return folder
    except Exception:  # not there, or not whole
        pass
    try:
        with quiet():
            folder = Path(snapshot_download(name, revision=revision, allow_patterns=list(_HUB_FILES), ignore_patterns="*/*"))
            if not any(folder.glob("model*.safetensors")):
                snapshot_download(name, revision=folder.name, allow_patterns=["pytorch_model*.bin"])
        return folder
    except Exception as e:
        raise BadInput(
            f"model {name!r} is no folder here and not in the local cache, and the hub did not give it ({type(e).__name__}). "
            "Give a local folder with config.json, model.safetensors and the tokenizer or preprocessor files."
        ) from None
