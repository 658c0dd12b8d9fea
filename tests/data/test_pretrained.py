"""Pretrained encoders on tiny random models, compared with what transformers itself computes."""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import torch
from safetensors.torch import load_file, save_file
from tiny_models import MEAN, SIDE, STD, WIDTH, WORDS, save
from torch.testing import assert_close

import xmr_core
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.types import Batch, Features, Pixels, Tokens
from xmr_core.data.prepare import _recent
from xmr_core.encoders.pretrained import SUMMARIES, StatesEncoder, TextBackbone, VisionBackbone
from xmr_core.encoders.text import BertEncoder
from xmr_core.features.pretrained import (
    PretrainedGrid,
    PretrainedStates,
    Scaling,
    WordPieces,
    bucket_by_length,
    describe_text,
    describe_vision,
    find_pretrained,
    library,
    load_pretrained,
    read_preprocessing,
    word_pieces,
)
from xmr_core.features.words import Vocabulary, unread
from xmr_core.methods.common import Inputs
from xmr_core.methods.registry import build, papers
from xmr_core.models.load import fit
from xmr_core.training.runs.folder import load as load_run

NORMAL = {"image_mean": MEAN, "image_std": STD}
TEXTS = ["a dog runs", "The big red ball sits on the grass and the small dog runs", "cats", "a dog runs on the grass"]


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    """name → folder, made when first asked for."""
    made = {}

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = save(name, tmp_path_factory.mktemp("zoo") / name)
        return made[name]

    return folder


@pytest.fixture
def copy(zoo, tmp_path):
    """A folder that may be spoilt."""
    return lambda name: Path(shutil.copytree(zoo(name), tmp_path / "copy", dirs_exist_ok=True))


def pictures(resolution: int = SIDE) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (2, resolution, resolution, 3), np.uint8)


def by_transformers(name: str, resolution: int):
    """Last states of the model itself on pictures scaled by transformers' own processor."""
    processor = tiny_models.pil_processor("ViTImageProcessor")(do_resize=False, image_mean=MEAN, image_std=STD)
    x = processor(list(pictures(resolution)), return_tensors="pt")["pixel_values"]
    model = tiny_models.make(name)
    model = getattr(model, "vision_model", getattr(model, "vit", model))
    with torch.no_grad():
        return model(pixel_values=x)


@pytest.mark.parametrize(
    ("name", "before"),
    [("resnet", None), ("convnext", None), ("swin", 0), ("siglip", 0), ("vit", 1), ("clip", 1), ("registers", 5)],
)
def test_cells_are_the_models_own(zoo, name, before):
    resolution = 2 * SIDE if name in ("resnet", "convnext", "swin") else SIDE
    grid, out = PretrainedGrid(zoo(name), resolution), by_transformers(name, resolution)
    states = out.last_hidden_state
    if before is None:
        assert states.shape[2:] == (2, 2)
        cells = torch.stack(
            [states[:, :, row, column] for row in range(states.shape[2]) for column in range(states.shape[3])], 1
        )
    else:
        cells = states[:, before:]
        assert len(cells[0]) == 16
    got = grid(pictures(resolution))
    assert grid.layout.before == before and got.shape == (2, *grid.shape) and got.dtype == np.float16
    np.testing.assert_allclose(got, cells.numpy(), rtol=2e-3, atol=2e-3)


