"""Images become squares as the image processors of transformers make them, which are asked here."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import tiny_models
import torch
from PIL import Image
from test_zero_shot import scores_of
from tiny_models import MEAN, SIDE, STD

import xmr_core as xmr
from xmr_core.base.types import Corpus
from xmr_core.features.cache import cached_features
from xmr_core.features.images import Crop, Fit, array_reader, image_reader
from xmr_core.features.pretrained import PretrainedGrid, find_pretrained, library, read_preprocessing

NORMAL = {"image_mean": list(MEAN), "image_std": list(STD)}
RECIPES = {
    "clip": ("CLIPImageProcessor", {"size": {"shortest_edge": SIDE}, "crop_size": SIDE, "resample": 3}),
    "larger": ("CLIPImageProcessor", {"size": {"shortest_edge": 41}, "crop_size": SIDE, "resample": 2}),
    "smaller": ("CLIPImageProcessor", {"size": {"shortest_edge": 25}, "crop_size": SIDE, "resample": 3}),
    "numbers": ("CLIPImageProcessor", {"size": 36, "crop_size": SIDE, "do_center_crop": True, "resample": 3}),
    "siglip": ("SiglipImageProcessor", {"size": {"height": SIDE, "width": SIDE}, "resample": 3}),
    "vit": ("ViTImageProcessor", {"size": {"height": SIDE, "width": SIDE}, "resample": 2}),
    "lanczos": ("ViTImageProcessor", {"size": SIDE, "resample": 1, "do_rescale": True, "rescale_factor": 2 / 255}),
    "deit": ("DeiTImageProcessor", {"size": {"height": 40, "width": 40}, "crop_size": SIDE, "resample": 0}),
    "convnext": ("ConvNextImageProcessor", {"size": {"shortest_edge": SIDE}, "crop_pct": 0.8, "resample": 3}),
}
SHAPES = [(50, 70), (70, 50), (33, 90), (32, 32), (20, 21), (51, 40)]  # height, width


def images() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (*shape, 3), np.uint8) for shape in SHAPES]


def processed(recipe: str, image: np.ndarray) -> np.ndarray:
    """pixel_values "3 h w" of transformers' own processor, without torchvision."""
    name, settings = RECIPES[recipe]
    processor = tiny_models.pil_processor(name)(**settings, **NORMAL)
    return np.asarray(processor(Image.fromarray(image), return_tensors="np")["pixel_values"])[0]


def with_recipe(recipe: str, folder):
    name, settings = RECIPES[recipe]
    content = {"image_processor_type": name, **settings, **NORMAL}
    (folder / "preprocessor_config.json").write_text(json.dumps(content))
    return folder


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    return {name: tiny_models.save(name, tmp_path_factory.mktemp("fit") / name) for name in ("clip", "siglip", "vit")}


@pytest.fixture
def folder(zoo, tmp_path):
    """A copy of a model with another recipe: folder('clip', 'larger')."""

    def copy(name: str, recipe: str):
        return with_recipe(recipe, shutil.copytree(zoo[name], tmp_path / f"{name}-{recipe}"))

    return copy


@pytest.mark.parametrize("recipe", RECIPES)
def test_pixels_are_those_of_the_models_own_processor(folder, tmp_path, recipe):
    model = find_pretrained(folder("vit", recipe))
    scaling, fit = read_preprocessing(model, library().ViTConfig(image_size=SIDE))
    files = []
    for n, image in enumerate(images()):
        expected = processed(recipe, image)
        Image.fromarray(image).save(tmp_path / f"{n}.png"), files.append(tmp_path / f"{n}.png")
        square = array_reader(image[None])(np.array([0]), scaling.resolution, fit=fit)
        x = torch.from_numpy(square).permute(0, 3, 1, 2).float() / 255
        np.testing.assert_allclose(scaling.apply(x, *scaling.tensors())[0].numpy(), expected, atol=1e-6)
        assert (image_reader(files)(np.array([n]), scaling.resolution, fit=fit) == square).all()


