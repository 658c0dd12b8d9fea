"""The precision in which methods are made and trained, whatever a program set for its own tensors."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def in_single_precision() -> Iterator[None]:
    """Inside, a tensor that is made without a type is float32, also where `torch.set_default_dtype` says otherwise.

    >>> with in_single_precision():
    ...     torch.ones(1).dtype
    torch.float32
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
