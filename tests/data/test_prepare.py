"""From a folder of photographs and pretrained networks to trained methods: every road that prepare offers."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from tiny import tiny_config
from tiny_models import SIDE, WORDS, save

from xmr_core.base import files
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.types import Relevance
from xmr_core.data import DATASETS, DataConfig, prepare
from xmr_core.features.pretrained import WordPieces
from xmr_core.methods.checkpoint import load_method
from xmr_core.methods.registry import build
from xmr_core.training.loop import pretrained_names, stages_learning
from xmr_core.training.runs import folder as folders
from xmr_core.training.runs import train_or_load
from xmr_core.training.runs.config import base_config

N = {"train": 12, "dev": 6, "test": 6}


pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture(scope="module")
def flickr(tmp_path_factory):
    """24 pictures in Flickr8k's layout, and the tiny models beside them."""
    root = tmp_path_factory.mktemp("flickr")
    folder, text = root / "Flicker8k_Dataset", root / "Flickr8k_text"
    folder.mkdir(), text.mkdir()
    rng, words = np.random.default_rng(0), [w for w in WORDS if not w.startswith("#")]
    names, lines = [f"{n}.jpg" for n in range(sum(N.values()))], []
    for name in names:
        Image.fromarray(rng.integers(0, 255, (SIDE, SIDE, 3), np.uint8)).save(folder / name)
        lines += [f"{name}#{c}\t{' '.join(rng.choice(words, 5))} ." for c in range(5)]
    (text / "Flickr8k.token.txt").write_text("\n".join(lines) + "\n")
    for split, n in N.items():
        (text / f"Flickr_8k.{split}Images.txt").write_text("\n".join(names[:n]) + "\n")
        names = names[n:]
    for name in ("resnet", "vit", "bert", "clip"):
        save(name, root / name)
    return root


def config(flickr, method="vse-infty", **changes):
    small = {"epochs": 2, "d": 8, "batch_images": 6, "captions_per_image": 2, "reduce": 0, "lr": 3e-3}
    small |= {"val_images": 0, "views": 0}
    return base_config(method, dataset="flickr8k", data_root=str(flickr), device="cpu").replace(**{**small, **changes})


@pytest.mark.slow
def test_frozen_networks_on_both_sides(flickr, tmp_path):
    run = train_or_load(
        config(flickr, image_model=str(flickr / "resnet"), text_model=str(flickr / "bert"), word_drop=0.2, views=2)
    )
    prepared = run.prepared()
    assert prepared.inputs.image_width == 16 and prepared.inputs.cells == 1 and prepared.inputs.text_width == 16
    assert run.history["loss"].iloc[-1] < run.history["loss"].iloc[0] and prepared.splits["train"].views == 2
    assert prepared.splits["test"].views == 0
    captions = prepared.splits["test"].captions_at(np.array([0, 7]))
    alone = prepared.splits["test"].captions_at(np.array([7]))
    assert torch.equal(captions.local_feats[1][captions.mask[1]], alone.local_feats[0][alone.mask[0]])
    assert alone.local_feats.dtype == torch.float16
    method, words, about = load_method(run.export(tmp_path / "m.safetensors"))
    assert isinstance(words, WordPieces) and about["text_model"].endswith("bert")
    assert about["image_model"].endswith("resnet")
    mine, theirs = run.method().encode_captions(captions), method.encode_captions(captions)
    assert torch.equal(mine.x, theirs.x)


@pytest.mark.parametrize(
    "method, options",
    [("dive", {"iterations": 1}), ("pvse", {}), ("pcme", {}), ("scan", {}), ("sgraf", {}), ("vse+2ad", {})],
)
def test_every_recipe_reads_a_text_model(flickr, method, options):
    c = config(flickr, method, image_model=str(flickr / "vit"), text_model=str(flickr / "bert"), **options)
    p = prepare(c.data)
    batch_images, batch_captions = (
        p.splits["train"].images_at(np.arange(3)),
        p.splits["train"].captions_at(np.arange(4)),
    )
    m = build(method, p.inputs, "matched", **c.options).eval()
    assert m.similarity(m.encode_images(batch_images), m.encode_captions(batch_captions)).shape == (3, 4)
    with pytest.raises(BadInput, match="published form"):
        build(method, p.inputs, "published", d=8)


