"""The complete state of a training run in one file: what a killed run needs to end with the same weights, bit for bit."""

import io
from pathlib import Path

import torch
from torch import nn

from xmr_core.base import paths
from xmr_core.base.errors import DamagedFile


def random_state() -> dict:
    """The states of every random generator that training reads (CPU, and each GPU)."""
    return {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []}


def set_random_state(state: dict) -> None:
    torch.set_rng_state(state["cpu"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])


def save_state(path: Path, method: nn.Module, optimiser: torch.optim.Optimizer, progress: dict) -> None:
    """Write everything to `path`, atomically and sealed; what was there before stays as `path.previous`.

    progress: plain numbers, strings, lists, dicts and tensors only (epoch, step inside it, history, best weights, …).
    """
    buffer = io.BytesIO()
    torch.save(
        {
            "method": method.state_dict(),
            "optimiser": optimiser.state_dict(),
            "random": random_state(),
            "progress": progress,
        },
        buffer,
    )
    if path.exists():
        path.replace(previous(path))
    paths.write_sealed(path, buffer.getvalue())


def previous(path: Path) -> Path:
    """Where the state before the last one is kept, in case the last one is damaged."""
    return path.with_name(path.name + ".previous")


def load_state(path: Path, warn=None) -> dict | None:
    """The newest undamaged state, or None when there is none. Says so in one sentence when a file was damaged.

    Nothing in the file is executed: tensors and plain values only (`weights_only`).
    """
    import warnings

    warn = warn or warnings.warn
    for candidate, instead in ((path, "the state before it is used"), (previous(path), "training starts again from the beginning")):
        if not candidate.exists():
            continue
        try:
            return torch.load(io.BytesIO(paths.read_sealed(candidate)), weights_only=True)
        except DamagedFile as e:
            warn(f"checkpoint is damaged, {instead}: {e}")
    return None
