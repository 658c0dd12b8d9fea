"""Torch tensors by name in files of the format safetensors."""

from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from xmr_core.base import files


def write_tensors(path: Path | str, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> Path:
    """Write torch tensors by name as a safetensors file, moved to the CPU. Raises: CannotWrite."""
    return files.write_atomic(path, tensor_bytes(tensors, metadata))


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