def test_identity_is_content(zoo, copy):
    same = copy("vit")
    name = find_pretrained(zoo("vit")).identity
    assert name.startswith("vit-") and find_pretrained(same).identity == name
    grid = PretrainedGrid(same).identity
    assert grid == PretrainedGrid(zoo("vit")).identity
    told = json.loads((same / "preprocessor_config.json").read_text())
    (same / "preprocessor_config.json").write_text(json.dumps({**told, "image_mean": [0.5] * 3}))
    assert find_pretrained(same).identity == name and PretrainedGrid(same).identity != grid
    weights = load_file(same / "model.safetensors")
    weights["layernorm.bias"][0] += 1e-3
    save_file(weights, same / "model.safetensors", {"format": "pt"})
    assert find_pretrained(same).identity != name


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"size": 24} | NORMAL, Scaling(24, MEAN, STD)),
        ({"size": {"shortest_edge": 40}, "crop_size": {"height": 32, "width": 32}} | NORMAL, Scaling(32, MEAN, STD)),
        ({"do_normalize": False} | NORMAL, Scaling(SIDE, (0.0,) * 3, (1.0,) * 3)),
        (
            {"size": 8, "rescale_factor": 2 / 255, "do_flip_channel_order": True} | NORMAL,
            Scaling(8, MEAN, STD, 2.0, True),
        ),
        ({"size": {"height": 20, "width": 30}}, "only square ones"),
        ({"size": 8, "rescale_offset": True}, "not supported here"),
    ],
)
def test_preprocessor_files(copy, told, expected):
    folder = copy("vit")
    (folder / "preprocessor_config.json").unlink()
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": told}))  # as version 5 nests it
    model, config = find_pretrained(folder), library().ViTConfig(image_size=SIDE)
    if isinstance(expected, str):
        with pytest.raises(BadInput, match=expected):
            read_preprocessing(model, config)
    else:
        got, _ = read_preprocessing(model, config)
        assert got.factor == pytest.approx(expected.factor) and (got.resolution, got.mean, got.std, got.bgr) == (
            expected.resolution, expected.mean, expected.std, expected.bgr,
        )  # fmt: skip
        x = torch.rand(1, 3, 2, 2)
        one = got.apply(x, *got.tensors())[0, 0, 1, 1]
        channel = x[0, 2 if got.bgr else 0, 1, 1]
        assert_close(one, (expected.factor * channel - expected.mean[0]) / expected.std[0])


# ---------------------------------------------------------------- fine-tuning pictures


def backbone(zoo, name: str, **options) -> VisionBackbone:
    torch.manual_seed(0)
    made = VisionBackbone(describe_vision(zoo(name)), 6, dropout=0.0, **options)
    made.load_weights(zoo(name))
    return made.eval()


@pytest.mark.parametrize("name", ["resnet", "swin", "convnext", "vit-classifier", "clip", "siglip"])
def test_a_backbone_is_the_model_and_the_grid_encoder(zoo, name):
    net, grid = backbone(zoo, name), PretrainedGrid(zoo(name))
    x = Pixels(torch.from_numpy(pictures()).permute(0, 3, 1, 2).float() / 255)
    cells = torch.from_numpy(grid(pictures()).astype(np.float32))
    with torch.no_grad():
        got, wanted = net(x), net.cells(Features(cells, torch.ones(cells.shape[:2], dtype=torch.bool)))
    assert_close(got.local_feats, wanted.local_feats, rtol=0.01, atol=0.01)  # the grid's are in half precision
    assert_close(got.global_feat, wanted.global_feat, rtol=0.01, atol=0.01)
    again = VisionBackbone(describe_vision(zoo(name)), 6)  # random, until …
    assert not torch.allclose(again.eval()(x).global_feat, got.global_feat, atol=1e-3)
    again.load_state_dict(net.state_dict())
    assert_close(again(x).global_feat, got.global_feat)


