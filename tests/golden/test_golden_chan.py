"""CHAN's similarity and encoders against the authors' own outputs. Their LSE is not divided."""

from functools import partial

import pytest
import torch
from golden import ATOL, RTOL, Case, cases, close_gradient, diagonal, full_set, lengths_mask
from torch.testing import assert_close

from xmr_core.base.types import EmbeddingSet, Features, Tokens
from xmr_core.encoders.image import SelfAttentionRegions
from xmr_core.encoders.text import GRUEncoder
from xmr_core.heads.tokens import TokenHead
from xmr_core.losses.scores import InfoNCE, hinge_triplet
from xmr_core.similarities import Chan, scan

close = partial(assert_close, rtol=RTOL, atol=ATOL)
POOLINGS = {"MaxPooling": "max", "MeanPooling": "mean", "LSEPooling": "lse", "SoftmaxPooling": "softmax"}


def similarity_of(cfg: dict):
    if cfg["coding"] == "T2I":  # a coding that no command of the authors reaches: SCAN's t-i
        return partial(scan, direction="t2i", sharpness=cfg["scan_lambda"], aggregate=cfg["pooling"])
    coding = cfg["coding"].removesuffix("Coding").lower()
    return Chan(coding, POOLINGS[cfg["pooling"]], cfg["alpha"], cfg["beta"])


def relevance_of_each(similarity: Chan, images: EmbeddingSet, captions: EmbeddingSet) -> torch.Tensor:
    """r of every query element "i t q", −1 on padding: scores of items that have no other query."""
    single = Chan(similarity.options["coding"], "mean", similarity.options["alpha"])
    if similarity.direction == "t2i":
        of_words = single(images, full_set(captions.x.flatten(0, 1)[:, None])).unflatten(1, captions.mask.shape)
        return torch.where(captions.mask[None], of_words, -1.0)
    of_regions = single(full_set(images.x.flatten(0, 1)[:, None]), captions).unflatten(0, images.mask.shape)
    return torch.where(images.mask[:, None], of_regions.transpose(1, 2), -1.0)


CODED = cases("chan", "vha") + cases("chan", "tha") + cases("chan", "vsa")


@pytest.mark.parametrize("name", CODED + cases("chan", "scan"))
def test_chan_scores_losses_and_gradients(name):
    case = Case(name)
    cfg, x, y = case.cfg, case["in.images"].requires_grad_(), case["in.captions"].requires_grad_()
    images = EmbeddingSet(x, lengths_mask(case["in.image_lengths"], x.shape[1]))
    captions = EmbeddingSet(y, lengths_mask(case["in.cap_lens"], y.shape[1]))
    similarity = similarity_of(cfg)
    scores = similarity(images, captions)
    close(scores, case["out.scores"])
    if "out.coded" in case:
        close(relevance_of_each(similarity, images, captions), case["out.coded"])
        close(similarity.score(images, captions), case["out.scores"])
    match = diagonal(len(scores))
    if cfg["loss"] == "infonce":  # a margin on the positive; the authors add the two directions
        loss = 2 * InfoNCE(cfg["infonce_temperature"], learned=False)(scores - cfg["margin"] * match, match)
    else:
        mining = {"hinge": "hardest", "hinge_sum": "all"}[cfg["loss"]]
        loss = hinge_triplet(scores, match, cfg["margin"], mining)
    close(loss, case["out.loss"])
    loss.backward()
    close_gradient(x.grad, case["out.grad_img"])
    close_gradient(y.grad, case["out.grad_cap"])


def test_chan_regions():
    """`out.emb` attends to padding as the authors do, `out.emb_alone` to real regions only, as the package does."""
    case = Case("chan/image_encoder_selfattention")
    cfg, x = case.cfg, case["in.images"]
    names = {"feedforward.ln.": "norm.", "feedforward.attn.": "attention."}
    weights = case.weights("w.img_enc.")
    for theirs, ours in names.items():
        weights = {key.replace(theirs, ours): weight for key, weight in weights.items()}
    encoder = SelfAttentionRegions(x.shape[2], cfg["embed"], cfg["heads"]).eval()
    encoder.load_state_dict(weights)
    head = TokenHead(cfg["embed"], cfg["embed"])
    mask = lengths_mask(case["in.image_lengths"], x.shape[1])
    for features, wanted in ((Features(x, torch.ones_like(mask)), "out.emb"), (Features(x, mask), "out.emb_alone")):
        regions = head(encoder(features))
        real = regions.mask if wanted == "out.emb" else mask
        close(regions.x[real], case[wanted][real], atol=2e-5)


@pytest.mark.parametrize("name", cases("chan", "text_encoder"))
def test_chan_words(name):
    case = Case(name)
    cfg, weights = case.cfg, case.weights("w.txt_enc.")
    text = GRUEncoder(cfg["vocab"], cfg["word_dim"], cfg["embed"], "average", "states", dropout=0.0).eval()
    text.load_state_dict({key: weight for key, weight in weights.items() if not key.startswith("fc.")})  # fc is unused
    mask = lengths_mask(case["in.lengths"], case["in.word_ids"].shape[1])
    words = TokenHead(cfg["embed"], cfg["embed"])(text(Tokens(case["in.word_ids"], mask))).x
    close(torch.where(mask[..., None], words, 0.0), case["out.emb"], atol=2e-5)
