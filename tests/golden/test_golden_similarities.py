"""Set similarities and losses against the authors' own outputs and gradients."""

from functools import partial

import pytest
import torch
from golden import ATOL, RTOL, Case, cases, full_set
from torch.testing import assert_close

from xmr_core.base.types import Embedding, EmbeddingSet
from xmr_core.evaluation.analysis.representations import circular_variance, log_circular_variance
from xmr_core.losses.regularisers import gram_diversity, mmd, pairwise_diversity
from xmr_core.losses.scores import hinge_triplet
from xmr_core.similarities import (
    MatchProbability,
    chamfer,
    cosine,
    euclidean_smooth_chamfer,
    max_pairwise,
    order,
    smooth_chamfer,
)

close = partial(assert_close, rtol=RTOL, atol=ATOL)


def as_set(x: torch.Tensor) -> EmbeddingSet:
    return full_set(x if x.ndim == 3 else x.unsqueeze(1))


@pytest.mark.parametrize("name", cases("dive", "similarity"))
def test_dive_similarities_and_their_gradients(name):
    case = Case(name)
    compared = {
        "smooth_chamfer": partial(smooth_chamfer, alpha=case.cfg["alpha"]),
        "chamfer": chamfer,
        "mil": max_pairwise,
        "smooth_chamfer_euclidean_distance": lambda x, y: -euclidean_smooth_chamfer(x, y, case.cfg["alpha"]),
        "mp_alpha1_beta0": MatchProbability(),
        "mp_alpha2.5_beta-0.7": MatchProbability(a=2.5, b=-0.7, learned=True),
    }
    for label, similarity in compared.items():
        images, captions = case["in.img_set"].requires_grad_(), case["in.txt_set"].requires_grad_()
        if f"out.{label}" not in case:
            continue
        scores = similarity(as_set(images), as_set(captions))
        close(scores, case[f"out.{label}"])
        if f"out.grad_img_{label}_sumsq" in case:
            scores.square().sum().backward()
            close(images.grad, case[f"out.grad_img_{label}_sumsq"])
            close(captions.grad, case[f"out.grad_txt_{label}_sumsq"])


@pytest.mark.parametrize("name", cases("dive", "loss"))
def test_dive_loss(name):
    case = Case(name)
    cfg = case.cfg
    tensors = {k: case[f"in.{k}"].requires_grad_() for k in ("img_set", "txt_set", "img_slots", "txt_slots")}
    images, captions = as_set(tensors["img_set"]), as_set(tensors["txt_set"])
    similarity = {
        "smooth_chamfer": partial(smooth_chamfer, alpha=cfg["alpha"]), "chamfer": chamfer, "max": max_pairwise,
        "mp": MatchProbability(),
    }[cfg["similarity"]]  # fmt: skip
    scores = similarity(images, captions)
    close(scores, case["out.scores"])
    match = torch.eye(len(scores), dtype=torch.bool).repeat_interleave(cfg["captions_per_image"], dim=1)
    mining = "hardest" if cfg["max_violation"] else "all"
    triplet = hinge_triplet(scores, match, cfg["margin"], mining, reduction="mean")
    close(triplet, case["out.part_i2t_loss"] + case["out.part_t2i_loss"])
    apart = ("img_slots", "txt_slots") if cfg["unif_residual"] else ("img_set", "txt_set")
    # the authors normalise residuals, but not finished embeddings: same value, other gradient
    diversity = sum(pairwise_diversity(tensors[k], normalise=cfg["unif_residual"]) for k in apart)
    for key in ("img", "txt"):  # always of the residuals
        if f"out.diversity_unif_{key}" in case:
            close(pairwise_diversity(tensors[f"{key}_slots"]), case[f"out.diversity_unif_{key}"])
    if "out.part_unif_loss" in case:
        close(diversity, case["out.part_unif_loss"])
    close(mmd(images, captions, cfg["mmd_gamma"]), case["out.mmd_gamma0.5"])
    if "out.part_mmd_loss" in case:
        close(mmd(images, captions, cfg["mmd_gamma"]), case["out.part_mmd_loss"])
    if "out.part_div_loss" in case:
        close(sum(gram_diversity(tensors[k]) for k in apart), case["out.part_div_loss"])
    loss = triplet + cfg["unif_weight"] * diversity + cfg["mmd_weight"] * mmd(images, captions, cfg["mmd_gamma"])
    if cfg["div_weight"]:
        loss = loss + cfg["div_weight"] * sum(gram_diversity(tensors[k]) for k in apart)
    close(loss, case["out.loss"])
    loss.backward()
    for key, tensor in tensors.items():
        if f"out.grad_{key}" in case:
            close(tensor.grad if tensor.grad is not None else torch.zeros_like(tensor), case[f"out.grad_{key}"])


@pytest.mark.parametrize("name", cases("pvse", "loss"))
def test_pvse_loss(name):
    case = Case(name)
    cfg = case.cfg
    t = {k: case[f"in.{k}"].requires_grad_() for k in ("img", "txt", "img_residual", "txt_residual")}
    images, captions = as_set(t["img"]), as_set(t["txt"])
    scores = max_pairwise(images, captions)
    if "out.mil_scores" in case:
        close(scores, case["out.mil_scores"])
    match = torch.eye(len(scores), dtype=torch.bool)
    loss = hinge_triplet(scores, match, cfg["margin"], "hardest" if cfg["max_violation"] else "all", "batch_mean")
    close(loss, case["out.ranking_loss"])
    if cfg["K"] > 1:
        close(gram_diversity(t["img_residual"]), case["out.div_img"])
        close(gram_diversity(t["txt_residual"]), case["out.div_txt"])
        close(mmd(images, captions, cfg["mmd_gamma"]), case["out.mmd"])
        loss = loss + cfg["div_weight"] * (gram_diversity(t["img_residual"]) + gram_diversity(t["txt_residual"]))
        loss = loss + cfg["mmd_weight"] * mmd(images, captions, cfg["mmd_gamma"])
    close(loss, case["out.loss"])
    loss.backward()
    for key in ("img", "txt", "img_residual", "txt_residual"):
        if f"out.grad_{key}" in case:
            close(t[key].grad, case[f"out.grad_{key}"])


@pytest.mark.parametrize("name", cases("vsepp", "loss"))
def test_vsepp_loss(name):
    case = Case(name)
    images, captions = case["in.im"].requires_grad_(), case["in.s"].requires_grad_()
    similarity = {"cosine": cosine, "order": order}[case.cfg["measure"]]
    scores = similarity(Embedding(images), Embedding(captions))
    close(scores, case["out.scores"])
    mining = "hardest" if case.cfg["max_violation"] else "all"
    loss = hinge_triplet(scores, torch.eye(len(scores), dtype=torch.bool), case.cfg["margin"], mining, "sum")
    close(loss, case["out.loss"])
    loss.backward()
    close(images.grad, case["out.grad_im"])
    close(captions.grad, case["out.grad_s"])


def test_circular_variance():
    case = Case("dive/circular_variance")
    sets = as_set(case["in.set"])
    close(circular_variance(sets), case["out.per_set"])
    close(circular_variance(sets).mean(), case["out.mean"])
    close(log_circular_variance(sets).float(), case["out.log_mean"])
