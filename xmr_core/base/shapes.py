"""Modules of which only the shapes are wanted."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode


@contextmanager
def only_shapes() -> Iterator[None]:
    """Inside, new tensors have a shape and neither memory nor values, whatever sizes are asked for.

    Random starting values are not drawn either. Drawn on the device `meta`, they load a compiler of torch, which takes
    longer than a search does.

    >>> with only_shapes():
    ...     torch.nn.Parameter(torch.randn(10**6, 10**6)).shape
    torch.Size([1000000, 1000000])
    """
    with torch.device("meta"), _Undrawn():
        yield


class _Undrawn(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.Tensor.normal_ or getattr(func, "__module__", "") == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        if func is torch.Tensor.mul and not isinstance(args[1], torch.Tensor):  # a factor of what would be drawn
            return args[0]
        if func in (torch.randn, torch.rand):
            func, kwargs = torch.empty, {k: v for k, v in kwargs.items() if k != "generator"}
        return func(*args, **kwargs)
