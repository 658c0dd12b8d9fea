"""Names for content: equal values and equal bytes have equal names, on every machine and wherever they lie."""

import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from xmr_core.base.errors import DamagedFile
from xmr_core.base.regular import open_regular

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
    with open_regular(path) as f:
        while piece := f.read(1 << 22):
            digest.update(piece)
    return digest.hexdigest()


def file_content(path: Path | str) -> str:
    """16 hex digits that name a file's bytes, in a time that stays short for large files.

    Up to 1 GiB this is file_hash. A larger file is named by its length, its first and last 16 KiB, and 4,096 pieces of
    16 KiB spread evenly (64 MiB in all), because 33 GB of features cannot be read before every run.
    """
    path = Path(path)
    size = path.stat().st_size
    if size <= LARGE:
        return file_hash(path)
    digest = hashlib.blake2b(str(size).encode(), digest_size=8)
    with open_regular(path) as f:
        for n in range(_SAMPLES):
            f.seek((size - _PIECE) * n // (_SAMPLES - 1))
            digest.update(f.read(_PIECE))
    return digest.hexdigest()


def files_content(files: Sequence[Path | str]) -> str:
    """16 hex digits that name the bytes of many files, in order.

    The result is kept in `cache/` under the sizes and times of change of the files, so that a folder of 100,000 images
    is read once and not at every start. Raises: DamagedFile naming a file that cannot be read.
    """
    from xmr_core.base import files as storage  # which needs content_hash from here
    from xmr_core.base import paths

    try:
        stamp = content_hash([(str(f), (s := os.stat(f)).st_size, s.st_mtime_ns) for f in files])
        note = paths.folder("cache") / f"content-{stamp}.sealed.json"
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
