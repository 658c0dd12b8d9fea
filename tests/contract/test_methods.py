"""Every recipe in both forms: it builds, trains end to end, and takes no option it does not have."""

import pickle

import pytest
import torch
from tiny import tiny_config

from xmr_core.data.batches import Batches
from xmr_core.data.prepare import prepare
from xmr_core.methods.registry import build, method_spec, papers
from xmr_core.training import TrainConfig, train

VARIANTS = [
    ("dive", {"similarity": s}) for s in ("smooth_chamfer", "chamfer", "mil", "mp")
] + [("dive", {"head": h}) for h in ("pie-net", "transformer")] + [
    ("dive", {"objective": "triplet", "warmup_epochs": 0}), ("vse++", {"measure": "order"}),
    ("dive", {"query": "sampled"}), ("dive", {"update": "gru"}), ("dive", {"use_global": False}),
    ("dive", {"text_local": "states"}), ("vse++", {}), ("pvse", {}), ("pvse", {"slots": 1}),
    ("pvse", {"text_local": "states"}), ("pcme", {"text_local": "states"}),
] + [("pcme", {"spread": s}) for s in ("per dimension", "isotropic", "none")] + [
    ("pcme", {"squash": True, "uniform": 1.0}),
] + [
    ("scan", {"direction": d, "aggregate": a})
    for d, a in (("t2i", "lse"), ("i2t", "mean"), ("t2i", "max"), ("i2t", "sum"))
] + [("sgraf", {"reasoner": r, "m": 8}) for r in ("sgr", "saf", "mean", "joint")] + [
    ("sgraf", {"m": 8, "direction": "i2t", "parts": "local"}),
] + [
    ("vse-infty", {}), *(("vse-infty", {"pooling": p}) for p in ("k-max", "self-attention", "seq2seq", "gcn")),
    ("vse+2ad", {}), ("vse+2ad", {"adopt": "paper"}), ("vse+2ad", {"mode": "constant"}),
    ("vse+2ad", {"objective": "infonce", "levels": "token", "token_weights": "scalar"}),
    ("vse+2ad", {"pooling": "manual"}), ("vse+2ad", {"balance": "fixed", "token_share": 0.25}),
    ("vse+2ad", {"balance": "random"}),
    ("maxsim", {}), ("maxsim", {"direction": "both"}), ("maxsim", {"direction": "i2t", "aggregate": "sum"}),
    ("chan", {}), ("chan", {"coding": "tha", "pooling": "softmax"}), ("chan", {"coding": "vsa", "pooling": "mean"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def prepared(module_home):
    return prepare(tiny_config().data)


@pytest.mark.slow
@pytest.mark.parametrize("name, options", VARIANTS)
def test_matched_variants_learn(prepared, name, options):
    torch.manual_seed(0)
    method = build(name, prepared.inputs, d=16, dropout=0.0, **options)
    config = TrainConfig(epochs=3, lr=3e-3, warmup_steps=2)
    history = train(method, Batches(prepared.splits["train"], 16, 2, 0), lambda m: {"value": 0.0}, config)
    losses = [e["loss"] for e in history.epochs]
    assert losses[-1] < losses[0]
    for name_, parameter in method.named_parameters():
        assert torch.isfinite(parameter).all(), name_


@pytest.mark.parametrize("name", [name for name, spec in papers().items() if spec.published])
def test_published_forms_take_a_step_and_reach_every_parameter(prepared, name):
    torch.manual_seed(0)
    method = build(name, prepared.inputs, "published", d=32)
    settings = method_spec(name).published_settings()
    batches = Batches(prepared.splits["train"], 8, 2, 0, settings["unit"], settings["positives"])
    loss, _, scores = method.loss(batches.batch(0, 0, batches.plan(0)))
    loss.backward()
    assert torch.isfinite(scores).all()
    # biases that a softmax cancels get rounding errors for a gradient, or exactly 0
    cancelled = ("head.balance.bias", "head.common.bias", "head.norm_query.bias", ".key.bias")
    trained = [(n, p) for n, p in method.named_parameters() if p.requires_grad and not n.endswith(cancelled)]
    silent = [n for n, p in trained if p.grad is None or not p.grad.any()]
    assert silent == list(method_spec(name).untrained), f"no gradient reaches {silent}"


@pytest.mark.parametrize(("name", "form"), [(name, form) for name, spec in papers().items() for form in spec.forms])
def test_matched_forms_share_their_encoders(prepared, name, form):
    method = build(name, prepared.inputs, form, d=16)
    shared = build("dive", prepared.inputs, d=16)
    shapes = lambda m: [(n, tuple(p.shape)) for n, p in m.named_parameters() if "encoder" in n]  # noqa: E731
    assert (shapes(method) == shapes(shared)) == (form == "matched")


def test_pixels_reach_the_trainable_cnn(own_home):
    learned = prepare(tiny_config(features="pixels").data)
    method = build("dive", learned.inputs, d=16, iterations=1)
    batches = Batches(learned.splits["train"], 8, 1, 0)
    method.loss(batches.batch(0, 0, batches.plan(0)))[0].backward()
    assert method.image_encoder.convolutions[0].weight.grad.abs().sum() > 0


def test_mp_learns_its_scale_only_in_the_matched_form(prepared):
    for form, learned in (("matched", True), ("published", False)):
        similarity = build("dive", prepared.inputs, form, d=16, similarity="mp").similarity
        assert similarity.a.requires_grad is learned


def test_methods_can_be_pickled(prepared):
    for name in ("dive", "pvse"):
        assert pickle.loads(pickle.dumps(build(name, prepared.inputs, d=16))).name == name
