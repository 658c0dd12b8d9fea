"""The files of an index: whose they are, whether their build finished, and whether they are as they were written."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import filelock

from xmr_core.base import files as storage
from xmr_core.base import fingerprint
from xmr_core.base.errors import BadInput, DamagedFile


def remove(folder: Path, names: Iterable[str], remainders: Iterable[str] = ()) -> None:
    """Remove files in this order, and what killed processes left while they wrote others. Raises: CannotWrite."""
    left = (path for name in remainders for path in (folder / name).parent.glob(f".{Path(name).name}.*.tmp"))
    try:
        for path in (*(folder / name for name in names), *left):
            path.unlink(missing_ok=True)
    except OSError as e:
        raise storage.cannot_write(folder, e) from None


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


def read_manifest(path: Path, version: int, again: str) -> dict:
    """The contents of the list of files of a complete build, which base.files.write_record wrote last. again: how to
    build it anew, for messages.

    Raises: BadInput where there is none or one of another format; DamagedFile for one that was altered.
    """
    if not path.exists():
        raise BadInput(f"{path.parent} has no {path.name}, so nothing was finished there. Build it: {again}.")
    found = json_object(path).get("format", version)
    if found != version:
        raise BadInput(f"{path} has format {found!r}, this version reads format {version}. Build it again: {again}.")
    return storage.read_record(path)


def check_files(
    folder: Path, files: Mapping[str, Mapping], large: tuple[str, ...], verify: bool | None, again: str
) -> None:
    """Check that every file has its number of bytes and its digest. The digests of those named in `large` are left out
    with verify=False, and with None where they have more than 1 GiB.

    Raises: DamagedFile naming the first file that is missing, of another size, or altered.
    """
    for name, written in files.items():
        path = folder / name
        size = path.stat().st_size if path.is_file() else None
        if size != written["bytes"]:
            found = "is missing" if size is None else f"has {size:,} bytes and was written with {written['bytes']:,}"
            raise DamagedFile(f"{path} {found}. Copy it again, or build it again: {again}.")
        if name in large and (verify is False or (verify is None and size > fingerprint.LARGE)):
            continue
        if fingerprint.file_hash(path) != written["digest"]:
            raise DamagedFile(
                f"{path} was altered: its bytes do not match their digest. Copy it again, or build it again: {again}."
            )


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
