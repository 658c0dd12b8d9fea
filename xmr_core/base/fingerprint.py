"""Names for the content of files: equal bytes, equal names, wherever they lie."""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from xmr_core.base import paths
from xmr_core.base.errors import DamagedFile

WHOLE = 1 << 30  # bytes; a larger file is named by samples of it
_SAMPLES, _PIECE = 4096, 1 << 14


def file_content(path: Path | str) -> str:
    """16 hex digits for a file's bytes. Of a file above 1 GiB: for its length, its first and last 16 KiB, and 4,096 pieces of 16 KiB
    spread evenly, 64 MiB in all, because nobody waits for 33 GB of features to be read before every run."""
    path = Path(path)
    size = path.stat().st_size
    if size <= WHOLE:
        return paths.file_hash(path)
    digest = hashlib.blake2b(str(size).encode(), digest_size=8)
    with open(path, "rb") as f:
        for n in range(_SAMPLES):
            f.seek((size - _PIECE) * n // (_SAMPLES - 1))
            digest.update(f.read(_PIECE))
    return digest.hexdigest()


def files_content(files: Sequence[Path | str]) -> str:
    """16 hex digits for the bytes of many files, in order.

    Remembered in `cache/` by sizes and times of change, so that a folder of 100,000 pictures is read once, not at every start.
    Raises: DamagedFile naming a file that cannot be read.
    """
    try:
        stamp = paths.content_hash([(str(f), (s := os.stat(f)).st_size, s.st_mtime_ns) for f in files])
        note = paths.folder("cache") / f"content-{stamp}.json"
        if note.exists():
            try:
                return paths.read_json(note)["content"]
            except (DamagedFile, KeyError, TypeError):
                pass  # made again below
        with ThreadPoolExecutor(8) as pool:
            content = paths.content_hash(list(pool.map(file_content, files)))
    except OSError as e:
        raise DamagedFile(f"{e.filename} cannot be read ({e.strerror}). Replace the file or take it out.") from None
    paths.write_json(note, {"content": content, "files": len(files)})
    return content
