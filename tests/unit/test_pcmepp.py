"""PCME++ against its equations: distance, pseudo-positives, mixed samples, head, and a CLIP with two branches."""

import json
import math

import numpy as np
import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from xmr_core.base.types import Batch, Features, GaussianEmbedding, Pixels, Tokens
from xmr_core.encoders.pretrained import ClipTextBranches
from xmr_core.heads import GaussianGPOHead, total_variance
from xmr_core.losses import kl_to_normal, mean_kl_to_normal, pseudo_positive_matching
from xmr_core.methods.common import Inputs
from xmr_core.methods.pcmepp import MixedSamples, drawn_boxes, mixed, mixed_degrees
from xmr_core.methods.registry import build
from xmr_core.similarities import DistanceLogit

LAWS = settings(derandomize=True, deadline=None, max_examples=30)


def gaussians(n: int, seed: int, d: int = 5) -> GaussianEmbedding:
    g = torch.Generator().manual_seed(seed)
    draw = lambda: torch.randn(n, d, generator=g, dtype=torch.float64)  # noqa: E731
    return GaussianEmbedding(torch.nn.functional.normalize(draw(), dim=-1), 0.5 * draw() - 1)


def batch(images: Pixels | Features, captions: int = 2) -> Batch:
    n = len(images)
    match = torch.eye(n, dtype=torch.bool).repeat_interleave(captions, 1)
    tokens = Tokens(torch.ones(n * captions, 3, dtype=torch.long), torch.ones(n * captions, 3, dtype=torch.bool))
    return Batch(images, tokens, match, torch.arange(n), torch.arange(n * captions))


@pytest.mark.parametrize("distance", DistanceLogit.distances)
def test_the_logit_equals_the_loop(distance):
    x, y = gaussians(3, 0), gaussians(4, 1)
    got = DistanceLogit(a=3.0, b=2.0, distance=distance).double()(x, y)
    for i in range(3):
        for t in range(4):
            d = 0.0
            for k in range(5):
                s, r = math.exp(x.log_std[i, k]), math.exp(y.log_std[t, k])
                d += (x.mean[i, k].item() - y.mean[t, k].item()) ** 2
                d += {"CSD": s * s + r * r, "2-Wasserstein": (s - r) ** 2, "mean only": 0.0}[distance]
            assert got[i, t].item() == pytest.approx(2 - 3 * d, abs=1e-9)


@LAWS
@given(seed=st.integers(0, 10**6))
def test_law_more_variance_is_never_nearer_and_scores_match_the_plain_form(seed):
    x, y = gaussians(3, seed), gaussians(4, seed + 1)
    similarity = DistanceLogit().double()
    wider = GaussianEmbedding(x.mean, x.log_std + 0.3)
    assert (similarity(wider, y) < similarity(x, y)).all()
    assert_close(similarity.score(x, y), similarity(x, y))
    assert_close(similarity(y, x), similarity(x, y).T)
    assert_close(total_variance(x), (2 * x.log_std).exp().sum(1))