def test_an_official_vocabulary_numbers_the_captions(flickr, tmp_path):
    words = ["<pad>", "<start>", "<end>", "<unk>", "dog", "a"]
    numbers = {word: n for n, word in enumerate(words)}
    content = {"word2idx": numbers, "idx2word": {str(n): word for word, n in numbers.items()}, "idx": len(words)}
    (tmp_path / "vocab.json").write_text(json.dumps(content))
    p = prepare(config(flickr, image_model=str(flickr / "resnet"), vocabulary=str(tmp_path / "vocab.json")).data)
    assert p.vocabulary.words == tuple(words)
    names = content["idx2word"] = {**content["idx2word"], "4": "a", "5": "dog"}
    content["word2idx"] = {word: int(n) for n, word in names.items()}
    (tmp_path / "other.json").write_text(json.dumps(content))
    other = prepare(config(flickr, image_model=str(flickr / "resnet"), vocabulary=str(tmp_path / "other.json")).data)
    assert other.identity != p.identity, "as many words with other numbers"


def weights_of(run):
    return {k: v.clone() for k, v in run.method().state_dict().items()}


@pytest.mark.slow
def test_fine_tuning_starts_from_the_pretrained_weights_and_thaws_in_stages(flickr):
    networks = {"image_model": str(flickr / "resnet"), "text_model": str(flickr / "bert"), "fine_tune": "both"}
    frozen = train_or_load(config(flickr, **networks, freeze_epochs=2, val_images=3))
    p = frozen.prepared()
    fresh = build("vse-infty", p.inputs, "matched", d=8)
    p.load_pretrained(fresh)
    names = pretrained_names(fresh)
    assert any("image_encoder.backbone" in n for n in names) and any("caption_encoder.backbone" in n for n in names)
    pretrained, after = fresh.state_dict(), weights_of(frozen)
    assert all(torch.equal(pretrained[n], after[n]) for n in names), "frozen throughout"
    assert any(not torch.equal(pretrained[n], after[n]) for n in after if n not in names)
    tuned = train_or_load(
        config(flickr, **networks, freeze_epochs=0, unfreeze_every=1, epochs=1, pretrained_lr=1.0, lr=1e-2)
    )
    after = weights_of(tuned)
    moved = {n for n in names if not torch.equal(pretrained[n], after[n])}
    output, *_, first = fresh.image_encoder.stage_prefixes()
    assert any(n.startswith(tuple("image_encoder." + s for s in output)) for n in moved)
    assert not any(n.startswith(tuple("image_encoder." + s for s in first)) for n in moved), (
        "the stage at the input has not had its turn"
    )
    statistics = [n for n in after if n.endswith("running_mean") and "backbone" in n]
    assert statistics and all(torch.equal(pretrained[n], after[n]) for n in statistics), (
        "BatchNorm stays as it was pretrained"
    )


def test_how_many_stages_learn():
    assert [stages_learning(e, 4, 2, 0) for e in range(4)] == [0, 0, 4, 4]
    assert [stages_learning(e, 3, 1, 2) for e in range(8)] == [0, 1, 1, 2, 2, 3, 3, 3]


def test_pixels_are_cropped_when_there_are_views(flickr):
    p = prepare(config(flickr, image_model=str(flickr / "vit"), fine_tune="image", views=50).data)
    split = p.splits["train"]
    whole, again = split.images_at(np.arange(3)), split.images_at(np.arange(3), np.array([0, 0, 0]))
    assert torch.equal(whole.x, again.x) and whole.x.shape == (3, 3, SIDE, SIDE)
    assert not torch.equal(whole.x, split.images_at(np.arange(3), np.array([7, 8, 9])).x)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"fine_tune": "image"}, "needs image_model"),
        ({"features": "pretrained"}, "needs image_model"),
        ({"features": "regions"}, "do not fit"),
        ({"text_model": "BERT", "vocabulary": "v.json"}, "brings its own words"),
        ({"image_model": "BERT"}, "not a model of images"),
    ],
)
def test_what_does_not_go_together_is_refused(flickr, changes, message):
    changes = {k: str(flickr / "bert") if v == "BERT" else v for k, v in changes.items()}
    alone = changes.keys() & {"features", "fine_tune", "image_model"}
    network = {} if alone else {"image_model": str(flickr / "resnet")}
    with pytest.raises(BadInput, match=message):
        prepare(DataConfig("flickr8k", str(flickr), **network, **changes))


