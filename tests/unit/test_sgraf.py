"""SGRAF: against the authors' outputs, a loop over single pairs, and what it promises about padding and memory."""

import itertools
from functools import partial

import numpy as np
import pytest
import reference
import torch
from golden import ATOL, RTOL, Case, cases, close_gradient, lengths_mask
from torch.testing import assert_close

from xmr_core.base.types import Batch, EmbeddingSet, Features
from xmr_core.heads.tokens import GlobalTokenHead
from xmr_core.losses.objective import Objective
from xmr_core.losses.scores import hinge_triplet
from xmr_core.methods.method import Method
from xmr_core.similarities import sgraf
from xmr_core.similarities.sgraf import PARTS, REASONERS, JointSgraf, Sgraf

close = partial(assert_close, rtol=RTOL, atol=ATOL)
HEAD_NAMES = {"embedding_local.0": "local", "embedding_local.1": "norm_local", "embedding_global.0": "global_linear",
              "embedding_global.1": "norm_global", "embedding_common.0": "common"}  # fmt: skip
NAMES = {"sim_tranloc_w": "nodes.local", "sim_tranglo_w": "nodes.global_linear", "sim_eval_w": "score",
         "SAF_module.attn_sim_w": "reasoner.weigh", "SAF_module.bn": "reasoner.norm", "SGR_module.": "reasoner.steps.",
         "graph_query_w": "query", "graph_key_w": "key",
         "sim_graph_w": "graph"}  # fmt: skip


def loaded(module, weights, names):
    """The module with the authors' weights; every one of its own must be found."""
    for old, new in names.items():
        weights = {k.replace(old, new): v for k, v in weights.items()}
    module.load_state_dict(weights)
    return module


def authors(case) -> tuple[GlobalTokenHead, GlobalTokenHead, Sgraf]:
    cfg, d = case.cfg, case["in.images"].shape[-1]
    make = partial(GlobalTokenHead, d, d, dropout=0.0, normalise=False)
    heads = (make(regions=case["in.images"].shape[1]), make())
    for head, part in zip(heads, ("v", "t"), strict=True):
        loaded(head, case.weights(f"w.sim_enc.{part}_global_w."), HEAD_NAMES)
    similarity = Sgraf(d, cfg["module"].lower(), cfg["sim_dim"], cfg["sgr_step"])
    own = {k: v for k, v in case.weights("w.sim_enc.").items() if "_global_w" not in k}
    return *heads, loaded(similarity, own, NAMES)


def sides(case, images, captions):
    return (
        Features(images, torch.ones(images.shape[:2], dtype=torch.bool)),
        Features(captions, lengths_mask(case["in.cap_lens"], captions.shape[1])),
    )


@pytest.mark.parametrize("name", cases("sgraf", "SGR_eval") + cases("sgraf", "SAF_eval"))
def test_the_authors_scores_nodes_and_gradients(name):
    case = Case(name)
    image_head, caption_head, similarity = (m.eval() for m in authors(case))
    x, y = case["in.images"].requires_grad_(), case["in.captions"].requires_grad_()
    features = sides(case, x, y)
    images, captions = image_head(features[0]), caption_head(features[1])
    close(images.x[:, 0], case["out.img_global"])
    close(captions.x[:, 0], case["out.txt_global"])
    first = 1 + int(case["in.cap_lens"][0])
    nodes, mask = similarity.nodes(images, captions)
    close(nodes[:, 0, :first], case["out.cap0_nodes"])
    attention = similarity.nodes.attention(images, captions)[:, 0, : first - 1]
    found = torch.nn.functional.normalize(attention @ x, dim=-1)
    close(found, case["out.cap0_attended"])
    if case.cfg["module"] == "SGR":
        for step, after in enumerate(similarity.reasoner.after_steps(nodes, mask), 1):
            close(after[:, 0, :first], case[f"out.cap0_nodes_step{step}"])
    else:
        close(similarity.reasoner.weights(nodes, mask)[:, 0, :first], case["out.cap0_saf_weights"][:, 0])
        close(similarity.reasoner(nodes, mask)[:, 0], case["out.cap0_saf_vec"])
    scores = similarity(images, captions)
    close(scores, case["out.scores"])
    match = torch.eye(len(scores), dtype=torch.bool)
    close(hinge_triplet(scores, match, case.cfg["margin"], "all", "sum"), case["out.loss_sum"])
    loss = hinge_triplet(scores, match, case.cfg["margin"], "hardest", "sum")
    close(loss, case["out.loss_max_violation"])
    loss.backward()
    close_gradient(x.grad, case["out.grad_images"])
    close_gradient(y.grad, case["out.grad_captions"])


