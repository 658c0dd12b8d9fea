"""Fine-tuning a dual encoder: its own projections, other heads on its towers, adapters, and batches beyond memory."""

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
import tiny_models
import torch
from PIL import Image
from tiny import TINY
from torch.testing import assert_close

import xmr_core as xmr
from xmr_core.base.errors import BadInput
from xmr_core.base.types import Batch, Features, Tokens
from xmr_core.data.batches import Augmentation, Batches
from xmr_core.data.config import DataConfig
from xmr_core.data.prepare import prepare
from xmr_core.features.pretrained import library
from xmr_core.methods import method as method_module
from xmr_core.methods.common import Inputs
from xmr_core.methods.registry import build, papers
from xmr_core.training.loop import TrainConfig, train
from xmr_core.training.runs.config import base_config

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # few words are known, and a run is short


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    return {name: str(tiny_models.save(name, tmp_path_factory.mktemp(name))) for name in ("clip", "siglip")}


def config(folder: str, method: str = "clip", **changes):
    fixed = {"size": "tiny", "epochs": 2, "batch_images": 16, "device": "cpu", "dual_model": folder}
    fixed |= {"freeze_epochs": 0}
    return base_config(method, **fixed | changes)


def tuned(folder: str, method: str = "clip", **changes):
    """(configuration, the method with the pretrained weights, before any step)."""
    made = config(folder, method, **changes)
    prepared = prepare(made.data)
    torch.manual_seed(0)
    method = build(method, prepared.inputs, **made.options)
    prepared.load_pretrained(method)
    return made, method


@pytest.mark.parametrize("lora", [0, 2])
@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_before_the_first_step_its_scores_are_those_of_the_model_itself(zoo, name, lora):
    made, method = tuned(zoo[name], lora=lora)
    split, alone = prepare(made.data).splits["test"], xmr.load(zoo[name], device="cpu").method
    images, captions = split.images_at(range(8)), split.captions_at(range(20))
    with torch.no_grad():
        ours, theirs = (
            m.similarity.score(m.encode_images(images), m.encode_captions(captions)) for m in (method.eval(), alone)
        )
    assert torch.equal(ours, theirs), "test_zero_shot compares these with transformers"
    loss, model = method.objective.score_loss, tiny_models.make(name)
    assert_close(loss.log_scale.exp().item(), min(100.0, model.logit_scale.exp().item()))
    assert name == "clip" or loss.bias.item() == pytest.approx(model.logit_bias.item())


def with_tokenizer(folder: str, place: Path, **special) -> str:
    """A copy of a model whose tokenizer has other special tokens, as 'eos' for 'unk'."""
    copied = Path(shutil.copytree(folder, place))
    tokenizer = library().AutoTokenizer.from_pretrained(copied)
    for name, token in special.items():
        setattr(tokenizer, f"{name}_token", getattr(tokenizer, f"{token}_token"))
    tokenizer.save_pretrained(copied)
    return str(copied)


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_a_tokenizer_whose_unknown_word_and_padding_are_the_end_is_read(zoo, tmp_path, name):
    """As that of openai/clip-vit-base-patch32. No word becomes the end of its caption, and padding is not 0."""
    folder = with_tokenizer(zoo[name], tmp_path / "model", unk="eos", pad="eos")
    made, method = tuned(folder, word_drop=0.0)
    pieces = prepare(made.data).pieces
    assert pieces.mask == -1 and pieces.pad == 3 and 3 in pieces.special
    with pytest.raises(BadInput, match="set word_drop to 0"):
        Augmentation(word_drop=0.5, special=pieces.special, unknown_id=pieces.mask, mask_id=pieces.mask)
    tokens = pieces(["a dog runs", "a dog runs on the grass"])[0]
    zeroed = Tokens(torch.where(tokens.mask, tokens.ids, 0), tokens.mask)  # as a batch is whose words were dropped
    with torch.no_grad():
        one, other = (method.eval().encode_captions(x).x for x in (tokens, zeroed))
    assert torch.equal(one, other)


