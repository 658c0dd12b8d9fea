"""Official files: read in every layout without running them, renamed completely, refused in one line when they do not
fit.
"""

import argparse
import json
import os
import pickle
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from golden import listings

from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.types import Features, Tokens
from xmr_core.features.words import Vocabulary, read_vocabulary
from xmr_core.methods.checkpoint import load_method, load_official, read_official, save_method
from xmr_core.methods.common import Inputs
from xmr_core.methods.registry import build, papers

LISTED = {
    "vsepp_precomp_vgg": "vse++", "pvse_coco_K1": "pvse", "pvse_coco_K2": "pvse", "pcme_coco": "pcme",
    "pcme_cub": "pcme", "scan_f30k": "scan", "scan_coco": "scan", "sgraf_SGR_f30k": "sgraf", "sgraf_SAF_f30k": "sgraf",
    "vse_infty_region_bigru_f30k": "vse-infty", "vse_2ad_region_bigru_f30k": "vse+2ad", "dive_f30k_butd_bigru": "dive",
    "dive_f30k_butd_pienet_ablation": "dive", "vsepp_resnet152": "vse++", "sgraf_SGR_coco": "sgraf",
    "sgraf_SAF_coco": "sgraf", "vse_infty_region_bigru_coco": "vse-infty", "vse_infty_region_bert": "vse-infty",
    "vse_infty_grid_bigru_coco": "vse-infty", "vse_2ad_region_bigru_coco": "vse+2ad",
    "vse_2ad_region_bert": "vse+2ad", "dive_coco_butd_bigru": "dive",
}  # fmt: skip
# CNNs, whose features are our input, and all but two layers of BERT: as many names, a tenth of the numbers
BIG = re.compile(r"cnn\.(?!.*bn1\.bias)|backbone\.(?!.*bn1\.bias)|encoder\.layer\.([2-9]|1\d)\.")
WORDS = {"<pad>": 0, "<start>": 1, "<end>": 2, "<unk>": 3, "dog": 4, "runs": 5}


def scan_file(d=8, width=5, words=6, word_dim=4) -> list[dict]:
    """SCAN's [image, text] state dicts, small."""
    g = torch.Generator().manual_seed(0)
    gru = {"weight_ih": (3 * d, word_dim), "weight_hh": (3 * d, d), "bias_ih": (3 * d,), "bias_hh": (3 * d,)}
    shapes = {f"rnn.{k}_l0{r}": v for r in ("", "_reverse") for k, v in gru.items()} | {
        "embed.weight": (words, word_dim)
    }
    draw = lambda shape: torch.randn(*shape, generator=g)  # noqa: E731
    return [{"fc.weight": draw((d, width)), "fc.bias": draw((d,))}, {k: draw(v) for k, v in shapes.items()}]


def outer(model) -> dict:
    return {"epoch": 9, "model": model, "best_rsum": 400.0, "opt": argparse.Namespace(embed_size=8, data_name="f30k")}


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("prefix", ["", "module."])
def test_a_list_of_state_dicts_becomes_a_method_that_computes_with_them(tmp_path, zipped, prefix):
    model = scan_file()
    torch.save(
        outer([{prefix + k: v for k, v in part.items()} for part in model]),
        tmp_path / "model_best.pth.tar",
        _use_new_zipfile_serialization=zipped,
    )
    official = read_official(tmp_path / "model_best.pth.tar")
    assert official.options == {"embed_size": 8, "data_name": "f30k"} and len(official.tensors) == 11
    method = load_official(tmp_path / "model_best.pth.tar", "scan", aggregate="lse")
    x = torch.randn(2, 3, 5)
    images = method.encode_images(Features(x, torch.ones(2, 3, dtype=torch.bool)))
    wanted = torch.nn.functional.normalize(x @ model[0]["fc.weight"].T + model[0]["fc.bias"], dim=-1)
    assert torch.allclose(images.x, wanted, atol=1e-6)
    captions = method.encode_captions(Tokens(torch.tensor([[1, 4, 2]]), torch.ones(1, 3, dtype=torch.bool)))
    assert method.similarity(images, captions).shape == (2, 1) and method.similarity.options["aggregate"] == "lse"


