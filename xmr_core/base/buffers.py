"""Memory of large arrays that is kept for the next one, where the C library would map it anew each time."""

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # of malloc.h
_NEVER, _MAPS = 2**31 - 1, 65536
_LARGE = 32 << 20  # bytes: where glibc's own threshold stops growing, which stands still once it was set


@contextmanager
def reused_buffers() -> Iterator[None]:
    """Inside, memory that is freed stays with the process.

    glibc gives arrays of more than 32 MB back to the system as soon as they are freed, and the system clears every page
    of the next one. A network that describes images makes and frees such arrays in every layer: half of the time of a
    forward pass went into that (docs/speed.md). At the end what is free is given back, and arrays of more than 32 MB
    are mapped anew as before. Where the C library is another one, nothing changes. The setting belongs to the process,
    not to a thread.

    >>> with reused_buffers():
    ...     total = sum(range(4))
    """
    library = _glibc()
    if library is None:
        yield
        return
    library.mallopt(_MMAP_MAX, 0)
    library.mallopt(_TRIM_THRESHOLD, _NEVER)
    try:
        yield
    finally:
        library.mallopt(_MMAP_MAX, _MAPS)
        library.mallopt(_MMAP_THRESHOLD, _LARGE)
        library.mallopt(_TRIM_THRESHOLD, 2 * _LARGE)
        library.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None
