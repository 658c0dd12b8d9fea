"""This process and machine: precisions, devices, random numbers, memory, and where a number came from."""

import ctypes
import importlib.metadata
import math
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from xmr_core.base.errors import BadInput, require_choice

# Held while torch's random numbers, which all threads share, are one training's or one network's
alone = threading.RLock()
networks_built = 0  # each draws its first weights


@contextmanager
def learning() -> Iterator[None]:
    """Inside, tensors are made that can learn, also within the caller's `torch.no_grad` or `torch.inference_mode`.

    >>> with torch.inference_mode(), learning():
    ...     torch.ones(1, requires_grad=True).exp().requires_grad
    True
    """
    with torch.inference_mode(False) if torch.is_inference_mode_enabled() else torch.enable_grad():
        yield


@contextmanager
def building() -> Iterator[None]:
    """Inside, a tensor that is made without a type is float32, and a parameter can learn, whatever torch is set to. One
    thread at a time is inside.

    >>> with building():
    ...     torch.ones(1).dtype
    torch.float32
    """
    global networks_built
    with alone, learning():
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        networks_built += 1
        try:
            yield
        finally:
            torch.set_default_dtype(before)


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


def pins_memory(device: str | torch.device) -> bool:
    """Whether a device copies from pinned memory while the host goes on."""
    return torch.device(device).type in ("cuda", "xpu")


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
    hardware = {"machine": platform.machine(), "device": device_name(device)}
    return Environment(*commit(), platform.python_version(), str(torch.__version__), **packages, **hardware)


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


# Float32 that is float32 on hardware that has faster, coarser products; and all else that torch can be set to.


PRECISIONS = {"float32": "highest", "tf32": "high", "bfloat16": "medium"}
_cudnn, _fused, _onednn = torch.backends.cudnn, torch.backends.cuda, torch.backends.mkldnn


def _read(get: Callable, names: Sequence[str], owners: Sequence) -> object:
    try:
        return get()
    except RuntimeError:  # set for single backends or kernels, which torch does not read back as one word
        return [getattr(owner, name).fp32_precision for owner, name in zip(owners, names, strict=True)]


def _write(put: Callable, names: Sequence[str], owners: Sequence, value: object) -> None:
    if not isinstance(value, list):
        put(value)
        return
    for owner, name, own in zip(owners, names, value, strict=True):
        getattr(owner, name).fp32_precision = own


_MATMUL, _KERNELS = (("matmul", "matmul"), (_fused, _onednn)), (("conv", "rnn"), (_cudnn, _cudnn))
_products = partial(_read, torch.get_float32_matmul_precision, *_MATMUL)
_set_products = partial(_write, torch.set_float32_matmul_precision, *_MATMUL)


@contextmanager
def matrix_precision(name: str) -> Iterator[None]:
    """Inside, float32 products are computed with 24 ('float32'), 11 ('tf32', or three bfloat16 products) or 8 bits
    ('bfloat16') of mantissa, where the hardware has such products; elsewhere nothing changes. Sums and everything else
    stay float32.

    Raises: BadInput for another name.
    """
    require_choice("precision", name, PRECISIONS)
    before = _products()
    _set_products(PRECISIONS[name])
    try:
        yield
    finally:
        _set_products(before)


_FLAGS = (  # where, name, value in a fresh process, value with exact kernels
    (torch.backends, "fp32_precision", "none", "none"), (_onednn, "fp32_precision", "none", "none"),
    (getattr(_onednn, "conv", None), "fp32_precision", "none", "none"),
    (getattr(_onednn, "rnn", None), "fp32_precision", "none", "none"),
    (_onednn, "enabled", True, True), (_onednn, "deterministic", False, False), (_cudnn, "enabled", True, True),
    (_cudnn, "benchmark", False, False), (_cudnn, "deterministic", False, True),
)  # fmt: skip
_SETTINGS = (  # of the whole process: how each is read and set, and its values
    *((partial(getattr, place, name), partial(setattr, place, name), *values)
      for place, name, *values in _FLAGS if hasattr(place, name)),
    *((getattr(_fused, f"{name}_sdp_enabled"), getattr(_fused, f"enable_{name}_sdp"), True, True)
      for name in ("flash", "mem_efficient", "math", "cudnn")),
    (partial(_read, partial(getattr, _cudnn, "allow_tf32"), *_KERNELS),
     partial(_write, partial(setattr, _cudnn, "allow_tf32"), *_KERNELS), True, False),
    (_products, _set_products, "highest", "highest"),
    (torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled, True, True),
    (torch.get_default_dtype, torch.set_default_dtype, torch.float32, torch.float32),
    (lambda: sys.float_info.min / 2 == 0, torch.set_flush_denormal, False, False),
)  # fmt: skip
_NUMPY = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
_inside = ContextVar("_inside", default=False)


@contextmanager
def as_a_run(exact_kernels: bool = False) -> Iterator[None]:
    """Inside, numbers are computed as in a fresh process, whatever other code has set in this one; afterwards it is set
    again. Also a decorator, for what trains, evaluates, encodes or describes; one inside another changes nothing.

    Set are: the modes of gradients, inference and autocast; the default type and device; the precision of products;
    denormal numbers; the kernels of oneDNN, cuDNN and attention; and numpy's errors. Left are: threads and random
    numbers, which are a run's own (training.loop.OwnState); deterministic algorithms, which give the same numbers on a
    CPU; a TorchFunctionMode, which is code of the caller; and environment variables that choose kernels, which torch
    reads when it starts. Where something is set for the whole process, one thread at a time is inside.

    exact_kernels: products of float32 have all 24 bits of mantissa in GRUs and convolutions too, for which torch takes
    11 (TF32) on an NVIDIA GPU if nobody says otherwise, and their kernels give the same bits each time.

    >>> with torch.inference_mode(), as_a_run():
    ...     torch.is_inference_mode_enabled()
    False
    """
    if _inside.get():
        yield
        return
    with ExitStack() as stack:
        wanted = [(get, put, exact if exact_kernels else plain) for get, put, plain, exact in _SETTINGS]
        if any(get() != value for get, _, value in wanted):
            stack.enter_context(alone)
            for get, put, value in wanted:
                if (before := get()) != value:
                    stack.callback(put, before)
                    put(value)
        stack.enter_context(learning())
        if torch.get_default_device().type != "cpu":  # slow, so not always
            stack.enter_context(torch.device("cpu"))
        for kind in filter(torch.is_autocast_enabled, ("cpu", "cuda", "mps", "xpu")):
            stack.enter_context(torch.autocast(kind, enabled=False))
        stack.enter_context(np.errstate(**_NUMPY))
        stack.callback(_inside.reset, _inside.set(True))
        yield


@contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Inside, a module is in evaluation mode; afterwards each of its parts is in the mode that it had."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


# Memory.


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
