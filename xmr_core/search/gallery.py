"""The representations of a whole gallery in one safetensors file: written in pieces, opened as a memory map."""

import json
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from xmr_core.base.errors import BadInput, DamagedFile, unknown
from xmr_core.base.types import Embedding, EmbeddingSet, GaussianEmbedding, Representation, Rows
from xmr_core.search.files import whole_file

DTYPES = {"float32": torch.float32, "float16": torch.float16}
_FIELDS = {Embedding: ("x",), EmbeddingSet: ("x", "mask"), GaussianEmbedding: ("mean", "log_std", "samples")}
_KIND = {kind.__name__: kind for kind in _FIELDS}
_STORED = {torch.float32: ("F32", np.float32), torch.float16: ("F16", np.float16), torch.bool: ("BOOL", np.bool_)}
_READ = dict(_STORED.values())
_LONGEST_HEADER = 1 << 16  # bytes; ours have a few hundred


class _Half(Rows):
    """Half precision on disk, float32 as soon as rows are taken: everything that scores takes rows, block by block."""

    def __getitem__(self, rows):
        return super().__getitem__(rows)._map(lambda t: t.float() if t.is_floating_point() else t)


class HalfEmbedding(_Half, Embedding):
    """An Embedding kept in half precision; its rows are float32."""


class HalfSet(_Half, EmbeddingSet):
    """An EmbeddingSet kept in half precision; its rows are float32."""


class HalfGaussian(_Half, GaussianEmbedding):
    """A GaussianEmbedding kept in half precision; its rows are float32."""


_HALF = {Embedding: HalfEmbedding, EmbeddingSet: HalfSet, GaussianEmbedding: HalfGaussian}


def write_gallery(path: Path | str, chunks: Iterable[Representation], n: int, dtype: str = "float32", elements: int = 0) -> Path:
    """Write a gallery, holding one chunk of it at a time; the file appears whole or not at all. Any safetensors reader can read it.

    Args: chunks: the items in order, of one kind and one width. n: how many items they are together. dtype: 'float32', or 'float16' for
        half the disk (cosines then differ by up to 0.0005). elements: of a row of ragged sets, where a later chunk has wider sets than
        the first; narrower ones are padded. Attention and residuals are not kept.
    Raises: BadInput for chunks of several kinds or shapes, another number of items, or a number that is NaN or too large for float16;
        CannotWrite where the folder refuses.
    """
    path = Path(path)
    if dtype not in DTYPES:
        raise unknown("dtype", dtype, DTYPES)
    if n < 1:
        raise BadInput(f"a gallery needs at least one item, got n = {n}.")
    with whole_file(path) as f:
        kind, start, places, row = None, 0, {}, 0
        for chunk in chunks:
            if kind is None:
                kind = _kind_of(chunk)
                start, places = _begin(f, kind, chunk, n, dtype, elements)
            if _kind_of(chunk) is not kind or row + len(chunk) > n:
                raise BadInput(
                    f"{path.name}: {n:,} items as {kind.__name__} were announced; after {row:,} came {len(chunk):,} as {type(chunk).__name__}."
                )
            if kind is EmbeddingSet:
                chunk = _widened(chunk, places["x"][0][1])
            for name, (shape, stored, offset) in places.items():
                numbers = _fitted(getattr(chunk, name), shape, stored, f"{name} of items {row:,} to {row + len(chunk) - 1:,}")
                f.seek(start + offset + row * math.prod(shape[1:]) * stored.itemsize)
                f.write(memoryview(numbers.numpy()).cast("B"))
            row += len(chunk)
        if row != n:
            raise BadInput(f"{path.name}: {n:,} items were announced and {row:,} came.")
    return path


def open_gallery(path: Path | str) -> Representation:
    """The gallery in a file, mapped: nothing is read before rows are asked for, and taking rows by a slice copies nothing.

    The tensors may be written to; that changes neither the file nor what others see (copy on write). A file must not be cut short
    while it is open: the system ends a process that reads a mapped page that is gone. half precision: rows come as float32.
    Raises: DamagedFile for a file that is missing, no gallery, or shorter or longer than its header says.
    """
    path = Path(path)
    kind, start, places = read_header(path)
    tensors = {}
    for name, (shape, code, offset) in places.items():
        tensors[name] = torch.from_numpy(np.memmap(path, _READ[code], "c", start + offset, tuple(shape)))
    half = any(code == "F16" for _, code, _ in places.values())
    return (_HALF[kind] if half else kind)(**tensors)


