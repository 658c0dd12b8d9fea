"""Where a number came from: code, versions, machine."""

import importlib.metadata
import os
import platform
import subprocess
from functools import cache
from pathlib import Path

import torch

PACKAGES = ("torch", "numpy", "pandas", "transformers")


@cache
def commit() -> tuple[str, bool]:
    """(git commit of the checkout, whether tracked files differ from it, reports/ left out, which a study fills while it runs);
    ('', False) when this is no checkout."""
    here = Path(__file__).resolve().parent

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, timeout=20)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        return git("rev-parse", "--short=12", "HEAD"), bool(
            git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)reports")
        )
    except (OSError, subprocess.TimeoutExpired):
        return "", False


def environment(device: str) -> dict:
    """Versions, code and hardware, as plain strings. device: 'cpu' or 'cuda'."""
    revision, dirty = commit()
    return {
        "git_commit": revision,
        "git_dirty": dirty,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
        "device": torch.cuda.get_device_name() if device == "cuda" else f"cpu ({platform.machine()}, {os.cpu_count()} cores)",
    }


@cache
def processor() -> str:
    """The model name of this machine's processor, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()
