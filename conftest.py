"""nbval behaves the same from any folder: its sanitising file by absolute path, the kernel of this very environment."""

import os
from pathlib import Path


def pytest_configure(config):
    option = config.option
    if getattr(option, "nbval", False) or getattr(option, "nbval_lax", False):
        option.nbval_sanitize_with = option.nbval_sanitize_with or str(Path(__file__).parent / "tests" / "nbval_sanitize.cfg")
        option.nbval_current_env = not option.nbval_kernel_name
        os.environ.pop("MPLBACKEND", None)  # a backend set for scripts would keep figures out of the notebooks' kernels
