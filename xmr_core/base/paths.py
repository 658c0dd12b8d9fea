"""Where things live, and writing them so that a kill or a full disk never leaves half a file."""

import errno
import hashlib
import json
import os
import tempfile
from pathlib import Path

from xmr_core.base.errors import BadInput, CannotWrite, DamagedFile

MAGIC = b"XMR-SEALED-1\n"
_DIGEST_BYTES = 32


def root() -> Path:
    """The folder that holds `runs/`, `cache/` and `outputs/`.

    `$XMR_HOME` when set; else the checkout this package was imported from (recognised by `pyproject.toml` beside the
    package); else the current folder. So a notebook finds the same runs from JupyterLab, papermill and pytest, whose
    working folders differ.
    """
    if home := os.environ.get("XMR_HOME"):
        return Path(home).expanduser().resolve()
    checkout = Path(__file__).resolve().parents[2]
    return checkout if (checkout / "pyproject.toml").exists() else Path.cwd()


def folder(kind: str) -> Path:
    """`root()/kind`, created. kind: 'runs', 'cache' or 'outputs'. Raises CannotWrite if it cannot be created."""
    return make_folder(root() / kind)


def make_folder(path: Path | str) -> Path:
    """Create a folder (and parents), or say in one line why it is impossible."""
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise cannot_write(path, e) from None
    return path


def existing(path: Path | str, what: str) -> Path:
    """`path` if it exists, else BadInput naming what was expected there."""
    path = Path(path).expanduser()
    if not path.exists():
        raise BadInput(f"{what} not found: {path} does not exist. Give the right path.")
    return path


def write_atomic(path: Path | str, content: bytes | str) -> Path:
    """Write a whole file or nothing: a temporary file in the same folder, fsync, then rename.

    Raises: CannotWrite when the folder is full, read-only or not a folder; the temporary file is removed.
    """
    path = Path(path)
    make_folder(path.parent)
    data = content.encode() if isinstance(content, str) else content
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        with os.fdopen(handle, "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.chmod(temporary, 0o644)  # mkstemp makes private files; results are meant to be read by others
        os.replace(temporary, path)
    except OSError as e:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise cannot_write(path, e) from None
    return path


def write_json(path: Path | str, value) -> Path:
    """`write_atomic` of indented JSON with sorted keys, so that two equal values are two equal files."""
    return write_atomic(path, json.dumps(value, indent=1, sort_keys=True, default=str) + "\n")


def read_json(path: Path | str):
    """The value in a JSON file. Raises DamagedFile when it is missing or not JSON."""
    try:
        return json.loads(Path(path).read_text())
    except (OSError, ValueError) as e:
        raise DamagedFile(f"{path} cannot be read as JSON ({e}). Delete it and ask again.") from None


def write_sealed(path: Path | str, payload: bytes) -> Path:
    """Write `payload` behind a SHA-256 digest, atomically, so that `read_sealed` notices any later damage."""
    return write_atomic(path, MAGIC + hashlib.sha256(payload).digest() + payload)


def read_sealed(path: Path | str) -> bytes:
    """The payload of a sealed file. Raises DamagedFile when it was truncated, altered or never was one."""
    try:
        raw = Path(path).read_bytes()
    except OSError as e:
        raise DamagedFile(f"{path} cannot be read ({e.strerror}).") from None
    head = len(MAGIC) + _DIGEST_BYTES
    if not raw.startswith(MAGIC) or hashlib.sha256(raw[head:]).digest() != raw[len(MAGIC) : head]:
        raise DamagedFile(f"{path} is damaged: its {len(raw)} bytes do not match the digest written with them.")
    return raw[head:]


def content_hash(value) -> str:
    """16 hex digits that name a JSON-able value: equal values, equal names, on every machine."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def file_hash(path: Path | str) -> str:
    """16 hex digits that name a file's bytes (BLAKE2b, read in one pass of 4 MiB pieces)."""
    digest = hashlib.blake2b(digest_size=8)
    with open(path, "rb") as f:
        while piece := f.read(1 << 22):
            digest.update(piece)
    return digest.hexdigest()


def cannot_write(path: Path, e: OSError) -> CannotWrite:
    remedy = {
        errno.ENOSPC: "The disk is full: free some space or choose another folder.",
        errno.EDQUOT: "The disk quota is used up: free some space or choose another folder.",
        errno.EFBIG: "The file would exceed the allowed size: free some space or choose another folder.",
        errno.EROFS: "The folder is read-only: choose another one (environment variable XMR_HOME, or the output path).",
        errno.EACCES: "No permission to write there: choose another one (environment variable XMR_HOME, or the output path).",
        errno.ENOTDIR: "A part of the path is a file, not a folder: choose another path.",
        errno.EEXIST: "A file with that name is in the way: choose another path.",
    }.get(e.errno, "Choose another folder.")
    return CannotWrite(f"cannot write {path} ({e.strerror or e}). {remedy}")


def say_rebuilt(path: Path, reason: Exception, warn=None) -> None:
    """Tell the user that a damaged cache file is being made again. warn: a callable of one sentence, or warnings.warn."""
    import warnings

    (warn or warnings.warn)(f"cache file {path} is damaged and is rebuilt ({reason})")