@pytest.mark.parametrize("name", ["sgraf/SAF_train_bn_nodropout", "sgraf/SGR_train_bn_nodropout"])
def test_the_authors_batch_statistics(name):
    case = Case(name)
    image_head, caption_head, similarity = (m.train() for m in authors(case))
    features = sides(case, case["in.images"], case["in.captions"])
    close(similarity(image_head(features[0]), caption_head(features[1])), case["out.scores"])
    stored = {k.removeprefix("out.after.sim_enc."): case[k] for k in case.names("out.after.")}
    ours = {
        "v_global_out.after.embedding_local.1": image_head.norm_local,
        "v_global_out.after.embedding_global.1": image_head.norm_global,
    }
    if case.cfg["module"] == "SAF":
        ours["SAF_module.bn"] = similarity.reasoner.norm
    assert len(stored) == 3 * len(ours)
    for name, module in ours.items():
        for statistic in ("running_mean", "running_var", "num_batches_tracked"):
            close(getattr(module, statistic), stored[f"{name}.{statistic}"])


@pytest.mark.parametrize("name", cases("sgraf", "self_attention"))
def test_the_authors_global_vectors(name):
    case = Case(name)
    x = case["in.local"]
    for part, regions in (("v", x.shape[1]), ("t", 0)):
        head = loaded(
            GlobalTokenHead(x.shape[2], x.shape[2], regions, normalise=False),
            case.weights(f"w.{part}_global_w."),
            HEAD_NAMES,
        ).eval()
        local = torch.tanh(head.norm_local(head.local(x)))
        whole = torch.tanh(head.norm_global(head.global_linear(case["in.global"])))
        weights = head.common(local * whole[:, None]).softmax(1)
        close(
            torch.nn.functional.normalize((weights * x).sum(1), dim=-1),
            case["out.visual" if part == "v" else "out.text"],
        )


def graphs(n: int, k: int, seed: int, d: int = 6) -> EmbeddingSet:
    """A whole and up to k tokens per item, unit rows."""
    g = torch.Generator().manual_seed(seed)
    x = torch.nn.functional.normalize(torch.randn(n, 1 + k, d, generator=g, dtype=torch.float64), dim=-1)
    mask = torch.rand(n, 1 + k, generator=g) < 0.6
    mask[:, :2] = True
    return EmbeddingSet(x, mask)


def of_one_pair(module: Sgraf, image, caption, direction, parts, reasoner) -> float:
    """The score of a pair without padding, from the equations."""
    w = {k: v.numpy() for k, v in module.state_dict().items()}
    lin = lambda name, x: w[f"{name}.weight"] @ x + w[f"{name}.bias"]  # noqa: E731
    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    contexts, queries = (image[1:], caption[1:]) if direction == "t2i" else (caption[1:], image[1:])
    nodes = [] if parts == "local" else [reference.unit(lin("nodes.global_linear", (image[0] - caption[0]) ** 2))]
    if parts != "global":
        for q, weights in zip(queries, reference.scan_attention(contexts, queries, 9.0, "clipped_l2norm"), strict=True):
            c = reference.unit(sum(a * x for a, x in zip(weights, contexts, strict=True)))
            nodes.append(reference.unit(lin("nodes.local", (q - c) ** 2)))
    if reasoner == "mean":
        return float(np.mean([sigmoid(lin("score", n)) for n in nodes]))
    if reasoner == "saf":
        z = [
            (lin("reasoner.weigh", n)[0] - w["reasoner.norm.running_mean"])
            / np.sqrt(w["reasoner.norm.running_var"] + 1e-5)
            for n in nodes
        ]
        beta = [sigmoid(w["reasoner.norm.weight"] * v + w["reasoner.norm.bias"])[0] for v in z]
        out = reference.unit(sum(b / sum(beta) * n for b, n in zip(beta, nodes, strict=True)))
    else:
        for step in range(len(module.reasoner.steps)):
            q, k = ([lin(f"reasoner.steps.{step}.{kind}", n) for n in nodes] for kind in ("query", "key"))
            edges = [reference.softmax([float(a @ b) for b in k]) for a in q]
            mixed = [sum(e * n for e, n in zip(row, nodes, strict=True)) for row in edges]
            nodes = [np.maximum(lin(f"reasoner.steps.{step}.graph", n), 0) for n in mixed]
        out = nodes[0] if parts != "local" else np.mean(nodes, 0)
    return float(sigmoid(lin("score", out))[0])


def made(reasoner, direction="t2i", parts="both") -> Sgraf:
    torch.manual_seed(0)
    module = Sgraf(6, reasoner, m=5, steps=2, direction=direction, parts=parts).double().eval()
    if reasoner == "saf":
        module.reasoner.norm.running_mean.fill_(0.3)
        module.reasoner.norm.running_var.fill_(1.7)
    return module.requires_grad_(False)