def test_the_class_token_enters_the_global_feature(zoo):
    net, x = backbone(zoo, "vit", class_token=True), Pixels(torch.rand(2, 3, SIDE, SIDE))
    with torch.no_grad():
        states = net.backbone(
            pixel_values=(x.x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
        ).last_hidden_state
        got, linear = net(x), net.cells.project_global[1]
    assert_close(got.global_feat, got.local_feats.mean(1) + states[:, 0] @ linear.weight.T + linear.bias)
    with pytest.raises(BadInput, match="swin has no class token"):
        backbone(zoo, "swin", class_token=True)
    with pytest.raises(BadInput, match="expected images of 32×32×3"):
        net(Pixels(torch.rand(2, 3, 16, 16)))


@pytest.mark.slow
@pytest.mark.parametrize("freeze", [True, False])
def test_frozen_batch_norm_is_frozen(zoo, freeze):
    net = backbone(zoo, "resnet", freeze_norm=freeze).train()
    net.backbone.requires_grad_(True)  # what an unfreezing by hand does
    norms = {name: m for name, m in net.backbone.named_modules() if isinstance(m, torch.nn.BatchNorm2d)}
    before = {name: {k: v.clone() for k, v in m.state_dict().items()} for name, m in norms.items()}
    optimiser = torch.optim.AdamW(net.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(2):
        optimiser.zero_grad()
        net(Pixels(torch.rand(4, 3, SIDE, SIDE))).global_feat.square().sum().backward()
        optimiser.step()
    assert len(norms) > 10 and all(m.training != freeze for m in norms.values())
    for name, m in norms.items():
        for key in ("weight", "bias", "running_mean", "running_var"):
            assert torch.equal(m.state_dict()[key], before[name][key]) == freeze, f"{name}.{key}"


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("resnet", "encoder.stages.3.", "embedder."),
        ("swin", "encoder.layers.3.", "embeddings."),
        ("convnext", "encoder.stages.3.", "embeddings."),
        ("vit", "layers.1.", "embeddings."),
        ("clip", "encoder.layers.1.", "embeddings."),
        ("siglip", "encoder.layers.1.", "embeddings."),
    ],
)
def test_stages_open_from_the_output_to_the_input(zoo, name, first, last):
    net = backbone(zoo, name)
    stages = net.stage_prefixes()
    names = [n for n, _ in net.named_parameters() if n.startswith("backbone.")]
    assert all(sum(n.startswith(stage) for stage in stages) == 1 for n in names)
    for end, stage in ((first, stages[0]), (last, stages[-1])):  # older versions of transformers say `layer`
        assert any(part.replace("layer.", "layers.").endswith(end) for part in stage)
    for count in (0, 1, len(stages)):
        net.zero_grad(), net.train_stages(count)
        net(Pixels(torch.rand(2, 3, SIDE, SIDE))).global_feat.square().sum().backward()
        learning = {n for n, p in net.named_parameters() if p.requires_grad}
        assert learning == {n for n, p in net.named_parameters() if p.grad is not None}, (
            "all that may learn gets a gradient"
        )
        opened = {at for at, stage in enumerate(stages) if any(n.startswith(stage) for n in learning)}
        assert opened == set(range(count)) and any(n.startswith("cells.") for n in learning)


# ---------------------------------------------------------------- text


def test_states_are_the_models_own(zoo, monkeypatch, tmp_path):
    monkeypatch.setattr("xmr_core.features.pretrained._TOKENS", 16)  # several batches
    states = PretrainedStates(zoo("bert"))
    got, bert = states(TEXTS), tiny_models.make("bert")
    ids = [[2, *(5 + WORDS.index(piece) for piece in words.split()), 3] for words in (
        "a dog runs", "the big red ball sits on the grass and the small dog runs", "cat ##s", "a dog runs on the grass"
    )]  # fmt: skip
    assert len(got) == 4 and states.width == WIDTH and all(g.dtype == np.float16 for g in got)
    for n, row in enumerate(ids):
        with torch.no_grad():
            alone = bert(input_ids=torch.tensor([row])).last_hidden_state[0]
        np.testing.assert_allclose(got[n], alone.numpy(), rtol=2e-3, atol=2e-3)
    assert find_pretrained(zoo("bert")).identity in states.identity
    assert PretrainedStates(zoo("bert"), 8).identity != states.identity


def test_the_text_half_of_a_dual_encoder(zoo):
    got = PretrainedStates(zoo("clip"))(["a dog runs"])
    with torch.no_grad():
        wanted = tiny_models.make("clip").text_model(input_ids=torch.tensor([[4, 5, 7, 3]])).last_hidden_state[0]
    np.testing.assert_allclose(got[0], wanted.numpy(), rtol=2e-3, atol=2e-3)
    with pytest.raises(BadInput, match="transformers cannot load its model"):
        PretrainedStates(zoo("siglip"))


def test_batches_hold_captions_of_similar_length():
    lengths = np.random.default_rng(0).integers(1, 30, 200)
    batches = bucket_by_length(lengths, 64)
    assert sorted(np.concatenate(batches)) == list(range(200))
    assert all(len(b) * lengths[b].max() <= 64 for b in batches)
    assert (np.diff(lengths[np.concatenate(batches)]) >= 0).all()
    assert [b.tolist() for b in bucket_by_length(np.array([90, 3]), 64)] == [[1], [0]]
    assert bucket_by_length(np.array([], int), 64) == []


