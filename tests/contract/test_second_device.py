"""Every stage of every method on a second device: a tensor that stayed on the CPU stops it, as a GPU would."""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context

import pytest

from xmr_core.methods.registry import papers

pytestmark = pytest.mark.slow

CASES = [(name, {}) for name in papers() if name != "sgraf"] + [
    ("sgraf", {"reasoner": "joint"}), ("scan", {"direction": "i2t", "objective": "siglip"}),
    ("dive", {"similarity": "mp", "objective": "triplet", "warmup_epochs": 0}),
    ("dive", {"nested": True, "slots": 2}), ("chan", {"coding": "vsa", "pooling": "softmax"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def in_a_process_of_its_own():
    """Calls a function of device_stages in a new process, because a backend that is registered stays. They are forked
    from one that has imported the package, which takes as long as the stages of a small method."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["device_stages"])
    with pytest.MonkeyPatch.context() as patch, ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
        # what is to be imported first is looked for where a new interpreter looks, and left out in silence elsewhere
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        yield lambda name, *given: pool.submit(call, name, *given).result(timeout=400)


def call(name: str, *given) -> None:
    """A function of device_stages, which registers its backend when it is imported: never in this process."""
    assert "device_stages" in sys.modules, "the process was forked from one without the package"
    getattr(import_module("device_stages"), name)(*given)


def test_the_stand_in_refuses_what_a_gpu_refuses(in_a_process_of_its_own):
    with pytest.raises(RuntimeError, match=r"all tensors must be on one device, found stand:0 and cpu \[\(2, 3\)\]"):
        in_a_process_of_its_own("mix_devices")


@pytest.mark.parametrize(("method", "options"), CASES, ids=[" ".join(map(str, case)) for case in CASES])
def test_no_stage_mixes_devices(method, options, tmp_path, in_a_process_of_its_own):
    in_a_process_of_its_own("pass_every_stage", method, options, tmp_path)


WAITS = [(name, options) for name, spec in papers().items() for options in spec.variants.values()] + [
    ("dive", {"similarity": "mp", "objective": "triplet"}), ("dive", {"nested": True, "slots": 2}),
    ("scan", {"objective": "siglip"}), ("chan", {"coding": "vsa", "pooling": "softmax"}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "options"), WAITS, ids=[" ".join(map(str, case)) for case in WAITS])
def test_a_step_does_not_wait_for_the_device(method, options, in_a_process_of_its_own):
    in_a_process_of_its_own("train_without_waits", method, options)


@pytest.mark.parametrize("broken", ["similarity", "head", "loss", "loop"])
def test_a_number_that_is_read_is_seen(broken, in_a_process_of_its_own):
    with pytest.raises(AssertionError, match="_local_scalar_dense"):
        in_a_process_of_its_own("train_without_waits", "dive", {}, broken)


def test_what_is_no_number_stops_training(tmp_path, in_a_process_of_its_own):
    in_a_process_of_its_own("stop_at_the_first_bad_step", tmp_path)


def test_a_loaded_model_takes_its_frozen_networks_along(tmp_path, in_a_process_of_its_own):
    in_a_process_of_its_own("read_with_frozen_networks", tmp_path)