def test_a_siglip_with_a_bias_of_zero_keeps_its_loss(zoo, tmp_path):
    model = tiny_models.make("siglip")
    model.logit_bias.data.zero_()
    folder = Path(shutil.copytree(zoo["siglip"], tmp_path / "new"))
    model.save_pretrained(folder)
    loss = tuned(str(folder))[1].objective.score_loss
    assert type(loss).__name__ == "PairwiseSigmoid" and loss.bias == 0 and loss.bias_is_set


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_every_adapter_gets_a_gradient(zoo, name):
    made, method = tuned(zoo[name], lora=2)
    split = prepare(made.data).splits["train"]
    batch = Batch(split.images_at(range(6)), split.captions_at(range(6)),
                  torch.eye(6, dtype=torch.bool), torch.arange(6), torch.arange(6))  # fmt: skip
    method.train().loss(batch)[0].backward()
    adapters = {key: p.grad for key, p in method.named_parameters() if "lora_B" in key}
    assert adapters and all(g is not None and g.abs().max() > 0 for g in adapters.values())


HEADS = ("clip", "vse++", "dive", "pvse", "maxsim", "pcme++")


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"lora": 2}, {"freeze_epochs": 2}, {"objective": "triplet"}], ids=str)
@pytest.mark.parametrize("method", HEADS)
@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_every_head_trains_on_its_towers_and_comes_back_the_same(zoo, own_home, tmp_path, name, method, changes):
    if method == "pcme++":
        changes = {key: value for key, value in changes.items() if key != "objective"}
    run = xmr.train_or_load(config(zoo[name], method, **changes))
    model, images = xmr.load(run.id, device="cpu"), prepare(run.config.data).corpus.read_pixels(range(6))
    model.save_pretrained(tmp_path / "saved")
    again = xmr.load(tmp_path / "saved", device="cpu")
    one, other = (m.rank(["a red circle"], images, k=3)[0] for m in (model, again))
    assert one.equals(other) and again.raw.fit == model.raw.fit
    trained, start = model.method.image_encoder.state_dict(), tuned(zoo[name], method, **changes)[1].image_encoder
    moved = {key for key, value in start.state_dict().items() if not torch.equal(value, trained[key])}
    own = {key for key in moved if "projection" in key or ".head." in key}
    reads_own = method not in ("maxsim", "pcme++")  # these read local features alone
    if changes.get("lora"):
        assert moved and all("lora_" in key or not key.startswith("backbone.") for key in moved)
    elif "freeze_epochs" in changes:
        assert bool(own) is reads_own and all(key in own or not key.startswith("backbone.") for key in moved)
    else:
        assert bool(own) is reads_own and any(".layers." in key for key in moved)


def test_what_does_not_fit_together_is_refused(zoo):
    with pytest.raises(BadInput, match="leave out text_model"):
        DataConfig(dual_model=zoo["clip"], text_model="minilm")
    with pytest.raises(BadInput, match="lora adapts a network that learns"):
        DataConfig(lora=4)
    with pytest.raises(BadInput, match="clip is a dual encoder .* give dual_model"):
        build("clip", Inputs(image_width=8, cells=4, vocabulary=20))
    with pytest.raises(BadInput, match="d must be 10"):
        build("dive", prepare(config(zoo["clip"]).data).inputs, d=16)


FEATURES = Features(torch.randn(7, 4, 8), torch.ones(7, 4, dtype=torch.bool))


def ragged() -> Batch:
    """Seven images and eleven captions of two lengths."""
    generator = torch.Generator().manual_seed(0)
    mask = torch.ones(11, 6, dtype=torch.bool)
    mask[::2, 4:] = False
    ids = torch.where(mask, torch.randint(4, 20, (11, 6), generator=generator), 0)
    x = torch.randn(7, 4, 8, generator=generator, dtype=torch.float64)
    match = torch.arange(11) % 7 == torch.arange(7)[:, None]
    return Batch(Features(x, FEATURES.mask), Tokens(ids, mask), match, torch.arange(7), torch.arange(11))


@pytest.mark.parametrize("objective", ["infonce", "siglip", "triplet"])
@pytest.mark.parametrize("name", papers())
def test_parts_of_a_batch_have_the_gradients_of_the_whole(name, objective):
    if name.startswith("pcme") and objective == "triplet":
        pytest.skip("has no hinge")
    options = {"d": 16, "dropout": 0.0, "objective": objective} | TINY.get(name, {})
    method, found = build(name, Inputs(image_width=8, cells=4, vocabulary=20), **options).double().train(), []
    method.mix = None
    for method.rows_at_once in (0, 3):
        torch.manual_seed(1)
        loss = method.loss(ragged(), 5)[0]
        found.append([loss.detach(), *torch.autograd.grad(loss, list(method.parameters()), allow_unused=True)])
    for whole, parts in zip(*found, strict=True):
        assert whole is parts is None or (whole - parts).abs().max() < 1e-6


