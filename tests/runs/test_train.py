"""Training: it learns, it resumes bit for bit, it says early when it goes wrong."""

import decimal
import os
import random
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image, ImageFile
from tiny import TINY, tiny_config
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.testing import assert_close

from xmr_core.base import files, machine
from xmr_core.base.errors import BadInput, CannotWrite, TrainingFailed
from xmr_core.base.types import Features
from xmr_core.data.batches import Batches
from xmr_core.data.prepare import prepare
from xmr_core.methods.registry import build, papers
from xmr_core.models import model_of
from xmr_core.training import TrainConfig, loop, train
from xmr_core.training.loop import PATIENCE, CollapseWatch, clip_gradients, load_state, lr_factor, previous, save_state
from xmr_core.training.runs import train_or_load

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path))


def size(method):
    """A selection value that depends on the weights alone, as a real one does."""
    return {"value": float(sum(p.double().square().sum() for p in method.parameters()))}


class Stop(Exception):
    pass


def run(path=None, stop_after=None, epochs=3, seed=0, save_every=0.0, validate=None, also=None):
    """Train tiny DivE with dropout; stop_after raises in the middle, as a kill would."""
    prepared = prepare(tiny_config().data)
    torch.manual_seed(seed)
    method = build("dive", prepared.inputs, d=16, iterations=1, dropout=0.3)
    steps = 0

    def report(event):
        nonlocal steps
        steps += "epoch_done" not in event
        if stop_after is not None and steps > stop_after:
            raise Stop
        if also is not None:
            also(event)

    batches = Batches(prepared.splits["train"], 16, 2, seed)
    history = train(method, batches, validate or size, TrainConfig(epochs=epochs, seed=seed), path, report, save_every)
    return method, history


def test_float32_is_float32_while_it_trains_and_torch_is_left_as_it_was():
    cudnn, seen = torch.backends.cudnn, []
    torch.set_float32_matmul_precision("medium")

    def look(method):
        seen.append((torch.get_float32_matmul_precision(), cudnn.allow_tf32, cudnn.deterministic))
        return {"value": 0.0}

    try:
        for precision in ("float32", "auto"):
            prepared = prepare(tiny_config().data)
            batches = Batches(prepared.splits["train"], 16, 2, 0)
            method = build("vse++", prepared.inputs, d=8)
            train(method, batches, look, TrainConfig(epochs=1, precision=precision))
        assert seen == [("highest", False, True), ("highest", True, False)]
        assert (torch.get_float32_matmul_precision(), cudnn.allow_tf32, cudnn.deterministic) == ("medium", True, False)
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("size", [1e-3, 1e3, 1e25])
def test_gradients_of_any_finite_length_are_clipped_as_torch_clips_shorter_ones(size):
    generator = torch.Generator().manual_seed(0)
    weights = [nn.Parameter(torch.zeros(shape)) for shape in ((3, 4), (5,))]
    untouched = nn.Parameter(torch.zeros(2))
    for weight in weights:
        weight.grad = size * torch.randn(weight.shape, generator=generator)
    before = [weight.grad.clone() for weight in weights]
    expected = torch.stack([g.double().square().sum() for g in before]).sum().sqrt()
    norm = clip_gradients([*weights, untouched], 2.0)
    assert_close(norm.double(), expected, rtol=1e-6, atol=0)
    for weight, gradient in zip(weights, before, strict=True):
        assert_close(weight.grad, (gradient.double() * min(1.0, 2.0 / float(expected))).float(), rtol=1e-5, atol=0)
    assert untouched.grad is None
    if size < 1e10:  # the same bits as torch's own
        other = [nn.Parameter(torch.zeros_like(gradient)) for gradient in before]
        for weight, gradient in zip(other, before, strict=True):
            weight.grad = gradient.clone()
        assert torch.equal(torch.nn.utils.clip_grad_norm_(other, 2.0), norm)
        assert all(torch.equal(a.grad, b.grad) for a, b in zip(other, weights, strict=True))


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def test_the_loss_falls_and_one_seed_is_one_result():
    (a, history), (b, _), (c, _) = run(epochs=4), run(epochs=4), run(epochs=4, seed=1)
    assert history.epochs[-1]["loss"] < history.epochs[0]["loss"]
    assert same(a, b) and not same(a, c)


def test_validation_that_cannot_choose_an_epoch_is_told():
    with pytest.warns(UserWarning, match="validation is best in 4 of 4 epochs alike.* epoch 0"):
        run(epochs=4, validate=lambda method: {"value": 6.0})
    values = iter([1.0, 2.0, 2.0, 1.0])
    assert not run(epochs=4, validate=lambda method: {"value": next(values)})[1].messages