@pytest.mark.parametrize(("reasoner", "direction", "parts"), list(itertools.product(REASONERS, ("t2i", "i2t"), PARTS)))
def test_every_form_equals_the_loop_over_pairs(reasoner, direction, parts):
    module, images, captions = made(reasoner, direction, parts), graphs(3, 4, 1), graphs(4, 5, 2)
    wanted = [
        [of_one_pair(module, i, t, direction, parts, reasoner) for t in reference.real(captions.x, captions.mask)]
        for i in reference.real(images.x, images.mask)
    ]
    assert_close(
        module(images, captions), torch.tensor(wanted, dtype=torch.float64), rtol=1e-7, atol=1e-7
    )  # their 1e-8 under each norm


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_a_small_block_budget_changes_neither_scores_nor_gradients(direction, monkeypatch):
    """Of the plain form, which other devices than processors train with."""
    images, captions, found, calls = graphs(5, 4, 5), graphs(4, 5, 6), [], []
    recompute = sgraf.checkpoint
    for module in (sgraf,):
        monkeypatch.setattr(
            module,
            "checkpoint",
            lambda *given, **options: calls.append(given[0].__name__) or recompute(*given, **options),
        )
        monkeypatch.setattr(module, "_BLOCK", 1)
        monkeypatch.setattr(module, "_ATTENDED_BLOCK", 1)
        monkeypatch.setattr(module, "by_blocks", lambda *tensors: False)
    for stored, stored_nodes in ((10**9, 10**9), (0, 10**9), (10**9, 0)):
        monkeypatch.setattr(sgraf, "_ATTENDED_STORED", stored)
        monkeypatch.setattr(sgraf, "_STORED", stored_nodes)
        module = made("sgr", direction).requires_grad_(True)
        x, y = images.x.clone().requires_grad_(), captions.x.clone().requires_grad_()
        module(EmbeddingSet(x, images.mask), EmbeddingSet(y, captions.mask)).square().sum().backward()
        found.append([x.grad, y.grad, *(p.grad for p in module.parameters())])
    blocks = {"t2i": 5, "i2t": 4}[direction]  # one a context: an image here, a caption there
    assert calls == ["_block"] * blocks + ["_read"] * 5, "nothing was taken in blocks"
    for a, *others in zip(*found, strict=True):
        for b in others:
            assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_in_training_padding_has_no_say_in_batch_statistics():
    images, captions = graphs(3, 4, 7), graphs(4, 5, 8)
    found = []
    for width in (6, 9):
        module = made("saf").train()
        wide = EmbeddingSet(
            *(torch.cat([t, torch.zeros_like(t[:, : width - 6])], 1) for t in (captions.x, captions.mask))
        )
        found.append(
            (module(images, wide), module.reasoner.norm.running_mean.clone(), module.reasoner.norm.running_var.clone())
        )
    for a, b in zip(*found, strict=True):
        assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_running_statistics_follow_caption_after_caption():
    module, images, captions = made("saf").train(), graphs(3, 4, 9), graphs(4, 5, 10)
    nodes, mask = module.nodes(images, captions)
    norm, (mean, variance) = module.reasoner.norm, (0.3, 1.7)  # where `made` starts them
    for t in range(4):
        values = module.reasoner.weigh(nodes)[:, t, mask[0, t], 0].flatten()
        mean = (1 - norm.momentum) * mean + norm.momentum * values.mean().item()
        variance = (1 - norm.momentum) * variance + norm.momentum * values.var().item()
    module(images, captions)
    assert norm.running_mean.item() == pytest.approx(mean) and norm.running_var.item() == pytest.approx(variance)
    assert norm.num_batches_tracked == 4


def test_joint_scores_are_the_mean_of_both_reasoners_on_shared_nodes():
    torch.manual_seed(0)
    joint = JointSgraf(6, 5, 2).double().eval()
    images, captions = (
        EmbeddingSet(torch.randn(n, 4, 6, dtype=torch.float64), torch.ones(n, 4, dtype=torch.bool)) for n in (3, 2)
    )
    apart = []
    for reasoner, own, score in (
        ("sgr", joint.reasoning, joint.score_reasoning),
        ("saf", joint.filtration, joint.score_filtration),
    ):
        alone = Sgraf(6, reasoner, 5, 2).double().eval()
        alone.nodes, alone.reasoner, alone.score = joint.nodes, own, score
        apart.append(alone(images, captions))
    assert_close(torch.stack(joint.scorings(images, captions)), torch.stack(apart))
    assert_close(joint(images, captions), (apart[0] + apart[1]) / 2)


def test_joint_training_adds_the_two_losses():
    torch.manual_seed(0)
    identity = torch.nn.Identity()
    method = Method(
        "joint",
        identity,
        identity,
        identity,
        identity,
        JointSgraf(6, 5, 2),
        Objective(hinge_triplet, {"size": (1.0, lambda i, t: i.x.sum())}),
    )
    images, captions = (EmbeddingSet(torch.randn(3, 4, 6), torch.ones(3, 4, dtype=torch.bool)) for _ in range(2))
    match = torch.eye(3, dtype=torch.bool)
    rows = torch.arange(3)
    loss, terms, scores = method.loss(Batch(images, captions, match, rows, rows))
    each = [hinge_triplet(s, match) for s in method.similarity.scorings(images, captions)]
    assert_close(scores, method.similarity(images, captions))
    assert_close(loss, sum(each) + 2 * images.x.sum())
    assert set(terms) >= {"size"}
