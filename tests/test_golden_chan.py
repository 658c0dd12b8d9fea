"""CHAN from this package's similarities, against the authors' own outputs.

Its scores are a coding, what each fragment finds in the other modality, then a pooling over fragments. VHA is the best
region of each word, THA the best word of each region, VSA soft attention of regions to words."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from golden import ATOL, RTOL, Case, cases, close_gradient, diagonal, full_set, lengths_mask
from torch.testing import assert_close

from xmr_core.base.types import EmbeddingSet, Tokens
from xmr_core.encoders.text import GRUEncoder
from xmr_core.heads.tokens import TokenHead
from xmr_core.losses.infonce import InfoNCE
from xmr_core.losses.triplet import hinge_triplet
from xmr_core.similarities import max_pairwise, scan, scan_attention, sum_max

close = partial(assert_close, rtol=RTOL, atol=ATOL)


def best_regions(images: EmbeddingSet, captions: EmbeddingSet) -> torch.Tensor:
    """For each word the similarity of its best region "i t l": a word is a set of one."""
    words = full_set(captions.x.flatten(0, 1)[:, None])
    return max_pairwise(images, words).unflatten(1, captions.mask.shape)


def attended_words(images: EmbeddingSet, captions: EmbeddingSet, sharpness: float) -> torch.Tensor:
    """For each region its cosine with the words that it attends to "i t k"."""
    attention = scan_attention(images, captions, "i2t", sharpness, "no_norm")  # i t k l
    attended = F.normalize(torch.einsum("itkl,tld->itkd", attention, captions.x), dim=-1)
    return torch.einsum("ikd,itkd->itk", images.x, attended)


def coded(cfg: dict, images: EmbeddingSet, captions: EmbeddingSet) -> tuple[torch.Tensor, torch.Tensor]:
    """(similarity of each fragment "i t f", which fragments are real "i t f")."""
    of_words, of_regions = captions.mask.expand(len(images), -1, -1), images.mask[:, None].expand(-1, len(captions), -1)
    return {
        "VHACoding": lambda: (best_regions(images, captions), of_words),
        "THACoding": lambda: (best_regions(captions, images).transpose(0, 1), of_regions),
        "VSACoding": lambda: (attended_words(images, captions, 1 / cfg["alpha"]), of_regions),
    }[cfg["coding"]]()


def pooled(cfg: dict, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The authors' LSE is not divided by its sharpness 1/β."""
    real = values.masked_fill(~mask, -torch.inf)
    return {
        "MaxPooling": lambda: real.amax(-1),
        "MeanPooling": lambda: torch.where(mask, values, 0.0).sum(-1) / mask.sum(-1),
        "LSEPooling": lambda: (real / cfg["beta"]).logsumexp(-1),
        "SoftmaxPooling": lambda: ((real / cfg["beta"]).softmax(-1) * values).sum(-1),
    }[cfg["pooling"]]()


def chan_similarity(cfg: dict):
    """The similarity of this package that computes coding and pooling at once, or None."""
    soft = partial(scan, direction="i2t", sharpness=1 / cfg["alpha"], normalise="no_norm")
    return {
        ("VHACoding", "MeanPooling"): lambda x, y: sum_max(x, y) / y.mask.sum(1),
        ("VHACoding", "MaxPooling"): max_pairwise,
        ("VSACoding", "MeanPooling"): partial(soft, aggregate="mean"),
        ("VSACoding", "LSEPooling"): lambda x, y: soft(x, y, aggregate="lse", lse_scale=1 / cfg["beta"]) / cfg["beta"],
        ("T2I", "mean"): lambda x, y: scan(x, y, "t2i", cfg["scan_lambda"], "mean"),
    }.get((cfg["coding"], cfg["pooling"]))


CODED = cases("chan", "vha") + cases("chan", "tha") + cases("chan", "vsa")


@pytest.mark.parametrize("name", CODED + cases("chan", "scan"))
def test_chan_scores_losses_and_gradients(name):
    case = Case(name)
    cfg, x, y = case.cfg, case["in.images"].requires_grad_(), case["in.captions"].requires_grad_()
    images = EmbeddingSet(x, lengths_mask(case["in.image_lengths"], x.shape[1]))
    captions = EmbeddingSet(y, lengths_mask(case["in.cap_lens"], y.shape[1]))
    if "out.coded" in case:
        values, mask = coded(cfg, images, captions)
        close(torch.where(mask, values, -1.0), case["out.coded"])
        close(pooled(cfg, values, mask), case["out.scores"])
    similarity = chan_similarity(cfg)
    scores = similarity(images, captions) if similarity else pooled(cfg, values, mask)
    close(scores, case["out.scores"])
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


@pytest.mark.parametrize("name", cases("chan", "text_encoder"))
def test_chan_words(name):
    case = Case(name)
    cfg, weights = case.cfg, case.weights("w.txt_enc.")
    text = GRUEncoder(cfg["vocab"], cfg["word_dim"], cfg["embed"], "average", "states", dropout=0.0).eval()
    text.load_state_dict({key: weight for key, weight in weights.items() if not key.startswith("fc.")})  # fc is unused
    mask = lengths_mask(case["in.lengths"], case["in.word_ids"].shape[1])
    words = TokenHead(cfg["embed"], cfg["embed"])(text(Tokens(case["in.word_ids"], mask))).x
    close(torch.where(mask[..., None], words, 0.0), case["out.emb"], atol=2e-5)
