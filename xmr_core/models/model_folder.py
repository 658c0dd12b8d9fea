"""A model as a folder, in the form that the Hugging Face hub uses: weights, words, networks, settings and a card; and
what such a folder has in common with an index: whose its files are, and whether they are all as they were written.
"""

import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path, PurePosixPath
from textwrap import shorten
from types import ModuleType

from xmr_core import __version__
from xmr_core.base import files, fingerprint
from xmr_core.base.errors import BadInput, DamagedFile, XmrError, require
from xmr_core.base.fingerprint import content_hash
from xmr_core.base.paths import printable
from xmr_core.data.inputs import NEAREST, NETWORK, STATES, SUFFIXES, TENSORS, copy_model, read_inputs, write_inputs
from xmr_core.features.pretrained import find_pretrained, quiet
from xmr_core.methods.checkpoint import load_with_inputs, save_method
from xmr_core.methods.registry import method_spec
from xmr_core.models.dual_encoder import ZeroShot, dual_model
from xmr_core.models.model import Model

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
TYPE, FORMAT = "xmr_core", 2  # in config.json
DUAL = "dual_encoder"  # a folder of transformers
_NAMES = (CARD, WEIGHTS, TENSORS, NEAREST, NETWORK, STATES, DUAL, CONFIG)  # the last says that all others are there
_AGAIN = "copy the folder, or Model.save_pretrained"


def require_own(folder: Path, names: Sequence[str], ours: bool, what: str) -> None:
    """Refuse to write over the files of someone else. names: what would be replaced, as of base.files.rebuilt. ours:
    whether this package made what lies there. Raises: BadInput naming the first file.
    """
    foreign = [name for name in names if os.path.lexists(folder / name)]
    if foreign and not ours and not files.unfinished(folder, names):
        raise BadInput(f"{folder} holds {foreign[0]}, of no {what} of this package. Choose another folder.")


def json_object(path: Path) -> dict:
    """The object in a JSON file as it lies there, {} where there is none."""
    with suppress(DamagedFile):
        if isinstance(value := files.read_json(path), dict):
            return value
    return {}


def described(path: Path) -> dict[str, int | str]:
    """Number of bytes and digest of a finished file."""
    return {"bytes": path.stat().st_size, "digest": fingerprint.file_hash(path)}


def read_manifest(path: Path, version: int, again: str) -> dict:
    """The contents of the list of files of a complete build, which base.files.write_record wrote last. again: how to
    build it anew, for messages.

    Raises: BadInput where there is none or one of another format; DamagedFile for one that was altered.
    """
    if not path.exists():
        raise BadInput(f"{path.parent} has no {path.name}, so nothing was finished there. Build it: {again}.")
    stored = json_object(path).get("format", version)
    if stored != version:
        raise BadInput(f"{path} has format {stored!r}, this version reads format {version}. Build it again: {again}.")
    return files.read_record(path)


def check_files(
    folder: Path, listed: Mapping[str, Mapping], again: str, verify: bool, needed: Iterable[str] = ()
) -> None:
    """Check that every file has its number of bytes (where that is known) and its digest; without verify the digests of
    files of more than 1 GiB are left out. needed: names that the list must have. Raises: DamagedFile naming the first
    file that is not as it was written, is read without being listed, or lies outside the folder.
    """
    check_places(folder, listed)
    networks = {n.rpartition("/")[0] for n in listed if n.rpartition("/")[0].endswith((NETWORK, STATES))}
    present = (file for place in networks for file in (folder / place).rglob("*") if file.suffix in SUFFIXES)
    for name in (*needed, *(file.relative_to(folder).as_posix() for file in present)):  # transformers reads them
        if name not in listed:
            raise DamagedFile(f"{printable(folder / name)} is not in the list of files. Build it again: {again}.")
    for name, written in listed.items():
        path = folder / name
        size = path.stat().st_size if path.is_file() else -1
        intact = 0 <= size == written.get("bytes", size)
        if intact and (verify or size <= fingerprint.LARGE):
            intact = fingerprint.file_hash(path) == written["digest"]
        if not intact:
            raise DamagedFile(f"{path} is missing, cut or altered. Copy it again, or build it again: {again}.")


