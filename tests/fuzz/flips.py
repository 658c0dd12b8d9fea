"""Single bits of what the package wrote: each must be noticed, made again, or have no effect."""

import contextlib
import os
import random
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import torch

from .kills import PASSING, Blocks, config, environment, prepare
from .mutate import flipped
from .outcomes import Case


@dataclass(frozen=True)
class Written:
    """A file that was written. use: what it is for; its value says whether an effect is left."""

    path: Path
    use: Callable[[], object]
    raw: bytes = b""  # its content, where a use removes it


def prepared(base: Path) -> dict[str, Written]:
    """One file of each kind that is written, by name. base: an empty folder."""
    from xmr_core.models.model_folder import read_model, write_model
    from xmr_core.retrieval.engine import build_elements, open_elements
    from xmr_core.retrieval.index import index_folder, open_index
    from xmr_core.retrieval.library import example_model
    from xmr_core.retrieval.ranking import search
    from xmr_core.training.runs import train_or_load

    home = base / "home"
    environment(home)
    prepare(base)
    run = train_or_load(config(epochs=2))
    model = example_model("dive")
    index = index_folder(model, base / "photographs", base / "index")
    opened = open_index(index)
    build_elements(opened.images, index, opened.digest("images"))
    folder, export = write_model(model, base / "model"), run.export(base / "export.safetensors")

    def of_run() -> object:
        from xmr_core.training.runs.folder import read_run

        made = read_run(run.folder)
        tables = [table.to_csv() for table in (made.metrics, made.per_query, made.history)]
        return tables, repr(made.config), _sum(made.weights()), repr(made.provenance)

    def of_state() -> object:
        from xmr_core.training.loop import load_state

        owner = torch.load(_payload(run.folder / "state.sealed"), weights_only=True)["owner"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = load_state(run.folder / "state.sealed", owner)
        if loaded is None:
            raise AssertionError("the state before it is gone")
        return "rebuilt" if bad(run.folder / "state.sealed") else "state"

    def bad(path: Path) -> bool:
        from xmr_core.base.errors import DamagedFile
        from xmr_core.base.files import read_sealed

        try:
            return not read_sealed(path)
        except DamagedFile:
            return True

    def answers() -> object:
        library = open_index(index)
        elements = open_elements(index, library.images, library.digest("images"))
        return [search(library, "a red circle", k=9, elements=e).to_csv() for e in (None, elements)]

    def encoded() -> object:
        return read_model(folder).encode_texts(["a red circle"]).x.tolist()

    def exported() -> object:
        from xmr_core.methods.checkpoint import load_method

        method, words, about = load_method(export)
        return _sum(method.state_dict()), words.words, str(about)

    def features() -> object:
        import xmr_core.features.cache as module
        from xmr_core.data.readers.folder import load_folder
        from xmr_core.features.cache import cached_features

        module._verified.clear()
        return np.asarray(cached_features(load_folder(base / "photographs"), Fast(), progress=iter)).tobytes()

    def scenes() -> object:
        from xmr_core.data.scenes import load_scenes

        corpus = load_scenes("tiny")
        return corpus.fingerprint, corpus.captions.to_csv(), corpus.read_pixels(np.arange(5)).tobytes()

    features(), scenes()
    unfinished = partly(base)
    cache = home / "cache"
    files = {}
    for kind, place, use in (("run", run.folder, of_run), ("index", index, answers), ("model folder", folder, encoded)):
        paths = [
            path
            for path in sorted(place.rglob("*"))
            if path.is_file() and path.name not in (*PASSING, ".xmr-lock", "README.md")
        ]
        files |= {f"{kind}, {path.relative_to(place)}": Written(path, use) for path in paths}
    files["run, state.sealed"] = Written(run.folder / "state.sealed", of_state)
    files["export"] = Written(export, exported)
    note = next(path for path in cache.glob("features-folder-*.json") if "fast-blocks" in path.read_text())
    files |= {f"features, {suffix}": Written(note.with_suffix(suffix), features) for suffix in (".npy", ".json")}
    files["scenes, .npz"] = Written(next(cache.glob("scenes-tiny-*.npz")), scenes)
    files["contents of images, .json"] = Written(next(cache.glob("content-*.json")), features)
    return files | unfinished


class Fast(Blocks):
    """The same numbers without the waiting."""

    identity = "fast-blocks"

    def __call__(self, pixels):
        return pixels.reshape(len(pixels), 4, 16, 4, 16, 3).mean((2, 4), dtype=np.float32).reshape(-1, 16, 3)


def partly(base: Path) -> dict[str, Written]:
    """Features whose making was interrupted: the part and the note."""
    import xmr_core.features.cache as module
    from xmr_core.base.paths import folder

    def work(stop: int):
        def rows(start: int):
            for n in range(start, 12):
                if n == stop:
                    raise KeyboardInterrupt
                yield np.full((1, 5), n + 0.5, np.float32)

        return rows

    def make(stop: int) -> np.ndarray:
        return module.cached_array("partly", [1], (12, 5), np.float32, work(stop))

    with contextlib.suppress(KeyboardInterrupt), mock.patch.object(module, "_EVERY", 1):
        make(8)
    cache = folder("cache")
    stems = {suffix: next(cache.glob(f"partly-*{suffix}")) for suffix in (".part", ".note")}

    kept = {path: path.read_bytes() for path in stems.values()}

    def use() -> object:
        for path, raw in kept.items():  # the one that was not flipped is gone after a first use
            if not path.exists():
                path.write_bytes(raw)
        made = np.asarray(make(99)).tobytes()
        for path in cache.glob("partly-*.npy"):
            path.unlink()
        return made

    return {f"unfinished features, {suffix}": Written(path, use, kept[path]) for suffix, path in stems.items()}


def flip_cases(base: Path, count: int, seed: int = 0) -> list[Case]:
    """`count` flips of a bit in every kind of file."""
    rng, cases = random.Random(seed), []
    for name, file in prepared(base).items():
        raw, expected = file.raw or file.path.read_bytes(), file.use()
        for n in range(count):

            def act(file=file, raw=raw, changed=flipped(raw, rng), expected=expected) -> str:
                if not file.path.exists():
                    file.path.write_bytes(raw)
                status = file.path.stat()
                before = status.st_atime_ns, status.st_mtime_ns
                file.path.write_bytes(changed)
                os.utime(file.path, ns=before)  # as a disk that loses a bit leaves it
                try:
                    value = file.use()
                    if value == "rebuilt":
                        return "rebuilt"
                    same = value == expected
                    again = file.path.exists() and file.path.read_bytes() == raw
                    return "SILENT: other results" if not same else "rebuilt" if again else "without effect"
                finally:
                    shutil.rmtree(file.path) if file.path.is_dir() else file.path.write_bytes(raw)
                    os.utime(file.path, ns=before)

            cases.append(Case(f"flips: {name}", f"flip {n}", act))
    return cases


def _sum(tensors: dict) -> list:
    return [(name, t.double().sum().item(), t.flatten()[:3].tolist()) for name, t in sorted(tensors.items())]


def _payload(path: Path):
    import io

    from xmr_core.base.files import read_sealed

    for candidate in (path, path.with_name(path.name + ".previous")):
        with contextlib.suppress(OSError):
            return io.BytesIO(read_sealed(candidate))
    raise AssertionError