def test_parts_that_are_computed_again_keep_their_dropout(zoo, monkeypatch):
    made, method = tuned(zoo["clip"], "dive", dropout=0.5)
    method.train().rows_at_once = 3
    images = prepare(made.data).splits["train"].images_at(range(8))

    def gradient() -> torch.Tensor:
        torch.manual_seed(1)
        return torch.autograd.grad(method.encode_images(images).x[..., 0].sum(), method.image_encoder.project.weight)[0]

    again = gradient()
    monkeypatch.setattr(method_module, "checkpoint", lambda f, *args, use_reentrant: f(*args))
    kept = gradient()
    assert torch.equal(again, kept) and kept.abs().max() > 0


@pytest.mark.slow
def test_a_batch_norm_cannot_be_computed_in_parts(own_home):
    with pytest.raises(BadInput, match="micro_batch changes a BatchNorm"):
        xmr.train_or_load(base_config("dive", form="published", size="tiny", epochs=1, micro_batch=8, device="cpu"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{"micro_batch": 5}, {"accumulate": 3}, {"checkpointing": True}, {"hard_negatives": 2}], ids=str
)
def test_a_run_that_saves_memory_is_continued_with_the_same_bits(zoo, own_home, tmp_path, monkeypatch, changes):
    made = config(zoo["clip"], "dive", lora=2, epochs=2, batch_images=8, dropout=0.1, **changes)
    whole = xmr.train_or_load(made)
    weights = whole.method().state_dict()
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "other"))

    class Stop(Exception):
        pass

    def stop(event):
        if event.get("epoch") == 1 and event.get("step") == 5:
            raise Stop

    with pytest.raises(Stop):
        xmr.train_or_load(made, report=stop)
    again = xmr.train_or_load(made)
    assert again.id == whole.id
    assert all(torch.equal(value, weights[key]) for key, value in again.method().state_dict().items())


@pytest.mark.slow
def test_an_accumulated_step_is_that_of_the_mean_gradient():
    """Three batches, accumulated by two: a step of the mean of two gradients, then a step of the third alone."""
    prepared = prepare(DataConfig(size="tiny"))
    torch.manual_seed(0)
    ours, theirs = (build("vse++", prepared.inputs, d=8, dropout=0.0) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    batches = Batches(prepared.splits["train"], 21, 1, 0)
    plain = TrainConfig(
        epochs=1, lr=1e-2, schedule="constant", warmup_steps=0, weight_decay=0.0, clip=0.0, accumulate=2
    )
    train(ours, batches, lambda method: {"value": 0.0}, plain)
    optimiser, plan = torch.optim.AdamW(theirs.parameters(), lr=1e-2, weight_decay=0.0), batches.plan(0)
    assert len(plan) == 3
    for steps in ((0, 1), (2,)):
        optimiser.zero_grad()
        sum(theirs.train().loss(batches.batch(0, step, plan))[0] for step in steps).div(len(steps)).backward()
        optimiser.step()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_the_path_of_a_user_in_twelve_lines(zoo, own_home, tmp_path, monkeypatch):
    """The code of docs/howto/fine_tune.md, on a small model and drawn photographs."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "fine_tune.md").read_text()
    code = re.search(r"```python notest\n(import xmr_core.*?)```", page, re.S)[1]
    assert len(code.splitlines()) <= 13, "twelve lines and one blank"
    corpus = xmr.data.load_scenes("quick")
    (tmp_path / "photos").mkdir()
    for name, pixels in zip(corpus.images.index, corpus.read_pixels(range(40)), strict=False):
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{name}.jpg")
    own = corpus.captions[corpus.captions["image_id"].isin(corpus.images.index[:40])]
    table = pd.DataFrame({"image": own["image_id"] + ".jpg", "caption": own["text"]})
    table.to_csv(tmp_path / "photos" / "captions.csv", index=False)
    monkeypatch.chdir(tmp_path)
    names = {
        "openai/clip-vit-base-patch32": zoo["clip"],
        "photos/1.jpg": "photos/i1.jpg",
        "photos/2.jpg": "photos/i2.jpg",
    }
    for old, new in names.items():
        assert old in code
        code = code.replace(old, new)
    made: dict = {}
    exec(code, made)
    assert made["model"].method.name == "clip" and (tmp_path / "my-model" / "config.json").exists()
    assert made["sets"].config.method == "dive" and len(made["before"].metrics)
