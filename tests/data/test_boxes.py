"""Boxes of regions are read beside the features, checked, and drawn; they change no identity."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import Rectangle

from xmr_core.base.errors import BadInput
from xmr_core.data.readers.check import check_corpus
from xmr_core.data.readers.precomputed import load_precomputed
from xmr_study import plots

IMAGES = {"train": 3, "dev": 2, "testall": 2}
TIMES = {"train": 1, "dev": 5, "testall": 5}  # rows of an image, as in the public files


pytestmark = pytest.mark.usefixtures("own_home")


def boxes_of(stem: str, scale: float = 200.0) -> np.ndarray:
    corners = np.random.default_rng(len(stem)).uniform(0, scale / 2, (IMAGES[stem], 3, 2))
    return np.concatenate([corners, corners + scale / 4], -1).astype(np.float32)


@pytest.fixture
def regions(tmp_path):
    folder = tmp_path / "regions"
    folder.mkdir()
    for stem, n in IMAGES.items():
        array = np.random.default_rng(n).normal(size=(n, 3, 4)).astype(np.float32)
        np.save(folder / f"{stem}_ims.npy", np.repeat(array, TIMES[stem], 0))
        (folder / f"{stem}_caps.txt").write_text("A dog .\n" * 5 * n)
    return folder


def write(folder, scale: float = 200.0, rows=TIMES.get):
    for stem in IMAGES:
        np.save(folder / f"{stem}_boxes.npy", np.repeat(boxes_of(stem, scale), rows(stem), 0))


def test_without_boxes_nothing_changes(regions):
    corpus = load_precomputed(regions)
    assert corpus.boxes is None and "boxes" not in corpus.about
    write(regions)
    other = load_precomputed(regions)
    assert other.fingerprint == corpus.fingerprint and other.image_fingerprint == corpus.image_fingerprint


@pytest.mark.parametrize("rows", [TIMES.get, lambda stem: 1], ids=["as the features", "one row an image"])
@pytest.mark.parametrize(("scale", "unit"), [(200.0, "pixels"), (1.0, "relative")])
def test_boxes_belong_to_the_images_of_the_features(regions, rows, scale, unit):
    write(regions, scale, rows)
    corpus = load_precomputed(regions)
    assert corpus.boxes.shape == (7, 3, 4) and corpus.about["boxes"] == unit and not corpus.faults
    assert np.array_equal(corpus.boxes[:], np.concatenate([boxes_of(stem, scale) for stem in IMAGES]))
    text = check_corpus("precomputed", load_precomputed, regions).text()
    assert f"boxes: {unit}" in text.splitlines()


def spoil(stem, change):
    def apply(folder):
        values = np.load(folder / f"{stem}_boxes.npy")
        np.save(folder / f"{stem}_boxes.npy", change(values))

    return apply


def turned(values):
    values[1, 2] = [5, 5, 4, 9]
    return values


FAULTS = {
    "of some splits": (lambda f: (f / "dev_boxes.npy").unlink(), r"dev_boxes\.npy does not exist"),
    "of other regions": (spoil("train", lambda v: v[:, :2]), r"train_boxes\.npy has shape \(3, 2, 4\); .* \(3, 3, 4\)"),
    "that end first": (spoil("train", turned), "1 of 9 sampled boxes"),
    "of two units": (spoil("dev", lambda v: v / 400), "need one unit"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_boxes_that_cannot_be_used_are_refused_in_one_line(regions, fault):
    write(regions)
    apply, message = FAULTS[fault]
    apply(regions)
    with pytest.raises(BadInput, match=message) as error:
        load_precomputed(regions)
    assert "\n" not in str(error.value)
    assert str(error.value) in check_corpus("precomputed", load_precomputed, regions).obstacles


def test_the_strongest_regions_are_drawn_where_they_lie():
    image, boxes = np.zeros((40, 80, 3), np.uint8), np.array([[0, 0, 0.5, 0.5], [0.25, 0.5, 1, 1], [0, 0, 1, 1]])
    weights = np.array([[0.0, 0.5, 0.25], [1.0, 0.0, 0.0]])
    figure = plots.region_attention(image, boxes, weights, ["dog", "runs"], "relative")
    drawn = [[p for p in ax.patches if isinstance(p, Rectangle)] for ax in figure.axes]
    assert [len(panel) for panel in drawn] == [0, 2, 1]
    assert [ax.get_title() for ax in figure.axes[1:]] == ["dog", "runs"]
    assert drawn[1][0].get_bbox().extents.tolist() == [20, 20, 80, 40], "the strongest, in pixels"
    assert drawn[1][0].get_alpha() > drawn[1][1].get_alpha() and drawn[2][0].get_alpha() == 1.0
    one = plots.region_attention(image, boxes * 40, weights, ["dog", "runs"], strongest=1)
    assert [len(ax.patches) for ax in one.axes] == [0, 1, 1]
    assert one.axes[1].patches[0].get_bbox().extents.tolist() == [10, 20, 40, 40]
    with pytest.raises(BadInput):
        plots.region_attention(image, boxes[:2], weights, ["a", "b"])
    plt.close("all")