def test_word_pieces(zoo):
    pieces = word_pieces(zoo("bert"), max_length=6)
    tokens, cut = pieces(TEXTS)
    assert cut == 2 and tokens.ids[0].tolist() == [2, 5, 6, 8, 3, 0]
    assert tokens.ids[1].tolist() == [2, 11, 13, 15, 16, 3]
    assert tokens.mask.sum(1).tolist() == [5, 6, 4, 6]
    assert (pieces.pad, pieces.mask, pieces.special) == (0, 4, (0, 1, 2, 3))
    again = WordPieces.from_json(pieces.to_json())
    assert again == pieces and torch.equal(again(TEXTS)[0].ids, tokens.ids) and again.identity == pieces.identity
    assert word_pieces(zoo("bert"), 7).identity != pieces.identity and word_pieces(zoo("bert"), None).max_length == 20
    with pytest.raises(BadInput, match="holds no tokenizer"):  # transformers would make one that knows no word
        word_pieces(zoo("vit"))
    with pytest.raises(BadInput, match="word piece 17 of 10"):
        WordPieces.from_json(json.dumps({**json.loads(pieces.to_json()), "rows": 10}))(TEXTS)


def test_what_a_tokenizer_cuts_or_does_not_know(zoo):
    pieces = word_pieces(zoo("bert"), max_length=6)
    short, long, foreign = pieces.readings(["a dog runs", "a dog runs on the grass", "एक लड़का ."])
    assert short.words == ("a", "dog", "runs") and not short.unknown and not short.cut
    assert long.cut == "the grass" and long.limit == 6
    assert not foreign.words and foreign.unknown == ("एक", "लड़का", ".")
    assert len(unread([short, long, foreign])) == 2 and "1 of 3" in unread([short, long, foreign])[1]
    assert unread([foreign, foreign], usual=0.2)[1].startswith("100%") and not unread([])


@pytest.mark.slow
@pytest.mark.parametrize("fine_tune", ["", "text"])
def test_a_training_says_what_it_does_not_read(zoo, fine_tune, own_home):
    texts = ["a dog " * 20 if n % 2 else "एक लड़का" for n in range(20)]
    options = {"text_model": str(zoo("bert")), "fine_tune": fine_tune, "epochs": 1, "batch_images": 8, "d": 8}
    with pytest.warns(UserWarning, match="train captions are longer than 20 word pieces"):
        model = fit("vse++", images=np.eye(20, dtype=np.float32), captions=texts, device="cpu", **options)
    run = load_run(model.about["run"])
    assert len([m for m in run.provenance.messages if "captions" in m]) >= 4


@pytest.mark.slow
def test_a_run_whose_words_are_others_now_is_refused(monkeypatch, own_home):
    options = {"epochs": 1, "batch_images": 8, "d": 8, "device": "cpu"}
    model = fit("vse++", images=np.eye(20, dtype=np.float32), captions=["एक लड़का", "लड़की"] * 10, **options)
    run = load_run(model.about["run"])
    monkeypatch.setattr(Vocabulary, "hash", "that of another rule")
    _recent.clear()
    with pytest.raises(BadInput, match="words changed"):
        run.method()


def test_a_tokenizer_class_that_wants_another_package_is_read_from_its_json(zoo, copy):
    folder = copy("siglip")
    told = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**told, "tokenizer_class": "SiglipTokenizer"}))
    assert word_pieces(folder) == word_pieces(zoo("siglip"))


def ragged_states() -> Features:
    generator = torch.Generator().manual_seed(0)
    mask = torch.arange(5) < torch.tensor([5, 1, 3])[:, None]
    return Features(torch.randn(3, 5, 4, generator=generator), mask)


