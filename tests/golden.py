"""Golden cases: inputs, weights and outputs of the authors' own code, where the folder that holds them is at hand."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

RTOL, ATOL = 1e-5, 1e-6  # recommended by the golden index; chains (T=4 slots, GRUs) use CHAIN
CHAIN = 5e-5


def golden_dir() -> Path:
    """`$XMR_GOLDEN`, else `../shared/golden` beside the checkout."""
    return Path(os.environ.get("XMR_GOLDEN") or Path(__file__).resolve().parents[2] / "shared" / "golden")


def close_gradient(got: torch.Tensor, stored: torch.Tensor) -> None:
    """As RTOL, relative to the largest entry: stored gradients carry the rounding of float32 sums, and a float64 computation
    misses the entry-wise bound too (by 3e-6 where the largest entry is 2)."""
    torch.testing.assert_close(got, stored, rtol=RTOL, atol=max(ATOL, RTOL / 2 * float(stored.abs().max())))


class Case:
    """One golden file. case["in.x"] is a tensor; case.cfg its settings; case.weights(prefix) its tensors by official name."""

    def __init__(self, name: str):
        path = golden_dir() / f"{name}.npz"
        if not path.exists():
            pytest.skip(f"golden case {name} not at hand ({golden_dir()} holds the authors' outputs; users do not have it)")
        self._arrays = np.load(path)
        self.cfg = json.loads(str(self._arrays["cfg_json"])) if "cfg_json" in self._arrays else {}

    def __getitem__(self, key: str) -> torch.Tensor:
        return torch.from_numpy(self._arrays[key].copy())

    def __contains__(self, key: str) -> bool:
        return key in self._arrays

    def weights(self, prefix: str = "w.") -> dict[str, torch.Tensor]:
        return {k[len(prefix) :]: self[k] for k in self._arrays.files if k.startswith(prefix)}


def cases(folder: str, start: str = "") -> list[str]:
    """Names of the golden files in a folder, or one placeholder that skips when the folder is absent."""
    found = sorted(p.stem for p in (golden_dir() / folder).glob(f"{start}*.npz"))
    return [f"{folder}/{name}" for name in found] or [f"{folder}/{start or 'any'}"]


def lengths_mask(lengths: torch.Tensor, width: int) -> torch.Tensor:
    """Bool [n, width], True on the first `lengths[n]` positions."""
    return torch.arange(width)[None, :] < lengths.long()[:, None]