def test_every_data_set_needs_its_folder():
    for name in DATASETS:
        if name != "scenes":
            with pytest.raises(BadInput, match="data_root"):
                prepare(DataConfig(name))
    with pytest.raises(BadInput, match="Did you mean 'flickr30k'"):
        prepare(DataConfig("flickr30", "x"))


@pytest.mark.slow
def test_a_kind_of_relevance_that_was_added_later_is_judged_without_training_again(flickr, monkeypatch):
    c = config(flickr, image_model=str(flickr / "resnet"), epochs=1)
    before = train_or_load(c)
    real = prepare(c.data)
    everything = lambda split: Relevance.from_matrix(  # noqa: E731
        np.ones((len(real.corpus.rows(split)[1]), len(real.corpus.rows(split)[0])), bool),
        real.corpus.captions.index[real.corpus.rows(split)[1]],
        real.corpus.images.index[real.corpus.rows(split)[0]],
    )
    more = replace(
        real, corpus=replace(real.corpus, relevance_sets={**real.corpus.relevance_sets, "anything": everything})
    )
    module = sys.modules["xmr_core.training.runs.train_run"]  # the package has a function of that name
    monkeypatch.setattr(module, "prepare", lambda *_, **__: more)
    monkeypatch.setattr(module, "train", lambda *_, **__: pytest.fail("it was trained again"))
    after = train_or_load(c)
    rsum = after.metrics[after.metrics["metric"] == "rsum"].set_index("relevance")["value"]
    assert after.id == before.id and rsum["anything"] == 6 and after.provenance.relevances == ("annotated", "anything")
    kept = after.per_query[after.per_query["relevance"] == "annotated"].reset_index(drop=True)
    assert kept.equals(before.per_query) and after.provenance.train_seconds == before.provenance.train_seconds


@pytest.mark.parametrize("networks", [(), ("resnet", "bert"), ("vit", "")])
def test_images_and_sentences_from_elsewhere_are_read_like_the_corpus_s_own(flickr, networks):
    if networks:
        image, text = networks
        c = config(
            flickr, image_model=str(flickr / image), text_model=str(flickr / text) if text else "", reduce=3, views=1
        ).data
    else:
        c = DataConfig(size="tiny")
    p = prepare(c)
    split, rows = p.splits["test"], np.array([4, 0, 2])
    pictures = p.corpus.read_pixels(split.image_rows[rows], **({"resolution": p.inputs.resolution} if networks else {}))
    mine, own = p.new_images(pictures), split.images_at(rows)
    assert torch.equal(mine.local_feats, own.local_feats) and torch.equal(mine.mask, own.mask)
    assert (mine.global_feat is None) == (own.global_feat is None)
    if own.global_feat is not None:
        assert torch.equal(mine.global_feat, own.global_feat)
    texts = p.corpus.captions["text"].iloc[split.caption_rows[rows]].tolist()
    mine, own = p.new_captions(texts), split.captions_at(rows)
    name = "local_feats" if p.inputs.text_width else "ids"
    assert torch.equal(mine.mask, own.mask)
    assert torch.allclose(getattr(mine, name).float()[mine.mask], getattr(own, name).float()[own.mask], atol=2e-3)
    with pytest.raises(BadInput, match="no sentence"):
        p.new_captions([])
    with pytest.raises(BadInput, match="must be uint8 .* got float"):
        p.new_images(pictures.astype(float))


def test_pixels_of_pictures_from_elsewhere():
    p = prepare(DataConfig(size="tiny", features="pixels"))
    split = p.splits["test"]
    assert torch.equal(p.new_images(p.corpus.read_pixels(split.image_rows[:3])).x, split.images_at(np.arange(3)).x)


@pytest.mark.slow
def test_a_run_that_another_process_writes_anew_is_not_thrown_away(monkeypatch):
    """While a run is evaluated by another kind of relevance its tables change before its record does."""
    run = train_or_load(tiny_config("vse++", epochs=1))
    identity = files.read_record(run.folder / "config.json")["identity"]
    read, calls = folders.read_run, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise DamagedFile("metrics.csv is missing or altered.")
        return read(*arguments)

    monkeypatch.setattr(folders, "read_run", interrupted)
    assert folders.load_finished(run.folder, run.config, identity).id == run.id
    assert (run.folder / "record.json").exists() and len(calls) == 2