def put(owner, name, value):
    """A context in which an attribute is set."""

    @contextmanager
    def inside():
        before = getattr(owner, name)
        setattr(owner, name, value)
        try:
            yield
        finally:
            setattr(owner, name, before)

    return inside()


@contextmanager
def call(change, back):
    change()
    try:
        yield
    finally:
        back()


class Watching(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def switched(function, value, back):
    return call(partial(function, value), partial(function, back))


STATES = {
    "no gradients": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "default device": lambda: switched(torch.set_default_device, "meta", None),
    "default type": lambda: switched(torch.set_default_dtype, torch.float64, torch.float32),
    "deterministic": lambda: switched(torch.use_deterministic_algorithms, True, False),
    "denormal numbers": lambda: switched(torch.set_flush_denormal, True, False),
    "oneDNN": lambda: put(torch.backends.mkldnn, "enabled", False),
    "oneDNN's matmul": lambda: put(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"),
    "oneDNN's GRU": lambda: put(torch.backends.mkldnn.rnn, "fp32_precision", "bf16"),
    "all float32": lambda: put(torch.backends, "fp32_precision", "tf32"),
    "matmul": lambda: switched(torch.set_float32_matmul_precision, "medium", "highest"),
    "cuDNN": lambda: torch.backends.cudnn.flags(enabled=False, benchmark=True),
    "attention": lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
    "fast path": lambda: switched(torch.backends.mha.set_fastpath_enabled, False, True),
    "function mode": Watching,
    "saved tensors": torch.autograd.graph.save_on_cpu,
    "seeds": lambda: call(lambda: (random.seed(9), np.random.seed(9), torch.manual_seed(9)), lambda: None),
    "numpy's errors": lambda: np.errstate(all="raise"),
    "truncated images": lambda: put(ImageFile, "LOAD_TRUNCATED_IMAGES", True),
    "image sizes": lambda: put(Image, "MAX_IMAGE_PIXELS", 10),
    "pandas's strings": lambda: pd.option_context("mode.string_storage", "python"),
    "pandas's sums": lambda: pd.option_context("compute.use_bottleneck", False, "compute.use_numexpr", False),
    "decimals": lambda: decimal.localcontext(decimal.Context(prec=2)),
    "printing": lambda: np.printoptions(precision=1, threshold=2),
}


def produced():
    """Bits of all that a run, evaluation and encoding of a fresh home give, made with nothing remembered."""
    sys.modules["xmr_core.data.prepare"]._recent.clear()
    trained = train_or_load(tiny_config(dropout=0.3))
    model = model_of(trained)
    pixels = np.arange(2 * 64 * 64 * 3, dtype=np.uint8).reshape(2, 64, 64, 3)
    encoded = [model.encode_texts(["a red square", "a dog"]).x, model.encode_images(pixels).x]
    weights = [*(w for _, w in sorted(trained.weights().items())), *encoded, model.similarity(pixels, ["a dog"])]
    tables = [(trained.folder / name).read_bytes() for name in ("metrics.csv", "per_query.csv")]
    return [trained.id, *(w.numpy().tobytes() for w in weights), *tables, trained.history["loss"].tolist()]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMR_HOME", str(tmp_path_factory.mktemp("plain")))
        return produced()


@pytest.mark.parametrize("state", STATES)
def test_a_run_does_not_depend_on_what_the_process_is_set_to(plain, state):
    before = [get() for get, *_ in machine._SETTINGS]
    with STATES[state]():
        assert produced() == plain
    assert [get() for get, *_ in machine._SETTINGS] == before, "left as it was"


def test_what_other_code_sets_and_draws_between_steps_has_no_say():
    expected, threads = run(epochs=2)[0], torch.get_num_threads()

    def meddle(event):
        torch.rand(3), torch.manual_seed(1), torch.set_num_threads(2), torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64), torch.set_default_device("meta")
        torch.set_autocast_enabled("cpu", True), torch.set_float32_matmul_precision("medium")
        torch.backends.mkldnn.enabled = False

    try:
        got, history = run(epochs=2, also=meddle)
    finally:
        torch.set_num_threads(threads), torch.set_grad_enabled(True), torch.set_autocast_enabled("cpu", False)
        torch.set_default_dtype(torch.float32), torch.set_default_device(None)
        torch.set_float32_matmul_precision("highest")
        torch.backends.mkldnn.enabled = True
    assert same(got, expected) and not history.messages


def test_a_process_of_another_kind_gives_the_same_run(plain, tmp_path):
    """Another hash seed, without asserts, in another place and language, by whom nobody else may read."""
    words = f"import os, sys; os.umask(0o77); sys.path[:0] = {sys.path!r}\nfrom tiny import tiny_config\n"
    words += "from xmr_core.training.runs import train_or_load\n"
    words += "train_or_load(tiny_config(dropout=0.3), lambda event: os.chdir('/'))"
    hostile = {"PYTHONHASHSEED": "7", "TZ": "Asia/Kathmandu", "OMP_NUM_THREADS": "2", "LC_ALL": "C", "PYTHONUTF8": "0",
               "PYTHONCOERCECLOCALE": "0", "XMR_HOME": "elsewhere"}  # fmt: skip
    subprocess.run([sys.executable, "-O", "-c", words], env=os.environ | hostile, cwd=tmp_path, check=True, timeout=120)
    [folder] = (tmp_path / "elsewhere" / "runs").iterdir()
    assert plain[0] == folder.name and {p.stat().st_mode & 0o77 for p in folder.iterdir() if p.name != "lock"} == {0}
    assert [(folder / name).read_bytes() for name in ("metrics.csv", "per_query.csv")] == plain[-3:-1]


def test_threads_train_as_one_after_the_other_in_a_hostile_process_too(plain, tmp_path, monkeypatch):
    configs = [tiny_config(seed=seed, dropout=0.3) for seed in (0, 1)]
    expected = [train_or_load(config).weights() for config in configs]
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "threads"))
    with switched(torch.set_float32_matmul_precision, "medium", "highest"), ThreadPoolExecutor(3) as pool:
        texts = [pool.submit(lambda: [prepare(config.data).inputs for config in configs]) for _ in range(3)]
        got = [run.weights() for run in pool.map(train_or_load, configs)]
        assert all(text.result() for text in texts) and torch.get_float32_matmul_precision() == "medium"
    assert all(torch.equal(a[k], b[k]) for a, b in zip(got, expected, strict=True) for k in a)