@pytest.mark.parametrize("degrees", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_loss_equals_the_loop(seed, degrees):
    g = torch.Generator().manual_seed(seed)
    scores = torch.randn(4, 6, generator=g, dtype=torch.float64)
    match = torch.rand(4, 6, generator=g, dtype=torch.float64)
    match = match if degrees else match < 0.3
    got = pseudo_positive_matching(scores, match, pseudo=0.3, smoothing=0.01)
    wanted = reference.pseudo_positive_matching(scores.numpy(), match.numpy(), 0.3, 0.01)
    assert got.item() == pytest.approx(wanted, abs=1e-9)


def test_the_mean_divergence():
    x, y = gaussians(3, 4), gaussians(5, 5)
    zero = GaussianEmbedding(torch.zeros(1, 5, dtype=torch.float64), torch.zeros(1, 5, dtype=torch.float64))
    parts = [kl_to_normal(r, zero, "exact") / r.mean.numel() for r in (x, y)]
    assert_close(mean_kl_to_normal(x, y), sum(parts))
    wide = GaussianEmbedding(x.mean, x.log_std + 9)
    with pytest.warns(UserWarning, match="divergence of the images is .* left out"):
        assert_close(mean_kl_to_normal(wide, y, most=1e4), parts[1])


def test_mixing_follows_its_loop():
    g = torch.Generator().manual_seed(0)
    x = torch.rand(6, 3, 4, 5, generator=g)
    kept = torch.tensor([0.3, 0.6, 1.0, 0.9, 0.5, 0.2])
    cut = torch.tensor([True, False, False, True, False, True])
    boxes = torch.tensor([[0, 2, 1, 4], [0, 0, 0, 0], [0, 0, 0, 0], [3, 4, 0, 5], [0, 0, 0, 0], [0, 4, 0, 5]])
    out, shares = mixed(Pixels(x), kept, cut, boxes)
    for i in range(6):
        wanted, j = x[i].clone(), 5 - i
        if cut[i]:
            top, bottom, left, right = boxes[i].tolist()
            wanted[:, top:bottom, left:right] = x[j, :, top:bottom, left:right]
            assert shares[i].item() == pytest.approx(1 - (bottom - top) * (right - left) / 20)
        else:
            wanted = kept[i] * x[i] + (1 - kept[i]) * x[j]
        assert_close(out.x[i], wanted)
    cells = Features(x.permute(0, 2, 3, 1)[:, :, :4].flatten(1, 2), torch.ones(6, 16, dtype=torch.bool), x[:, :, 0, 0])
    boxes = boxes.clamp(max=4)
    pixels = mixed(Pixels(x[..., :4]), kept, cut, boxes)
    got, shares = mixed(cells, kept, cut, boxes)
    assert_close(got.local_feats, pixels[0].x.permute(0, 2, 3, 1).flatten(1, 2))
    assert_close(shares, pixels[1])
    assert_close(got.global_feat, shares[:, None] * x[:, :, 0, 0] + (1 - shares[:, None]) * x[:, :, 0, 0].flip(0))


def test_mixed_cells_without_a_partner_stay_themselves():
    """A cell that only one of two images has comes from that image, and padding reaches nothing."""
    local = torch.tensor([[[1.0], [2.0]], [[3.0], [math.nan]]])
    mask = torch.tensor([[True, True], [True, False]])
    out, _ = mixed(Features(local, mask), torch.tensor([0.5, 0.5]), torch.zeros(2, dtype=torch.bool), None)
    assert out.mask.all() and out.local_feats.flatten().tolist() == [2.0, 2.0, 2.0, 2.0]


@LAWS
@given(seed=st.integers(0, 10**6), share=st.sampled_from([0.0, 0.5, 1.0]), regions=st.booleans())
def test_law_mixing_keeps_the_sum_of_a_caption_s_degrees_over_a_pair(seed, share, regions):
    torch.manual_seed(seed)
    cells = 5 if regions else 4
    images = Features(torch.rand(6, cells, 2), torch.ones(6, cells, dtype=torch.bool))
    given_batch = batch(images)
    out = MixedSamples(share=share)(given_batch)
    if share == 0:
        assert out is given_batch
        return
    assert ((out.match >= 0) & (out.match <= 1)).all()
    assert_close(out.match.sum(1), torch.full((6,), 2.0))  # every image still has two captions' worth of matches
    assert out.images.local_feats.min() >= 0 and out.images.local_feats.max() <= 1


def test_a_share_of_the_images_is_mixed_and_a_seed_repeats_it():
    images = Pixels(torch.rand(400, 3, 4, 4))
    torch.manual_seed(0)
    first = MixedSamples()(batch(images, 1))
    torch.manual_seed(0)
    assert torch.equal(MixedSamples()(batch(images, 1)).images.x, first.images.x)
    changed = (first.images.x != images.x).flatten(1).any(1).float().mean()
    assert 0.12 < changed < 0.3  # a quarter, less the small boxes that CutMix rounds away


def test_boxes_stay_inside_and_cover_what_they_should():
    kept = torch.tensor([0.0, 0.75, 1.0])
    boxes = drawn_boxes(kept, torch.full((3,), 0.5), torch.full((3,), 0.5), 8, 8)
    assert boxes.tolist() == [[0, 8, 0, 8], [2, 6, 2, 6], [4, 4, 4, 4]]


def test_only_training_mixes():
    method = build("pcme++", Inputs(image_width=8, cells=4, vocabulary=20), d=16, mix=1.0, dropout=0.0)
    images = Features(torch.rand(6, 4, 8), torch.ones(6, 4, dtype=torch.bool))
    torch.manual_seed(0)
    evaluated = [method.eval().loss(batch(images))[0] for _ in range(2)]
    trained = [method.train().loss(batch(images))[0] for _ in range(2)]
    assert evaluated[0] == evaluated[1] and trained[0] != trained[1]


def test_an_item_alone_and_among_padded_others_is_the_same():
    torch.manual_seed(0)
    head = GaussianGPOHead(4, 6, log_variance_start=-3.0).double().eval()
    local = torch.randn(3, 5, 4, dtype=torch.float64)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]], dtype=torch.bool)
    local[~mask] = math.nan
    together = head(Features(local, mask))
    for n, length in enumerate((5, 2, 3)):
        alone = head(local[n : n + 1, :length])
        assert_close(together.mean[n], alone.mean[0])
        assert_close(together.log_std[n], alone.log_std[0])
    assert_close(together.mean.norm(dim=1), torch.ones(3, dtype=torch.float64))