def check_places(folder: Path, names: Iterable[str]) -> None:
    """Raise DamagedFile for a name in a list of files that leads out of the folder."""
    for name in names:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise DamagedFile(f"{folder} lists {printable(name)}, which lies outside. Do not use this folder.")


def write_model(model: Model, folder: Path | str) -> Path:
    """Write a model as a folder that `read_model` reads on any machine. Returns the folder.

    It holds model.safetensors (the method, with its options and words), images.safetensors (the network and reduction
    of images, where there are some), nearest_words.json (words that are read as others), image_model/ and text_model/
    (frozen models of transformers), README.md (the model card, which its owner may complete), and config.json, written
    last, with a digest of every other file. Nothing is pickled.
    Of a dual encoder it holds dual_encoder/, a copy of its folder, in place of the method and what images need.
    A model that lies in the folder is replaced, but not a card that its owner changed.
    Raises: BadInput for a folder with files of these names that are of no such model, for a model that was put together
        by hand, or pickled weights of a frozen network; CannotWrite.

    >>> import tempfile
    >>> from xmr_core.retrieval import example_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     len(read_model(write_model(example_model(), folder)).encode_texts("a red circle"))
    1
    """
    if not isinstance(model.method, ZeroShot) and not {"method", "form", "options"} <= model.about.keys():
        raise BadInput(f"{model.label} does not say in `about` of which method, form and options it was built.")
    folder = files.named(folder, "model's folder")
    ours = json_object(folder / CONFIG).get("model_type") == TYPE
    require_own(folder, _NAMES, ours, "model")
    with files.rebuilt(folder, _NAMES) as place:
        write_into(place, model, folder)
    return folder


def write_into(place: Path, model: Model, old: Path) -> list[str]:
    """Write the files of write_model into an empty folder; returns the names of those that config.json lists. old: a
    folder of the same kind, whose card is kept where its owner changed it."""
    about = dict(model.about)
    for name in ("image_model", "text_model", "dual_model"):  # the places of one's own disk concern nobody
        if about.get(name) and Path(about[name]).expanduser().is_dir():
            about[name] = Path(about[name]).name
    if isinstance(model.method, ZeroShot):
        copy_model(model.method.folder, place / DUAL)
        inputs = {"images": None, "texts": DUAL}
    else:
        words = model.raw.vocabulary or model.raw.pieces
        save_method(place / WEIGHTS, model.method, model.raw.inputs, words, about["form"], about["options"], about)
        inputs = write_inputs(model.raw, place)
    written = json_object(old / CONFIG)
    card, path = model_card(model.label, about), old / CARD
    left = path.read_text(encoding="utf-8", errors="replace") if path.is_file() and "card" in written else card
    if changed := left != card and content_hash(left) != written["card"]:
        warnings.warn(f"{path} was changed by its owner and is left so; see that it fits.", stacklevel=4)
    files.write_atomic(place / CARD, left if changed else card)
    made = sorted(file for file in place.rglob("*") if file.is_file() and file.suffix in SUFFIXES)
    listed = {file.relative_to(place).as_posix(): fingerprint.file_hash(file) for file in made}
    record = {"model_type": TYPE, "format": FORMAT, "library_version": __version__, "label": model.label}
    record |= {"inputs": inputs, "about": about, "files": listed, "card": content_hash(card)}
    files.write_record(place / CONFIG, record)
    return list(listed)


_CARD = """\
---
{head}
---

# {label}, trained on {data}

{summary}

## Use
```python
# pip install 'xmr-study>={version}'
import xmr_core as xmr

model = xmr.load("this folder, or its name on the hub")
model.similarity({given}, ["a dog on the beach"])  # scores[image, sentence]
```

## Training
{facts}

## Results
{numbers}

## Limits
It knows images like those of {data} and the words of their captions, with the biases of who wrote them.
Scores order items and are no probabilities; scores of two models cannot be compared.

## Licence
Not stated yet: its owner adds `license: …` to the head of this file.

## How to cite
Cite {citation} and this model by its name `owner/name@commit` with xmr-study {version}, which implemented it anew.
"""
_FACTS = ("method", "form", "options", "dataset", "size", "seed", "epochs", "features", "image_model", "text_model")
_FACTS += ("dual_model", "run", "commit", "device", "versions")