def test_a_thread_that_draws_between_steps_is_noticed_and_building_a_network_is_not(monkeypatch):
    inputs, factor = prepare(tiny_config().data).inputs, loop.lr_factor
    for work, noticed in ((lambda: torch.rand(3), True), (lambda: build("vse++", inputs, d=8), False)):

        def between_steps(*given, work=work):  # at its moment, which a thread that draws all the time may miss
            (thread := threading.Thread(target=work)).start()
            thread.join()
            return factor(*given)

        monkeypatch.setattr(loop, "lr_factor", between_steps)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            _, history = run()
        assert [("another thread draws" in m) for m in history.messages] == [True] * noticed == [True] * len(said)


def test_two_threads_train_as_one_after_the_other(monkeypatch, tmp_path):
    configs = [tiny_config(seed=seed, dropout=0.3, epochs=3) for seed in (0, 1)]
    expected = [train_or_load(config).weights() for config in configs]
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "threads"))
    with ThreadPoolExecutor(2) as pool:
        got = [run.weights() for run in pool.map(train_or_load, configs)]
    assert all(torch.equal(a[k], b[k]) for a, b in zip(got, expected, strict=True) for k in a)


@pytest.mark.parametrize("stop_after", [0, 4, 11])
def test_an_interrupted_run_ends_with_the_same_weights(tmp_path, stop_after):
    undisturbed, whole = run()
    path = tmp_path / "state"
    with pytest.raises(Stop):
        run(path, stop_after)
    resumed, history = run(path)
    assert same(undisturbed, resumed)
    assert [e["loss"] for e in history.epochs] == [e["loss"] for e in whole.epochs]


@pytest.mark.parametrize(
    ("place", "word"), [((loop, "processor"), "on"), ((machine, "libraries"), "with")], ids=["processor", "libraries"]
)
def test_a_run_that_goes_on_elsewhere_says_so_once(tmp_path, monkeypatch, place, word):
    path = tmp_path / "state"
    monkeypatch.setattr(*place, lambda: "Old Chip")
    with pytest.raises(Stop):
        run(path, stop_after=4)
    monkeypatch.setattr(*place, lambda: "New Chip")
    with pytest.warns(UserWarning, match=f"{word} New Chip, before {word} Old Chip"):
        _, history = run(path)
    assert len(history.messages) == 1 and history.messages[0].startswith("from epoch 1 step ")
    monkeypatch.setattr(*place, lambda: "Third Chip")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(path)  # it is finished: nothing is trained here


