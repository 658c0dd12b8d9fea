"""Every stage of every method on a second device: a tensor that stayed on the CPU stops it, as a GPU would."""

import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import pytest

from xmr_core.methods.registry import papers

pytestmark = pytest.mark.slow

CASES = [(name, {}) for name in papers()] + [
    ("sgraf", {"reasoner": "joint"}), ("dive", {"similarity": "mp"}),
    ("scan", {"direction": "i2t"}), ("dive", {"nested": True, "slots": 2}), ("vse-infty", {"objective": "siglip"}),
    ("pvse", {"objective": "triplet"}), ("chan", {"coding": "vsa", "pooling": "softmax"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def in_a_process_of_its_own():
    """Calls a function of device_stages in a new process, because a backend that is registered stays. They are forked
    from one that has imported the package, which takes as long as the stages of a small method."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["device_stages"])
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
        yield lambda name, *given: pool.submit(call, name, *given).result(timeout=400)


def call(name: str, *given) -> None:
    """A function of device_stages, which registers its backend when it is imported: never in this process."""
    getattr(import_module("device_stages"), name)(*given)


def test_the_stand_in_refuses_what_a_gpu_refuses(in_a_process_of_its_own):
    with pytest.raises(RuntimeError, match=r"all tensors must be on one device, found stand:0 and cpu \[\(2, 3\)\]"):
        in_a_process_of_its_own("mix_devices")


@pytest.mark.parametrize(("method", "options"), CASES, ids=[" ".join(map(str, case)) for case in CASES])
def test_no_stage_mixes_devices(method, options, tmp_path, in_a_process_of_its_own):
    in_a_process_of_its_own("pass_every_stage", method, options, tmp_path)


def test_a_loaded_model_takes_its_frozen_networks_along(tmp_path, in_a_process_of_its_own):
    in_a_process_of_its_own("read_with_frozen_networks", tmp_path)


def test_golden_cases_can_be_computed_on_another_device():
    """What benchmarks/gpu.py does on a GPU: modules and tensors of these tests are made on the device."""
    tests = Path(__file__).parents[1]
    files = [str(path) for path in tests.rglob("test_golden_*.py")]
    command = [sys.executable, "-m", "pytest", "-p", "golden_on_stand", "-p", "no:cacheprovider", *files]
    environment = {**os.environ, "PYTHONPATH": str(tests), "XMR_GOLDEN_DEVICE": "stand"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, env=environment, cwd=tests.parent)
    assert done.returncode == 0, done.stdout[-3000:]
