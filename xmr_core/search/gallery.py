"""The representations of all items of a gallery in one safetensors file: written in pieces, opened as a memory map."""

import json
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from xmr_core.base.errors import BadInput, DamagedFile, unknown
from xmr_core.base.files import atomic
from xmr_core.base.regular import open_regular
from xmr_core.base.types import Embedding, EmbeddingSet, GaussianEmbedding, Representation, Rows
from xmr_core.evaluation.analysis.representations import widened

DTYPES = {"float32": torch.float32, "float16": torch.float16}
_FIELDS = {Embedding: ("x",), EmbeddingSet: ("x", "mask"), GaussianEmbedding: ("mean", "log_std", "samples")}
_OPTIONAL = {"samples"}
_KIND = {kind.__name__: kind for kind in _FIELDS}
_STORED = {torch.float32: ("F32", np.float32), torch.float16: ("F16", np.float16), torch.bool: ("BOOL", np.bool_)}
_READ = dict(_STORED.values())
_LONGEST_HEADER = 1 << 16  # bytes; ours have a few hundred


class _Half(Rows):
    """Half precision on disk, float32 as soon as rows are taken. All scoring takes rows, block by block."""

    def __getitem__(self, rows):
        return super().__getitem__(rows)._map(lambda t: t.float() if t.is_floating_point() else t)


_HALF = {kind: type(f"Half{kind.__name__}", (_Half, kind), {}) for kind in _FIELDS}


def write_gallery(
    path: Path | str, chunks: Iterable[Representation], n: int, dtype: str = "float32", elements: int | None = None
) -> Path:
    """Write a gallery, with one chunk of it in memory at a time. The file is written completely or not at all, and any
    safetensors reader can read it.

    Attention and residuals are not stored.

    Args:
        chunks: the items in order, of one kind and one width. n: how many items they are together.
        dtype: 'float32', or 'float16' for half the disk space; cosines then differ by up to 0.0005.
        elements: largest number of elements of a set, where a later chunk has larger sets than the first; None: that of
            the first chunk. Smaller sets are padded.
    Raises: BadInput for chunks of several kinds or shapes, another number of items, or a number that is NaN or too
        large for float16; CannotWrite where the folder refuses.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_gallery(Path(folder) / "gallery.safetensors", [Embedding(torch.eye(2))], n=2)
    ...     open_gallery(path)[1:].x.tolist()
    [[0.0, 1.0]]
    """
    path = Path(path)
    if dtype not in DTYPES:
        raise unknown("dtype", dtype, DTYPES)
    if n < 1:
        raise BadInput(f"a gallery needs at least one item, got n = {n}.")
    with atomic(path) as temporary, open(temporary, "wb") as f:
        kind, start, places, row = None, 0, {}, 0
        for chunk in chunks:
            if kind is None:
                kind = _kind_of(chunk)
                start, places = _begin(f, kind, chunk, n, dtype, elements)
            if _kind_of(chunk) is not kind or row + len(chunk) > n:
                raise BadInput(
                    f"{path.name}: {n:,} items as {kind.__name__} were announced; "
                    f"after {row:,} came {len(chunk):,} as {type(chunk).__name__}."
                )
            if kind is EmbeddingSet:
                chunk = widened(chunk, places["x"][0][1])
            for name, (shape, stored, offset) in places.items():
                numbers = _fitted(
                    getattr(chunk, name), shape, stored, f"{name} of items {row:,} to {row + len(chunk) - 1:,}"
                )
                f.seek(start + offset + row * math.prod(shape[1:]) * stored.itemsize)
                f.write(memoryview(numbers.numpy()).cast("B"))
            row += len(chunk)
        if row != n:
            raise BadInput(f"{path.name}: {n:,} items were announced and {row:,} came.")
    return path


def open_gallery(path: Path | str) -> Representation:
    """The gallery in a file, memory-mapped: rows are read when they are taken, and a slice of rows copies nothing.

    Writing to the tensors changes neither the file nor other processes (copy on write). A file must not become shorter
    while it is open: the system ends a process that reads a mapped page that no longer exists. Rows of a gallery in
    half precision are float32.
    Raises: DamagedFile for a file that is missing, not a gallery, or shorter or longer than its header says.
    """
    path = Path(path)
    kind, start, places = read_header(path)
    tensors = {
        name: torch.from_numpy(np.memmap(path, _READ[code], "c", start + offset, tuple(shape)))
        for name, (shape, code, offset) in places.items()
    }
    half = any(code == "F16" for _, code, _ in places.values())
    return (_HALF[kind] if half else kind)(**tensors)


