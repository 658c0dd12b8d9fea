"""Golden cases: inputs, weights and outputs of the authors' own code, stored beside the tests in golden_cases/.

They are computed on the CPU, or on the device that $XMR_GOLDEN_DEVICE names: whatever a test makes is then made there.

golden_cases/README.md says what is stored. A test that opens a case must read every output of it, or
golden_uncompared.py must give the reason why not (tests/conftest.py checks this after each test).
"""

import gzip
import json
import os
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import torch
from golden_pack import SETTINGS, unpack
from golden_uncompared import NOT_COMPARED

from xmr_core.base.types import EmbeddingSet

FOLDER = Path(__file__).parent / "golden_cases"
RTOL, ATOL = 1e-5, 1e-6  # single operations
CHAIN = 5e-5  # chains of them: slots over four rounds, GRUs
DEVICE = os.environ.get("XMR_GOLDEN_DEVICE", "cpu")

OPENED: list["Case"] = []  # by the test that runs now


@cache
def group(name: str) -> dict[str, dict]:
    """{case: {array name: array}} of one group."""
    return unpack(FOLDER / f"{name}.npz")


def groups() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.npz"))


@cache
def listings() -> dict[str, dict]:
    """{model: {"note": text, "parts": {part: {tensor name: [shape, number type]}}}} of the authors' checkpoints."""
    return json.loads(gzip.decompress((FOLDER / "state_dicts.json.gz").read_bytes()))


def close_gradient(got: torch.Tensor, stored: torch.Tensor) -> None:
    """As RTOL, relative to the largest entry: stored gradients carry the rounding of float32 sums, and a float64
    computation misses the entry-wise bound too (by 3e-6 where the largest entry is 2)."""
    torch.testing.assert_close(got, stored, rtol=RTOL, atol=max(ATOL, RTOL / 2 * float(stored.abs().max())))


class Case:
    """One golden case, named "group/case". case["in.x"] is a tensor; case.cfg its settings; case.weights(prefix) its
    tensors by the authors' names."""

    def __init__(self, name: str):
        self.name = name
        folder, stem = name.split("/")
        self._arrays = dict(group(folder)[stem])
        self.cfg = json.loads(self._arrays.pop(SETTINGS))
        self.unread = set(self.names("out."))
        OPENED.append(self)

    def __getitem__(self, key: str) -> torch.Tensor:
        self.unread.discard(key)
        return torch.from_numpy(self._arrays[key].copy()).to(DEVICE)

    def __contains__(self, key: str) -> bool:
        return key in self._arrays

    def names(self, prefix: str) -> list[str]:
        return [key for key in self._arrays if key.startswith(prefix)]

    def weights(self, prefix: str = "w.") -> dict[str, torch.Tensor]:
        return {key[len(prefix) :]: self[key] for key in self.names(prefix)}


def cases(folder: str, start: str = "") -> list[str]:
    """Names of the cases of a group that begin with `start`."""
    stems = [stem for stem in sorted(group(folder)) if stem.startswith(start)]
    assert stems, f"no golden case begins with {folder}/{start}"
    return [f"{folder}/{stem}" for stem in stems]


def faults_of_reading(case: Case) -> list[str]:
    """Outputs of the case that were not read without a reason, and reasons for outputs that were read."""
    excused = {key for key in case.names("out.") if reason(f"{case.name}:{key}")}
    unread = [f"{case.name}: {key} is never compared" for key in sorted(case.unread - excused)]
    stale = [f"{case.name}: {key} is compared, but listed as not" for key in sorted(excused - case.unread)]
    return unread + stale


def reason(name: str) -> str | None:
    """Why "group/case" or "group/case:out.name" is not compared; None when it has to be."""
    return next((text for pattern, text in NOT_COMPARED.items() if fnmatch(name, pattern)), None)


def full_set(x: torch.Tensor) -> EmbeddingSet:
    """Sets "n k d" without padding."""
    return EmbeddingSet(x, torch.ones(x.shape[:2], dtype=torch.bool))


def diagonal(n: int, m: int | None = None) -> torch.Tensor:
    """Bool "n m": row q matches column q."""
    return torch.eye(n, m or n, dtype=torch.bool)


def lengths_mask(lengths: torch.Tensor, width: int) -> torch.Tensor:
    """Bool [n, width], True on the first `lengths[n]` positions."""
    return torch.arange(width)[None, :] < lengths.long()[:, None]
