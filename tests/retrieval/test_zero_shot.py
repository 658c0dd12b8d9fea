"""A dual encoder as it is, against loops over transformers' own outputs."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import tiny_models
import torch
from tiny_models import MEAN, SIDE, STD, WORDS, save

import xmr_core as xmr
from xmr_core.base.errors import BadInput
from xmr_core.base.types import Corpus, Pixels
from xmr_core.data.batches import Split
from xmr_core.data.config import DataConfig
from xmr_core.data.readers.assembly import annotated_relevance
from xmr_core.evaluation.analysis import encode_split
from xmr_core.evaluation.evaluate import evaluate_corpus
from xmr_core.features.images import array_reader
from xmr_core.models.dual_encoder import ZeroShot
from xmr_core.models.load import load
from xmr_core.retrieval.ranking import Query, not_read
from xmr_study.cli import main
from xmr_study.zero_shot import zero_shot_reference

PER_IMAGE = 2
WORD_IDS = {word: 4 + n for n, word in enumerate([*WORDS, "A", "Dog", ".", "!"])}  # of tiny_models.closing_tokenizer


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    return {name: save(name, tmp_path_factory.mktemp("dual") / name) for name in ("clip", "siglip", "vit")}


def corpus(n_test: int = 6) -> Corpus:
    """Three training pictures before the test ones, so that positions and rows differ; captions of 1 to 6 words, the
    longest shorter than SigLIP's 10.
    """
    rng = np.random.default_rng(1)
    n = 3 + n_test
    pixels = rng.integers(0, 256, (n, SIDE, SIDE, 3), np.uint8)
    words = [word for word in WORDS if not word.startswith("##")]
    texts = [" ".join(rng.choice(words, rng.integers(1, 7))) for _ in range(PER_IMAGE * n)]
    images = pd.DataFrame({"split": ["train"] * 3 + ["test"] * n_test}, index=[f"i{i}" for i in range(n)])
    owners = np.repeat(np.arange(n), PER_IMAGE)
    captions = pd.DataFrame(
        {"image_id": images.index[owners], "text": texts, "split": images["split"].to_numpy()[owners]}
    )

    return Corpus("tiny", images, captions, "0" * 16, array_reader(pixels), annotated_relevance(images, captions))


def scores_of(folder, made: Corpus) -> np.ndarray:
    """Cosines of all images and captions of the test split, encoded as `evaluate` does."""
    model, (i, t) = xmr.load(folder, device="cpu"), made.rows("test")
    captions = model.raw.captions.of_corpus(made.captions["text"].iloc[t].tolist())
    images, captions = encode_split(model.method, Split(i, t, model.raw.images_of(made), captions, None))
    return model.similarity(images, captions).numpy()


def scores_by_hand(name: str, made: Corpus) -> np.ndarray:
    """Cosines of every test picture and caption, one at a time."""
    model = tiny_models.make(name)
    image_rows, caption_rows = made.rows("test")
    with torch.no_grad():
        images = []
        for picture in made.read_pixels(image_rows).astype(np.float64) / 255:
            x = torch.tensor((picture - np.array(MEAN)) / np.array(STD), dtype=torch.float32).permute(2, 0, 1)[None]
            out = model.vision_model(pixel_values=x).pooler_output[0]
            images.append(model.visual_projection(out) if name == "clip" else out)
        captions = []
        for text in made.captions["text"].iloc[caption_rows]:
            ids = [WORD_IDS[word] for word in text.split()] + [3]
            ids += [0] * (10 - len(ids)) if name == "siglip" else []
            out = model.text_model(input_ids=torch.tensor([ids])).pooler_output[0]
            captions.append(model.text_projection(out) if name == "clip" else out)
    return np.array([[float(x @ y / x.norm() / y.norm()) for y in captions] for x in images])


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_zero_shot_is_what_loops_over_the_model_give(zoo, name):
    made = corpus()
    scores = scores_by_hand(name, made)
    np.testing.assert_allclose(scores_of(zoo[name], made), scores, atol=1e-5)
    found = xmr.load(zoo[name], device="cpu").evaluate(made)
    pd.testing.assert_frame_equal(found.metrics, evaluate_corpus(scores, made)[1])
    assert "6 images, 12 captions" in str(found) and found.setting.method == "zero-shot"
    model = ZeroShot(zoo[name])
    images = model.encode_images(
        Pixels(torch.from_numpy(made.read_pixels(made.rows("test")[0])).permute(0, 3, 1, 2) / 255)
    )
    captions = model.encode_captions(model.tokens(made.captions["text"].iloc[made.rows("test")[1]])[0])
    np.testing.assert_allclose(model.similarity(images, captions).numpy(), scores, atol=1e-5)
    assert np.allclose(images.x.norm(dim=-1), 1) and np.allclose(captions.x.norm(dim=-1), 1)


def test_siglips_captions_are_read_as_it_was_trained(zoo, tmp_path):
    plain = ZeroShot(zoo["siglip"])
    tokens, cut = plain.tokens(["A Dog !", "a dog", "a " * 20])
    assert tokens.ids.shape == (3, 10) and cut == 1 and tokens.ids[2, -1] == 3, (
        "padded and cut to the model's length, its end kept"
    )
    assert tokens.ids[:2, :4].tolist() == [[4, 5, WORD_IDS["!"], 3], [4, 5, 3, 0]], "lower-cased"
    first = shutil.copytree(zoo["siglip"], tmp_path / "first")
    told = json.loads((first / "tokenizer_config.json").read_text())
    (first / "tokenizer_config.json").write_text(json.dumps({**told, "tokenizer_class": "SiglipTokenizer"}))
    assert ZeroShot(first).tokens(["A Dog !"])[0].ids[0].tolist() == [4, 5, 3], "without punctuation"
    clip = ZeroShot(zoo["clip"]).tokens(["A Dog !", "a"])[0]
    assert clip.ids.tolist() == [[WORD_IDS["A"], WORD_IDS["Dog"], WORD_IDS["!"], 3], [4, 3, 0, 0]], "CLIP's as they are"


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_what_is_cut_or_unknown_is_told(zoo, name):
    model = load(zoo[name])
    with pytest.warns(UserWarning, match="1 of 2 sentences are longer than 1. word pieces"):
        model.encode_texts(["a dog", "A dog " * 9])
    with pytest.warns(UserWarning, match="2 of 3 sentences have no word"):
        model.encode_texts(["लड़का", "लड़की", "a"])
    said = not_read(SimpleNamespace(raw=model.raw), Query("text", "a dog लड़का" + " runs" * 9 + " big ball"))
    assert said["unknown_words"] == ("लड़का",) and said["cut"].endswith("big ball")


def test_what_cannot_be_asked_is_refused(zoo):
    with pytest.raises(BadInput, match="is a ViTModel, not a dual encoder such as CLIP or SigLIP"):
        ZeroShot(zoo["vit"])
    with pytest.raises(BadInput, match="no images or no captions in its split 'val' .*captions in: test, train"):
        xmr.load(zoo["clip"]).evaluate(corpus(), "val")


def test_the_study_the_model_and_the_command_have_one_way(zoo, own_home, capsys):
    by_study = zero_shot_reference(zoo["clip"], DataConfig(size="tiny"), "cpu")
    by_model = xmr.load(zoo["clip"], device="cpu").evaluate(DataConfig(size="tiny"))
    pd.testing.assert_frame_equal(by_study.per_query, by_model.per_query)
    assert by_study.id == by_model.id and by_study.setting.size == "tiny"
    assert main(["evaluate", str(zoo["clip"]), "scenes", "size=tiny", "device=cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"] == by_model.metrics.to_dict("records")


@pytest.mark.parametrize("end", [39, 2])  # in no caption; and 2, for which transformers looks for the largest number
def test_a_clip_whose_config_names_another_end_of_text_is_refused(zoo, tmp_path, end):
    folder = shutil.copytree(zoo["clip"], tmp_path / "clip")
    told = json.loads((folder / "config.json").read_text())
    told["text_config"]["eos_token_id"] = end
    (folder / "config.json").write_text(json.dumps(told))
    with pytest.raises(BadInput, match="does not read whole captions: .* eos_token_id"):
        ZeroShot(folder)


def test_padding_with_the_end_of_text_changes_no_caption(zoo, tmp_path):
    folder = shutil.copytree(zoo["clip"], tmp_path / "clip")
    tokenizer = tiny_models.closing_tokenizer()
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer.save_pretrained(folder)
    texts = ["a dog", "a dog runs on the grass"]
    one, other = (model.encode_captions(model.tokens(texts)[0]).x for model in map(ZeroShot, (zoo["clip"], folder)))
    torch.testing.assert_close(one, other)