def model_card(label: str, about: Mapping) -> str:
    """A README.md with metadata that the hub reads. label: of the method. about: of load.model_of, with its method.

    Its owner adds the licence, and may change every word: `read_model` does not check this file.

    >>> card = model_card("DivE", {"method": "dive", "dataset": "scenes", "results": []})
    >>> card.splitlines()[1], "xmr.load" in card, "Kim, Kim & Kwak" in card
    ('library_name: "xmr_core"', True, True)
    """
    data, results = about.get("dataset") or "data of its owner", about.get("results", [])
    summary, citation = "A pretrained dual encoder of transformers, as it is.", "its authors"
    if "method" in about:
        summary, citation = (spec := method_spec(about["method"])).summary, spec.citation
    head = {"library_name": "xmr_core", "pipeline_tag": "feature-extraction", "tags": ["image-text-retrieval", label]}
    numbers = ["None were measured."]
    if results:
        metrics = [{"name": r["relevance"], "type": "rsum", "value": round(r["rsum"], 1)} for r in results]
        measured = {"dataset": {"name": data, "type": data, "split": "test"}, "metrics": metrics}
        measured["task"] = {"type": "image-text-retrieval"}
        head["model-index"] = [{"name": f"{label} on {data}", "results": [measured]}]
        numbers = [
            f"Test split of {results[0]['images']:,} images and {results[0]['captions']:,} captions of {data}.",
            "Percent of one run, with the interval of 95 % over resampled images; ties count against it.", "",
            "| relevance | RSUM | R@1, image to text | R@1, text to image |", "|---|---|---|---|",
            *map("| {relevance} | {rsum:.1f} [{low:.1f}, {high:.1f}] | {i2t:.1f} | {t2i:.1f} |".format_map, results),
        ]  # fmt: skip
    return _CARD.format(
        head="\n".join(f"{name}: {json.dumps(value)}" for name, value in head.items()),
        facts="\n".join(f"- {name}: {about[name]}" for name in _FACTS if about.get(name)),
        given="features of regions" if about.get("reads") == "regions" else '["photo.jpg"]',
        label=label, data=data, version=__version__, numbers="\n".join(numbers),
        summary=summary, citation=citation,
    )  # fmt: skip


@files.settled(_NAMES)
def read_model(folder: Path | str, verify: bool = True) -> Model:
    """The model in a folder of `write_model`.

    verify: compare the digest of every file. Raises: BadInput for a folder without such a model, or one of another
    format; DamagedFile for a file that is missing, altered, or does not fit.
    """
    folder = Path(folder).expanduser()
    try:
        config = read_config(folder)
        if verify:
            check_files(folder, {name: {"digest": d} for name, d in config["files"].items()}, _AGAIN, verify=True)
        if config["inputs"]["texts"] == DUAL:
            return replace(dual_model(folder / DUAL), label=str(config["label"]), about=config["about"])
        method, words, about, sizes, _ = load_with_inputs(folder / WEIGHTS)
        raw = read_inputs(folder, config["inputs"], sizes, words)
        if config["inputs"]["texts"] == "states":
            about["text_model"] = str(folder / STATES)  # where it now lies, so that it can be written again
        return Model(str(config["label"]), method, raw, about)
    except XmrError:
        raise
    except Exception as e:  # what a hostile description can raise is not limited
        reason = printable(f"{type(e).__name__}: {e}"[:200])
        raise DamagedFile(f"{folder / CONFIG} is not whole ({reason}). Copy the folder again.") from None