def test_seconds_of_training_are_not_those_that_it_waited_for_the_machine():
    def waits(method):
        time.sleep(1.5)
        return size(method)

    _, history = run(epochs=2, validate=waits)
    assert 0 < history.epochs[0]["seconds"] < history.epochs[1]["seconds"] <= history.seconds < 3.0


def test_the_best_epoch_is_kept():
    values = iter([1.0, 5.0, 2.0])
    after_two, _ = run(epochs=3, validate=lambda m: {"value": next(values)})
    kept = {k: v.clone() for k, v in after_two.state_dict().items()}
    seen = []
    values = iter([1.0, 5.0, 2.0])
    run(
        epochs=3,
        validate=lambda m: seen.append({k: v.clone() for k, v in m.state_dict().items()}) or {"value": next(values)},
    )
    assert all(torch.equal(kept[k], seen[1][k]) for k in kept) and not all(
        torch.equal(kept[k], seen[2][k]) for k in kept
    )


def test_a_damaged_checkpoint_is_noticed_and_the_one_before_it_used(tmp_path):
    path = tmp_path / "state"
    for epoch in (1, 2):
        save_state(path, {"method": nn.Linear(2, 2).state_dict(), "epoch": epoch})
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.warns(UserWarning, match="damaged, the state before"):
        assert load_state(path)["epoch"] == 1
    previous(path).write_bytes(b"nonsense")
    with pytest.warns(UserWarning, match="from the beginning") as said:
        assert load_state(path) is None
    assert len(said) == 1


def test_the_state_of_another_run_is_not_continued(tmp_path):
    path = tmp_path / "state"
    for _ in range(2):
        save_state(path, {"epoch": 1}, "dive-scenes-s0-1")
    assert load_state(path, "dive-scenes-s0-1")["epoch"] == 1
    with pytest.warns(UserWarning, match="belongs to another run"):
        assert load_state(path, "dive-scenes-s1-1") is None


def test_state_is_read_without_running_code(tmp_path):
    import io

    class Attack:
        def __reduce__(self):
            return (open, (str(tmp_path / "owned"), "w"))

    buffer = io.BytesIO()
    torch.save({"method": Attack()}, buffer)
    files.write_sealed(tmp_path / "state", buffer.getvalue())
    with pytest.warns(UserWarning, match="from the beginning: Weights only load failed"):
        assert load_state(tmp_path / "state") is None
    assert not (tmp_path / "owned").exists()


def test_divergence_stops_with_a_remedy():
    watch = CollapseWatch()
    watch.see(1.0, 1.0, "epoch 0 step 0")
    with pytest.raises(TrainingFailed, match="epoch 0 step 1. Lower the learning rate"):
        watch.see(float("nan"), 1.0, "epoch 0 step 1")
    with pytest.raises(TrainingFailed, match="look for NaN"):
        CollapseWatch().see(float("nan"), 1.0, "epoch 0 step 0")


def test_collapse_is_reported_once_and_only_when_it_lasts():
    watch = CollapseWatch()
    messages = [watch.see(0.4, 1e-4, f"step {n}") for n in range(2 * PATIENCE)]
    assert [m is not None for m in messages].index(True) == PATIENCE - 1 and sum(m is not None for m in messages) == 1
    assert "all negatives" in messages[PATIENCE - 1]
    watch = CollapseWatch()
    assert not any(watch.see(0.4, 1e-4 if n % PATIENCE else 0.1, "") for n in range(3 * PATIENCE))


def test_a_collapsing_model_warns_while_training():
    prepared = prepare(tiny_config().data)
    torch.manual_seed(0)
    method = build("dive", prepared.inputs, d=16, iterations=1, objective="triplet", dropout=0.0)
    for encoder in (method.image_encoder, method.caption_encoder):  # every item looks the same to the heads
        for parameter in encoder.parameters():
            parameter.data.zero_()
            parameter.requires_grad_(False)
    with pytest.warns(UserWarning, match="training has collapsed"):
        history = train(
            method, Batches(prepared.splits["train"], 4, 1, 0), lambda m: {"value": 0.0}, TrainConfig(epochs=3)
        )
    assert len(history.messages) == 1


