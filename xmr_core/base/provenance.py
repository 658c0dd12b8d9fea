"""Where a number came from: code, versions, machine."""

import importlib.metadata
import platform
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from xmr_core.base.devices import device_name


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