def test_states_encoder_is_its_equation():
    torch.manual_seed(0)
    encoder, states = StatesEncoder(4, 6, dropout=0.5).eval(), ragged_states()
    got = encoder(states)
    norm, first, _, _, second = encoder.refine
    for row, length in enumerate((5, 1, 3)):
        local = []
        for x in states.local_feats[row, :length]:
            y = encoder.project.weight @ x + encoder.project.bias
            z = (y - y.mean()) / (y.var(unbiased=False) + norm.eps).sqrt() * norm.weight + norm.bias
            local.append(y + second.weight @ torch.nn.functional.gelu(first.weight @ z + first.bias) + second.bias)
        assert_close(got.local_feats[row, :length], torch.stack(local))
        assert_close(got.global_feat[row], torch.stack(local).amax(0))
    assert encoder.local_width == 6 and torch.equal(got.mask, states.mask)
    wild = torch.where(states.mask[..., None], states.local_feats, torch.nan)
    assert_close(encoder(Features(wild, states.mask)).global_feat, got.global_feat)
    assert encoder(Features(states.local_feats.half(), states.mask)).local_feats.dtype == torch.float32
    assert (encoder.train()(states).global_feat == 0).any(), "dropout on the global feature"
    with pytest.raises(BadInput, match="width 4"):
        encoder(Features(torch.zeros(1, 2, 5), torch.ones(1, 2, dtype=torch.bool)))


@pytest.mark.parametrize("summary", SUMMARIES)
def test_text_backbone(zoo, summary):
    torch.manual_seed(0)
    net = TextBackbone(describe_text(zoo("bert")), 6, summary=summary)
    assert net.load_weights(zoo("bert")) == find_pretrained(zoo("bert")).identity
    tokens, _ = word_pieces(zoo("bert"))(TEXTS)
    got, bert = net.eval()(tokens), tiny_models.make("bert")
    for row, length in enumerate(tokens.mask.sum(1).tolist()):
        with torch.no_grad():
            local = (
                bert(input_ids=tokens.ids[row : row + 1, :length]).last_hidden_state[0] @ net.project.weight.T
                + net.project.bias
            )
        assert_close(got.local_feats[row, :length], local, rtol=1e-4, atol=1e-5)
        wanted = {"first": local[0], "last": local[-1], "max": local.amax(0), "mean": local.mean(0)}[summary]
        assert_close(got.global_feat[row], wanted, rtol=1e-4, atol=1e-5)
    if summary == "first":
        same = BertEncoder(net.backbone, 6)
        same.project.load_state_dict(net.project.state_dict())
        assert_close(same.eval()(tokens).global_feat, got.global_feat)
    net.train_stages(1)
    learning = {n for n, p in net.named_parameters() if p.requires_grad}
    assert any(n.startswith("backbone.encoder.layer.1.") for n in learning)
    assert not any(".layer.0." in n or "embeddings" in n for n in learning)
    with pytest.raises(BadInput, match="caption 0 has no valid element"):
        net(Tokens(tokens.ids, torch.zeros_like(tokens.mask)))


@pytest.mark.parametrize("method", ["vse++", "scan"])
def test_a_text_model_that_reads_from_left_to_right_is_read_where_it_has_seen_the_caption(zoo, method):
    """The first piece of CLIP's text tower has seen no other, so captions that begin alike had one global vector."""
    tokens, _ = word_pieces(zoo("clip"))(["a dog runs", "a cat sits", "a cat"])
    inputs = Inputs(image_width=8, cells=4, vocabulary=0, text_network=describe_text(zoo("clip")))
    encoder = build(method, inputs, d=8).eval().caption_encoder
    encoder.load_weights(zoo("clip"))
    got = encoder(tokens)
    assert torch.cdist(got.global_feat, got.global_feat)[~torch.eye(3, dtype=torch.bool)].min() > 1e-3
    assert_close(got.global_feat, torch.stack([x[n - 1] for x, n in zip(got.local_feats, (4, 4, 3), strict=True)]))
    assert "summary" not in json.loads(describe_text(zoo("bert"))), "which would name its runs anew"


# ---------------------------------------------------------------- what cannot be loaded


def rewrite_config(**changes):
    def change(folder: Path):
        told = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**told, **changes}))

    return change


def as_pickle(content):
    def change(folder: Path):
        tensors = load_file(folder / "model.safetensors")
        (folder / "model.safetensors").unlink()
        torch.save(content(tensors), folder / "pytorch_model.bin")

    return change


class Mischief:
    def __reduce__(self):
        return (os.mkdir, ("was-run",))


def weights_outside(folder: Path):
    (folder / "model.safetensors").rename(folder.parent / "other.safetensors")
    named = {"weight_map": {"a": "../other.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(named))


def without(*names):
    def change(folder: Path):
        tensors = {k: v for k, v in load_file(folder / "model.safetensors").items() if k not in names}
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})

    return change


