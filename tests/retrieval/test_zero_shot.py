"""A dual encoder as it is, against loops over transformers' own outputs."""

import json
import shutil
from functools import partial

import numpy as np
import pandas as pd
import pytest
import tiny_models
import torch
from tiny_models import MEAN, SIDE, STD, WORDS, save

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Corpus, Pixels, Relevance
from xmr_core.evaluation.evaluate import evaluate_scores
from xmr_core.features.images import array_reader
from xmr_core.features.pretrained import find_pretrained
from xmr_core.models.dual_encoder import ZeroShot
from xmr_study.zero_shot import zero_shot_scores

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

    def judge(more: bool, split: str) -> Relevance:
        mine, gallery = captions[captions["split"] == split], images.index[images["split"] == split]
        pairs = list(zip(mine.index, mine["image_id"], strict=True)) + ([(mine.index[0], gallery[-1])] if more else [])
        return Relevance.from_pairs(pairs, mine.index, gallery)

    judges = {"annotated": partial(judge, False), "generous": partial(judge, True)}
    return Corpus("tiny", images, captions, "0" * 16, array_reader(pixels), judges)


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


def ranks_by_hand(scores: np.ndarray, relevant: set[tuple[int, int]]) -> list[int]:
    """Best rank of a relevant item for each row that has one."""
    out = []
    for q, row in enumerate(scores):
        if mine := [row[g] for g in range(len(row)) if (q, g) in relevant]:
            out.append(1 + sum(row[g] >= max(mine) for g in range(len(row)) if (q, g) not in relevant))
    return out


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_zero_shot_is_what_loops_over_the_model_give(zoo, name):
    made = corpus()
    relevances = {kind: relevance("test") for kind, relevance in made.relevance_sets.items()}
    summary = evaluate_scores(zero_shot_scores(ZeroShot(zoo[name]), made), relevances).summary()
    got = summary.set_index(["relevance", "direction", "metric", "k"])["value"]
    scores = scores_by_hand(name, made)
    own = {(t, t // PER_IMAGE) for t in range(12)}
    for kind, relevant in (("annotated", own), ("generous", own | {(0, 5)})):
        for direction, matrix, pairs in (("t2i", scores.T, relevant), ("i2t", scores, {(i, t) for t, i in relevant})):
            ranks = ranks_by_hand(matrix, pairs)
            assert got[kind, direction, "mean_rank", 0] == np.mean(ranks) and np.mean(ranks) > 1
            for k in (1, 5, 10):
                assert got[kind, direction, "recall", k] == np.mean([rank <= k for rank in ranks])
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
    assert ZeroShot(first).tokens(["A Dog !"])[0].ids[0].tolist() == [4, 5, 3, *[0] * 7], "without punctuation"
    clip = ZeroShot(zoo["clip"]).tokens(["A Dog !", "a"])[0]
    assert clip.ids.tolist() == [[WORD_IDS["A"], WORD_IDS["Dog"], WORD_IDS["!"], 3], [4, 3, 0, 0]], "CLIP's as they are"


def test_the_model_is_named_by_content(zoo, tmp_path):
    name = ZeroShot(zoo["clip"]).identity
    other = shutil.copytree(zoo["clip"], tmp_path / "other")
    assert ZeroShot(other).identity == name and name.startswith(find_pretrained(zoo["clip"]).identity)
    told = json.loads((other / "preprocessor_config.json").read_text())
    (other / "preprocessor_config.json").write_text(json.dumps({**told, "image_mean": [0.5] * 3}))
    assert ZeroShot(other).identity != name


def test_what_cannot_be_asked_is_refused(zoo):
    with pytest.raises(BadInput, match="is a ViTModel, not a dual encoder such as CLIP or SigLIP"):
        ZeroShot(zoo["vit"])
    model = ZeroShot(zoo["clip"])
    with pytest.raises(BadInput, match="no images or no captions in its split 'val'"):
        zero_shot_scores(model, corpus(), split="val")
    with pytest.raises(BadInput, match="brings features and no images"):
        zero_shot_scores(model, Corpus(**{**vars(corpus()), "read_pixels": None}))
    with pytest.raises(BadInput, match="expected images of 3×32×32, got 3×16×16"):
        model.encode_images(Pixels(torch.rand(1, 3, 16, 16)))
