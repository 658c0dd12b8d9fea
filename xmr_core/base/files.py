"""Files that are whole or not there: only here is written under a temporary name, flushed to the disk and renamed."""

import hashlib
import json
import os
import secrets
import shutil
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any

import filelock
import torch
from safetensors.torch import save
from torch import Tensor

from xmr_core.base.errors import BadInput, DamagedFile, XmrError
from xmr_core.base.fingerprint import content_hash
from xmr_core.base.paths import cannot_write, make_folder, open_to_append, read_regular, say

_MAGIC = b"XMR-SEALED-1\n"
_HEAD = len(_MAGIC) + hashlib.sha256().digest_size


def named(path: Path | str, what: str) -> Path:
    """A path, `~` resolved. Raises: BadInput for '', the current folder, which an unset variable of a shell gives."""
    if path == "":
        raise BadInput(f"the path of the {what} is empty. Give a path; '.' is the current folder.")
    return Path(path).expanduser()


def existing(path: Path | str, what: str) -> Path:
    """`path` if it exists. Raises: BadInput that names what was expected there."""
    try:
        present = Path(path).expanduser().exists()
    except (OSError, RuntimeError, ValueError):  # an unknown ~user, a zero byte, a name that is too long
        present = False
    if not present:
        raise BadInput(f"{what} not found: {str(path)[:200]} does not exist. Give the right path.")
    return named(path, what)


def existing_file(path: Path | str, what: str) -> Path:
    """`path` if it is a regular file or a link to one. Raises: BadInput for anything else."""
    path = existing(path, what)
    if not path.is_file():
        raise BadInput(f"{what} must be a file, and {path} is none. Give the right path.")
    return path


@contextmanager
def atomic(path: Path | str) -> Iterator[Path]:
    """A temporary path beside `path`. It takes that name when the block ends well, and is removed when the block fails.

    Use it for contents that something else writes (a library, or code that writes piece by piece); write_atomic is for
    the others. Raises: CannotWrite when the folder refuses; errors of this package inside the block stay what they are.

    >>> import tempfile
    >>> with atomic(Path(tempfile.mkdtemp()) / "words.txt") as temporary:
    ...     _ = temporary.write_text("a dog")
    """
    path = Path(path)
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.open("xb").close()  # readable by whom the user's umask says, which tempfile does not ask
        yield temporary
        publish(temporary, path)
    except XmrError:  # of whoever makes the contents; some of them are OSErrors too
        raise
    except OSError as e:
        raise cannot_write(path, e) from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def publish(temporary: Path, path: Path) -> None:
    """Give a finished file its final name after its bytes are on the disk. Raises: OSError."""
    with open(temporary, "rb+") as f:
        os.fsync(f.fileno())
    os.replace(temporary, path)


@contextmanager
def locked(path: Path | str) -> Iterator[None]:
    """Inside, this process alone holds the lock file `path`, which says who holds it; whoever waits for longer than a
    second says so in one line. Raises: CannotWrite where it cannot be made, or is a link.
    """
    lock = filelock.FileLock(path)
    try:
        with suppress(filelock.Timeout):
            lock.acquire(timeout=1)
        if not lock.is_locked:
            holder = read_regular(path).decode(errors="replace").strip() or "another process"
            say(f"waiting for {path}, held by {holder}", sys.stderr)
            lock.acquire()
        with open_to_append(path) as file:
            file.truncate(0)
            utc = datetime.now(UTC).isoformat(timespec="seconds")
            file.write(f"process {os.getpid()} on {socket.gethostname()} since {utc}\n".encode())
    except OSError as e:
        lock.release()
        raise cannot_write(path, e) from None
    try:
        yield
    finally:
        lock.release()


# Several files that are one thing, as a model or an index: built beside the old ones, then put into their places.


LOCK = ".xmr-lock"  # a name that no file of a user has