def read_header(path: Path) -> tuple[type, int, dict[str, tuple[list[int], str, int]]]:
    """(kind, byte at which the numbers begin, name → (shape, type code, offset from there)). Raises: DamagedFile, as open_gallery."""
    try:
        size = path.stat().st_size
        with open(path, "rb") as f:
            length = int.from_bytes(f.read(8), "little")
            header = json.loads(f.read(length)) if 0 < length <= _LONGEST_HEADER else {}
        kind = _KIND[header.pop("__metadata__")["kind"]]
        places = {name: (v["shape"], v["dtype"], v["data_offsets"][0]) for name, v in header.items()}
        bytes_of = {name: math.prod(shape) * np.dtype(_READ[code]).itemsize for name, (shape, code, _) in places.items()}
        ends = {name: v["data_offsets"][1] for name, v in header.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        reason = getattr(e, "strerror", None) or "its header is not one that write_gallery wrote"
        raise DamagedFile(f"{path} cannot be opened as a gallery ({reason}). Copy it again, or build it again.") from None
    start = 8 + length
    fits = set(places) == set(_FIELDS[kind]) and all(places[name][2] + bytes_of[name] == ends[name] for name in places)
    if not fits or size != start + sum(bytes_of.values()) or max(ends.values()) != sum(bytes_of.values()):
        raise DamagedFile(f"{path} has {size:,} bytes, which are not those that its header announces. Copy it again, or build it again.")
    return kind, start, places


def _kind_of(chunk: Representation) -> type:
    for kind in _FIELDS:
        if isinstance(chunk, kind):
            return kind
    raise BadInput(f"a gallery is made of {', '.join(_KIND)}, got {type(chunk).__name__}.")


def _begin(
    f, kind: type, first: Representation, n: int, dtype: str, elements: int
) -> tuple[int, dict[str, tuple[tuple, torch.dtype, int]]]:
    """Write the header. (byte at which the numbers begin, name → (shape, torch type, offset from there))."""
    places, header, at = {}, {"__metadata__": {"kind": kind.__name__}}, 0
    for name in _FIELDS[kind]:  # masks stand last, so that numbers of 4 bytes begin at multiples of 4
        given = getattr(first, name)
        shape = (n, *given.shape[1:])
        if kind is EmbeddingSet:
            shape = (n, max(elements, given.shape[1]), *given.shape[2:])
        stored = torch.bool if name == "mask" else DTYPES[dtype]
        end = at + math.prod(shape) * stored.itemsize
        places[name] = (shape, stored, at)
        header[name] = {"dtype": _STORED[stored][0], "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)  # blanks are allowed there
    f.write(len(text).to_bytes(8, "little") + text)
    return 8 + len(text), places


def _widened(s: EmbeddingSet, k: int) -> EmbeddingSet:
    """Padded to k elements; wider sets stay as they are, and are refused with the others that do not fit."""
    missing = max(0, k - s.x.shape[1])
    return EmbeddingSet(F.pad(s.x, (0, 0, 0, missing)), F.pad(s.mask, (0, missing))) if missing else s


def _fitted(given: Tensor, shape: tuple, stored: torch.dtype, what: str) -> Tensor:
    """A chunk as it is stored, checked."""
    if given.shape[1:] != shape[1:]:
        raise BadInput(
            f"{what}: rows of {tuple(given.shape[1:])} do not fit a gallery of {tuple(shape[1:])}; for wider sets give `elements`."
        )
    if given.is_floating_point() and given.isnan().any():
        raise BadInput(f"{what} hold NaN. Look at their features, or at the weights before them.")
    kept = given.detach().cpu().to(stored).contiguous()
    if stored is torch.float16 and (kept.isinf() & given.cpu().isfinite()).any():
        raise BadInput(f"{what} hold numbers beyond 65,504, the largest of float16. Use dtype='float32'.")
    return kept
