"""Devices by the names that torch gives them: which one to take, what it is called, and its random numbers."""

import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch

from xmr_core.base.errors import BadInput, unknown

# Held while torch's random numbers, which all threads share, are one training's or one network's
alone = threading.RLock()
_USUAL = ("auto", "cpu", "cuda", "mps", "xpu")


def resolve_device(device: str) -> str:
    """The name of a device that is there: 'auto' is the accelerator that torch finds, else 'cpu'; others, such as
    'cuda', 'cuda:1', 'mps' or 'xpu', stay as they are.

    Raises: BadInput for a name that torch does not know, or a device that this machine does not have.

    >>> resolve_device("cpu")
    'cpu'
    """
    if device == "auto":
        present = torch.accelerator.current_accelerator(check_available=True)
        return present.type if present is not None else "cpu"
    try:
        wanted = torch.device(device)
    except (RuntimeError, TypeError):
        raise unknown("device", device, _USUAL) from None
    if wanted.type == "meta":
        raise BadInput("the device 'meta' holds no numbers; choose auto, cpu or an accelerator.")
    try:
        torch.empty(1, device=wanted).cpu()
    except Exception as e:  # whatever a backend that is not there raises
        reason = " ".join(str(e).split("\n")[0].split())[:100]
        raise BadInput(f"this machine has no device {device!r} ({reason}). Choose auto or cpu.") from None
    return str(wanted)


def device_name(device: str | torch.device) -> str:
    """What a device is called: the model of a GPU, or model and cores of the CPU.

    >>> device_name("cpu").startswith("cpu (")
    True
    """
    wanted = torch.device(device)
    if wanted.type == "cpu":
        return f"cpu ({processor()}, {os.cpu_count()} cores)"
    backend = getattr(torch, wanted.type, None)
    return backend.get_device_name(wanted) if hasattr(backend, "get_device_name") else str(wanted)


@cache
def processor() -> str:
    """The model of this machine's processor, as far as the system reports it: its name, and the numbers of its family
    and model, because machines in a cloud may give one name to several models, whose last bits differ."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in reversed(lines))}
    numbers = [f"{what} {fields[key]}" for what, key in (("family", "cpu family"), ("model", "model")) if key in fields]
    name = fields.get("model name") or platform.processor() or platform.machine()
    return ", ".join([name, *numbers])


def random_state(device: str | torch.device) -> torch.Tensor | None:
    """The state of a device's own random generator, as a CPU tensor; None for the CPU and for backends without one.

    >>> random_state("cpu") is None
    True
    """
    backend = _generator_of(device)
    return backend.get_rng_state(torch.device(device)) if backend else None


def set_random_state(device: str | torch.device, state: torch.Tensor | None) -> None:
    """Give a device's random generator a state from `random_state`; None leaves it.

    >>> set_random_state("cpu", None)
    """
    backend = _generator_of(device)
    if backend and state is not None:
        backend.set_rng_state(state, torch.device(device))


@contextmanager
def own_random_numbers(device: str | torch.device) -> Iterator[None]:
    """Whatever is seeded and drawn inside leaves torch's random numbers outside as they were, on CPU and device.
    One thread at a time is inside.

    >>> before = torch.get_rng_state()
    >>> with own_random_numbers("cpu"):
    ...     _ = torch.manual_seed(0)
    >>> torch.equal(torch.get_rng_state(), before)
    True
    """
    with alone:
        cpu, own = torch.get_rng_state(), random_state(device)
        try:
            yield
        finally:
            torch.set_rng_state(cpu)
            set_random_state(device, own)


def _generator_of(device: str | torch.device):
    kind = torch.device(device).type
    backend = getattr(torch, kind, None) if kind != "cpu" else None
    return backend if hasattr(backend, "get_rng_state") else None
