"""Every stage of one method on the stand-in for a second device, beside the same on the CPU."""

import os
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch._dynamo  # every optimiser imports it; here once, before a process is forked for each method
from second_device import NAME, Stand
from tiny import TINY, tiny_config
from tiny_models import save

from xmr_core.base.errors import TrainingFailed
from xmr_core.base.machine import resolve_device
from xmr_core.data.batches import Augmentation, Batches
from xmr_core.data.prepare import DataConfig, prepare
from xmr_core.evaluation.analysis import encode_split
from xmr_core.evaluation.evaluate import evaluate
from xmr_core.methods.checkpoint import load_method
from xmr_core.methods.registry import build
from xmr_core.models.load import load
from xmr_core.retrieval.explain import pair_of, without_each_cell, without_each_word
from xmr_core.retrieval.library import open_library
from xmr_core.retrieval.ranking import Query, rank
from xmr_core.training import TrainConfig, loop, train
from xmr_core.training.loop import load_state
from xmr_core.training.runs import ensemble_of, train_or_load


def mix_devices() -> None:
    """Raises: what the stand-in raises for tensors on two devices."""
    with Stand():
        torch.ones(2, 3, device=NAME) + torch.ones(2, 3)


def read_with_frozen_networks(folder: Path) -> None:
    """Raises: AssertionError where a model whose images and sentences are read by frozen networks gives other scores
    on the stand-in than on the CPU, or where one of the networks stays there."""
    os.environ["XMR_HOME"] = str(folder)
    torch.inference_mode = torch.no_grad
    save("vit", folder / "vit"), save("bert", folder / "bert")
    config = tiny_config("vse++", epochs=1, image_model=str(folder / "vit"), text_model=str(folder / "bert"))
    kept = load(train_or_load(config), device="cpu").save_pretrained(folder / "model")
    images, texts = np.random.default_rng(0).integers(0, 256, (3, 40, 30, 3), np.uint8), ["a red square", "two circles"]
    plain = load(kept, device="cpu")
    scores = plain.similarity(images, texts)
    with Stand():
        moved = load(kept, device=NAME)
        networks = moved.raw.describer.extractor.net, moved.raw.captions.model.net, moved.method
        devices = {p.device.type for network in networks for p in network.parameters()}
        assert devices == {NAME}, f"something stayed: {devices}"
        assert torch.allclose(moved.similarity(images, texts), scores, atol=1e-4), "moved when it was loaded"
        ranked = moved.rank(texts, images, k=1)
        assert plain.to(NAME) is plain and torch.allclose(plain.similarity(images, texts), scores, atol=1e-4)
        back = plain.to("cpu").similarity(images, texts)
    assert torch.equal(back, scores), "there and back"
    assert [table["item"].item() for table in ranked] == scores.argmax(0).tolist()


STEPS, LOOKS = 8, 3  # steps of an epoch, and between two looks


def few_steps(method: str, options: dict):
    """(a model, batches of an epoch of STEPS steps), which are looked at every so many."""
    torch.inference_mode = torch.no_grad
    prepared = prepare(DataConfig(size="tiny"), progress=iter)
    torch.manual_seed(0)
    model = build(method, prepared.inputs, **{**TINY.get(method, {}), "d": 16, **options})
    batches = Batches(prepared.splits["train"], 16, 2, 0, augment=Augmentation(cell_drop=0.3, word_drop=0.1))
    plan, loop._READ_EVERY = batches.plan(0), LOOKS
    batches.plan = lambda epoch: (plan * STEPS)[:STEPS]
    batches.__class__ = type("Steps", (Batches,), {"__len__": lambda batches: STEPS})
    return model, batches


def train_without_waits(method: str, options: dict, broken: str = "") -> None:
    """Raises: AssertionError where a step of training reads a number of the stand-in, counts something there, or copies
    what is awaited; only the loop may, once in so many steps. broken: a part of the method that reads one."""
    model, batches = few_steps(method, options)
    parts = {"similarity": model.similarity, "head": model.image_head, "loss": model.objective}
    if broken in parts:
        parts[broken].register_forward_hook(lambda *made: next(model.parameters()).sum().item() and None)
    elif broken == "loop":
        clip = loop.clip_gradients
        loop.clip_gradients = lambda *given: (norm := clip(*given), norm.item())[0]
    counts = []
    with Stand():
        Stand.waits, model = [], model.to(NAME)
        seen = lambda event: counts.append(len(Stand.waits)) if "epoch_done" not in event else None  # noqa: E731
        train(model, batches, lambda m: {"value": 0.0}, TrainConfig(epochs=1, precision="float32"), report=seen)
    wanted = [int(step % LOOKS == 0 or step == STEPS - 1) for step in range(1, STEPS)]  # after the first
    assert np.diff(counts).tolist() == wanted, Stand.waits[counts[0] :]