@contextmanager
def rebuilt(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """A place for new files and folders `names`, which take those of `folder` together when the block ends well.

    The last name says that all are there. Until then, and when the block fails or is killed, the old ones stay as they
    are; old ones of these names that were not made anew are removed at the end. Raises: CannotWrite.
    """
    is_new = not folder.exists()
    try:
        with locked(make_folder(folder) / LOCK):
            _settle(folder, names)
            left_over = (path for name in names for path in folder.glob(f".{name}.*.tmp"))
            for path in (_ready(folder, names), *left_over):  # by a kill, or a link of others
                _remove(path)
            place = make_folder(folder / f".{names[-1]}.{secrets.token_hex(4)}.tmp")
            try:
                yield place
                gone = [folder / name for name in names if not (place / name).exists()]
                os.replace(place, _ready(folder, names))
                _settle(folder, names)
                for path in gone:
                    _remove(path)
                with suppress(OSError):  # Windows deletes no open file
                    (folder / LOCK).unlink()
            finally:
                shutil.rmtree(place, ignore_errors=True)
    except BaseException:
        if is_new:
            with suppress(OSError):
                (folder / LOCK).unlink(missing_ok=True)
                folder.rmdir()
        raise


def settled(names: Sequence[str]) -> Callable[[Callable], Callable]:
    """A decorator for what reads files of `rebuilt` from its first argument, a folder: it gets all of one build,
    whatever other processes do meanwhile, and also where one was killed while it put them into their places.
    """

    def decorate(read: Callable) -> Callable:
        @wraps(read)
        def reading(folder: Path | str, *args, **named) -> Any:
            place, end = Path(folder).expanduser(), time.monotonic() + 10
            while True:
                before, fault = _state(place, names), None
                try:
                    out = read(folder, *args, **named)
                except XmrError as e:
                    fault = e
                if before == _state(place, names) and (not before[0] or time.monotonic() > end):
                    if fault or before[0]:
                        raise fault or DamagedFile(f"{place} was left unfinished. Build it again.")
                    return out
                if before[0]:
                    with suppress(OSError), filelock.FileLock(place / LOCK, timeout=0.1):
                        _settle(place, names)
                    time.sleep(0.01)

        return reading

    return decorate


def _state(folder: Path, names: Sequence[str]) -> tuple:
    seen = last.stat() if (last := folder / names[-1]).exists() else None
    return unfinished(folder, names), seen and (seen.st_ino, seen.st_mtime_ns)


def unfinished(folder: Path, names: Sequence[str]) -> bool:
    """Whether files of `rebuilt` are not all in their places."""
    return _ready(folder, names).is_dir() and not _ready(folder, names).is_symlink()


def _ready(folder: Path, names: Sequence[str]) -> Path:
    return folder / f".{names[-1]}.ready"


def _settle(folder: Path, names: Sequence[str]) -> None:
    """Put what is ready into its place; called again after a kill, it goes on where it was. Links are not followed."""
    if not unfinished(folder, names):
        return
    for name in names:
        new, old = _ready(folder, names) / name, folder / name
        if new.exists():
            if os.path.lexists(old) and (new.is_dir() or old.is_dir()):
                os.replace(old, new.with_name(f"{name}.old"))
            os.replace(new, old)
    shutil.rmtree(_ready(folder, names))


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


def write_atomic(path: Path | str, content: bytes | str) -> Path:
    """Write a complete file or nothing. Raises: CannotWrite when the folder is full, read-only or no folder.

    >>> import tempfile
    >>> write_atomic(Path(tempfile.mkdtemp()) / "words.txt", "a dog").read_text()
    'a dog'
    """
    with atomic(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
    return Path(path)


def write_json(path: Path | str, value: object) -> Path:
    """Write indented JSON with sorted keys, so that two equal values are two equal files. Raises: CannotWrite."""
    return write_atomic(path, _json(value))


def read_json(path: Path | str) -> Any:
    """The value in a JSON file. Raises: DamagedFile when the file is missing or is not JSON."""
    try:
        return json.loads(read_regular(path).decode())
    except (OSError, ValueError, RecursionError) as e:
        raise DamagedFile(f"{path} cannot be read as JSON ({e}).") from None


def as_json(value: object) -> Any:
    """A value as it comes back from a JSON file: tuples are lists, keys are strings."""
    return json.loads(json.dumps(value, default=str))


def write_record(path: Path | str, value: Mapping[str, object]) -> Path:
    """Write a JSON object with a digest of itself, so that read_record notices any later change. Raises:
    CannotWrite.
    """
    value = as_json(value)
    return write_json(path, {**value, "seal": content_hash(value)})


def read_record(path: Path | str) -> dict[str, Any]:
    """What write_record wrote, without the digest.

    Raises: DamagedFile when the file is missing, was altered in any byte, or was written by something else.

    >>> import tempfile
    >>> read_record(write_record(Path(tempfile.mkdtemp()) / "run.json", {"alpha": 16}))
    {'alpha': 16}
    """
    value = read_json(path)
    content = {name: v for name, v in value.items() if name != "seal"} if isinstance(value, dict) else {}
    sealed = {**content, "seal": content_hash(content)}
    if value != sealed or Path(path).read_text(encoding="utf-8") != _json(value):
        raise DamagedFile(f"{path} is damaged: its content does not match the digest written with it.")
    return content


def write_sealed(path: Path | str, payload: bytes) -> Path:
    """Write bytes behind their SHA-256 digest, so that read_sealed notices any later change. Raises: CannotWrite."""
    return write_atomic(path, _MAGIC + hashlib.sha256(payload).digest() + payload)


def read_sealed(path: Path | str) -> bytes:
    """The bytes in a file of write_sealed. Raises: DamagedFile when it was cut, altered, or never was such a file."""
    try:
        raw = read_regular(path)
    except OSError as e:
        raise DamagedFile(f"{path} cannot be read ({e.strerror}).") from None
    if not raw.startswith(_MAGIC) or hashlib.sha256(raw[_HEAD:]).digest() != raw[len(_MAGIC) : _HEAD]:
        raise DamagedFile(f"{path} is damaged: its {len(raw)} bytes do not match the digest written with them.")
    return raw[_HEAD:]


def write_table(path: Path | str, table) -> Path:
    """Write a pandas table as CSV; 17 digits give every float64 back exactly. Raises: CannotWrite."""
    return write_atomic(path, table.to_csv(index=False, float_format="%.17g"))


def warn_rebuilt(path: Path, reason: Exception, warn: Callable[[str], object] | None = None) -> None:
    """Say that a damaged cache file is made again. warn: receives the sentence; warnings.warn by default."""
    (warn or warnings.warn)(f"cache file {path} is damaged and is rebuilt ({reason})")


def _json(value: object) -> str:
    return json.dumps(value, indent=1, sort_keys=True, default=str) + "\n"


# Torch tensors by name in files of the format safetensors.


def write_tensors(path: Path | str, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> Path:
    """Write torch tensors by name as a safetensors file, moved to the CPU. Raises: CannotWrite."""
    return write_atomic(path, tensor_bytes(tensors, metadata))


def tensor_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """Torch tensors by name in the format safetensors. A tensor with two names, as of a layer that a model uses twice,
    is written under each.
    """
    plain, addresses = {}, set()
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        address = tensor.untyped_storage().data_ptr()
        plain[name] = tensor.clone() if address in addresses else tensor
        addresses.add(address)
    return save(plain, metadata)


def require_plain(tensors: Mapping[str, Tensor], source: str) -> None:
    """Check the tensors of a file by name: dense real numbers in memory, finite, and no more of them than are stored.

    A small file can describe a tensor of any size by strides of 0, and such a one is refused too.
    source: the file, for messages. Raises: BadInput with the first tensor that is not as it should be.

    >>> require_plain({"fc.weight": torch.zeros(1, 1).expand(9, 9)}, "a.pth")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: a.pth: fc.weight repeats 1 stored numbers 81 times. Do not use this file.
    """
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.is_quantized or tensor.is_complex():
            raise BadInput(f"{source}: {name} is no dense tensor of real numbers. Save it again as one.")
        stored = tensor.untyped_storage().nbytes() // max(1, tensor.element_size())
        if tensor.numel() > stored:
            repeated = f"{name} repeats {stored} stored numbers {tensor.numel()} times"
            raise BadInput(f"{source}: {repeated}. Do not use this file.")
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise BadInput(f"{source}: {name} holds NaN or infinity. The training diverged, or the file is damaged.")


def require_same_kind(tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor], source: str) -> None:
    """Check that what must be a real number is one, and what must be a count. Raises: BadInput with the first name.

    >>> require_same_kind({"a": torch.zeros(2, dtype=torch.int64)}, {"a": torch.zeros(2)}, "a.pth")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: a.pth: a holds torch.int64, and real numbers are needed.
    """
    for name, tensor in tensors.items():
        if name in expected and expected[name].is_floating_point() and not tensor.is_floating_point():
            raise BadInput(f"{source}: {name} holds {tensor.dtype}, and real numbers are needed.")