def read_header(path: Path) -> tuple[type, int, dict[str, tuple[list[int], str, int]]]:
    """(kind, byte at which the numbers begin, name → (shape, type code, offset from that byte)).

    Raises: DamagedFile, as open_gallery.
    """
    try:
        size = path.stat().st_size
        with open_regular(path) as f:
            length = int.from_bytes(f.read(8), "little")
            header = json.loads(f.read(length)) if 0 < length <= _LONGEST_HEADER else {}
        kind = _KIND[header.pop("__metadata__")["kind"]]
        places = {name: (v["shape"], v["dtype"], v["data_offsets"][0]) for name, v in header.items()}
        bytes_of = {
            name: math.prod(shape) * np.dtype(_READ[code]).itemsize for name, (shape, code, _) in places.items()
        }
        ends = {name: v["data_offsets"][1] for name, v in header.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, IndexError) as e:
        reason = getattr(e, "strerror", None) or "its header is not one that write_gallery wrote"
        raise DamagedFile(
            f"{path} cannot be opened as a gallery ({reason}). Copy it again, or build it again."
        ) from None
    start = 8 + length
    sizes = [n for shape, _, offset in places.values() for n in (*shape, offset)]
    if not all(type(n) is int and n >= 0 for n in sizes) or not _fit_together(kind, places):
        raise DamagedFile(f"{path} has a header that no gallery has. Do not use it, or build it again.")
    named = set(_FIELDS[kind]) - _OPTIONAL <= set(places) <= set(_FIELDS[kind])
    fits = named and all(places[name][2] + bytes_of[name] == ends[name] for name in places)
    if not fits or size != start + sum(bytes_of.values()) or max(ends.values()) != sum(bytes_of.values()):
        raise DamagedFile(
            f"{path} has {size:,} bytes, which are not those that its header announces. "
            "Copy it again, or build it again."
        )
    return kind, start, places


def _fit_together(kind: type, places: dict[str, tuple[list[int], str, int]]) -> bool:
    """Whether all tensors have the types and shapes of one gallery: as many items, and a mask as wide as the sets."""
    shapes = {name: shape for name, (shape, _, _) in places.items()}
    axes = {"mask": 2, "samples": 3, "x": 3 if kind is EmbeddingSet else 2}
    if any(len(shape) != axes.get(name, 2) for name, shape in shapes.items()):
        return False
    if any((code == "BOOL") != (name == "mask") for name, (_, code, _) in places.items()):
        return False
    return len({s[0] for s in shapes.values()}) <= 1 and ("mask" not in shapes or shapes["mask"] == shapes["x"][:2])


def _kind_of(chunk: Representation) -> type:
    for kind in _FIELDS:
        if isinstance(chunk, kind):
            return kind
    raise BadInput(f"a gallery is made of {', '.join(_KIND)}, got {type(chunk).__name__}.")


def _begin(
    f, kind: type, first: Representation, n: int, dtype: str, elements: int | None
) -> tuple[int, dict[str, tuple[tuple, torch.dtype, int]]]:
    """Write the header. Returns (byte at which the numbers begin, name → (shape, torch type, offset from that
    byte))."""
    places, header, start = {}, {"__metadata__": {"kind": kind.__name__}}, 0
    for name in _FIELDS[kind]:  # masks come last, so that numbers of 4 bytes begin at multiples of 4
        if (tensor := getattr(first, name)) is None:
            continue
        shape = (n, *tensor.shape[1:])
        if kind is EmbeddingSet:
            shape = (n, max(elements or 0, tensor.shape[1]), *tensor.shape[2:])
        stored = torch.bool if name == "mask" else DTYPES[dtype]
        end = start + math.prod(shape) * stored.itemsize
        places[name] = (shape, stored, start)
        header[name] = {"dtype": _STORED[stored][0], "shape": list(shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)  # the format allows blanks after the header
    f.write(len(text).to_bytes(8, "little") + text)
    return 8 + len(text), places


def _fitted(tensor: Tensor, shape: tuple, stored: torch.dtype, what: str) -> Tensor:
    """A chunk as it is stored. Raises: BadInput for rows of another shape, NaN, or numbers too large for float16."""
    if tensor.shape[1:] != shape[1:]:
        raise BadInput(
            f"{what}: rows of {tuple(tensor.shape[1:])} do not fit a gallery of {tuple(shape[1:])}; "
            "for larger sets give `elements`."
        )
    if tensor.is_floating_point() and tensor.isnan().any():
        raise BadInput(f"{what} hold NaN. Check their features, or the weights that made them.")
    out = tensor.detach().cpu().to(stored).contiguous()
    if stored is torch.float16 and (out.isinf() & tensor.cpu().isfinite()).any():
        raise BadInput(f"{what} hold numbers beyond 65,504, the largest of float16. Use dtype='float32'.")
    return out
