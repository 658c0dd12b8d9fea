"""Losses that put a binary question to each pair, SigLIP's and that of PCME++, and what PCME++ is made of, against the
authors' own outputs."""

import json
from functools import partial

import pytest
import torch
from clip_names import head, tower
from golden import ATOL, CHAIN, RTOL, Case, cases, close_gradient, diagonal, lengths_mask
from torch.testing import assert_close

from xmr_core.base.types import Embedding, GaussianEmbedding, Pixels, Tokens
from xmr_core.encoders.pretrained import ClipImageBranches, ClipTextBranches
from xmr_core.heads.gaussian import total_variance
from xmr_core.heads.gpo import GaussianGPOHead
from xmr_core.losses import PairwiseSigmoid, mean_kl_to_normal, pseudo_positive_matching, pseudo_positives
from xmr_core.losses.gaussian import soft_contrastive
from xmr_core.methods.pcmepp import mixed, mixed_degrees
from xmr_core.similarities import DISTANCES, DistanceLogit, cosine

close = partial(assert_close, rtol=RTOL, atol=ATOL)


@pytest.mark.parametrize("name", cases("siglip"))
def test_siglip_loss_and_gradients(name):
    case = Case(name)
    x, y = case["in.image_features"].requires_grad_(), case["in.text_features"].requires_grad_()
    devices = case.cfg.get("devices", 1)
    loss_of = PairwiseSigmoid(temperature=1 / 30, bias=0.0)
    if devices > 1:
        log_scale, bias = torch.tensor(case.cfg["t"]).log(), torch.tensor(float(case.cfg["bias"]))
    else:
        log_scale, bias = case["in.log_scale"].squeeze(), case["in.bias"].squeeze()
    with torch.no_grad():
        loss_of.log_scale.copy_(log_scale), loss_of.bias.copy_(bias)
    match = diagonal(len(x))
    loss = loss_of(x @ y.T, match)
    close(loss, case["out.loss"])
    loss.backward()
    close_gradient(x.grad, case["out.grad_image_features"])
    close_gradient(y.grad, case["out.grad_text_features"])
    if devices > 1:
        rows = zip((x @ y.T).chunk(devices), match.chunk(devices), strict=True)
        close(torch.stack([loss_of(*part) for part in rows]), case["out.per_device"])
        close(loss, case["out.loss_single_device"])
    else:
        close(loss_of.log_scale.grad, case["out.grad_log_scale"].view(()))
        close(loss_of.bias.grad, case["out.grad_bias"].view(()))


def gaussians(case: Case) -> tuple[dict[str, torch.Tensor], list[GaussianEmbedding]]:
    """(leaves, [images, captions])."""
    names = ("img_mean", "img_logvar", "cap_mean", "cap_logvar")
    leaves = {name: case[f"in.{name}"].requires_grad_() for name in names}
    parts = ((leaves[f"{m}_mean"], leaves[f"{m}_logvar"]) for m in ("img", "cap"))
    return leaves, [GaussianEmbedding(mean, logvar / 2) for mean, logvar in parts]


@pytest.mark.parametrize("name", cases("pcmepp", "criterion"))
def test_pcmepp_loss(name):
    case = Case(name)
    leaves, (images, captions) = gaussians(case)
    similarity = DistanceLogit(distance="2-Wasserstein" if case.cfg.get("prob_distance") == "wdist" else "CSD")
    with torch.no_grad():
        similarity.a.copy_(case["w.criterion.negative_scale"][0]), similarity.b.copy_(case["w.criterion.shift"][0])
    logits = similarity(images, captions)
    means = -DISTANCES["mean only"](images, captions)
    close(means.mean(), case["out.mu_pdist_mean"])
    close(((similarity.b - logits) / similarity.a - means).mean(), case["out.sigma_pdist_mean"])
    for items, which in ((images, "img"), (captions, "cap")):
        close(mean_kl_to_normal(items, items) / 2, case[f"out.part_kl_{which}"])
    match = case["in.matched"] if case.cfg["matched_given"] else diagonal(len(means))  # degrees, already smoothed
    pseudo = case.cfg["smoothness_alpha"]
    pairs = pseudo_positive_matching(logits, match, pseudo=0.0, smoothing=0.0)
    close(pairs / 2, case["out.part_bce"])
    if pseudo:
        for direction, z, y in (("i2t", logits, match), ("t2i", logits.T, match.T)):
            degrees = pseudo_positives(z, y)
            close(degrees, case[f"out.matched_pp_{direction}"])
            # how many beside the reference have its degree by the rule
            count = int((z >= z.gather(1, y.argmax(1, keepdim=True))).sum()) - len(z)
            assert count == case[f"out.n_pseudo_{direction}"]
            close(soft_contrastive(z, degrees, "mean"), case[f"out.part_pp_{direction}"])
    loss = pseudo_positive_matching(logits, match, pseudo, smoothing=0.0)
    loss = loss + case.cfg["vib_beta"] * mean_kl_to_normal(images, captions)
    close(loss, case["out.loss"])
    loss.backward()
    for key, leaf in leaves.items():
        close_gradient(leaf.grad, case[f"out.grad_{key}"])
    close_gradient(similarity.a.grad.view(1), case["out.grad_negative_scale"])
    close_gradient(similarity.b.grad.view(1), case["out.grad_shift"])


