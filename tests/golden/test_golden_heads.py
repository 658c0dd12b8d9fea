"""Heads and whole encoders against the authors' own outputs, with their weights under our names."""

import pytest
import torch
from golden import CHAIN, Case, cases, full_set, lengths_mask
from torch.testing import assert_close

from xmr_core.base.types import Features, Tokens
from xmr_core.encoders.image import PooledEncoder, RegionEncoder
from xmr_core.encoders.text import GRUEncoder
from xmr_core.heads.pooling import GlobalHead
from xmr_core.heads.slots import PIENet, SlotHead, sine_1d, sine_2d

# official state-dict key → ours, for one aggregation block (layers 1–3 repeat layer 0) and its fusion
SLOT_NAMES = {
    "agg_block.latents": "latents",
    "agg_block.layers.0.0.norm.": "norm_query.",
    "agg_block.layers.0.0.norm_context.": "norm_context.",
    "agg_block.layers.0.0.fn.to_q.": "to_q.",
    "agg_block.layers.0.0.fn.to_k.": "to_k.",
    "agg_block.layers.0.0.fn.to_v.": "to_v.",
    "agg_block.layers.0.0.fn.to_out.0.": "to_out.",
    "agg_block.layers.0.2.norm.": "norm_ff.",
    "agg_block.layers.0.2.fn.net.0.": "ff_in.",
    "agg_block.layers.0.2.fn.net.3.": "ff_out.",
    "agg_block.last_layer.0.": "norm_last.",
    "residual_norm.": "norm_global.",
}
PIE_NAMES = {"attention.w_1.": "w_1.", "attention.w_2.": "w_2.", "fc.": "fc.", "layer_norm.": "layer_norm."}
REGION_NAMES = {"fc.": "fc.", "mlp.fc1.": "fc1.", "mlp.bn.bn.": "norm.", "mlp.fc2.": "fc2."}
GRU_NAMES = {"embed.": "embed.", "rnn.": "rnn."}


def renamed(weights: dict, prefix: str, names: dict) -> dict:
    pairs = {prefix + official: ours for official, ours in names.items()}
    start = {key: next((official for official in pairs if key.startswith(official)), None) for key in weights}
    return {pairs[p] + key.removeprefix(p): weights[key] for key, p in start.items() if p}


def load(module: torch.nn.Module, weights: dict):
    module.load_state_dict(weights)
    return module.eval()


def names_of_rounds(rounds: int) -> dict:
    """As SLOT_NAMES for unshared weights: round t reads the authors' copy t of the block."""
    head = {official: ours for official, ours in SLOT_NAMES.items() if ".layers." not in official}
    block = {official: ours for official, ours in SLOT_NAMES.items() if ".layers." in official}
    for t in range(rounds):
        head |= {official.replace(".0.", f".{t}.", 1): f"blocks.{t}.{ours}" for official, ours in block.items()}
    return head


@pytest.mark.parametrize("weight_sharing", [True, False])
@pytest.mark.parametrize("name", cases("dive", "aggblock"))
def test_dive_aggregation_block(name, weight_sharing):
    case = Case(name)
    cfg = case.cfg
    names = SLOT_NAMES if weight_sharing else names_of_rounds(cfg["T"])
    positions = {"none": "none", "sine": "sine1d" if cfg["axis"] == 1 else "sine2d"}[cfg["pos_enc"]]
    x = case["in.local"]
    x = x.flatten(1, 2) if x.ndim == 4 else x
    mask = lengths_mask(case["in.lengths"], x.shape[1]) if "in.lengths" in case else full_set(x).mask
    unpadded = "out.slots_unpadded" if "in.lengths" in case else "out.slots"
    for padding, wanted in (("official", "out.slots"), ("masked", unpadded)):
        head = SlotHead(
            cfg["d_in"], cfg["D"], cfg["K"], cfg["T"], cfg["heads"], cfg["dim_head"], cfg["ff_mult"],
            positions=positions, padding=padding, use_global=False, weight_sharing=weight_sharing,
        )  # fmt: skip
        load(head, renamed(case.weights(), "spm.", names))
        assert_close(head(Features(x, mask)).residual, case[wanted], rtol=CHAIN, atol=CHAIN)
        if padding == "official":
            raw, normalised = head.attention_maps(Features(x, mask))
            assert_close(raw, case["out.attn_over_slots"], rtol=CHAIN, atol=CHAIN)
            assert_close(normalised, case["out.attn_normalised"], rtol=CHAIN, atol=CHAIN)
    if positions != "none":
        d, stored = cfg["d_in"], case["out.pos_enc"]
        plane = positions == "sine2d"
        line = sine_1d(full_set(x).mask[:1], d, x.dtype, by_own_length=False)
        found = sine_2d(x.shape[1], d, x.device, x.dtype) if plane else line
        assert_close(found, stored, rtol=1e-5, atol=1e-6)


def test_dive_padding_leak_is_reproduced_and_mended():
    case = Case("dive/padding_leak")
    cfg, x = case.cfg, case["in.local"]
    padded = torch.cat([x, torch.zeros(len(x), 4, x.shape[2])], 1)
    mask = lengths_mask(torch.full((len(x),), x.shape[1]), padded.shape[1])
    for positions, label, prefix in (("none", "nope", "none.spm."), ("sine1d", "sine", "sine.spm.")):
        for padding, wanted in (("official", "pad4"), ("masked", "pad0")):
            head = SlotHead(
                cfg["d_in"], cfg["D"], cfg["K"], cfg["T"], cfg["heads"], cfg["dim_head"],
                positions=positions, padding=padding, use_global=False,
            )  # fmt: skip
            load(head, renamed(case.weights(), prefix, SLOT_NAMES))
            assert_close(head(Features(padded, mask)).residual, case[f"out.{label}_{wanted}"], rtol=CHAIN, atol=CHAIN)