def read_config(folder: Path) -> dict:
    """config.json of a folder of `write_model`.

    Raises: BadInput for another folder or format; DamagedFile for a list that is not whole or leads out of the folder.
    """
    path = files.existing_file(folder / CONFIG, "model")
    if json_object(path).get("model_type", TYPE) != TYPE:
        raise BadInput(f"{folder} holds no model of this package: its {CONFIG} has another model_type.")
    config = read_manifest(path, FORMAT, _AGAIN)
    config["files"].pop(CARD, None)  # its owner may change it
    check_places(folder, config["files"])
    return config


def push_folder(
    folder: Path | str, repo_id: str, token: str | None = None, private: bool = False, revision: str | None = None
) -> str:
    """Upload a folder of `write_model` as one commit: config.json, the files that it lists, and README.md.

    repo_id: 'owner/name', made where it does not exist. token: of the owner, None for the one that `hf auth login` or
    HF_TOKEN left. private: a new one is seen by its owner only. revision: a branch, made where it does not exist; None
    for the main one. Files that a reader of the model does not need (drawings, notes, a licence) are neither uploaded
    nor removed there.
    Returns the name of this very state, 'owner/name@commit', which `xmr.load` takes.
    Raises: BadInput for a folder that is no model, a hub that refuses or cannot be reached, or private=True for a
        repository that exists and is public; DamagedFile for a folder whose files are not those of its config.json.

    >>> push_folder("no-such-folder", "someone/model")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: model not found: no-such-folder/config.json does not exist. Give the right path.
    """
    folder = Path(folder).expanduser()
    read_model(folder)
    names = [CONFIG, CARD, *read_config(folder)["files"]]
    api = _library().HfApi(token=token)
    with _reached(f"{repo_id!r} was not uploaded", "Log in with `hf auth login`, or give token=…"):
        api.create_repo(repo_id, private=private or None, exist_ok=True)
        if private and not api.model_info(repo_id).private:
            raise BadInput(f"{repo_id} exists on the hub and is public. Make it private there, or give another name.")
        if revision:
            api.create_branch(repo_id, branch=revision, exist_ok=True)
        upload = {"folder_path": folder, "allow_patterns": names, "commit_message": "Model of xmr_core"}
        commit = api.upload_folder(repo_id=repo_id, revision=revision, **upload)
    return f"{repo_id}@{commit.oid}"


def hub_folder(name: str) -> Path:
    """The cached copy of a model on the hub, of this package or of transformers; what is not cached is downloaded.

    name: 'owner/name', with '@revision' if needed. A cached copy is used as it is, without asking for a newer one.
    Raises: BadInput as find_pretrained does.

    >>> hub_folder("a/name/with/too/many/parts")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: a/name/with/too/many/parts does not exist. Give the folder that holds config.json ...
    """
    hub, (repository, _, revision) = _library(), name.partition("@")
    wanted = {"repo_id": repository, "revision": revision or None}
    with suppress(Exception):  # not cached, not completely, or no model of this package
        folder = Path(hub.snapshot_download(**wanted, allow_patterns=[CONFIG], local_files_only=True))
        if all((folder / file).is_file() for file in read_config(folder)["files"]):
            return folder
    try:
        folder = Path(hub.hf_hub_download(**wanted, filename=CONFIG)).parent
        needed = [CONFIG, CARD, *read_config(folder)["files"]]
    except Exception:  # of transformers, or not there
        return find_pretrained(name).path
    with _reached(f"model {name!r} was not downloaded", "Try again, or copy its folder here."), quiet(online=True):
        # folder.name is the commit of this config.json, should another one come meanwhile
        return Path(hub.snapshot_download(repository, revision=folder.name, allow_patterns=needed))


def _library() -> ModuleType:
    require("the hub", "hub", "huggingface_hub")
    return import_module("huggingface_hub")


@contextmanager
def _reached(fault: str, remedy: str) -> Iterator[None]:
    """One line for whatever the hub's library raises."""
    try:
        yield
    except XmrError:
        raise
    except Exception as e:
        reason = f"{type(e).__name__}: {shorten(str(e), 160, placeholder=' …')}"
        raise BadInput(f"{fault}: the hub cannot be reached or refuses ({reason}). {remedy}") from None
