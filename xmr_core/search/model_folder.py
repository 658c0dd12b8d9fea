"""A model as a folder: weights, words, networks and settings, in the form that the Hugging Face hub uses."""

import warnings
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import filelock

from xmr_core import __version__
from xmr_core.base import files
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.fingerprint import content_hash, file_hash
from xmr_core.data.describer import NETWORK, SUFFIXES, TENSORS
from xmr_core.data.raw_inputs import NEAREST, STATES, read_inputs, write_inputs
from xmr_core.methods.checkpoints import load_with_inputs, save_method
from xmr_core.search.files import json_object, require_own
from xmr_core.search.model import Model
from xmr_core.search.model_card import model_card

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
_PLACES = ("image_model", "text_model")
TYPE, FORMAT = "xmr_core", 2  # in config.json
_NAMES = (CONFIG, CARD, WEIGHTS, TENSORS, NEAREST, NETWORK, STATES)


def write_model(model: Model, folder: Path | str) -> Path:
    """Write a model as a folder that `read_model` reads on any machine. Returns the folder.

    It holds model.safetensors (the method, with its options and words), images.safetensors (the network and reduction
    of images, where there are some), nearest_words.json (words that are read as others), image_model/ and text_model/
    (frozen models of transformers), README.md (the model card, which its owner may complete), and config.json, written
    last, with a digest of every other file. Nothing is pickled.
    A model that lies in the folder is replaced, but not a card that its owner changed.
    Raises: BadInput for a folder with files of these names that are of no such model, for a model that is not trained
        here (a dual encoder has a folder of its own), or pickled weights of a frozen network; CannotWrite.

    >>> import tempfile
    >>> from xmr_core.search import example_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     len(read_model(write_model(example_model(), folder)).encode_texts("a red circle"))
    1
    """
    if "options" not in model.about:
        raise BadInput(
            f"{model.label} lacks what a folder needs: it was read from a file of run.export, or was not trained by "
            "this package. Load its run instead, or copy the folder that it was loaded from."
        )
    about = {**model.about, **{name: _public(model.about[name]) for name in _PLACES if model.about.get(name)}}
    folder = files.named(folder, "model's folder")
    ours = json_object(folder / CONFIG).get("model_type") == TYPE or (folder / ".lock").exists()
    require_own(folder, _NAMES, ours, "model")
    with filelock.FileLock(files.make_folder(folder) / ".lock"):
        changed = _changed_card(folder)
        _remove(folder, [CONFIG])  # without it, what is being written is no model
        _remove(folder, _left_over(folder))
        words = model.raw.vocabulary or model.raw.pieces
        save_method(folder / WEIGHTS, model.method, model.raw.inputs, words, about["form"], about["options"], about)
        inputs = write_inputs(model.raw, folder, model.about.get("text_model", ""))
        card = model_card(model.label, about)
        if changed and changed != card:
            warnings.warn(f"{folder / CARD} was changed by its owner and is left so; see that it fits.", stacklevel=3)
        else:
            files.write_atomic(folder / CARD, card)
        names = _written(folder, inputs)
        _remove(folder, set(written_files(folder)) - {*names, CARD})  # of an older model
        description = {"model_type": TYPE, "format": FORMAT, "library_version": __version__, "label": model.label}
        digests = {name: file_hash(folder / name) for name in names}
        description |= {"inputs": inputs, "about": about, "files": digests, "card": content_hash(card)}
        files.write_record(folder / CONFIG, description)
    return folder


def _changed_card(folder: Path) -> str:
    """The model card as its owner left it, or '' where there is none or it is as it was written."""
    written = json_object(folder / CONFIG).get("card")
    if not isinstance(written, str) or not (folder / CARD).is_file():
        return ""
    text = (folder / CARD).read_text(encoding="utf-8", errors="replace")
    return "" if content_hash(text) == written else text


def written_files(folder: Path) -> list[str]:
    """The names of the files of a model in a folder, '/' between folders; others that lie there are left out."""
    roots = [folder / name for name in _NAMES]
    files_there = [f for root in roots for f in (sorted(root.rglob("*")) if root.is_dir() else [root]) if f.is_file()]
    return sorted(f.relative_to(folder).as_posix() for f in files_there if not f.name.startswith("."))


