"""Files that are written completely or not at all, and a manifest of them that is written last."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import filelock

from xmr_core.base import files as storage
from xmr_core.base import fingerprint
from xmr_core.base.errors import BadInput, DamagedFile


def start_anew(manifest: Path, names: tuple[str, ...]) -> None:
    """Make a folder ready for a new build. The manifest of an older build is removed first, so that a killed process
    cannot leave it beside newer files."""
    storage.make_folder(manifest.parent)
    try:
        for name in (manifest.name, *names):
            (manifest.parent / name).unlink(missing_ok=True)
            for remainder in manifest.parent.glob(f".{name}.*.tmp"):  # of a process that was killed while writing
                remainder.unlink(missing_ok=True)
    except OSError as e:
        raise storage.cannot_write(manifest, e) from None


def require_own(folder: Path, names: Iterable[str], ours: bool, what: str) -> None:
    """Refuse to write over the files of someone else. names: what would be replaced. ours: whether what lies there was
    made by this package, finished or not. Raises: BadInput naming the first file.
    """
    foreign = [] if ours else [name for name in names if (folder / name).exists()]
    if foreign:
        raise BadInput(
            f"{folder} holds {foreign[0]}, which belongs to no {what} of this package and would be replaced. Choose "
            "another folder, or an empty one."
        )


def json_object(path: Path) -> dict:
    """The object in a JSON file as it lies there, {} where there is none."""
    try:
        value = storage.read_json(path)
    except (BadInput, DamagedFile):
        value = None
    return value if isinstance(value, dict) else {}


def described(path: Path) -> dict[str, int | str]:
    """Number of bytes and digest of a finished file."""
    return {"bytes": path.stat().st_size, "digest": fingerprint.file_hash(path)}


def write_manifest(path: Path, value: dict) -> Path:
    """The manifest of a complete build: JSON with a seal over its contents. It is written last, so where it exists all
    files exist."""
    return storage.write_json(path, {**value, "seal": fingerprint.content_hash(value)})


def read_manifest(path: Path, version: int, again: str) -> dict:
    """The contents of a manifest. again: how to build it anew, for messages.

    Raises: BadInput where there is none or one of another format; DamagedFile for one that was altered.
    """
    if not path.exists():
        reason = f"has no {path.name}, so nothing was finished there" if path.parent.is_dir() else "is no folder"
        if path.parent.is_dir() and is_being_built(path.parent):
            raise BadInput(f"{path.parent} is being built by another process. Wait until it has finished.")
        raise BadInput(f"{path.parent} {reason}. Build it: {again}.")
    value = storage.read_json(path)
    if not isinstance(value, dict) or "format" not in value:
        raise DamagedFile(f"{path} is not a list of files that this package wrote. Build it again: {again}.")
    if value["format"] != version:
        raise BadInput(
            f"{path} has format {value['format']!r}, this version reads format {version}. Build it again: {again}."
        )
    seal = value.pop("seal", None)
    if seal != fingerprint.content_hash(value):
        raise DamagedFile(f"{path} was altered: its contents do not match its seal. Build it again: {again}.")
    return value


def read_by_size(files: Mapping[str, Mapping], large: tuple[str, ...], verify: bool | None) -> tuple[str, ...]:
    """The names of those files, among the large ones, that are checked by their size only: none with verify=True, all
    with False, and those of more than 1 GiB with None."""
    if verify is not None:
        return () if verify else large
    return tuple(name for name in large if name in files and files[name]["bytes"] > fingerprint.LARGE)


@contextmanager
def building(folder: Path | str) -> Iterator[None]:
    """Hold the lock of a folder of an index, because two builds at once would mix their files. A block inside, of this
    thread, may hold it again. Where it fails before anything was written, nothing stays."""
    folder = storage.named(folder, "index")
    new = not folder.exists()
    with filelock.FileLock(storage.make_folder(folder) / "lock", is_singleton=True):
        try:
            yield
        except BaseException:
            if {path.name for path in folder.glob("*")} <= {"lock"}:
                with suppress(OSError):  # Windows keeps the file of a lock that is held
                    (folder / "lock").unlink(missing_ok=True)
                    if new:
                        folder.rmdir()
            raise


def is_being_built(folder: Path) -> bool:
    """Whether another process, or another thread, holds the lock of a folder of an index."""
    if not (folder / "lock").exists():
        return False
    try:
        with filelock.FileLock(folder / "lock", timeout=0):
            return False
    except filelock.Timeout:
        return True
    except OSError:  # a folder that only others may write
        return False


def check_files(folder: Path, files: Mapping[str, Mapping], by_size: tuple[str, ...], again: str) -> None:
    """Check that every file is as it was written, by its digest. by_size: names of large files, which are checked by
    their number of bytes only.

    Raises: DamagedFile naming the first file that is missing, of another size, or altered.
    """
    for name, written in files.items():
        path = folder / name
        size = path.stat().st_size if path.is_file() else None
        if size is None:
            raise DamagedFile(f"{path} is missing. Copy it back, or build it again: {again}.")
        if size != written["bytes"]:
            raise DamagedFile(
                f"{path} has {size:,} bytes and was written with {written['bytes']:,}. "
                f"Copy it again, or build it again: {again}."
            )
        if name not in by_size and fingerprint.file_hash(path) != written["digest"]:
            raise DamagedFile(
                f"{path} was altered: its bytes do not match their digest. Copy it again, or build it again: {again}."
            )
