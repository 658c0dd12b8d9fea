"""The representations of all items of a gallery in one safetensors file: written in pieces, opened as a memory map."""

import json
import math
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from xmr_core.base.checks import require_choice
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.files import atomic
from xmr_core.base.regular import open_regular
from xmr_core.base.types import Embedding, EmbeddingSet, GaussianEmbedding, Representation, Rows
from xmr_core.evaluation.analysis.representations import widened

DTYPES = {"float32": torch.float32, "float16": torch.float16}
_FIELDS = {Embedding: ("x",), EmbeddingSet: ("x", "mask"), GaussianEmbedding: ("mean", "log_std", "samples")}
_KIND = {kind.__name__: kind for kind in _FIELDS}
_CODES = {torch.float32: "F32", torch.float16: "F16", torch.bool: "BOOL"}


class _Half(Rows):
    """Half precision on disk, float32 as soon as rows are taken. All scoring takes rows, block by block."""

    def __getitem__(self, rows):
        return super().__getitem__(rows)._map(lambda t: t.float() if t.is_floating_point() else t)


_HALF = {kind: type(f"Half{kind.__name__}", (_Half, kind), {}) for kind in _FIELDS}


def write_gallery(path: Path | str, chunks: Iterable[Representation], n: int, dtype: str = "float32") -> Path:
    """Write a gallery, with one chunk of it in memory at a time. The file is written completely or not at all, and any
    safetensors reader can read it.

    Attention and residuals are not stored.

    Args:
        chunks: the items in order, of one kind and one width. Sets that are smaller than those of the first chunk are
            padded. n: how many items they are together.
        dtype: 'float32', or 'float16' for half the disk space; cosines then differ by up to 0.0005.
    Raises: BadInput for chunks of several kinds or shapes, another number of items, or a number that is NaN or too
        large for float16; CannotWrite where the folder refuses.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_gallery(Path(folder) / "gallery.safetensors", [Embedding(torch.eye(2))], n=2)
    ...     open_gallery(path)[1:].x.tolist()
    [[0.0, 1.0]]
    """
    path, row, kind, places = Path(path), 0, None, {}
    require_choice("dtype", dtype, DTYPES)
    with atomic(path) as temporary, open(temporary, "wb") as f:
        for chunk in chunks:
            kind = kind or next((kind for kind in _FIELDS if isinstance(chunk, kind)), EmbeddingSet)
            if not isinstance(chunk, kind) or row + len(chunk) > n:
                raise BadInput(
                    f"{path.name}: {n:,} items as {kind.__name__} were announced; "
                    f"after {row:,} came {len(chunk):,} as {type(chunk).__name__}."
                )
            places = places or _begin(f, kind, chunk, n, DTYPES[dtype])
            if kind is EmbeddingSet:
                chunk = widened(chunk, places["x"][1][0])
            for name, (start, shape, stored) in places.items():
                what = f"{name} of items {row:,} to {row + len(chunk) - 1:,}"
                f.seek(start + row * math.prod(shape) * stored.itemsize)
                f.write(memoryview(_fitted(getattr(chunk, name), shape, stored, what).numpy()).cast("B"))
            row += len(chunk)
        if row != n or not n:
            raise BadInput(f"{path.name}: {n:,} items were announced and {row:,} came; a gallery needs at least one.")
    return path


def open_gallery(path: Path | str) -> Representation:
    """The gallery in a file, memory-mapped: rows are read when they are taken, and a slice of rows copies nothing.

    Writing to the tensors changes neither the file nor other processes (copy on write). A file must not become shorter
    while it is open: the system ends a process that reads a mapped page that no longer exists. Rows of a gallery in
    half precision are float32.
    Raises: DamagedFile for a file that is missing, not a gallery, or shorter or longer than its header says.
    """
    path = Path(path)
    try:
        open_regular(path).close()  # safetensors would wait for a pipe
        with safe_open(path, "pt") as f:
            kind = _KIND[f.metadata()["kind"]]
            tensors = {name: f.get_tensor(name) for name in f.keys()}  # noqa: SIM118
        if not _fit_together(kind, tensors):
            raise ValueError("it has tensors that no gallery has")
    except (OSError, KeyError, TypeError, ValueError, SafetensorError) as e:
        raise DamagedFile(f"{path} cannot be opened as a gallery ({e}). Copy it again, or build it again.") from None
    half = any(tensor.dtype == torch.float16 for tensor in tensors.values())
    return (_HALF[kind] if half else kind)(**tensors)


def _fit_together(kind: type, tensors: dict[str, Tensor]) -> bool:
    """Whether all tensors have the types and shapes of one gallery: as many items, and a mask as wide as the sets."""
    axes = {"mask": 2, "samples": 3, "x": 3 if kind is EmbeddingSet else 2}
    return (
        {*_FIELDS[kind]} - {"samples"} <= {*tensors} <= {*_FIELDS[kind]}
        and all(t.ndim == axes.get(name, 2) for name, t in tensors.items())
        and all(t.dtype in ([torch.bool] if name == "mask" else DTYPES.values()) for name, t in tensors.items())
        and len({len(t) for t in tensors.values()}) == 1
        and ("mask" not in tensors or tensors["mask"].shape == tensors["x"].shape[:2])
    )


def _begin(
    f, kind: type, first: Representation, n: int, dtype: torch.dtype
) -> dict[str, tuple[int, tuple[int, ...], torch.dtype]]:
    """Write the header. Returns name → (byte at which its numbers begin, shape of an item, type in the file)."""
    places, header, start = {}, {"__metadata__": {"kind": kind.__name__}}, 0
    for name in _FIELDS[kind]:  # masks come last, so that numbers of 4 bytes begin at multiples of 4
        if (tensor := getattr(first, name)) is None:
            continue
        shape, stored = tuple(tensor.shape[1:]), torch.bool if name == "mask" else dtype
        places[name], end = (start, shape, stored), start + n * math.prod(shape) * stored.itemsize
        header[name] = {"dtype": _CODES[stored], "shape": [n, *shape], "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)  # the format allows blanks after the header
    f.write(len(text).to_bytes(8, "little") + text)
    return {name: (8 + len(text) + offset, *rest) for name, (offset, *rest) in places.items()}


def _fitted(tensor: Tensor, shape: tuple, stored: torch.dtype, what: str) -> Tensor:
    """A chunk as it is stored. Raises: BadInput for rows of another shape, NaN, or numbers too large for float16."""
    if tuple(tensor.shape[1:]) != shape:
        raise BadInput(f"{what}: rows of {tuple(tensor.shape[1:])} do not fit those of the first chunk, {shape}.")
    if tensor.is_floating_point() and tensor.isnan().any():
        raise BadInput(f"{what} hold NaN. Check their features, or the weights that made them.")
    out = tensor.detach().cpu().to(stored).contiguous()
    if stored is torch.float16 and (out.isinf() & tensor.cpu().isfinite()).any():
        raise BadInput(f"{what} hold numbers beyond 65,504, the largest of float16. Use dtype='float32'.")
    return out
