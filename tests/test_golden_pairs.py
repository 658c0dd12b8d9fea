"""Losses that put a binary question to each pair, SigLIP's and that of PCME++, from this package's operations, against
the authors' own outputs."""

from functools import partial

import pytest
import torch
from golden import ATOL, RTOL, Case, cases, close_gradient, diagonal
from torch.testing import assert_close

from xmr_core.base.types import Embedding, GaussianEmbedding
from xmr_core.losses.gaussian import kl_to_normal
from xmr_core.losses.soft_contrastive import soft_contrastive
from xmr_core.similarities import DISTANCES, cosine

close = partial(assert_close, rtol=RTOL, atol=ATOL)


@pytest.mark.parametrize("name", cases("siglip"))
def test_siglip_loss_and_gradients(name):
    case = Case(name)
    x, y = case["in.image_features"].requires_grad_(), case["in.text_features"].requires_grad_()
    if devices := case.cfg.get("devices"):
        logits = case.cfg["t"] * x @ y.T + case.cfg["bias"]
    else:
        log_scale, bias = case["in.log_scale"].requires_grad_(), case["in.bias"].requires_grad_()
        logits = log_scale.exp() * x @ y.T + bias
    n = len(logits)
    # the authors divide the sum over pairs by the number of images, not of pairs
    loss = n * soft_contrastive(logits, diagonal(n), "mean")
    close(loss, case["out.loss"])
    loss.backward()
    close_gradient(x.grad, case["out.grad_image_features"])
    close_gradient(y.grad, case["out.grad_text_features"])
    if devices:
        rows = zip(logits.chunk(devices), diagonal(n).chunk(devices), strict=True)
        close(torch.stack([n * soft_contrastive(*part, "mean") for part in rows]), case["out.per_device"])
        close(loss, case["out.loss_single_device"])
    else:
        close(log_scale.grad, case["out.grad_log_scale"])
        close(bias.grad, case["out.grad_bias"])


def gaussians(case: Case) -> tuple[dict[str, torch.Tensor], list[GaussianEmbedding]]:
    """(leaves, [images, captions]); the one sample of each is its mean."""
    names = ("img_mean", "img_logvar", "cap_mean", "cap_logvar")
    leaves = {name: case[f"in.{name}"].requires_grad_() for name in names}
    parts = ((leaves[f"{m}_mean"], leaves[f"{m}_logvar"]) for m in ("img", "cap"))
    return leaves, [GaussianEmbedding(mean, logvar / 2, mean[:, None]) for mean, logvar in parts]


def kl_to_one(given: GaussianEmbedding) -> torch.Tensor:
    """Mean over items and dimensions of KL(N(μ, σ²) ‖ N(0, 1)); a standard Gaussian adds nothing."""
    nothing = torch.zeros(1, given.mean.shape[1])
    return kl_to_normal(given, GaussianEmbedding(nothing, nothing, nothing[:, None]), "exact") / given.mean.numel()


def variances(images: GaussianEmbedding, captions: GaussianEmbedding) -> torch.Tensor:
    """Σ σ² + Σ σ′² "i t", which PCME++ adds to the squared distance of the means."""
    of_images, of_captions = ((2 * given.log_std).exp().sum(1) for given in (images, captions))
    return of_images[:, None] + of_captions


def with_pseudo_positives(scores: torch.Tensor, degrees: torch.Tensor) -> tuple[torch.Tensor, int]:
    """A pair that scores at least as high as the best match of its row is given the degree of that match. Returns the
    degrees, and how many pairs beyond the best matches have it by this rule."""
    best = degrees.argmax(1, keepdim=True)
    pseudo = scores >= scores.gather(1, best)
    return torch.where(pseudo, degrees.gather(1, best), degrees), int(pseudo.sum()) - len(scores)


@pytest.mark.parametrize("name", cases("pcmepp", "criterion"))
def test_pcmepp_loss(name):
    case = Case(name)
    leaves, (images, captions) = gaussians(case)
    means = -DISTANCES["mean only"](images, captions)
    if case.cfg.get("prob_distance") == "wdist":
        distances = -DISTANCES["2-Wasserstein"](images, captions)
    else:
        distances = means + variances(images, captions)
    close(means.mean(), case["out.mu_pdist_mean"])
    close((distances - means).mean(), case["out.sigma_pdist_mean"])
    information = [kl_to_one(given) for given in (images, captions)]
    close(information[0], case["out.part_kl_img"])
    close(information[1], case["out.part_kl_cap"])
    match = case["in.matched"] if case.cfg["matched_given"] else diagonal(len(means))  # degrees, or which pairs match
    a, b = (case[f"w.criterion.{name}"].requires_grad_() for name in ("negative_scale", "shift"))
    logits = b - a * distances
    pairs = soft_contrastive(logits, match, "mean")
    close(pairs, case["out.part_bce"])
    loss = 2 * pairs + case.cfg["vib_beta"] * sum(information)
    if case.cfg["smoothness_alpha"]:
        for direction, scores, degrees in (("i2t", logits, match), ("t2i", logits.T, match.T)):
            degrees, count = with_pseudo_positives(scores.detach(), degrees)
            close(degrees, case[f"out.matched_pp_{direction}"])
            assert count == case[f"out.n_pseudo_{direction}"]
            part = soft_contrastive(scores, degrees, "mean")
            close(part, case[f"out.part_pp_{direction}"])
            loss = loss + case.cfg["smoothness_alpha"] * part
    close(loss, case["out.loss"])
    loss.backward()
    for key, leaf in {**leaves, "negative_scale": a, "shift": b}.items():
        close_gradient(leaf.grad, case[f"out.grad_{key}"])


def test_pcmepp_scores():
    case = Case("pcmepp/eval_csd_sims_N6")
    _, (images, captions) = gaussians(case)
    close(DISTANCES["mean only"](images, captions) - variances(images, captions), case["out.csd_sims"])
    close(cosine(Embedding(images.mean), Embedding(captions.mean)), case["out.matmul_sims"])
