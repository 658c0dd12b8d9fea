"""Doors through which files, names and processes of others reach further than they should: links where something is
written, addresses and paths in files, numbers that are obeyed, texts on the terminal, forks, builds that end early."""

import contextlib
import io
import json
import os
import random
import shutil
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import torch
from safetensors.numpy import save as save_arrays

from tests import tiny_models
from xmr_core.base import files
from xmr_core.base.errors import XmrError
from xmr_core.features.pretrained import PretrainedGrid, PretrainedStates
from xmr_core.methods.checkpoint import _KEY, _digest, load_method
from xmr_core.models.model_folder import described, read_model, write_model
from xmr_core.retrieval.engine import build_elements, open_elements, open_engine
from xmr_core.retrieval.index import open_index, save_index
from xmr_core.retrieval.judgments import Judgments
from xmr_core.retrieval.library import example_library, example_model
from xmr_core.retrieval.ranking import search
from xmr_study import tidy
from xmr_study.cli import main
from xmr_study.notebook import copy_notebooks

from .others import PARAMETERS, folder_of
from .outcomes import Case

PRECIOUS = "set -u\n"
Act = Callable[[Path], object]


def door_cases(place: Path, count: int, seed: int = 0) -> list[Case]:
    """All classes; `count` cases of those that are drawn."""
    base = prepared(place)
    rng = random.Random(f"doors {seed}")
    drawn = [*bound_cases(base, place, count, rng), *terminal_cases(place, count // 4, rng)]
    return [*link_cases(place), *drawn, *address_cases(base, place), *time_cases(place, count // 8, rng)]


def prepared(place: Path) -> dict[str, Path]:
    """What others give: an index, a model's folder, an export, and models of transformers."""
    made = {"index": save_index(example_library("dive"), place / "index")}
    library = open_index(made["index"])
    build_elements(library.images, made["index"], library.digest("images"))
    made["model"] = write_model(example_model("dive"), place / "model")
    for name in ("vit", "bert", "swin"):
        made[name] = tiny_models.save(name, place / name)
    return made


# Links, pipes and folders where something is written, also as a parent folder.


def _table(path: Path) -> None:
    tidy.write(pd.DataFrame({name: ["1"] for name in tidy.COLUMNS}), path)


def _elements(folder: Path) -> None:
    build_elements(example_library().images, folder, "0")


WRITERS: dict[str, tuple[Act, tuple[str, ...]]] = {  # what writes into a folder, and names that it writes there
    "a file": (lambda f: files.write_atomic(f / "x", "new"), ("x",)),
    "a record": (lambda f: files.write_record(f / "x", {"a": 1}), ("x",)),
    "a lock": (lambda f: files.locked(f / "lock").__enter__(), ("lock",)),
    "judgments": (lambda f: Judgments.read(f / "j").mark(("text", "a"), ("images", "b"), "right"), ("j", "j.lock")),
    "an index": (
        lambda f: save_index(example_library(), f),
        ("images.safetensors", "model", "index.json", ".index.json.ready", files.LOCK),
    ),
    "a model": (
        lambda f: write_model(example_model(), f),
        ("model.safetensors", "README.md", "config.json", "text_model", ".config.json.ready", files.LOCK),
    ),
    "elements": (_elements, ("elements.faiss", "elements.json", ".elements.json.ready", files.LOCK)),
    "results": (lambda f: _table(f / "r.csv"), ("r.csv",)),
    "notebooks": (copy_notebooks, ("train.ipynb",)),
}
TRAPS: dict[str, Callable[[Path, Path], object]] = {
    "link": lambda at, outside: at.symlink_to(outside / "precious"),
    "link to a folder": lambda at, outside: at.symlink_to(outside),
    "link to nothing": lambda at, outside: at.symlink_to(outside / "new"),
    "second name": lambda at, outside: at.hardlink_to(outside / "precious"),
    "pipe": lambda at, outside: os.mkfifo(at),
    "folder": lambda at, outside: at.mkdir(),
}


def link_cases(place: Path) -> list[Case]:
    def act(writer: str, name: str, trap: str) -> str:
        folder = place / f"links {writer} {name} {trap}"
        outside = folder / "outside"
        outside.mkdir(parents=True), (folder / "of others").mkdir()
        (outside / "precious").write_text(PRECIOUS)
        TRAPS[trap](folder / "of others" / name, outside)
        fault = None
        try:
            WRITERS[writer][0](folder / "of others")
        except XmrError as e:
            fault = e
        if os.listdir(outside) != ["precious"] or (outside / "precious").read_text() != PRECIOUS:
            return "SILENT: written outside"
        if fault is not None:
            raise fault
        return "tolerated"

    named = [(writer, name) for writer, (_, names) in WRITERS.items() for name in names]
    return [Case("links", f"{w}: {n}, {t}", partial(act, w, n, t)) for w, n in named for t in TRAPS]


# Numbers and values of files that are obeyed before they are looked at.


VALUES = (
    -1, 0, 1e308, -1e308, float("inf"), float("nan"), 10**6, 10**9, 10**18, 10**400, [], {}, "x", True, None, [0] * 9,
    "../../etc", "/etc/passwd", "http://elsewhere.example", "a\x1b[2J", {"a": {"b": [10**9]}},
)  # fmt: skip


def _changed(value, rng: random.Random, told: list[str]) -> object:
    """A copy of JSON in which one value, at any depth, is another."""
    if isinstance(value, dict | list) and value and rng.random() < 0.95:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = rng.choice(keys)
        told.append(str(key))
        out = dict(value) if isinstance(value, dict) else list(value)
        out[key] = _changed(value[key], rng, told)
        return out
    new = rng.choice(VALUES)
    told.append(f"{new!r:.20}")
    return new


def _of_index(folder: Path, rng: random.Random, told: list[str]) -> None:
    """Its own list, its items or its arrays, with digests that fit."""
    about, kind = files.read_record(folder / "index.json"), rng.choice(("index.json", "items.json", "relevance"))
    told.append(kind)
    if kind == "items.json":
        files.write_json(folder / kind, _changed(files.read_json(folder / kind), rng, told))
    elif kind == "relevance":
        odd = ([[0, 1]], 0, [0.5, 1], [9, 4, 0], [-1, 2**62], [])
        arrays = {f"annotated/{name}": np.array(rng.choice(odd)) for name in ("indptr", "indices")}
        (folder / "relevance.safetensors").write_bytes(save_arrays(arrays))
    else:
        about = _changed(about, rng, told)
    with contextlib.suppress(KeyError, TypeError, OSError):
        about["files"] |= {name: described(folder / name) for name in ("items.json", "relevance.safetensors")}
    files.write_record(folder / "index.json", about if isinstance(about, dict) else {"a": about})


def _of_json(name: str, folder: Path, rng: random.Random, told: list[str]) -> None:
    path = folder / name
    before = files.read_json(path) if path.exists() else {"size": {"shortest_edge": 32}, "crop_pct": 0.9}
    path.write_text(json.dumps(_changed(before, rng, told)))


def _of_record(folder: Path, rng: random.Random, told: list[str]) -> None:
    changed = _changed(files.read_record(folder / "config.json"), rng, told)
    files.write_record(folder / "config.json", changed if isinstance(changed, dict) else {"a": changed})


def _of_export(folder: Path, rng: random.Random, told: list[str]) -> None:
    """The description of a method, with a digest that fits."""
    from safetensors import safe_open

    path = folder / "model.safetensors"
    with safe_open(path, "pt") as f:
        description, tensors = json.loads(f.metadata()[_KEY]), {name: f.get_tensor(name) for name in f.keys()}  # noqa: SIM118
    del description["digest"]
    changed = _changed(description, rng, told)
    if isinstance(changed, dict):
        changed["digest"] = _digest(changed, tensors)
    files.write_tensors(path, tensors, {_KEY: json.dumps(changed)})


def _searched(folder: Path) -> object:
    return search(open_index(folder, verify=True), "a red circle", k=2)


BOUNDS: dict[str, tuple[str, Callable, Act]] = {  # name → what is given, how it is changed, who reads it
    "index": ("index", _of_index, _searched),
    "model folder": ("model", _of_record, lambda f: read_model(f).encode_texts(["a red circle"])),
    "export": ("model", _of_export, lambda f: load_method(f / "model.safetensors")),
    "images": ("vit", partial(_of_json, "config.json"), PretrainedGrid),
    "images in stages": ("swin", partial(_of_json, "config.json"), PretrainedGrid),
    "preprocessor": ("vit", partial(_of_json, "preprocessor_config.json"), PretrainedGrid),
    "text": ("bert", partial(_of_json, "config.json"), lambda f: PretrainedStates(f)(["a dog"])),
    "tokenizer": ("bert", partial(_of_json, "tokenizer_config.json"), lambda f: PretrainedStates(f)(["a dog"])),
}


def bound_cases(base: dict[str, Path], place: Path, count: int, rng: random.Random) -> list[Case]:
    cases = []
    for n in range(count):
        kind = list(BOUNDS)[n % len(BOUNDS)]
        given, change, read = BOUNDS[kind]
        folder, told = place / f"bounds {n}", []
        shutil.copytree(base[given], folder)
        change(folder, rng, told)

        def act(folder=folder, read=read) -> str:
            read(folder)
            return "tolerated"

        cases.append(Case("bounds", f"{kind}, {' '.join(told)}", act))
    return cases


# Texts of others on the terminal.


SEQUENCES = ("\x1b[2J", "\x1b]0;t\x07", "\x1b]8;;http://x\x1b\\", "\x9b31m", "\u202e", "\x07", "\x08", "\r", "\x1b")


def terminal_cases(place: Path, count: int, rng: random.Random) -> list[Case]:
    def notebook(folder: Path, name: str) -> list[str]:
        cell = PARAMETERS["cells"][0] | {"source": f"alpha: float = 1.0  # {name}"}
        (folder / "n.ipynb").write_text(json.dumps(PARAMETERS | {"cells": [cell]}))
        return ["run", str(folder / "n.ipynb"), "--help-notebook"]

    def found(folder: Path, name: str) -> list[str]:
        library = example_library()
        library.image_ids[:] = [f"{name}{n}" for n in range(len(library.image_ids))]
        return ["search", str(save_index(library, folder / "i")), f"a {name} circle"]

    commands = {
        "parameters": notebook,
        "answers": found,
        "images": lambda f, name: ["check", "folder", str(folder_of(f, f"{name}.jpg", f"{name}.png"))],
        "a missing notebook": lambda f, name: ["run", str(f / f"{name}.ipynb")],
        "a value": lambda f, name: [*notebook(f, "a")[:2], "-p", "alpha", name],
        "yaml": lambda f, name: [*notebook(f, "a")[:2], "-y", json.dumps({f"x{name}": 1})],
        "an index": lambda f, name: ["search", str(f / name), "a"],
        "a run": lambda f, name: ["index", f"a{name}", str(f / "i")],
    }

    def act(kind: str, folder: Path, name: str) -> str:
        folder.mkdir(parents=True)
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
            main(commands[kind](folder, name))
        odd = {c for c in out.getvalue() if not c.isprintable() and c not in "\n\t"}
        return f"SILENT: {odd!r} on the terminal" if odd else "tolerated" if out.getvalue() else "SILENT: nothing said"

    cases = []
    for n in range(max(count, len(commands))):
        kind, name = list(commands)[n % len(commands)], "a" + "".join(rng.choices(SEQUENCES, k=3)) + "b"
        cases.append(Case("terminals", f"{kind}: {name!r}", partial(act, kind, place / f"terminals {n}", name)))
    return cases


# Addresses and paths in files of others.


def address_cases(base: dict[str, Path], place: Path) -> list[Case]:
    def engine(folder: Path) -> None:
        library = open_index(folder)
        about = {"format": 1, "gallery": library.digest("images"), "items": 3, "elements": 12, "slots": 4}
        files.write_record(folder / "engine.json", about | {"graph": False, "server": "http://127.0.0.1:9"})
        open_engine(folder, library.images, library.digest("images"))

    def weights(folder: Path) -> None:
        shutil.move(folder / "model.safetensors", folder.parent / f"{folder.name}.safetensors")
        named = {"weight_map": {"a": f"../{folder.name}.safetensors"}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(named))
        PretrainedStates(folder)

    def adapter(folder: Path) -> None:
        (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "someone/else"}')
        PretrainedStates(folder)

    def listed(folder: Path) -> None:
        about = files.read_record(folder / "index.json")
        about["files"]["../../precious"] = about["files"]["items.json"]
        files.write_record(folder / "index.json", about)
        open_index(folder)

    asked = {"engine": ("index", engine), "weights": ("bert", weights), "adapter": ("bert", adapter)}
    asked["list"] = "index", listed

    def act(kind: str) -> str:
        given, use = asked[kind]
        folder = shutil.copytree(base[given], place / f"addresses {kind}")
        with mock.patch("socket.socket.connect", side_effect=AssertionError("it was reached")):
            use(folder)
        return "SILENT: it was read"

    return [Case("doors", kind, partial(act, kind)) for kind in asked]


# Other processes and threads, and builds that end early.


def time_cases(place: Path, count: int, rng: random.Random) -> list[Case]:
    def ends_early(stop: int) -> str:
        """Whatever move is the last one, what is opened is the old index or the new one."""
        folder = save_index(example_library("vse++"), place / f"time {stop}")
        calls, real = iter(range(stop)), os.replace

        def replace(old, new):
            if next(calls, None) is None:
                raise KeyboardInterrupt
            real(old, new)

        with mock.patch("os.replace", replace), contextlib.suppress(KeyboardInterrupt):
            save_index(example_library("dive"), folder)
        library = open_index(folder, verify=True)
        whole = {"vse++": 2, "dive": 3}[library.label] == library.images.x.ndim
        return "tolerated" if whole and len(search(library, "a red circle", k=1)) else "SILENT: a mixture"

    def forked(threads: int) -> str:
        torch.set_num_threads(threads)
        torch.randn(1500, 1500).exp().sum()
        if not (child := os.fork()):
            torch.randn(1500, 1500).exp().sum()
            search(example_library(), "a red circle", k=1)
            os._exit(0)
        torch.set_num_threads(1)  # another number gives other last bits in the cases behind this one
        return "tolerated" if os.waitpid(child, 0)[1] == 0 else "SILENT: the child failed"

    def together(n: int) -> str:
        """Searches of several threads, by lists and one by one, while the index is built again."""
        folder = save_index(example_library("dive"), place / f"together {n}")
        library, answers = open_index(folder), set()
        build_elements(library.images, folder, library.digest("images"))

        def ask() -> None:
            opened = open_index(folder)
            elements = open_elements(folder, opened.images, opened.digest("images"))
            for one in (None, elements):
                answers.add(tuple(search(opened, "a red circle", k=3, elements=one)["item"]))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        [thread.start() for thread in threads]
        save_index(example_library("dive"), folder)
        [thread.join() for thread in threads]
        return "tolerated" if len(answers) == 1 else f"SILENT: {len(answers)} answers"

    stops = rng.sample(range(30), min(30, max(4, count)))
    cases = [Case("time", f"a build ends after {n} moves", partial(ends_early, n)) for n in stops]
    cases += [Case("threads", f"a fork after {n} threads", partial(forked, n)) for n in (1, 2)]
    return cases + [Case("threads", f"searches together, {n}", partial(together, n)) for n in range(max(2, count // 8))]