def stop_at_the_first_bad_step(folder: Path) -> None:
    """Raises: AssertionError unless a loss or a gradient that is no number stops training within so many steps, named
    by its own step, and before anything of it is saved."""
    for bad, said in (("loss", "diverged: the loss is nan"), ("gradient", "gradient has norm nan")):
        for seconds, state in ((1e9, None), (0.0, folder / bad)):
            model, batches = few_steps("vse++", {})
            steps = []
            factor = lambda steps=steps: torch.nan if len(steps) == 5 else 1.0  # noqa: E731
            if bad == "loss":
                model.objective.register_forward_hook(lambda m, x, made, f=factor: (made[0] * f(), made[1]))
            with Stand():
                model = model.to(NAME)
                if bad == "gradient":
                    model.image_encoder.project.weight.register_hook(lambda grad, f=factor: grad * f())
                config, kept = TrainConfig(epochs=1, precision="float32"), {"save_every_seconds": seconds}
                try:
                    train(model, batches, lambda m: {"value": 0.0}, config, state, steps.append, **kept)
                except TrainingFailed as e:
                    assert said in str(e) and "epoch 0 step 5" in str(e), str(e)
                else:
                    raise AssertionError("nothing stopped it")
            assert 5 <= len(steps) < 5 + LOOKS
            if state is not None:
                saved = load_state(state)
                assert saved["progress"]["step"] == 5
                assert all(w.isfinite().all() for w in saved["method"].values() if w.is_floating_point())


RESUMED = ("dive", "sgraf", "pcme++", "vse+2ad")  # one of each kind of state: a set, BatchNorm, mixing, a schedule


def pass_every_stage(method: str, options: dict, folder: Path) -> None:
    """Raises: what a stage raises that mixes devices, or AssertionError where it gives other numbers than the CPU.

    The backend that it registers stays in the process, and so do its settings.
    """
    os.environ["XMR_HOME"] = str(folder)
    torch.inference_mode = torch.no_grad  # the stand-in cannot expand a parameter in the other
    # every operation of the stand-in passes through Python: few steps with many pairs are quicker than many with few
    config = tiny_config(method, **{"epochs": 1, "batch_images": 64, **options})
    here = train_or_load(config)
    split = here.prepared().splits["test"]
    relevance = {"annotated": split.relevance}

    def trained(state, stop_after=None):
        torch.manual_seed(0)
        model = build(method, here.prepared().inputs, **here.config.options).to(NAME)
        batches = Batches(here.prepared().splits["train"], 64, 2, 0)

        def report(event):
            if event.get("epoch_done") and event["epoch"] == stop_after:
                raise KeyboardInterrupt

        try:
            train(model, batches, lambda m: {"value": 0.0}, TrainConfig(epochs=2, precision="float32"), state, report)
        except KeyboardInterrupt:
            return None
        return {name: value.cpu() for name, value in model.state_dict().items()}

    with Stand():
        assert resolve_device(NAME) == NAME
        there = train_or_load(config.replace(device=NAME, precision="float32"))
        half = train_or_load(config.replace(device=NAME, precision="bfloat16"))
        assert np.isfinite(half.history["loss"]).all(), "autocast"
        assert np.allclose(here.history["loss"], there.history["loss"], rtol=1e-4), "training"
        if method in RESUMED and not options:
            assert trained(folder / "state", stop_after=0) is None
            warnings.simplefilter("error")  # a state that cannot be read would start training anew
            resumed, whole = trained(folder / "state"), trained(None)
            assert all(torch.equal(resumed[name], whole[name]) for name in whole), "resume"
        model = here.method().to(NAME)
        images, captions = encode_split(model, split)
        scores = model.similarity.score(images.to(NAME), captions.to(NAME)).cpu()
        judged = evaluate(model.similarity, images, captions, relevance, device=NAME).summary()
        scoring = sys.modules["xmr_core.evaluation.ranks"]  # the package shows a function of that name
        scoring._NO_DOUBLE, Stand.single = (NAME,), True
        single = evaluate(model.similarity, images, captions, relevance, device=NAME).summary()
        assert single["value"].tolist() == judged["value"].tolist(), "without float64"
        scoring._NO_DOUBLE, Stand.single = (), False
        library = open_library(here)
        library.method.to(NAME)
        moved = replace(library)
        text = str(library.texts[0])
        answers = rank(moved, Query("text", text)).table
        pair = pair_of(moved, Query("text", text), 0)
        worth = without_each_word(pair), without_each_cell(pair)
    plain = here.method()
    own_items = encode_split(plain, split)
    assert torch.allclose(plain.similarity.score(*own_items), scores, atol=1e-5), "scoring"
    again = evaluate(plain.similarity, *own_items, relevance).summary()
    assert judged["value"].tolist() == again["value"].tolist(), "ranks"
    library = open_library(here)
    wanted = rank(library, Query("text", text)).table
    assert answers["item"].tolist() == wanted["item"].tolist(), "search"
    pair = pair_of(library, Query("text", text), 0)
    assert np.allclose(worth[0]["adds"], without_each_word(pair)["adds"], atol=1e-4), "words"
    assert np.allclose(worth[1], without_each_cell(pair), atol=1e-4), "cells"
    assert ensemble_of([here, there]).metrics["value"].notna().all(), "ensemble"
    assert there.weights().keys() == here.weights().keys()
    assert all(weight.device.type == "cpu" for weight in there.weights().values()), "weights"
    loaded = load_method(there.export(folder / "export"))[0]
    assert all(p.device.type == "cpu" for p in loaded.parameters()), "export"