@pytest.mark.parametrize(
    "asked",
    [
        {"size": {"shortest_edge": 50_000}}, {"size": {"height": 10**9, "width": 10**9}}, {"size": 10**400},
        {"size": math.inf}, {"size": -4}, {"size": {"shortest_edge": 1e308}}, {"image_mean": [math.nan] * 3},
        {"image_std": [0, 0, 0]}, {"rescale_factor": 1e308}, {"rescale_factor": math.inf},
        {"do_center_crop": True, "crop_size": SIDE, "size": {"shortest_edge": 50_000}},
        {"size": SIDE, "crop_pct": 1e-7}, {"size": SIDE, "crop_pct": math.nan}, {"size": {"shortest_edge": {"a": 1}}},
    ],
)  # fmt: skip
def test_numbers_of_a_preprocessor_are_bounded_before_they_are_used(copy, asked):
    folder = copy("vit")
    (folder / "preprocessor_config.json").write_text(json.dumps({"image_mean": MEAN, "image_std": STD} | asked))
    with pytest.raises(BadInput, match="preprocessor_config") as caught:
        PretrainedGrid(folder)
    assert len(str(caught.value)) < 500


def test_what_a_model_names_is_not_fetched(zoo, monkeypatch):
    from huggingface_hub import constants

    seen, before, real = [], constants.HF_HUB_OFFLINE, library().AutoModel.from_pretrained

    def watched(*given, **named):
        seen.append(constants.is_offline_mode())
        return real(*given, **named)

    monkeypatch.setattr(library().AutoModel, "from_pretrained", watched)
    load_pretrained(zoo("vit"), "image")
    assert seen == [True] and before == constants.HF_HUB_OFFLINE


@pytest.mark.parametrize(
    ("kind", "spoil", "message"),
    [
        ("image", lambda f: (f / "config.json").unlink(), "lacks config.json"),
        ("image", lambda f: os.truncate(f / "model.safetensors", 5000), "no whole safetensors file"),
        ("image", rewrite_config(model_type="x", auto_map={"AutoConfig": "a.B"}), "never run"),
        ("image", rewrite_config(hidden_size=8), "cannot load its model"),
        ("image", without("layernorm.bias"), "lack 1 tensors .*layernorm.bias"),
        ("image", as_pickle(lambda tensors: {"a": Mischief()}), "lacks model.safetensors"),
        ("text", lambda f: None, "not an encoder of text"),
        ("image", rewrite_config(num_hidden_layers=10**6), "more layers"),
        ("image", rewrite_config(hidden_size=16 * 10**6), "more layers or numbers"),
        ("image", rewrite_config(_attn_implementation="kernels-community/x"), "asks for the code"),
        ("image", lambda f: (f / "adapter_config.json").write_text("{}"), "adapter"),
        ("image", lambda f: weights_outside(f), "outside"),
    ],
)
def test_what_cannot_be_loaded_is_said_in_one_line(copy, tmp_path, monkeypatch, capfd, kind, spoil, message):
    monkeypatch.chdir(tmp_path)
    folder = copy("vit")
    spoil(folder)
    with pytest.raises((BadInput, DamagedFile), match=message) as caught:
        load_pretrained(folder, kind)
    assert "\n" not in str(caught.value) and not (tmp_path / "was-run").exists()
    assert capfd.readouterr() == ("", ""), "transformers' own reports are silenced"


def test_hub_names(zoo, tmp_path, monkeypatch):
    import huggingface_hub.constants as hub

    monkeypatch.setattr(hub, "HF_HUB_CACHE", str(tmp_path)), monkeypatch.setattr(hub, "HF_HUB_OFFLINE", True)
    with pytest.raises(BadInput, match="'someone/tiny' is no folder here"):
        find_pretrained("someone/tiny")
    for wrong in ("./nowhere", "a/b/c", "-x"):
        with pytest.raises(BadInput, match="does not exist. Give the folder"):
            find_pretrained(wrong)
    with pytest.raises(BadInput, match="is a file. Give the folder"):
        find_pretrained(zoo("vit") / "config.json")
    home, commit = tmp_path / "models--someone--tiny", "0123456789abcdef0123456789abcdef01234567"
    shutil.copytree(zoo("vit"), home / "snapshots" / commit)
    (home / "refs").mkdir(), (home / "refs" / "main").write_text(commit)
    assert (
        find_pretrained("someone/tiny").identity
        == f"someone/tiny@{commit}"
        == find_pretrained(f"someone/tiny@{commit}").identity
    )
    assert (PretrainedGrid("someone/tiny")(pictures()) == PretrainedGrid(zoo("vit"))(pictures())).all()


