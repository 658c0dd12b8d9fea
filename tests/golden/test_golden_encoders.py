"""Encoders of SCAN and VSE∞ against the authors' own outputs."""

from functools import partial

import pytest
import torch
from golden import ATOL, CHAIN, RTOL, Case, cases, lengths_mask
from torch.testing import assert_close

from xmr_core.base.types import Features, Tokens
from xmr_core.encoders.image import LinearRegions, ResidualRegions
from xmr_core.encoders.text import GRUEncoder
from xmr_core.heads.gpo import GPOHead
from xmr_core.heads.tokens import TokenHead
from xmr_core.losses.scores import hinge_triplet
from xmr_core.similarities import cosine

close = partial(assert_close, rtol=RTOL, atol=ATOL)


@pytest.mark.parametrize("name", cases("scan", "encoders"))
def test_the_authors_scan_encoders(name):
    case = Case(name)
    cfg, weights = case.cfg, case.weights("w.txt_enc.")
    x = case["in.images"]
    image = LinearRegions(cfg["img_dim"], cfg["embed_size"])
    image.load_state_dict(case.weights("w.img_enc."))
    close(TokenHead(16, 16)(image(Features(x, torch.ones(x.shape[:2], dtype=torch.bool)))).x, case["out.img_emb"])
    summary = "average" if cfg["bi_gru"] else "last"
    text = GRUEncoder(cfg["vocab"], cfg["word_dim"], cfg["embed_size"], summary, "states", dropout=0.0)
    text.load_state_dict(weights)
    mask = lengths_mask(case["in.lengths"], case["in.word_ids"].shape[1])
    got = TokenHead(16, 16)(text.eval()(Tokens(case["in.word_ids"], mask)))
    close(got.x[mask], case["out.cap_emb"][mask], rtol=CHAIN)


def test_the_authors_weight_norm():
    case = Case("scan/encoder_weight_norm")
    weights, x = case.weights("w.img_enc.fc."), case["in.images"]
    image = LinearRegions(case.cfg["img_dim"], case.cfg["embed_size"], scalar_norm=True)
    norm = {f"parametrizations.weight.original{n}": weights[f"weight_{part}"] for n, part in enumerate("gv")}
    image.fc.load_state_dict({"bias": weights["bias"], **norm})
    close(TokenHead(16, 16)(image(Features(x, torch.ones(x.shape[:2], dtype=torch.bool)))).x, case["out.img_emb"])


def test_the_authors_vse_infty_encoders_and_loss():
    case = Case("gpo/vse_infty_encoders_backbone_fc")
    cfg = case.cfg
    images = Features(case["in.images"], lengths_mask(case["in.image_lengths"], case["in.images"].shape[1]))
    tokens = Tokens(case["in.word_ids"], lengths_mask(case["in.lengths"], case["in.word_ids"].shape[1]))
    image = ResidualRegions(cfg["img_dim"], cfg["embed"], mlp=False).eval()
    text = GRUEncoder(cfg["vocab"], cfg["word_dim"], cfg["embed"], "average", "states", dropout=0.0).eval()
    sides = []
    for part, encoder, given in (("img", image, images), ("txt", text, tokens)):
        weights, head = case.weights(f"w.{part}_enc."), GPOHead(cfg["embed"], cfg["embed"])
        head.load_state_dict({k.removeprefix("gpool."): v for k, v in weights.items() if k.startswith("gpool.")})
        encoder.load_state_dict({k: v for k, v in weights.items() if not k.startswith("gpool.")})
        sides.append(head(encoder(given)))
        close(sides[-1].x, case[f"out.{'img' if part == 'img' else 'cap'}_emb"], rtol=CHAIN)
    scores = cosine(*sides)
    close(scores, case["out.scores"], rtol=CHAIN)
    match = torch.eye(len(scores), dtype=torch.bool)
    close(hinge_triplet(scores, match, 0.2, "hardest", "sum"), case["out.loss_max_violation"], rtol=CHAIN)
    close(hinge_triplet(scores, match, 0.2, "all", "sum"), case["out.loss_sum"], rtol=CHAIN)
