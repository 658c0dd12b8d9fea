"""A plugin of pytest that computes golden cases on the second device: `-p golden_on_stand`, with XMR_GOLDEN_DEVICE."""

import pytest
import torch
from second_device import Stand
from torch.utils import _device

_device._device_constructors()  # lists the makers of tensors once, as torch has them
_tensor = torch.tensor
torch.inference_mode = torch.no_grad  # the stand-in cannot expand a parameter in the other


def tensor(values, *, device=None, **options):
    """torch.tensor would fill its numbers in below the stand-in's reach."""
    return _tensor(values, device="cpu", **options).to(device or torch.empty(0).device)


torch.tensor = tensor


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    with Stand():
        return (yield)
