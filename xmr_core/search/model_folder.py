"""A model as a folder: weights, words, networks and settings, in the form that the Hugging Face hub uses."""

import warnings
from pathlib import Path, PurePosixPath

import filelock

from xmr_core import __version__
from xmr_core.base import files
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.fingerprint import content_hash, file_hash
from xmr_core.data.describer import NETWORK, SUFFIXES, TENSORS
from xmr_core.data.raw_inputs import NEAREST, STATES, read_inputs, write_inputs
from xmr_core.methods.checkpoints import load_with_inputs, save_method
from xmr_core.search.files import json_object, read_manifest, remove, require_own
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
    written = json_object(folder / CONFIG)
    require_own(folder, _NAMES, written.get("model_type") == TYPE or (folder / ".lock").exists(), "model")
    with filelock.FileLock(files.make_folder(folder) / ".lock"):
        remove(folder, [CONFIG])  # without it, what is being written is no model
        words = model.raw.vocabulary or model.raw.pieces
        save_method(folder / WEIGHTS, model.method, model.raw.inputs, words, about["form"], about["options"], about)
        inputs = write_inputs(model.raw, folder, model.about.get("text_model", ""))
        card, path = model_card(model.label, about), folder / CARD
        left = path.read_text(encoding="utf-8", errors="replace") if path.is_file() and "card" in written else card
        if left != card and content_hash(left) != written["card"]:
            warnings.warn(f"{path} was changed by its owner and is left so; see that it fits.", stacklevel=3)
        else:
            files.write_atomic(path, card)
        names = _needed(folder, inputs)
        remove(folder, set(_present(folder)) - {*names, CARD}, remainders=[*names, CARD, CONFIG])  # of an older model
        digests = {name: file_hash(folder / name) for name in names}
        files.write_record(
            folder / CONFIG,
            {
                "model_type": TYPE, "format": FORMAT, "library_version": __version__, "label": model.label,
                "inputs": inputs, "about": about, "files": digests, "card": content_hash(card),
            },
        )  # fmt: skip
    return folder


def _present(folder: Path) -> list[str]:
    """The names of the files of a model in a folder, '/' between folders; others that lie there are left out."""
    paths = [path for name in _NAMES for path in (folder / name, *(folder / name).rglob("*"))]
    return [p.relative_to(folder).as_posix() for p in paths if p.is_file() and not p.name.startswith(".")]


def _needed(folder: Path, inputs: dict) -> list[str]:
    """What a reader needs: neither files of an older model, nor others that its owner may have put there."""
    images = inputs["images"] or {}
    names = [WEIGHTS] + [TENSORS] * bool(images.get("tensors")) + [NEAREST] * ("nearest" in inputs)
    for part, present in ((NETWORK, images.get("kind") == "pretrained"), (STATES, inputs["texts"] == "states")):
        if present:
            names += sorted(f"{part}/{path.name}" for path in (folder / part).iterdir() if path.suffix in SUFFIXES)
    return names


def read_model(folder: Path | str, verify: bool = True) -> Model:
    """The model in a folder of `write_model`.

    verify: compare the digest of every file. Raises: BadInput for a folder without such a model, or one of another
    format; DamagedFile for a file that is missing, altered, or does not fit.
    """
    folder = Path(folder).expanduser()
    try:
        config = read_config(folder, verify)
        method, words, about, sizes = load_with_inputs(folder / WEIGHTS)
        raw = read_inputs(folder, config["inputs"], sizes, words)
        if config["inputs"]["texts"] == "states":
            about["text_model"] = str(folder / STATES)  # where it now lies, so that it can be written again
        return Model(str(config["label"]), method, raw, about)
    except (KeyError, TypeError, AttributeError, IndexError, RuntimeError) as e:
        reason = f"{type(e).__name__}: {e}"
        raise DamagedFile(f"{folder / CONFIG} is not whole ({reason}). Copy the folder again.") from None


def read_config(folder: Path, verify: bool | None = False) -> dict:
    """config.json of a folder of `write_model`, whose files lie there. verify: compare their digests too; None: read
    config.json alone.

    Raises: BadInput for another folder or format; DamagedFile for a file that is missing or altered, or a list that is
        not whole or leads out of the folder.
    """
    path = files.existing_file(folder / CONFIG, "model")
    if json_object(path).get("model_type", TYPE) != TYPE:
        raise BadInput(f"{folder} holds no model of this package: its {CONFIG} has another model_type.")
    config = read_manifest(path, FORMAT, "Model.save_pretrained")
    config["files"] = {name: digest for name, digest in config["files"].items() if name != CARD}
    for name, digest in config["files"].items():  # the card is its owner's to change
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise DamagedFile(f"{path} lists {name}, which lies outside. Do not use this folder.")
        if verify is not None and (not (folder / name).is_file() or (verify and file_hash(folder / name) != digest)):
            raise DamagedFile(f"{folder / name} is missing or altered. Copy the folder again.")
    return config


def _public(source: str) -> str:
    """A hub name as it is; of a folder its name alone, because the places of one's own disk concern nobody."""
    return Path(source).name if Path(source).expanduser().is_dir() else source