def test_the_start_of_the_variance_is_a_constant_on_log_variance():
    torch.manual_seed(0)
    features = torch.randn(5, 4, 3)
    head = GaussianGPOHead(3, 2, log_variance_start=0.0)
    before = head(features).log_std
    with torch.no_grad():
        head.spread_linear.bias.add_(-6.0)
    assert_close(head(features).log_std, before - 3.0)
    normed = GaussianGPOHead(3, 2, log_variance_start=-6.0, layer_norm=True)(features).log_std
    assert_close(normed, torch.full_like(normed, -3.0), atol=0.02, rtol=0)


SHAPE = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2}
VISION = {"model_type": "clip_vision_model", **SHAPE, "image_size": 16, "patch_size": 8}
TEXT = {"model_type": "clip_text_model", **SHAPE, "vocab_size": 20, "max_position_embeddings": 12}
SCALING = {"resolution": 16, "mean": (0.4,) * 3, "std": (0.3,) * 3}


def test_a_published_method_on_clip_learns_in_every_block_that_has_a_say():
    networks = {
        "image_network": json.dumps({"architecture": VISION, "scaling": SCALING}),
        "text_network": json.dumps({"architecture": TEXT}),
    }
    torch.manual_seed(0)
    method = build("pcme++", Inputs(image_width=0, cells=4, vocabulary=20, **networks), "published", d=8)
    given_batch = batch(Pixels(torch.rand(4, 3, 16, 16)), 1)
    method.loss(given_batch)[0].backward()
    silent = [n for n, p in method.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
    assert [n for n in silent if "k_proj.bias" not in n] == []  # a softmax cancels it
    frozen = [n for n, p in method.named_parameters() if not p.requires_grad]
    assert frozen and all("post_layernorm" in n for n in frozen)


def test_captions_read_from_left_to_right_and_padding_has_no_say():
    torch.manual_seed(0)
    encoder = ClipTextBranches(json.dumps({"architecture": TEXT})).eval()
    ids = torch.randint(3, 20, (2, 6))
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]], dtype=torch.bool)
    with torch.no_grad():
        out, alone = encoder(Tokens(ids, mask)), encoder(Tokens(ids[1:, :3], mask[1:, :3]))
        later = encoder(Tokens(torch.cat([ids[:1, :5], ids[:1, 5:] % 17 + 3], 1), mask[:1]))
    for name in ("local_feats", "spread_feats"):
        assert_close(getattr(out, name)[1, :3], getattr(alone, name)[0], atol=1e-5, rtol=1e-5)
        assert_close(getattr(out, name)[0, :5], getattr(later, name)[0, :5], atol=1e-5, rtol=1e-5)


def test_degrees_of_an_odd_batch_leave_the_middle_alone():
    degrees = mixed_degrees(torch.eye(3, dtype=torch.bool), torch.tensor([0.5, 0.1, 0.8]))
    wanted = np.array([[0.5, 0, 0.5], [0, 1, 0], [0.2, 0, 0.8]])
    assert_close(degrees, torch.tensor(wanted, dtype=torch.float32))