@pytest.mark.parametrize("name", cases("dive", "encoders"))
def test_dive_encoders(name):
    case = Case(name)
    cfg, weights = case.cfg, case.weights()
    d, k = cfg["embed_size"], cfg["img_num_embeds"]
    local = {"wemb": "words", "rnn": "states"}[cfg["txt_attention_input"]]
    image = load(RegionEncoder(24, d, pool="max"), renamed(weights, "img_enc.", REGION_NAMES))
    text = GRUEncoder(cfg["vocab"], cfg["word_dim"], d, {"rnn": "average", "max": "max"}[cfg["txt_pooling"]], local)
    load(text, renamed(weights, "txt_enc.", GRU_NAMES))
    regions = Features(case["in.images"], lengths_mask(case["in.image_lengths"], case["in.images"].shape[1]))
    tokens = Tokens(case["in.word_ids"], lengths_mask(case["in.lengths"], case["in.word_ids"].shape[1]))
    encoded = image(regions)
    assert_close(encoded.global_feat, case["out.img_global"], rtol=CHAIN, atol=CHAIN)
    assert_close(encoded.local_feats[regions.mask], case["out.img_local"][regions.mask], rtol=CHAIN, atol=CHAIN)
    for padding, suffix in (("official", ""), ("masked", "_unpadded")):
        for side, features, d_local, positions in (
            ("img", encoded, d, "none"), ("txt", text(tokens), text.local_width, "sine1d"),
        ):  # fmt: skip
            if cfg["arch"] == "slot":
                shape = (cfg[name] for name in ("spm_depth", "heads", "dim_head", "spm_ff_mult"))
                head = SlotHead(d_local, d, k, *shape, positions=positions, padding=padding)
                load(head, renamed(weights, f"{side}_enc.spm.", SLOT_NAMES))
            else:
                # the image side of the ablation has a hidden width of d/2, the text side of word_dim/2
                head = load(PIENet(d_local, d, k), renamed(weights, f"{side}_enc.spm.", PIE_NAMES))
            out = head(features)
            assert_close(out.x, case[f"out.{side}_set{suffix}"], rtol=CHAIN, atol=CHAIN)
            if not suffix:
                assert_close(out.residual, case[f"out.{side}_slots"], rtol=CHAIN, atol=CHAIN)


@pytest.mark.parametrize("name", cases("pvse", "pienet"))
def test_pie_net(name):
    case = Case(name)
    cfg, x = case.cfg, case["in.local"]
    shape = (cfg[name] for name in ("d_in", "d_out", "K", "d_hidden"))
    head = load(PIENet(*shape), renamed(case.weights(), "pie_net.", PIE_NAMES))
    mask = lengths_mask(case["in.lengths"], x.shape[1]) if "in.lengths" in case else full_set(x).mask
    out = head(Features(x, mask, case["in.global"]))
    assert_close(out.x, case["out.l2"], rtol=1e-5, atol=1e-6)
    raw = head.layer_norm(case["in.global"][:, None] + out.residual)
    assert_close(raw.view_as(case["out.embeddings"]), case["out.embeddings"], rtol=1e-5, atol=1e-5)
    assert_close(out.attention.transpose(1, 2), case["out.attn"], rtol=1e-5, atol=1e-6)
    assert_close(out.residual, case["out.residual"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", cases("pvse", "text_encoder"))
def test_pvse_text_encoder(name):
    case = Case(name)
    cfg, weights = case.cfg, case.weights()
    summary = "concatenate-last-token" if cfg["legacy"] else "concatenate"
    text = GRUEncoder(cfg["vocab"], cfg["word_dim"], cfg["embed"], summary)
    load(text, renamed(weights, "txt_enc.", GRU_NAMES))
    head = load(PIENet(cfg["word_dim"], cfg["embed"], cfg["K"]), renamed(weights, "txt_enc.pie_net.", PIE_NAMES))
    tokens = Tokens(case["in.word_ids"], lengths_mask(case["in.lengths"], case["in.word_ids"].shape[1]))
    out = head(text(tokens))
    assert_close(out.x, case["out.emb"], rtol=CHAIN, atol=CHAIN)
    assert_close(out.residual, case["out.residual"], rtol=CHAIN, atol=CHAIN)
    assert_close(out.attention.transpose(1, 2), case["out.attn"], rtol=CHAIN, atol=CHAIN)


@pytest.mark.parametrize("name", cases("vsepp", "encoders"))
def test_vsepp_encoders(name):
    case = Case(name)
    cfg, weights = case.cfg, case.weights()
    image = load(PooledEncoder(cfg["img_dim"], cfg["embed"]), renamed(weights, "img_enc.", {"fc.": "fc."}))
    text = GRUEncoder(cfg["vocab"], cfg["word_dim"], cfg["embed"], "last")
    load(text, renamed(weights, "txt_enc.", GRU_NAMES))
    pictures = Features(case["in.images"].unsqueeze(1), torch.ones(len(case["in.images"]), 1, dtype=torch.bool))
    tokens = Tokens(case["in.word_ids"], lengths_mask(case["in.lengths"], case["in.word_ids"].shape[1]))
    vectors = GlobalHead(cfg["imgnorm"], cfg["use_abs"])(image(pictures)).x
    assert_close(vectors, case["out.img_emb"], rtol=CHAIN, atol=CHAIN)
    assert_close(GlobalHead(absolute=cfg["use_abs"])(text(tokens)).x, case["out.cap_emb"], rtol=CHAIN, atol=CHAIN)
