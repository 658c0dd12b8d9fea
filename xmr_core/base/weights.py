"""Tensors that come in a file of others: plain numbers that the file really holds."""

from collections.abc import Mapping

import torch
from torch import Tensor

from xmr_core.base.errors import BadInput


def require_plain(tensors: Mapping[str, Tensor], source: str) -> None:
    """Check the tensors of a file by name: dense real numbers in memory, finite, and no more of them than are stored.

    A small file can describe a tensor of any size by strides of 0, and such a one is refused too.
    source: the file, for messages. Raises: BadInput with the first tensor that is not as it should be.

    >>> require_plain({"fc.weight": torch.zeros(1, 1).expand(9, 9)}, "a.pth")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: a.pth: fc.weight repeats 1 stored numbers 81 times. Do not use this file.
    """
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
            raise BadInput(f"{source}: {name} is no plain tensor ({tensor.layout}, on {tensor.device}). Save it dense.")
        if tensor.is_complex():
            raise BadInput(f"{source}: {name} holds {tensor.dtype}; weights are real numbers.")
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
