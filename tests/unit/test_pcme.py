"""PCME: head, match probability, loss, regularisers, distances, against loops, quadrature and the authors' outputs."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from golden import ATOL, CHAIN, RTOL, Case, cases, close_gradient, lengths_mask
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Features, GaussianEmbedding, Tokens
from xmr_core.encoders.text import GRUEncoder
from xmr_core.heads.gaussian import GaussianHead, noise_for
from xmr_core.losses.gaussian import kl_to_normal, soft_contrastive, uniformity
from xmr_core.similarities import DISTANCES, MatchLogit

close = partial(assert_close, rtol=RTOL, atol=ATOL)
PIE = {"pie_net.attention.w_1": "mean.w_1", "pie_net.attention.w_2": "mean.w_2", "pie_net.fc": "mean.fc",
       "pie_net.layer_norm": "mean.layer_norm",
       "uncertain_net.attention.w_1": "w_1", "uncertain_net.attention.w_2": "w_2", "uncertain_net.": ""}  # fmt: skip


def gaussians(n: int, d: int = 4, j: int = 3, seed: int = 0) -> GaussianEmbedding:
    g = torch.Generator().manual_seed(seed)
    draw = partial(torch.randn, generator=g, dtype=torch.float64)
    mean, log_std = torch.nn.functional.normalize(draw(n, d), dim=-1), 0.5 * draw(n, d)
    return GaussianEmbedding(mean, log_std, mean[:, None] + log_std.exp()[:, None] * draw(n, j, d))


# match probability and its loss


def match_probability(xs, ys, a, b, factor):
    votes = [
        1 / (1 + math.exp(-factor * (b - a * math.sqrt(float(((x - y) ** 2).sum()) + 1e-6)))) for x in xs for y in ys
    ]
    return sum(votes) / len(votes)


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_match_logit_is_the_log_odds_of_the_loop(factor):
    images, captions = gaussians(3, seed=1), gaussians(4, seed=2)
    scores = MatchLogit(3.0, 2.0, factor).double()(images, captions).detach()
    wanted = [
        [match_probability(x, y, 3.0, 2.0, factor) for y in captions.samples.numpy()] for x in images.samples.numpy()
    ]
    assert_close(scores.sigmoid(), torch.tensor(wanted, dtype=torch.float64), rtol=1e-9, atol=1e-9)


def test_match_logit_survives_what_overflows_a_plain_exponential():
    images, captions = gaussians(3, seed=3), gaussians(4, seed=4)
    far = GaussianEmbedding(captions.mean, captions.log_std, captions.samples + 100)
    for others in (images, far):
        z = images.samples.clone().float().requires_grad_()
        scores = MatchLogit(15.0, 15.0)(GaussianEmbedding(images.mean, images.log_std, z), others.to(torch.float32))
        assert scores.isfinite().all() and torch.autograd.grad(scores.sum(), z)[0].isfinite().all()


def test_match_logit_contract():
    images, captions, similarity = gaussians(4, seed=5), gaussians(5, seed=6), MatchLogit(4.0, 3.0).double()
    whole = similarity(images, captions)
    assert_close(similarity(images[1:3], captions[2:]), whole[1:3, 2:], rtol=1e-12, atol=1e-12)
    shuffled = GaussianEmbedding(captions.mean, captions.log_std, captions.samples[:, [2, 0, 1]])
    assert_close(similarity(images, shuffled), whole, rtol=1e-12, atol=1e-12)

    def f(x, y):
        return similarity(
            GaussianEmbedding(images.mean, images.log_std, x), GaussianEmbedding(captions.mean, captions.log_std, y)
        )

    assert torch.autograd.gradcheck(f, (images.samples.requires_grad_(), captions.samples.requires_grad_()))


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_soft_contrastive_equals_the_loop(reduction):
    scores, match = torch.randn(3, 4, dtype=torch.float64), torch.rand(3, 4) < 0.4
    terms = [
        -math.log(p if m else 1 - p)
        for p, m in zip(scores.sigmoid().flatten().tolist(), match.flatten().tolist(), strict=True)
    ]
    wanted = 2 * sum(terms) if reduction == "sum" else sum(terms) / len(terms)
    assert soft_contrastive(scores, match, reduction).item() == pytest.approx(wanted)


@pytest.mark.parametrize("name", cases("pcme", "criterion"))
def test_the_authors_criterion_and_its_gradients(name):
    case = Case(name)
    cfg = case.cfg
    t = {k: case[f"in.{k}"].requires_grad_() for k in ("z_img", "z_txt", "logsigma_img", "logsigma_txt")}
    images = GaussianEmbedding(case["in.mu_img"], t["logsigma_img"], t["z_img"])
    captions = GaussianEmbedding(case["in.mu_txt"], t["logsigma_txt"], t["z_txt"])
    similarity = MatchLogit(cfg["init_negative_scale"], cfg["init_shift"])
    scores, match = similarity(images, captions), torch.eye(len(images), dtype=torch.bool)
    close(scores.sigmoid(), case["out.match_prob"])
    pairs = torch.nn.functional.binary_cross_entropy_with_logits(scores, match.float(), reduction="none")
    close(pairs, case["out.pair_nll"], rtol=CHAIN)
    close(pairs.diagonal().sum(), case["out.i2t_pos"], rtol=CHAIN)
    close(pairs.sum() - pairs.diagonal().sum(), case["out.i2t_neg"], rtol=CHAIN, atol=1e-5)
    soft = soft_contrastive(scores, match)
    close(soft, case["out.i2t_loss"] + case["out.t2i_loss"])
    spread = kl_to_normal(images, captions)
    close(spread, case["out.kl_img"] + case["out.kl_txt"])
    loss = soft + cfg["vib_beta"] * spread
    close(uniformity(images, captions, t=cfg["uniform_t"]), case["out.uniform_loss"])
    if cfg["uniform_lambda"]:
        loss = loss + cfg["uniform_lambda"] * uniformity(images, captions, t=cfg["uniform_t"])
    close(loss, case["out.loss"])
    loss.backward()
    for key in t:
        if f"out.grad_{key}" in case:
            close_gradient(t[key].grad, case[f"out.grad_{key}"])
    close_gradient(similarity.a.grad.view(1), case["out.grad_negative_scale"])
    close_gradient(similarity.b.grad.view(1), case["out.grad_shift"])


# regularisers


def test_kl_to_normal_equals_the_loops():
    images, captions = gaussians(3, seed=7), gaussians(4, seed=8)
    exact = official = 0.0
    for side in (images, captions):
        for mean, s, samples in zip(
            side.mean.tolist(), side.log_std.tolist(), side.samples.mean(1).tolist(), strict=True
        ):
            exact += sum(0.5 * (m * m + math.exp(2 * v) - 1 - 2 * v) for m, v in zip(mean, s, strict=True))
            official += sum(-0.5 * (1 + v - m * m - math.exp(v)) for m, v in zip(samples, s, strict=True))
    assert kl_to_normal(images, captions, "exact").item() == pytest.approx(exact)
    assert kl_to_normal(images, captions).item() == pytest.approx(official)


def test_uniformity_equals_the_loops():
    images, captions = gaussians(2, seed=9), gaussians(3, seed=10)
    points = [p for side in (images, captions) for item in side.samples.numpy() for p in item]
    terms = [math.exp(-2 * float(((points[a] - points[b]) ** 2).sum())) for a in range(len(points)) for b in range(a)]
    assert uniformity(images, captions).item() == pytest.approx(math.log(sum(terms) / len(terms)))
    assert uniformity(images, captions, "exact").item() == pytest.approx(2 * sum(terms))


def test_uniformity_of_many_points_is_drawn_but_close():
    images, captions = gaussians(200, seed=11), gaussians(200, seed=12)
    torch.manual_seed(0)
    drawn = torch.stack([uniformity(images, captions) for _ in range(20)]).mean()
    every = torch.pdist(torch.cat([images.samples, captions.samples]).flatten(0, 1)).square()
    # a point drawn twice is at distance 0 from itself, so the mean is a little larger
    assert every.mul(-2).exp().mean().log() < drawn < every.mul(-2).exp().mean().log() + 0.3


# closed-form distances


@pytest.mark.parametrize("name", cases("pcme", "test_distances"))
def test_the_authors_distances(name):
    case = Case(name)
    sides = [GaussianEmbedding(case[f"in.mu_{s}"], case[f"in.logsigma_{s}"], case[f"in.mu_{s}"][:, None]) for s in "qg"]
    ours = {"elk": "ELK", "kl": "KL (official)", "reverse_kl": "reverse KL (official)", "js": "JS (official)",
            "bhattacharyya": "Bhattacharyya", "wasserstein": "2-Wasserstein", "l2": "mean only", "min": "min",
            "max": "max"}  # fmt: skip
    for theirs, mine in ours.items():
        close(DISTANCES[mine](*sides), case[f"out.sim_{theirs}"], rtol=CHAIN)


def integral(f, mean1, std1, mean2, std2) -> float:
    """∫ f(log p₁, log p₂) dx by a fine grid, in one dimension."""
    x = np.linspace(-60, 60, 200_001)
    logs = [-0.5 * ((x - m) / s) ** 2 - math.log(s * math.sqrt(2 * math.pi)) for m, s in ((mean1, std1), (mean2, std2))]
    return float(np.trapezoid(f(*logs), x))


def test_divergences_are_the_integrals_they_are_named_after():
    images, captions = gaussians(2, d=1, seed=13), gaussians(2, d=1, seed=14)
    for i in range(2):
        for t in range(2):
            given = (
                images.mean[i].item(),
                images.log_std[i].exp().item(),
                captions.mean[t].item(),
                captions.log_std[t].exp().item(),
            )
            pair = images[i], captions[t]
            forward = integral(lambda p, q: np.exp(p) * (p - q), *given)
            backward = integral(lambda p, q: np.exp(q) * (q - p), *given)
            assert DISTANCES["KL"](*pair).item() == pytest.approx(-forward, abs=1e-6)
            assert DISTANCES["reverse KL"](*pair).item() == pytest.approx(-backward, abs=1e-6)
            assert DISTANCES["JS"](*pair).item() == pytest.approx(-(forward + backward) / 2, abs=1e-6)
            overlap = integral(lambda p, q: np.exp((p + q) / 2), *given)
            assert DISTANCES["Bhattacharyya"](*pair).item() == pytest.approx(math.log(overlap), abs=1e-6)
            likelihood = integral(lambda p, q: np.exp(p + q), *given)
            assert DISTANCES["ELK"](*pair).item() == pytest.approx(
                math.log(likelihood) + 0.5 * math.log(2 * math.pi), abs=1e-6
            )
            m1, s1, m2, s2 = given
            for name in ("mean only", "min", "max"):  # one dimension: all the same
                assert DISTANCES[name](*pair).item() == pytest.approx(-((m1 - m2) ** 2))
            assert DISTANCES["2-Wasserstein"](*pair).item() == pytest.approx(-((m1 - m2) ** 2 + (s1 - s2) ** 2))


def test_distances_of_samples_equal_the_loops():
    images, captions = gaussians(2, seed=15), gaussians(3, seed=16)
    for i, x in enumerate(images.samples.numpy()):
        for t, y in enumerate(captions.samples.numpy()):
            far = np.mean([np.linalg.norm(a - b) for a in x for b in y])
            assert DISTANCES["average L2"](images, captions)[i, t].item() == pytest.approx(-far)
            assert DISTANCES["matmul"](images, captions)[i, t].item() == pytest.approx(
                sum(float(a @ b) for a in x for b in y)
            )


@pytest.mark.parametrize("name", sorted(DISTANCES))
def test_equal_distributions_have_a_finite_gradient(name):
    means = torch.randn(2, 4, generator=torch.manual_seed(0)).requires_grad_()
    item = GaussianEmbedding(means, torch.zeros(2, 4), samples=means[:, None].expand(2, 3, 4))
    DISTANCES[name](item, item).diagonal().sum().backward()
    assert means.grad.isfinite().all()


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.sampled_from(sorted(DISTANCES)), st.integers(0, 10**6))
def test_law_no_distribution_is_nearer_than_itself(name, seed):
    items = gaussians(4, seed=seed)
    if name in ("KL", "reverse KL", "JS", "Bhattacharyya", "2-Wasserstein", "mean only"):
        scores = DISTANCES[name](items, items)
        assert scores.max() <= 1e-9 and scores.diagonal().abs().max() < 1e-9
    others = gaussians(3, seed=seed + 1)
    scores = DISTANCES[name](items, others)
    assert_close(DISTANCES[name](items[1:3], others[:2]), scores[1:3, :2], rtol=1e-9, atol=1e-9)
    if "KL" not in name:
        assert_close(DISTANCES[name](others, items), scores.T, rtol=1e-9, atol=1e-9)


# the head


def features_of(lengths=(5, 2, 3), d_local=4, d=6, seed=0) -> Features:
    g = torch.Generator().manual_seed(seed)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    draw = partial(torch.randn, generator=g, dtype=torch.float64)
    return Features(draw(len(lengths), max(lengths), d_local), mask, draw(len(lengths), d))


def test_samples_have_the_mean_and_spread_they_claim_and_differ_in_training_only():
    torch.manual_seed(0)
    head, features = GaussianHead(4, 6, samples=20_000).double(), features_of()
    for drawn in (head.train()(features), head.eval()(features)):
        z = (drawn.samples - drawn.mean[:, None]) / drawn.log_std.exp()[:, None]
        assert z.mean().abs() < 0.01 and abs(z.std() - 1) < 0.01
    assert torch.equal(head(features).samples, head(features).samples)
    assert not torch.equal(head.train()(features).samples, head(features).samples)
    assert not torch.equal(noise_for(drawn.mean, 7, seed=1), noise_for(drawn.mean, 7, seed=0))


@pytest.mark.parametrize("name", cases("pcme", "image_heads"))
def test_the_authors_image_head(name):
    case = Case(name)
    weights = case.weights("w.img_enc.")
    fc = torch.nn.Linear(case.cfg["d_in"], case.cfg["embed"])
    fc.load_state_dict({k: weights.pop(f"fc.{k}") for k in ("weight", "bias")})
    head = GaussianHead(case.cfg["d_in"], case.cfg["embed"], "pooled").eval()
    for old, new in PIE.items():
        weights = {k.replace(old, new): v for k, v in weights.items()}
    head.load_state_dict(weights)
    x = case["in.local"]
    head.mean.eval()
    got = head(Features(x, torch.ones(x.shape[:2], dtype=torch.bool), fc(case["in.pooled"])))
    close(got.mean, case["out.mu"])
    # the stored pooled vector is not the mean of the stored cells, so that both inputs are seen
    second = head.fc2(case["in.pooled"]) - head.fc2(x.mean(1))
    close(got.log_std + second, case["out.logsigma"])
    maps = head.attention_maps(Features(x, torch.ones(x.shape[:2], dtype=torch.bool), fc(case["in.pooled"])))
    close(maps[0], case["out.mu_attn"].squeeze(-1)), close(maps[1], case["out.logsigma_attn"].squeeze(-1))


@pytest.mark.parametrize("name", cases("pcme", "text_encoder"))
def test_the_authors_caption_head(name):
    case = Case(name)
    cfg, weights = case.cfg, case.weights("w.txt_enc.")
    text = GRUEncoder(cfg["vocab"], cfg["word_dim"], cfg["embed"], "concatenate-last-token", dropout=0.0)
    text.load_state_dict({k: weights.pop(k) for k in list(weights) if k.startswith(("embed.", "rnn."))})
    head = GaussianHead(cfg["word_dim"], cfg["embed"], "gru", samples=max(1, cfg["n_samples_inference"])).eval()
    for old, new in PIE.items():
        weights = {k.replace(old, new): v for k, v in weights.items()}
    head.load_state_dict(weights)
    mask = lengths_mask(case["in.lengths"], case["in.word_ids"].shape[1])
    features = text.eval()(Tokens(case["in.word_ids"], mask))
    got = head(features)
    close(got.log_std, case["out.logsigma"], rtol=CHAIN)
    for found, key in zip(head.attention_maps(features), ("attention", "uncertainty_attention"), strict=True):
        close(found, case[f"out.{key}"].squeeze(-1), rtol=CHAIN)
    close(head.mean(features).residual[:, 0], case["out.residual"], rtol=CHAIN)
    if cfg["n_samples_inference"]:
        close(got.mean[:, None] + got.log_std.exp()[:, None] * case["in.eps"], case["out.embedding"], rtol=CHAIN)
    else:
        close(got.mean, case["out.embedding"], rtol=CHAIN)


@pytest.mark.parametrize("shape", [{}, {"spread": "isotropic"}, {"squash": True}, {"second": "pooled"}])
def test_the_start_of_sigma_is_a_constant_on_log_sigma(shape):
    g = torch.Generator().manual_seed(0)
    features = Features(
        torch.randn(3, 4, 6, generator=g), torch.ones(3, 4, dtype=torch.bool), torch.randn(3, 8, generator=g)
    )
    found = []
    for start in (0.0, -3.0):
        torch.manual_seed(1)
        found.append(GaussianHead(6, 8, log_std_start=start, **shape).eval()(features))
    assert_close(found[1].log_std, found[0].log_std - 3)
    assert torch.equal(found[0].mean, found[1].mean)
    assert_close(
        (found[1].samples - found[1].mean[:, None]) * math.exp(3),
        found[0].samples - found[0].mean[:, None],
        rtol=1e-4,
        atol=1e-5,
    )
    for wrong in (math.nan, -30.0, 9.0):
        with pytest.raises(BadInput, match="log_std_start"):
            GaussianHead(6, 8, log_std_start=wrong)