class Python2Pickler(pickle._Pickler):
    """Writes text as Python 2 did: bytes in Latin-1."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_str(self, text: str) -> None:
        raw = text.encode("latin1")
        self.write(pickle.SHORT_BINSTRING + bytes([len(raw)]) + raw)
        self.memoize(text)

    dispatch[str] = save_str


def test_a_file_written_by_python_2_is_read(tmp_path):
    old = types.SimpleNamespace(
        __name__="old", Pickler=Python2Pickler, dump=lambda content, f, protocol: Python2Pickler(f, 2).dump(content)
    )
    content = {"model": scan_file(), "opt": argparse.Namespace(logger="café")}
    torch.save(
        content, tmp_path / "old.pth", pickle_module=old, pickle_protocol=2, _use_new_zipfile_serialization=False
    )
    official = read_official(tmp_path / "old.pth")
    assert official.options == {"logger": "café"} and len(official.tensors) == 11


def test_pcme_brings_its_scale_shift_and_words(tmp_path):
    torch.save({"model": {"img_enc.fc.weight": torch.zeros(2, 3)},
                "criterion": {"shift": torch.tensor([7.0]), "negative_scale": torch.tensor([9.0])},
                "config": {"embed_dim": 2}, "word2idx": WORDS}, tmp_path / "pcme.pth")  # fmt: skip
    official = read_official(tmp_path / "pcme.pth")
    assert official.word2idx == WORDS and official.options == {"embed_dim": 2}
    assert official.tensors["criterion.shift"].item() == 7 and official.tensors["criterion.negative_scale"].item() == 9


def _plausible(name: str, shape: list[int], g: torch.Generator) -> torch.Tensor:
    """Small numbers; variances are positive."""
    x = 0.03 * torch.randn(shape, generator=g)
    return 1 + x.abs() if name.endswith("running_var") else x


@pytest.mark.slow
@pytest.mark.parametrize("listing", LISTED)
def test_every_tensor_of_the_official_listings_finds_its_place(tmp_path, listing):
    parts, g = listings()[listing]["parts"], torch.Generator().manual_seed(0)
    made = [
        {k: _plausible(k, shape, g) if kind.startswith("float") else torch.zeros(shape, dtype=torch.int64)
         for k, (shape, kind) in part.items() if not BIG.search(k)}
        for part in parts.values()
    ]  # fmt: skip
    for part in made:  # DivE repeats its shared block
        part.update({k: part[re.sub(r"(agg_block\.layers\.)\d", r"\g<1>0", k)] for k in part})
    method = LISTED[listing]
    content = outer(made if len(made) > 1 else made[0])
    if method == "pcme":
        content = {"model": made[0], "criterion": made[1]}
    torch.save(content, tmp_path / "official.pth")
    ours = load_official(tmp_path / "official.pth", method)
    width = ours.image_encoder.fc.in_features
    cells = getattr(ours.image_head, "regions", 0) or 3
    with torch.inference_mode():
        images = ours.encode_images(Features(torch.randn(2, cells, width), torch.ones(2, cells, dtype=torch.bool)))
        mask = torch.tensor([[True] * 3, [True, True, False]])
        captions = ours.encode_captions(Tokens(torch.tensor([[1, 4, 2], [1, 2, 0]]), mask))
        assert ours.similarity(images, captions).isfinite().all()
    weights = ours.state_dict()
    given = next(v for k, v in made[0].items() if k.endswith("fc.weight"))
    assert torch.equal(weights["image_encoder.fc.weight"], given)
    if method == "pcme":
        assert weights["similarity.a"] == made[1]["negative_scale"].item()
        assert weights["similarity.b"] == made[1]["shift"].item()


def test_weight_normalised_regions_compute_as_the_authors(tmp_path):
    model = scan_file()
    v, g = torch.randn(8, 5), torch.tensor(3.0)
    del model[0]["fc.weight"]
    model[0] |= {"fc.weight_v": v, "fc.weight_g": g}
    torch.save(outer(model), tmp_path / "normed.pth")
    method, x = load_official(tmp_path / "normed.pth", "scan"), torch.randn(2, 3, 5)
    theirs = torch.nn.Linear(5, 8)
    theirs.bias.data = model[0]["fc.bias"]
    theirs = torch.nn.utils.parametrizations.weight_norm(theirs, dim=None)
    theirs.parametrizations.weight.original0.data, theirs.parametrizations.weight.original1.data = g, v
    found = method.image_encoder(Features(x, torch.ones(2, 3, dtype=torch.bool))).local_feats
    torch.testing.assert_close(found, theirs(x))


def chan_file(d=8, width=5) -> list[dict]:
    """CHAN's [image, text, {}, {}] of a bi-GRU model, small, with the linear layer that the authors never apply."""
    image, text = scan_file(d, width)
    shapes = {"ln.weight": (d,), "ln.bias": (d,), "attn.in_proj_weight": (3 * d, d), "attn.in_proj_bias": (3 * d,),
              "attn.out_proj.weight": (d, d), "attn.out_proj.bias": (d,)}  # fmt: skip
    g = torch.Generator().manual_seed(1)
    image |= {f"feedforward.{k}": torch.randn(*shape, generator=g) for k, shape in shapes.items()}
    return [image, text | {"fc.weight": torch.zeros(d, d), "fc.bias": torch.zeros(d)}, {}, {}]


