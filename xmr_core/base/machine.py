"""This process and machine: precisions, devices, random numbers, memory, and where a number came from."""

import ctypes
import importlib.metadata
import math
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch.overrides import TorchFunctionMode

from xmr_core.base.errors import BadInput, require_choice


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


# Devices by the names that torch gives them: which one to take, what it is called, and its random numbers.


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
        torch.empty(1, device=wanted).cpu()
    except Exception as e:  # a name that torch does not know, or whatever a backend that is not there raises
        reason = " ".join(str(e).split("\n")[0].split())[:100]
        raise BadInput(f"unknown device {device!r} on this machine ({reason}). Choose {', '.join(_USUAL)}.") from None
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


# Where a number came from: code, versions, machine.


@dataclass(frozen=True)
class Environment:
    """Code, versions and hardware that made something, as plain values.

    git_commit: 12 hex digits, '' outside a checkout. git_dirty: tracked files differed from that commit. device: name
    of the GPU, or the CPU's model and number of cores: last bits may differ between two models of one architecture.
    machine: the architecture alone ('x86_64').
    """

    git_commit: str
    git_dirty: bool
    python: str
    torch: str
    numpy: str
    pandas: str
    transformers: str
    machine: str
    device: str


def environment(device: str) -> Environment:
    """The environment of this process. device: as torch names it. torch names its build too ('2.13.0+cu130'), which the
    version in a package's metadata does not always do.

    >>> environment("cpu").torch == torch.__version__
    True
    """
    packages = {name: importlib.metadata.version(name) for name in ("numpy", "pandas", "transformers")}
    machine = platform.machine()
    device = device_name(device)
    return Environment(
        *commit(), platform.python_version(), str(torch.__version__), **packages, machine=machine, device=device
    )


@cache
def libraries() -> str:
    """Versions of what a training computes with beside torch, and the instructions of the processor that it uses."""
    names = ("numpy", "pillow", "transformers", "tokenizers")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in names]
    return ", ".join([*versions, torch.backends.cpu.get_cpu_capability()])


@cache
def commit() -> tuple[str, bool]:
    """(git commit of the checkout, whether tracked files differ from it); ('', False) outside a checkout.

    The folder reports/ does not count as a difference, because a study fills it while it runs.
    """
    folder = Path(__file__).resolve().parent

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, timeout=20)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        if git("rev-parse", "--show-toplevel") != str(folder.parents[1]):  # a package installed below someone else's
            return "", False
        changes = git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)reports")
        return git("rev-parse", "--short=12", "HEAD"), bool(changes)
    except (OSError, subprocess.TimeoutExpired):
        return "", False


# Modules of which only the shapes are wanted.


@contextmanager
def only_shapes() -> Iterator[None]:
    """Inside, new tensors have a shape and neither memory nor values, whatever sizes are asked for.

    Random starting values are not drawn either. Drawn on the device `meta`, they load a compiler of torch, which takes
    longer than a search does.

    Raises: BadInput as at_most does.

    >>> with only_shapes():
    ...     torch.nn.Parameter(torch.randn(10**6, 10**6)).shape
    torch.Size([1000000, 1000000])
    """
    with torch.device("meta"), _Undrawn(), at_most():
        yield


@contextmanager
def at_most(numbers: float = math.inf, tensors: int = 10_000) -> Iterator[None]:
    """Inside, building a network stops at its first tensor beyond so many, however many layers a file asks for.

    Raises: BadInput inside, for more numbers or tensors than these.
    """
    left = [numbers, tensors]

    def count(module: torch.nn.Module, name: str, parameter: torch.Tensor | None) -> None:
        left[0], left[1] = left[0] - (0 if parameter is None else parameter.numel()), left[1] - 1
        if min(left) < 0:
            raise BadInput("a network has more layers or numbers than any that is known. Do not use its file.")

    hook = torch.nn.modules.module.register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def _after_fork() -> None:
    """Threads of the parent do not exist in a child, where torch and faiss would wait for them for ever."""
    torch.set_num_threads(1)
    if faiss := sys.modules.get("faiss"):
        faiss.omp_set_num_threads(1)


os.register_at_fork(after_in_child=_after_fork)


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


PRECISIONS = {"float32": "highest", "tf32": "high", "bfloat16": "medium"}


@contextmanager
def matrix_precision(name: str) -> Iterator[None]:
    """Inside, float32 products are computed with 24 ('float32'), 11 ('tf32', or three bfloat16 products) or 8 bits
    ('bfloat16') of mantissa, where the hardware has such products; elsewhere nothing changes. Sums and everything else
    stay float32.

    Raises: BadInput for another name.
    """
    require_choice("precision", name, PRECISIONS)
    backends = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)
    try:
        before, each = torch.get_float32_matmul_precision(), []
    except RuntimeError:  # set for single backends, which torch does not read back as one word
        before, each = None, [backend.fp32_precision for backend in backends]
    torch.set_float32_matmul_precision(PRECISIONS[name])
    try:
        yield
    finally:
        if before is not None:
            torch.set_float32_matmul_precision(before)
        for backend, precision in zip(backends, each, strict=False):
            backend.fp32_precision = precision


# Float32 that is float32 on hardware that has faster, coarser products.


@contextmanager
def full_precision() -> Iterator[None]:
    """Inside, products of float32 have all 24 bits of mantissa, also in GRUs and convolutions, for which torch takes 11
    (TF32) on an NVIDIA GPU if nobody says otherwise, and their kernels give the same bits each time. On a CPU nothing
    changes.

    >>> with full_precision():
    ...     torch.backends.cudnn.allow_tf32
    False
    """
    cudnn = torch.backends.cudnn
    try:
        before = {"allow_tf32": cudnn.allow_tf32}
    except RuntimeError:  # set for single kernels, which torch does not read back as one word
        before = {}
    kernels = [getattr(cudnn, name) for name in ("conv", "rnn") if not before and hasattr(cudnn, name)]
    each, deterministic = [kernel.fp32_precision for kernel in kernels], cudnn.deterministic
    with matrix_precision("float32"):
        try:
            cudnn.deterministic = True
            if before:
                cudnn.allow_tf32 = False
            for kernel in kernels:
                kernel.fp32_precision = "ieee"
            yield
        finally:
            cudnn.deterministic = deterministic
            for name, value in before.items():
                setattr(cudnn, name, value)
            for kernel, precision in zip(kernels, each, strict=True):
                kernel.fp32_precision = precision


def in_precision(name: str) -> AbstractContextManager:
    """`full_precision` for 'float32' (TrainConfig.precision), and what torch is set to for every other name.

    >>> with in_precision("auto"):
    ...     pass
    """
    return full_precision() if name == "float32" else nullcontext()


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
    if platform.libc_ver()[0] != "glibc":
        yield
        return
    library = ctypes.CDLL(None)
    library.mallopt(_MMAP_MAX, 0)
    library.mallopt(_TRIM_THRESHOLD, _NEVER)
    try:
        yield
    finally:
        library.mallopt(_MMAP_MAX, _MAPS)
        library.mallopt(_MMAP_THRESHOLD, _LARGE)
        library.mallopt(_TRIM_THRESHOLD, 2 * _LARGE)
        library.malloc_trim(0)
