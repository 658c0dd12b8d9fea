"""Names for content and for code: equal values, bytes and files have equal names, on every machine."""

import hashlib
import inspect
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path

import numpy as np

from xmr_core.base import paths
from xmr_core.base.errors import DamagedFile

_TICK = 0.02  # seconds; two changes of a file within so short a time may have one time of change
LARGE = 1 << 30  # bytes; a larger file is named by samples of it
_SAMPLES, _PIECE = 4096, 1 << 14


def content_hash(value: object) -> str:
    """16 hex digits that name a JSON-able value.

    >>> content_hash({"a": 1, "b": [2]}) == content_hash({"b": [2], "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def bytes_hash(content: bytes) -> str:
    """16 hex digits that name bytes; those that file_hash gives for a file of them."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def file_hash(path: Path | str) -> str:
    """16 hex digits that name all bytes of a file (BLAKE2b)."""
    digest = hashlib.blake2b(digest_size=8)
    with paths.open_regular(path) as f:
        while piece := f.read(1 << 22):
            digest.update(piece)
    return digest.hexdigest()


def file_content(path: Path | str | bytes) -> str:
    """16 hex digits that name a file's bytes, which may be in memory, in a time that stays short for large files.

    Up to 1 GiB this is file_hash. A larger file is named by its length, its first and last 16 KiB, and 4,096 pieces of
    16 KiB spread evenly (64 MiB in all), because 33 GB of features cannot be read before every run.
    """
    if isinstance(path, bytes):
        return bytes_hash(path)
    path = Path(path)
    size = path.stat().st_size
    if size <= LARGE:
        return file_hash(path)
    digest = hashlib.blake2b(str(size).encode(), digest_size=8)
    with paths.open_regular(path) as f:
        for n in range(_SAMPLES):
            f.seek((size - _PIECE) * n // (_SAMPLES - 1))
            digest.update(f.read(_PIECE))
    return digest.hexdigest()


def stamp(path: Path | str) -> tuple:
    """What differs as soon as a file may hold other bytes: path, device, inode, size, times of modification and of
    change. A copy that keeps the time of modification (`rsync -t`, archives) has another time of change.

    It says that a file is as it was; what a file holds is named by its bytes. Raises: OSError.
    """
    s = os.stat(path)
    if 0 <= time.time() - s.st_ctime < _TICK:  # a change from now on must not look like the last one
        time.sleep(_TICK)
    return str(path), s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns


def stamps(places: Iterable[Path | str]) -> str:
    """16 hex digits that name the stamps of files, and of all files below folders but those that this package writes;
    what does not exist counts as such. Links are followed."""
    entries = [os.path.expanduser(place) for place in places]
    visited = {str(paths.root() / kind) for kind in ("runs", "cache", "outputs")}
    for place in filter(os.path.isdir, list(entries)):
        for folder, folders, names in os.walk(place, followlinks=True):
            if (real := os.path.realpath(folder)) in visited:
                folders.clear()  # also of a link back
                continue
            visited.add(real)
            entries += [os.path.join(folder, name) for name in names]
    return content_hash(sorted(stamp(path) if os.path.exists(path) else (path,) for path in entries))


def files_content(files: Sequence[Path | str]) -> str:
    """16 hex digits that name the bytes of many files, in order.

    The result is kept in `cache/` under the stamps of the files, so that a folder of 100,000 images is read once and
    not at every start. Raises: DamagedFile naming a file that cannot be read.
    """
    from xmr_core.base import files as storage  # which needs content_hash from here

    try:
        note = paths.folder("cache") / f"content-{content_hash([*map(stamp, files)])}.sealed.json"
        if note.exists():
            try:
                return storage.read_record(note)["content"]
            except (DamagedFile, KeyError, TypeError):
                pass  # the note is damaged and is made again below
        with ThreadPoolExecutor(8) as pool:
            content = content_hash(list(pool.map(file_content, files)))
    except OSError as e:
        raise DamagedFile(f"{e.filename} cannot be read ({e.strerror}). Replace the file or take it out.") from None
    storage.write_record(note, {"content": content, "files": len(files)})
    return content


# Hashes of code: of this package, which is recorded with a run, and of a user's own parts, which name it too.


PACKAGE = Path(__file__).parent.parent
_IMPORTS = re.compile(r"^\s*(?:from|import)\s+\.*([\w.]+)", re.MULTILINE)


@cache
def package_hash() -> str:
    """12 hex digits that name the text of every file of this package: whether two results were made by the same code.
    It is recorded with a run and is no part of its identity."""
    return _digest(p.read_bytes() for p in sorted(PACKAGE.rglob("*.py")))


def is_own_code(thing: type | Callable) -> bool:
    """Whether a class, function or callable object is defined outside this package.

    >>> is_own_code(is_own_code), is_own_code(print)
    (False, True)
    """
    return is_own_module(getattr(_defined(thing), "__module__", ""))


def is_own_module(name: str) -> bool:
    """Whether a module of this name lies outside this package.

    >>> is_own_module("numpy"), is_own_module("xmr_core.base")
    (True, False)
    """
    return name.partition(".")[0] != "xmr_core"


def own_code_version(thing: type | Callable) -> str:
    """10 hex digits for a user's own class or function: its file, and the files beside it that this one imports.

    What was typed into a notebook counts with its text, and with the text or value of everything of that notebook that
    it names. A partial function counts with its arguments.

    >>> class Doubled:
    ...     def __call__(self, x):
    ...         return 2 * x
    >>> len(own_code_version(Doubled))
    10
    """
    arguments = []
    while isinstance(thing, partial):
        arguments.append(_value_text((thing.args, thing.keywords)))
        thing = thing.func
    thing = _defined(thing)
    return _digest([*(_own_files(f) if (f := _source_file(thing)) else _typed(thing)), *arguments])[:10]


def own_module_version(name: str) -> str:
    """10 hex digits for an imported module, as own_code_version; '' for a module without a file."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return _digest(_own_files(Path(file)))[:10] if file and Path(file).is_file() else ""


def _digest(parts: Iterable[str | bytes]) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        digest.update(b"%d:" % len(content) + content)
    return digest.hexdigest()


def _own_files(source: Path) -> list[bytes]:
    """The bytes of a file and of those beside it, or in the packages around it, that it imports, import by import."""
    roots = [source.parent]
    while (roots[-1] / "__init__.py").exists():
        roots.append(roots[-1].parent)
    files, waiting = {}, [source]
    while waiting:
        if (file := waiting.pop()) not in files:
            files[file] = file.read_bytes()
            names = _IMPORTS.findall(files[file].decode("utf-8", "replace"))
            paths = [root.joinpath(*name.split(".")) for root in roots for name in names if is_own_module(name)]
            waiting += [f for path in paths for f in (path.with_suffix(".py"), path / "__init__.py") if f.is_file()]
    return [files[file] for file in sorted(files)]


def _typed(thing: type | Callable) -> list[str]:
    """The text of what was typed into a notebook, and of everything there that it names; a value as its text."""
    scope, texts, waiting = vars(sys.modules.get(thing.__module__, sys)), {}, [thing]
    while waiting:
        name = getattr(current := waiting.pop(), "__qualname__", repr(current))
        if name in texts:
            continue
        try:
            if getattr(getattr(current, "__code__", None), "co_filename", "") == "<string>":
                raise OSError  # of exec: Python 3.13 would take the text of `python -c` for it
            texts[name] = inspect.getsource(current)
        except (OSError, TypeError):  # Python keeps no source: the compiled code instead
            texts[name] = _compiled(getattr(current, "__code__", None) or name)
        for used in scope.keys() & set(re.findall(r"\w+", texts[name])):
            value = scope[used]
            if not inspect.isclass(value) and not inspect.isroutine(value):
                if not inspect.ismodule(value):
                    texts[used] = _value_text(value)
            elif getattr(value, "__module__", None) == thing.__module__:
                waiting.append(value)
    return [f"{name} {texts[name]}" for name in sorted(texts)]


def _value_text(value: object) -> str:
    """Plain values, arrays and collections of such as text that differs where they do; other objects by their class."""
    if isinstance(value, (bool, int, float, complex, str, bytes, type(None))):
        return repr(value)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k!r}: {_value_text(v)}' for k, v in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(_value_text, value))})"
    if isinstance(value, (set, frozenset)):
        return f"set({', '.join(sorted(map(_value_text, value)))})"
    if hasattr(value, "__array__") and hasattr(value, "dtype"):
        array = np.ascontiguousarray(np.asarray(value))
        return f"{array.dtype} {array.shape} {_digest([array.tobytes()])}"
    kind = _defined(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def _compiled(code: object) -> str:
    """What Python runs: instructions, constants and names."""
    if not inspect.iscode(code):
        return repr(code)
    return repr((code.co_code, [*map(_compiled, code.co_consts)], code.co_names))


def _defined(thing: type | Callable) -> type | Callable:
    """The class or function behind a partial function, a decorated function or an object that can be called."""
    thing = inspect.unwrap(getattr(thing, "func", thing))
    return thing if inspect.isclass(thing) or inspect.isroutine(thing) else type(thing)


def _source_file(thing: type | Callable) -> Path | None:
    """The file that defines a class or a function; None in a notebook."""
    try:
        name = inspect.getsourcefile(thing)
    except TypeError:  # of __main__ in a notebook
        return None
    return Path(name) if name and Path(name).is_file() else None
