"""The complete state of a training run in one file: what a killed run needs to end with the same weights, bit for
bit.
"""

import io
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.utils._pytree import tree_map

from xmr_core.base import devices, files
from xmr_core.base.errors import DamagedFile


def random_state(device: torch.device) -> dict:
    """The states of every random generator that training reads: of the CPU, and of the device where it has its own."""
    return {"cpu": torch.get_rng_state(), "device": devices.random_state(device)}


def set_random_state(state: dict, device: torch.device) -> None:
    """Set the generators to what random_state gave."""
    torch.set_rng_state(state["cpu"])
    devices.set_random_state(device, state["device"])


def save_state(
    path: Path, method: nn.Module, optimiser: torch.optim.Optimizer, progress: dict, owner: str = ""
) -> None:
    """Write everything to `path`, atomically and with a digest; the state before it stays as `path.previous`.

    progress: plain numbers, strings, lists, dicts and tensors only (epoch, step inside it, history, best weights, …).
    owner: the run that the state belongs to; load_state gives it to no other.
    """
    buffer, device = io.BytesIO(), next(method.parameters()).device
    parts = {"method": method.state_dict(), "optimiser": optimiser.state_dict(), "random": random_state(device)}
    parts = {"owner": owner, **parts, "progress": progress}
    # on the CPU, so that the file can be read where there is no such device
    torch.save(tree_map(lambda v: v.cpu() if isinstance(v, torch.Tensor) else v, parts), buffer)
    if path.exists():
        path.replace(previous(path))
    files.write_sealed(path, buffer.getvalue())


def previous(path: Path) -> Path:
    """Where the state before the last one is kept, in case the last one is damaged."""
    return path.with_name(path.name + ".previous")


def load_state(path: Path, owner: str = "", warn: Callable[[str], object] | None = None) -> dict | None:
    """The newest undamaged state of a run, or None when there is none.

    A file that is damaged or belongs to another run is not used, and `warn` (warnings.warn by default) receives one
    sentence about it. Nothing in the file is executed: it may hold tensors and plain values only.
    """
    reasons = []
    for candidate in (path, previous(path)):
        if not candidate.exists():
            continue
        try:
            state = torch.load(io.BytesIO(files.read_sealed(candidate)), weights_only=True)
            if not isinstance(state, dict) or state.get("owner") != owner:
                raise DamagedFile(f"{candidate} belongs to another run, or to another torch or architecture.")
        except (DamagedFile, pickle.UnpicklingError, RuntimeError) as e:
            reasons.append(str(e).splitlines()[0])
        else:
            if reasons:
                (warn or warnings.warn)(f"checkpoint is damaged, the state before it is used: {reasons[0]}")
            return state
    if reasons:
        (warn or warnings.warn)(f"checkpoint is damaged, training starts again from the beginning: {' '.join(reasons)}")
    return None