GUARD = """
import sys, warnings
from pathlib import Path
import xmr_core.methods.registry, xmr_core.models.dual_encoder
from xmr_core.features.pretrained import PretrainedStates
from xmr_core.features.pretrained import PretrainedGrid, describe_vision
from xmr_core.encoders.pretrained import VisionBackbone
from xmr_core.methods.common import Inputs
from xmr_core.methods.registry import build, papers
from xmr_core.models.dual_encoder import ZeroShot
assert "transformers" not in sys.modules, "too slow to be imported before it is needed"
for folder in map(Path, sys.argv[1:]):
    if folder.name == "bert":
        PretrainedStates(folder)(["a dog"])
    else:
        PretrainedGrid(folder)
        VisionBackbone(describe_vision(folder), 6)
    if folder.name in ("clip", "siglip"):
        ZeroShot(folder)
assert "torchvision" not in sys.modules
try:
    import torchvision
except RuntimeError:
    print("done")
"""


@pytest.mark.slow
def test_torchvision_is_not_needed_even_where_it_is_broken(zoo, tmp_path):
    """A torchvision that does not fit torch fails on import, and transformers imports any that it finds."""
    broken = tmp_path / "torchvision"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    where = os.pathsep.join([str(tmp_path), str(Path(xmr_core.__file__).parent.parent)])
    folders = [str(zoo(name)) for name in ("resnet", "vit", "clip", "siglip", "bert")]
    done = subprocess.run(
        [sys.executable, "-c", GUARD, *folders],
        env={**os.environ, "PYTHONPATH": where},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "done\n", done.stderr


# ---------------------------------------------------------------- every tower under every method

TEXT_TOWERS = ("bert", "roberta", "mpnet", "distilbert", "xlnet", "clip", "gpt2", "llama", "bert-decoder",
               "roberta-decoder", "xlm-causal")  # fmt: skip
IMAGE_TOWERS = ("vit", "registers", "clip", "siglip", "swin", "resnet", "convnext")
CAPTIONS = ["a dog runs", "a dog sits", "the dog runs", "a cat runs on the grass", "big red ball", "a dog runs .",
            "small cat sits", "a dog"]  # fmt: skip
FEW = [(tower, "vse++") for tower in (*TEXT_TOWERS, *IMAGE_TOWERS)]
FEW += [(tower, method) for method in papers() if method != "vse++" for tower in ("clip", "bert-decoder", "swin")]
ALL = [(tower, method) for method in papers() for tower in dict.fromkeys((*TEXT_TOWERS, *IMAGE_TOWERS))]


def differ(x: torch.Tensor, mask: torch.Tensor | None = None) -> bool:
    """Is each item of a batch unlike every other?"""
    x = x if mask is None else x.masked_fill(~mask[..., None], 0)
    off = (x[:, None] - x[None]).flatten(2).abs().amax(2) + torch.eye(len(x))
    return bool(off.min() > 1e-4 * x.abs().max())


def tower_inputs(zoo, tower: str, kind: str, learns: bool):
    """(sizes, eight items) of one side, as a pretrained model reads them, or as its frozen states."""
    n, generator = len(CAPTIONS), torch.Generator().manual_seed(0)
    pixels = np.random.default_rng(0).integers(0, 256, (n, SIDE, SIDE, 3), np.uint8)
    if kind == "text" and learns:
        return {"text_network": describe_text(zoo(tower))}, word_pieces(zoo(tower))(CAPTIONS)[0]
    if kind == "text":
        states = PretrainedStates(zoo(tower))(CAPTIONS)
        mask = torch.arange(max(map(len, states))) < torch.tensor([len(s) for s in states])[:, None]
        x = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(s).float() for s in states], batch_first=True)
        return {"text_width": WIDTH}, Features(x, mask)
    if learns:
        sizes = {"image_network": describe_vision(zoo(tower)), "resolution": SIDE}
        return sizes, Pixels(torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255)
    x = torch.from_numpy(PretrainedGrid(zoo(tower))(pixels)) if tower else torch.randn(n, 4, 8, generator=generator)
    return {"image_width": x.shape[2], "cells": x.shape[1]}, Features(x, torch.ones(x.shape[:2], dtype=torch.bool))