def test_a_recipe_that_squashes_with_the_usual_filter_is_none_and_others_are_not(folder):
    fits = {name: read_preprocessing(find_pretrained(folder("vit", name)), None, SIDE)[1] for name in RECIPES}
    assert fits["siglip"] is None and all(fit for name, fit in fits.items() if name != "siglip")
    assert fits["convnext"] == Fit(40, True) and fits["deit"] == Fit(40, False, 0)
    assert fits["larger"] == Fit(41, True, 2)
    assert read_preprocessing(find_pretrained(folder("clip", "larger")), None, 2 * SIDE)[1] == Fit(82, True, 2)


@pytest.mark.parametrize(("name", "recipe"), [("clip", "clip"), ("clip", "larger"), ("siglip", "siglip")])
def test_models_read_images_as_they_were_trained(folder, tmp_path, name, recipe):
    path, files = folder(name, recipe), []
    for n, image in enumerate(images()):
        Image.fromarray(image).save(tmp_path / f"{n}.png"), files.append(tmp_path / f"{n}.png")
    net, expected = tiny_models.make(name), []
    with torch.no_grad():
        for image in images():
            out = net.get_image_features(pixel_values=torch.from_numpy(processed(recipe, image))[None])
            x = (out if isinstance(out, torch.Tensor) else out.pooler_output)[0]
            expected.append((x / x.norm()).numpy())
    texts = ["a dog", "the red ball"]
    model = xmr.load(path)
    np.testing.assert_allclose(model.encode_images(files).x.numpy(), expected, atol=1e-5)
    np.testing.assert_allclose(model.encode_images(images()).x.numpy(), expected, atol=1e-5)
    scores = scores_of(path, corpus(image_reader(files), texts))
    np.testing.assert_allclose(scores, expected @ model.encode_texts(texts).x.numpy().T, atol=1e-5)


def test_frozen_cells_are_of_the_same_pixels_and_have_a_name_of_their_own(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))
    files = []
    for n, image in enumerate(images()):
        Image.fromarray(image).save(tmp_path / f"{n}.png"), files.append(tmp_path / f"{n}.png")
    crop, squash = PretrainedGrid(folder("vit", "larger")), PretrainedGrid(folder("vit", "siglip"))
    assert crop.identity != squash.identity
    net = tiny_models.make("vit")
    features = cached_features(corpus(image_reader(files), ["a dog"]), crop, iter)
    with torch.no_grad():
        for row, image in zip(features, images(), strict=True):
            states = net(pixel_values=torch.from_numpy(processed("larger", image))[None]).last_hidden_state[0, 1:]
            np.testing.assert_allclose(row, states.numpy(), atol=2e-3)  # kept in half precision


def test_a_view_is_fitted_after_it_is_cut_out():
    image = images()[0]  # 50 × 70
    box = (0.2, 0.1, 0.8, 0.9)  # 42 × 40 pixels
    cut = Image.fromarray(image).crop((14, 5, 56, 45)).resize((21, 20), Image.Resampling.BILINEAR, None)
    got = array_reader(image[None])(np.array([0]), 20, [Crop(box)], Fit(20, True, 2))[0]
    inside = (slice(1, -1), slice(1, None))  # at the border of a box, Pillow's filter reads what lies around it
    assert np.abs(got.astype(int) - np.asarray(cut)[:, :20].astype(int))[inside].max() <= 1
    flipped = array_reader(image[None])(np.array([0]), 20, [Crop(box, mirrored=True)], Fit(20, True, 2))[0]
    assert (flipped == got[:, ::-1]).all()


def corpus(reader, texts: list[str]) -> Corpus:
    names = [f"i{n}" for n in range(len(SHAPES))]
    captions = pd.DataFrame({"image_id": names[: len(texts)], "text": texts, "split": "test"})
    return Corpus("shapes", pd.DataFrame({"split": "test"}, index=names), captions, "1" * 16, reader, {})