def test_chan_becomes_a_method_that_attends_between_regions(tmp_path):
    model = chan_file()
    torch.save(outer(model), tmp_path / "chan.pth")
    method, x = load_official(tmp_path / "chan.pth", "chan"), torch.randn(2, 3, 5)
    theirs = torch.nn.MultiheadAttention(8, 8, batch_first=True)
    prefix = "feedforward.attn."
    theirs.load_state_dict({k.removeprefix(prefix): v for k, v in model[0].items() if k.startswith(prefix)})
    with torch.inference_mode():
        y = x @ model[0]["fc.weight"].T + model[0]["fc.bias"]
        normed = torch.nn.functional.layer_norm(
            y, (8,), model[0]["feedforward.ln.weight"], model[0]["feedforward.ln.bias"]
        )
        wanted = torch.nn.functional.normalize(y + theirs(normed, normed, normed)[0], dim=-1)
        images = method.encode_images(Features(x, torch.ones(2, 3, dtype=torch.bool)))
        captions = method.encode_captions(Tokens(torch.tensor([[1, 4, 2]]), torch.ones(1, 3, dtype=torch.bool)))
        assert torch.allclose(images.x, wanted, atol=1e-6) and method.similarity(images, captions).shape == (2, 1)
    assert method.similarity.options["divide"] is False