def read_model(folder: Path | str, verify: bool = True) -> Model:
    """The model in a folder of `write_model`.

    verify: compare the digest of every file. Raises: BadInput for a folder without such a model, or one of another
    format; DamagedFile for a file that is missing, altered, or does not fit.
    """
    folder = Path(folder).expanduser()
    config = read_config(folder)
    listed_files(folder, config, verify)
    try:
        method, words, about, sizes = load_with_inputs(folder / WEIGHTS)
        raw = read_inputs(folder, config["inputs"], sizes, words)
        if config["inputs"]["texts"] == "states":
            about["text_model"] = str(folder / STATES)  # where it now lies, so that it can be written again
        return Model(str(config["label"]), method, raw, about)
    except (KeyError, TypeError, AttributeError, IndexError, RuntimeError) as e:
        raise _torn(folder, e) from None


def read_config(folder: Path) -> dict:
    """config.json of a folder of `write_model`. Raises: BadInput for another folder or format."""
    config = files.read_json(files.existing_file(folder / CONFIG, "model"))
    if not isinstance(config, dict) or config.get("model_type") != TYPE:
        raise BadInput(f"{folder} holds no model of this package: its {CONFIG} has another model_type.")
    if config.get("format") != FORMAT:
        raise BadInput(f"{folder} has format {config.get('format')}, and this version reads {FORMAT}. Save it again.")
    return files.read_record(folder / CONFIG)


def listed_files(folder: Path, config: dict, verify: bool = False) -> list[str]:
    """The files that a config.json lists, which lie in its folder. verify: compare their digests too.

    Raises: DamagedFile for one that is missing or altered, or a list that is not whole or leads out of the folder.
    """
    try:
        digests = {name: digest for name, digest in config["files"].items() if name != CARD}  # its owner's to change
        if outside := [n for n in digests if PurePosixPath(n).is_absolute() or ".." in PurePosixPath(n).parts]:
            raise DamagedFile(f"{folder / CONFIG} lists {outside[0]}, which lies outside. Do not use this folder.")
    except (KeyError, TypeError, AttributeError) as e:
        raise _torn(folder, e) from None
    for name, digest in digests.items():
        path = folder / name
        if not path.is_file() or (verify and file_hash(path) != digest):
            raise DamagedFile(f"{path} is missing or altered. Copy the folder again.")
    return list(digests)


def _remove(folder: Path, names: Iterable[str]) -> None:
    try:
        for name in names:
            (folder / name).unlink(missing_ok=True)
    except OSError as e:
        raise files.cannot_write(folder, e) from None


def _left_over(folder: Path) -> list[str]:
    """Files under a name of their own for the time of writing, of a process that was killed."""
    roots = CONFIG, CARD, WEIGHTS, TENSORS, NEAREST, f"{NETWORK}/", f"{STATES}/"
    patterns = [f"{name}.*.*.tmp" if name.endswith("/") else f".{name}.*.tmp" for name in roots]
    return [path.relative_to(folder).as_posix() for pattern in patterns for path in folder.glob(pattern)]


def _written(folder: Path, inputs: dict) -> list[str]:
    """What a reader needs: neither files of an older model, nor others that its owner may have put there."""
    images = inputs["images"] or {}
    names = [WEIGHTS] + [TENSORS] * bool(images.get("tensors")) + [NEAREST] * ("nearest" in inputs)
    for part, present in ((NETWORK, images.get("kind") == "pretrained"), (STATES, inputs["texts"] == "states")):
        if present:
            names += sorted(f"{part}/{path.name}" for path in (folder / part).iterdir() if path.suffix in SUFFIXES)
    return names


def _public(source: str) -> str:
    """A hub name as it is; of a folder its name alone, because the places of one's own disk concern nobody."""
    return Path(source).name if Path(source).expanduser().is_dir() else source


def _torn(folder: Path, error: Exception) -> DamagedFile:
    return DamagedFile(f"{folder / CONFIG} is not whole ({type(error).__name__}: {error}). Copy the folder again.")