def trained_on(zoo, tower: str, kind: str, learns: bool, method: str):
    """(method after three steps, images, captions); the other side is plain: features, or words of the BERT."""
    sizes = {"image_width": 0, "cells": 0, "vocabulary": 0}
    own, items = tower_inputs(zoo, tower, kind, learns)
    plain, others = tower_inputs(zoo, "" if kind == "text" else "bert", "image" if kind == "text" else "text", False)
    torch.manual_seed(0)
    small = {"iterations": 1} if method == "dive" else {"m": 8} if method == "sgraf" else {}
    made = build(method, Inputs(**sizes | own | plain), d=16, **small)
    if learns:
        (made.caption_encoder if kind == "text" else made.image_encoder).load_weights(zoo(tower))
    images, captions = (others, items) if kind == "text" else (items, others)
    n, learning = len(CAPTIONS), [p for p in made.parameters() if p.requires_grad]
    batch = Batch(images, captions, torch.eye(n, dtype=torch.bool), torch.arange(n), torch.arange(n))
    for _ in range(3):
        loss = made.train().loss(batch, 5)[0]
        steps = torch.autograd.grad(loss, learning, allow_unused=True)
        with torch.no_grad():
            for parameter, step in zip(learning, steps, strict=True):
                parameter -= 0.0 if step is None else 1e-3 * step.sign()
    return made.eval(), images, captions


@pytest.mark.parametrize("learns", [True, False], ids=["fine-tuned", "frozen"])
@pytest.mark.parametrize(
    ("tower", "method"), FEW + [pytest.param(*pair, marks=pytest.mark.slow) for pair in ALL if pair not in FEW]
)
def test_items_of_every_tower_differ_under_every_method(zoo, tower, method, learns):
    """Two captions, and two images, never have one vector: not in their tokens, in their global part, or encoded; and
    a caption's is the same alone."""
    for kind, towers in (("text", TEXT_TOWERS), ("image", IMAGE_TOWERS)):
        if tower in towers:
            made, images, captions = trained_on(zoo, tower, kind, learns, method)
            with torch.no_grad():
                for encoder, head, x in (
                    (made.image_encoder, made.image_head, images), (made.caption_encoder, made.caption_head, captions)
                ):  # fmt: skip
                    features = encoder(x)
                    assert differ(features.global_feat) and differ(features.local_feats, features.mask)
                    items = head(features)
                    values = getattr(items, "mean", getattr(items, "x", None))
                    assert differ(values.masked_fill(~items.mask[..., None], 0) if values.ndim == 3 else values)
                length = int(captions.mask[0].sum())
                alone = type(captions)(*(v[:1, :length] for v in vars(captions).values() if v is not None))
                for part in ("local_feats", "global_feat"):
                    got, wanted = (getattr(made.caption_encoder(x), part)[:1] for x in (captions, alone))
                    assert_close(got[:, : wanted.shape[1]], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_method_that_is_built_without_gradients_can_learn(zoo, mode):
    with mode():
        made = build("vse++", Inputs(0, 0, 0, **tower_inputs(zoo, "clip", "image", True)[0], text_width=WIDTH), d=8)
    assert all(not p.is_inference() for p in made.parameters())
    names = {n for n, p in made.image_encoder.named_parameters() if p.requires_grad}
    assert "backbone.embeddings.patch_embedding.weight" in names and "backbone.post_layernorm.weight" not in names


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize(
    ("tower", "message"), [("fnet", "depend on padding"), ("convbert", "depend on padding"), ("bart", "not an encoder")]
)
def test_a_tower_whose_captions_depend_on_their_batch_is_refused(zoo, tower, message, learns):
    with pytest.raises(BadInput, match=message):
        tower_inputs(zoo, tower, "text", learns)