def bert_file(method: str) -> tuple[dict, torch.nn.Module]:
    """[image, text] state dicts of a BERT model of VSE∞, VSE+2AD or CHAN, small, and the BERT in it."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    bert = BertModel(
        BertConfig(vocab_size=30, hidden_size=64, num_hidden_layers=2, num_attention_heads=1, intermediate_size=32)
    )
    made = build(method, Inputs(5, 3, 6, ordered_cells=False), "published", d=8).eval()
    image = {f"fc.{k}": made.image_encoder.fc.state_dict()[k] for k in ("weight", "bias")}
    heads = {"vse-infty": "gpool", "vse+2ad": "pool", "chan": ""}[method]  # CHAN's have no weights
    parts = [image, {f"bert.{k}": v for k, v in bert.state_dict().items()}]
    for part, head in zip(parts, (made.image_head, made.caption_head), strict=True):
        part |= {f"{heads}.{k}": v for k, v in head.state_dict().items()}
    word = {"vse-infty": "linear", "vse+2ad": "fc", "chan": "linear"}[method]
    parts[1] |= {
        f"{word}.weight": torch.randn(8, 64),
        f"{word}.bias": torch.randn(8),
        "bert.embeddings.position_ids": torch.arange(512)[None],
    }
    flat = {f"{p}.{k}": v for p, part in zip(("img_enc", "txt_enc"), parts, strict=True) for k, v in part.items()}
    return (flat if method == "vse+2ad" else parts), bert.eval()


@pytest.mark.parametrize("method", ["vse-infty", "vse+2ad", "chan"])
def test_captions_through_bert(tmp_path, method):
    content, bert = bert_file(method)
    torch.save(outer(content), tmp_path / "bert.pth")
    loaded = load_official(tmp_path / "bert.pth", method)
    tokens = Tokens(torch.tensor([[5, 9, 7, 2], [5, 8, 2, 0]]), torch.tensor([[True] * 4, [True] * 3 + [False]]))
    alone = Tokens(tokens.ids[1:, :3], tokens.mask[1:, :3])
    weights = content if method == "vse+2ad" else content[1]
    weight, bias = (weights[("txt_enc.fc." if method == "vse+2ad" else "linear.") + k] for k in ("weight", "bias"))
    with torch.inference_mode():
        wanted = bert(input_ids=alone.ids).last_hidden_state @ weight.T + bias
        for given in (loaded.caption_encoder(alone), loaded.caption_encoder(tokens)[1:]):
            torch.testing.assert_close(given.local_feats[:, :3], wanted, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(given.global_feat, wanted[:, 0], rtol=1e-5, atol=1e-5)
    weights.popitem()
    weights.pop(next(k for k in weights if k.endswith("layer.1.output.dense.bias")))
    torch.save(outer(content), tmp_path / "less.pth")
    with pytest.raises(BadInput, match="missing"):
        load_official(tmp_path / "less.pth", method)


def test_what_does_not_fit_is_said_all_at_once(tmp_path):
    model = scan_file()
    del model[1]["rnn.bias_hh_l0"]
    model[0]["gate.weight"], model[0]["fc.bias"] = torch.zeros(2), torch.zeros(9)
    torch.save(outer(model), tmp_path / "odd.pth")
    with pytest.raises(BadInput) as error:
        load_official(tmp_path / "odd.pth", "scan")
    named = ("odd.pth", "caption_encoder.rnn.bias_hh_l0", "img_enc.gate.weight", "image_encoder.fc.bias: (9,)")
    assert all(words in str(error.value) for words in named)


def test_unequal_copies_of_shared_weights_are_refused(tmp_path):
    key = "img_enc.spm.agg_block.layers.{}.0.norm.weight"
    torch.save({"model": {key.format(0): torch.ones(2), key.format(2): torch.zeros(2)}}, tmp_path / "dive.pth")
    with pytest.raises(BadInput, match=r"layers\.2\.0\.norm\.weight differs from .*layers\.0"):
        load_official(tmp_path / "dive.pth", "dive")


class Trap:
    def __init__(self, target: Path):
        self.target = target

    def __reduce__(self):
        return os.system, (f"touch {self.target}",)


def test_nothing_that_is_pickled_is_run(tmp_path):
    trap = tmp_path / "sprung"
    torch.save({"model": scan_file(), "opt": Trap(trap)}, tmp_path / "evil.pth")
    with pytest.raises(BadInput, match=r"evil\.pth asks to run code while it is read"):
        read_official(tmp_path / "evil.pth")
    (tmp_path / "evil.pkl").write_bytes(pickle.dumps(Trap(trap)))
    with pytest.raises(BadInput, match="uses .*system, which is no part of a vocabulary"):
        read_vocabulary(tmp_path / "evil.pkl")
    assert not trap.exists()


@pytest.mark.parametrize("key", ["model", "state_dict", "model_state_dict", "net"])
def test_numbers_of_numpy_are_plain_and_the_state_dict_is_found(tmp_path, key):
    weights = scan_file()[0]
    held = {f"module.{name}": value for name, value in weights.items()}
    extra = {"best": np.float64(3.5), "on": np.bool_(True), "history": np.ones(3), "kind": np.dtype("f4")}
    extra |= {"root": tmp_path, "objects": np.array([None, "a"]), "args": argparse.Namespace(lr=np.float32(0.5))}
    torch.save({key: held, **extra}, tmp_path / "a.pth")
    torch.save({"state_dict": {key: held}}, tmp_path / "b.pth", _use_new_zipfile_serialization=False)
    for name in "ab":
        tensors = read_official(tmp_path / f"{name}.pth").tensors
        assert tensors.keys() == weights.keys() and all(torch.equal(tensors[k], weights[k]) for k in weights)
    assert read_official(tmp_path / "a.pth").options == {"lr": 0.5}


def test_no_array_of_a_file_points_into_memory(tmp_path):
    class Pointer:
        def __reduce__(self):
            return np.ndarray, ((1,), np.dtype("O"), b"12345678")  # whose first use would end the process

    torch.save({"model": scan_file(), "opt": {"a": Pointer()}}, tmp_path / "a.pth")
    assert type(read_official(tmp_path / "a.pth").options["a"]) is not np.ndarray


WORDS_OFF = {
    "begin with 'the' at number 1": {"the": 1, "dog": 2}, "this one: .'the', 'dog'": {"the": 0, "dog": 1},
    "each once": {"the": 0, "dog": 0}, "at number 0; .* each once": {"the": 0, "dog": 2},
}  # fmt: skip


@pytest.mark.parametrize("fault", WORDS_OFF)
def test_words_that_are_numbered_otherwise_are_named(tmp_path, fault):
    numbers = WORDS_OFF[fault]
    (tmp_path / "v.pkl").write_bytes(pickle.dumps({"word2idx": numbers}))
    with pytest.raises((BadInput, DamagedFile), match=fault):
        read_vocabulary(tmp_path / "v.pkl")
    if fault.startswith("begin"):
        table = {"word2idx": numbers, "idx2word": {str(n): word for word, n in numbers.items()}, "idx": 3}
        (tmp_path / "v.json").write_text(json.dumps(table))
        with pytest.raises(DamagedFile, match="lacks '0'; words are numbered 0, 1"):
            read_vocabulary(tmp_path / "v.json")


def test_a_truncated_or_foreign_file_is_named(tmp_path):
    torch.save(outer(scan_file()), tmp_path / "whole.pth")
    (tmp_path / "cut.pth").write_bytes((tmp_path / "whole.pth").read_bytes()[:700])
    (tmp_path / "text.pth").write_text("not a checkpoint")
    for name in ("cut.pth", "text.pth"):
        with pytest.raises((BadInput, DamagedFile), match=name.replace(".", r"\.")):
            read_official(tmp_path / name)
    torch.save({"epoch": 3}, tmp_path / "empty.pth")
    with pytest.raises(BadInput, match=r"empty\.pth holds no state dict"):
        read_official(tmp_path / "empty.pth")
    with pytest.raises(BadInput, match="does not exist"):
        read_official(tmp_path / "nowhere.pth")


@pytest.mark.parametrize("protocol", [0, 1, 2, 4])
def test_a_pickled_vocabulary_is_restored(tmp_path, monkeypatch, protocol):
    module = types.ModuleType("vocab")
    module.Vocabulary = type("Vocabulary", (object,), {"__module__": "vocab"})
    monkeypatch.setitem(sys.modules, "vocab", module)
    theirs = module.Vocabulary()
    theirs.word2idx, theirs.idx2word, theirs.idx = dict(WORDS), {v: k for k, v in WORDS.items()}, len(WORDS)
    (tmp_path / "vocab.pkl").write_bytes(pickle.dumps(theirs, protocol))
    monkeypatch.delitem(sys.modules, "vocab")
    assert read_vocabulary(tmp_path / "vocab.pkl") == Vocabulary(tuple(WORDS))
    (tmp_path / "vocab.json").write_text(
        json.dumps({"word2idx": WORDS, "idx2word": {str(v): k for k, v in WORDS.items()}, "idx": 6})
    )
    assert read_vocabulary(tmp_path / "vocab.json") == Vocabulary(tuple(WORDS))


@pytest.mark.parametrize(("method", "form"), [(name, form) for name, spec in papers().items() for form in spec.forms])
def test_ours_comes_back_whole(tmp_path, method, form):
    torch.manual_seed(0)
    inputs, words = Inputs(5, 3, len(WORDS), word_dim=4), Vocabulary(tuple(WORDS))
    made = build(method, inputs, form, d=8).eval()
    save_method(tmp_path / "ours.safetensors", made, inputs, words, form, {"d": 8}, {"note": "é"})
    back, vocabulary, about = load_method(tmp_path / "ours.safetensors")
    assert vocabulary == words and about == {"note": "é"} and back.name == made.name and not back.training
    given = Features(torch.randn(2, 3, 5), torch.ones(2, 3, dtype=torch.bool)), words.encode(["dog runs", "dog"])
    for m in (made, back):
        m.scores = m.similarity(m.encode_images(given[0]), m.encode_captions(given[1]))
    assert torch.equal(made.scores, back.scores)


def test_ours_refuses_what_it_did_not_write(tmp_path):
    from safetensors.torch import save_file

    inputs, words = Inputs(5, 3, len(WORDS), word_dim=4), Vocabulary(tuple(WORDS))
    path = save_method(tmp_path / "ours.safetensors", build("dive", inputs, d=8), inputs, words, options={"d": 8})
    (tmp_path / "cut.safetensors").write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DamagedFile, match=r"cut\.safetensors cannot be read"):
        load_method(tmp_path / "cut.safetensors")
    save_file({"x": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(BadInput, match="does not say which method it holds"):
        load_method(tmp_path / "other.safetensors")
