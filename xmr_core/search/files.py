"""Files that are whole or not there, and the list of them that is written last."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.files import atomic


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes the name `path` when the block ends well and is gone when it does not.

    For contents larger than memory; paths.write_atomic is for the others. Raises: CannotWrite where the folder refuses.
    """
    with atomic(path) as temporary, open(temporary, "wb") as f:
        yield f


def start_anew(manifest: Path, names: tuple[str, ...]) -> None:
    """Make a folder ready for a new build: the list of an older one goes first, so that a kill cannot leave it beside newer files."""
    paths.make_folder(manifest.parent)
    try:
        for name in (manifest.name, *names):
            (manifest.parent / name).unlink(missing_ok=True)
            for left_over in manifest.parent.glob(f".{name}.*.tmp"):  # of a process that was killed while writing
                left_over.unlink(missing_ok=True)
    except OSError as e:
        raise paths.cannot_write(manifest, e) from None


def described(path: Path) -> dict[str, int | str]:
    """bytes and digest of a finished file."""
    return {"bytes": path.stat().st_size, "digest": paths.file_hash(path)}


def write_manifest(path: Path, value: dict) -> Path:
    """The list of a build that is complete: JSON with a seal over all of it. Written last; its presence says that all else is there."""
    return paths.write_json(path, {**value, "seal": paths.content_hash(value)})


def read_manifest(path: Path, version: int, again: str) -> dict:
    """What write_manifest wrote. again: how to build it anew, for messages.

    Raises: BadInput where there is none or one of another format; DamagedFile for one that was altered.
    """
    if not path.exists():
        what = "is no folder" if not path.parent.is_dir() else f"has no {path.name}, so nothing was finished there"
        raise BadInput(f"{path.parent} {what}. Build it: {again}.")
    value = paths.read_json(path)
    if not isinstance(value, dict) or "format" not in value:
        raise DamagedFile(f"{path} is not a list of files that this package wrote. Build it again: {again}.")
    if value["format"] != version:
        raise BadInput(f"{path} has format {value['format']!r}, this version reads format {version}. Build it again: {again}.")
    seal = value.pop("seal", None)
    if seal != paths.content_hash(value):
        raise DamagedFile(f"{path} was altered: its contents do not match the seal written with them. Build it again: {again}.")
    return value


def check_files(folder: Path, files: Mapping[str, Mapping], by_size: tuple[str, ...], again: str) -> None:
    """Every file as it was written, by its bytes; those named in by_size, which may be tens of gigabytes, by their number of bytes only.

    Raises: DamagedFile naming the first that is missing, of another size, or altered.
    """
    for name, told in files.items():
        path = folder / name
        size = path.stat().st_size if path.is_file() else None
        if size is None:
            raise DamagedFile(f"{path} is missing. Copy it back, or build it again: {again}.")
        if size != told["bytes"]:
            raise DamagedFile(
                f"{path} has {size:,} bytes and was written with {told['bytes']:,}. Copy it again, or build it again: {again}."
            )
        if name not in by_size and paths.file_hash(path) != told["digest"]:
            raise DamagedFile(f"{path} was altered: its bytes do not match their digest. Copy it again, or build it again: {again}.")