def test_pcmepp_scores_and_uncertainty():
    case = Case("pcmepp/eval_csd_sims_N6")
    _, (images, captions) = gaussians(case)
    close(DISTANCES["CSD"](images, captions), case["out.csd_sims"])
    close(cosine(Embedding(images.mean), Embedding(captions.mean)), case["out.matmul_sims"])
    close(total_variance(images), case["out.img_uncertainty"])
    close(total_variance(captions), case["out.cap_uncertainty"])


def test_pcmepp_mixed_images():
    case = Case("pcmepp/msda_elem_B8")
    images, kept = mixed(Pixels(case["in.x"]), case["in.lam_drawn"], case["in.use_cutmix"], case["in.boxes"])
    close(images.x, case["out.x_mixed"])
    close(kept, case["out.lam_final"])
    smoothing = case.cfg["label_smoothing"]
    degrees = mixed_degrees(diagonal(len(kept)), kept)
    close(smoothing + (1 - 2 * smoothing) * degrees, case["out.soft_target"])
    close((degrees > 0).float(), case["out.hard_target"])


def encoded(case: Case, encoder, prefix: str, items, mean: tuple[str, str], spread: tuple[str, str]):
    """(features, distributions) of an encoder of two branches and its head, both with the case's weights."""
    weights = case.weights(prefix)
    # older versions of transformers put the tower one level deeper
    names = {name.replace("vision_model.", "").replace("text_model.", ""): name for name in encoder.state_dict()}
    ours = {names.get(name, name): x for name, x in tower(weights, image=encoder.kind == "image").items()}
    missing = encoder.load_state_dict(ours, strict=False)
    assert not missing.unexpected_keys and all(encoder.unread in key for key in missing.missing_keys)
    gaussian = GaussianGPOHead(encoder.local_width, case.cfg["embed"])
    gaussian.load_state_dict(head(weights, mean, spread))
    with torch.no_grad():
        features = encoder.eval()(items)
        return features, gaussian.eval()(features)


def compare(case: Case, features, items: GaussianEmbedding) -> None:
    real = features.mask[..., None]
    for got, name in ((features.local_feats, "mean"), (features.spread_feats, "std")):
        close(torch.where(real, got, 0.0), torch.where(real, case[f"out.tokens_{name}"], 0.0), rtol=CHAIN, atol=CHAIN)
    close(items.mean, case["out.mean"], rtol=CHAIN, atol=CHAIN)
    close(2 * items.log_std, case["out.logvar"], rtol=CHAIN, atol=CHAIN)


def test_pcmepp_image_encoder():
    case = Case("pcmepp/image_encoder_unc1_noLN")
    cfg = case.cfg
    shape = {
        "model_type": "clip_vision_model", "hidden_size": cfg["vit_width"], "intermediate_size": 4 * cfg["vit_width"],
        "num_hidden_layers": cfg["layers"], "num_attention_heads": cfg["heads"], "image_size": 16,
        "patch_size": cfg["patch"], "hidden_act": "quick_gelu",
    }  # fmt: skip
    plain = {"resolution": 16, "mean": (0.0,) * 3, "std": (1.0,) * 3}  # the case holds scaled pixels
    encoder = ClipImageBranches(json.dumps({"architecture": shape, "scaling": plain}), cfg["n_unc_layers"])
    parts = ("image_encoder.fc.", "image_encoder.gpool."), ("image_std_encoder.fc.", "image_std_encoder.gpool.")
    compare(case, *encoded(case, encoder, "w.img_enc.", Pixels(case["in.images"]), *parts))


def test_pcmepp_text_encoder():
    case = Case("pcmepp/text_encoder_unc1_noLN")
    cfg = case.cfg
    vocabulary = len(case["w.txt_enc.backbone.token_embedding.weight"])
    shape = {
        "model_type": "clip_text_model", "hidden_size": cfg["width"], "intermediate_size": 4 * cfg["width"],
        "num_hidden_layers": cfg["layers"], "num_attention_heads": cfg["heads"], "vocab_size": vocabulary,
        "max_position_embeddings": cfg["context"], "hidden_act": "quick_gelu",
    }  # fmt: skip
    encoder = ClipTextBranches(json.dumps({"architecture": shape}), cfg["n_unc_layers"])
    tokens = Tokens(case["in.token_ids"], lengths_mask(case["in.lengths"], cfg["context"]))
    parts = ("linear.", "gpool."), ("std_linear.", "std_gpool.")
    compare(case, *encoded(case, encoder, "w.txt_enc.", tokens, *parts))