@pytest.mark.parametrize("side", ["images", "captions"])
@pytest.mark.parametrize("method", ["vse++", "dive", "pcme", "pcme++", "sgraf", "scan"])
def test_the_collapse_of_one_tower_is_told_after_the_first_epoch(method, side):
    prepared = prepare(tiny_config().data)
    torch.manual_seed(0)
    made = build(method, prepared.inputs, **({"d": 16, "dropout": 0.3} | TINY.get(method, {})))
    encoder = made.image_encoder if side == "images" else made.caption_encoder

    def alike(module, args, out):  # as if the first had been given for all
        shape = (len(out), 1, out.local_feats.shape[2])
        return Features(
            out.local_feats[:1, :1].expand(shape), out.mask[:, :1], out.global_feat[:1].expand(len(out), -1)
        )

    encoder.register_forward_hook(alike)
    with pytest.warns(UserWarning, match=f"collapsed: after epoch 0 all {side} of a batch"):
        batches = Batches(prepared.splits["train"], 16, 2, 0)
        history = train(made, batches, lambda m: {"value": 0.0}, TrainConfig(epochs=2))
    assert len(history.messages) == 1


@pytest.mark.parametrize(("name", "form"), [(name, form) for name, spec in papers().items() for form in spec.forms])
def test_no_method_is_called_collapsed_at_its_start(name, form):
    prepared = prepare(tiny_config().data)
    for values in papers()[name].variants.values() if form == "matched" else [{}]:
        torch.manual_seed(0)
        made = build(name, prepared.inputs, form, **{"d": 64} | values)
        batches = Batches(prepared.splits["train"], 16, 2, 0)
        assert not train(made, batches, lambda m: {"value": 0.0}, TrainConfig(epochs=1)).messages


def test_the_watch_reads_scores_of_every_kind():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(20, 30, generator=generator)
    flat = {"": scores, "captions": scores[:, :1].expand(20, 30), "images": scores[:1].expand(20, 30)}
    for alike, matrix in flat.items():
        for scale, shift in ((1.0, 0.0), (1e-3, 0.5), (300.0, -900.0)):  # cosines, sigmoids, logits
            told = CollapseWatch().see_axes(scale * matrix + shift, 3)
            assert told is None if not alike else f"all {alike} of" in told
    assert "all images and all captions" in CollapseWatch().see_axes(torch.full((4, 5), 0.7), 0)
    assert CollapseWatch().see_axes(scores[:, :1], 0) is None, "one caption"


def test_schedules():
    assert_close(
        [lr_factor(s, 100, "cosine", 4) for s in (0, 3, 4, 52, 100)], [0.25, 1.0, 1.0, 0.5, 0.0], atol=1e-12, rtol=0
    )
    assert [round(lr_factor(s, 100, "step", steps_per_epoch=2, every=15), 4) for s in (29, 30, 60)] == [1.0, 0.1, 0.01]
    assert lr_factor(70, 100, "constant") == 1.0
    with pytest.raises(BadInput, match="schedule"):
        lr_factor(0, 1, "linear")


def test_learning_rate_scales_reach_the_optimiser():
    from xmr_core.training.loop import _groups

    prepared = prepare(tiny_config().data)
    method = build("dive", prepared.inputs, "published", d=16)
    scale_of = {id(p): g["scale"] for g in _groups(method, TrainConfig()) for p in g["params"]}
    for name, parameter in method.named_parameters():
        if parameter.requires_grad:
            assert scale_of[id(parameter)] == (0.1 if name.startswith(("image_", "caption_head")) else 1.0), name


def test_a_state_that_cannot_be_written_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CannotWrite, match="cannot write"):
        run(tmp_path / "file" / "state")


def small():
    """A tiny method and its batches."""
    prepared = prepare(tiny_config().data)
    torch.manual_seed(0)
    return build("vse++", prepared.inputs, d=16), Batches(prepared.splits["train"], 16, 2, 0)


def test_numbers_of_a_batch_are_checked_before_they_are_trained_on():
    method, batches = small()
    read, calls = batches.split.read_images, []

    def damaged(rows):
        images = read(rows)
        calls.append(rows)
        if len(calls) > 1:  # of the first step heads, similarity and loss look at the numbers too
            images.local_feats[2, 1, 0] = torch.nan
        return images

    batches = replace(batches, split=replace(batches.split, read_images=damaged))
    with pytest.raises(BadInput, match="element 1 of image 2 is NaN or infinite"):
        train(method, batches, lambda m: {"value": 0.0}, TrainConfig(epochs=1))


def test_a_compiled_training_is_another_run_with_the_same_losses(monkeypatch):
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    plain, compiled = (TrainConfig(epochs=1, compile=each) for each in (False, True))
    losses = []
    for config in (plain, compiled):
        method, batches = small()
        losses.append(train(method, batches, lambda m: {"value": 0.0}, config).epochs[0]["loss"])
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
    runs = [tiny_config().replace(compile=each).identity({}) for each in (False, True)]
    assert "compile" not in runs[0]["train"] and runs[1]["train"]["compile"]
    with pytest.raises(BadInput, match="compile"):
        TrainConfig(compile="yes")
