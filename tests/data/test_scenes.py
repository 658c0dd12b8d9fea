"""The built-in corpus: its captions are true, its relevance complete, its seed means the same world every time."""

import numpy as np
import pytest

from xmr_core.base import paths
from xmr_core.data.scenes import load_scenes
from xmr_core.data.scenes.world import (
    ATTRIBUTES,
    COUNT,
    MEANINGS,
    RELATION,
    TWO,
    Scenes,
    Statements,
    sample_scenes,
    truth_matrix,
)

pytestmark = pytest.mark.usefixtures("own_home")


def holds(s: Statements, m: int, scenes: Scenes, n: int) -> bool:
    """One statement on one image, by looking at its objects one by one."""
    objects = [o for o in range(5) if scenes.present[n, o]]

    def fits(mention, o):
        return all(
            word < 0 or MEANINGS[name][word, getattr(scenes, name)[n, o]]
            for name, word in zip(ATTRIBUTES, mention, strict=True)
        )

    if s.background[m] >= 0 and s.background[m] != scenes.background[n]:
        return False
    if s.kind[m] == COUNT:
        return sum(fits(s.a[m], o) for o in objects) == s.count[m]
    if s.kind[m] not in (TWO, RELATION):
        return any(fits(s.a[m], o) for o in objects)
    for o in objects:
        for other in objects:
            if o != other and fits(s.a[m], o) and fits(s.b[m], other):
                (row, column), (row2, column2) = divmod(scenes.place[n, o], 3), divmod(scenes.place[n, other], 3)
                if s.relation[m] < 0 or (column < column2, column > column2, row < row2, row > row2)[s.relation[m]]:
                    return True
    return False


def world(ambiguity=0.3, n=40):
    from xmr_core.data.scenes.world import describe

    rng = np.random.default_rng(0)
    scenes = sample_scenes(n, rng)
    return scenes, describe(scenes, ambiguity, rng)


@pytest.mark.parametrize("ambiguity", [0.0, 0.3, 1.0])
def test_exhaustive_truth_equals_the_loop(ambiguity):
    scenes, statements = world(ambiguity)
    truth = truth_matrix(statements, scenes)
    wanted = np.array([[holds(statements, m, scenes, n) for n in range(len(scenes))] for m in range(len(statements))])
    assert (truth == wanted).all()
    assert 0 < wanted.mean() < 0.5


def test_every_caption_is_true_of_its_own_image():
    scenes, statements = world(1.0, 200)
    assert truth_matrix(statements, scenes)[np.arange(len(statements)), statements.image].all()


def test_a_seed_is_a_world():
    a, b, c = load_scenes("tiny", 0), load_scenes("tiny", 0), load_scenes("tiny", 1)
    rows = np.arange(10)
    assert a.fingerprint == b.fingerprint != c.fingerprint
    assert (a.read_pixels(rows) == b.read_pixels(rows)).all() and (a.read_pixels(rows) != c.read_pixels(rows)).any()
    paths.folder("cache").joinpath(next(paths.folder("cache").glob("scenes-*")).name).unlink()
    again = load_scenes("tiny", 0)  # made anew, not read from the cache
    assert (a.read_pixels(rows) == again.read_pixels(rows)).all() and a.captions.equals(again.captions)


def test_splits_share_no_image_and_five_captions_belong_to_each():
    corpus = load_scenes("tiny")
    assert corpus.images["split"].value_counts().to_dict() == {"train": 64, "val": 32, "test": 32}
    assert (corpus.captions.groupby("image_id").size() == 5).all()
    assert (corpus.captions["split"] == corpus.images["split"].loc[corpus.captions["image_id"]].to_numpy()).all()
    pixels = corpus.read_pixels(np.arange(128)).reshape(128, -1)
    assert len(np.unique(pixels, axis=0)) == 128


def test_relevance_of_both_kinds():
    corpus = load_scenes("tiny", ambiguity=0.5)
    annotated, exhaustive = (corpus.relevance_sets[kind]("test") for kind in ("annotated", "exhaustive"))
    own = corpus.captions["image_id"].loc[annotated.query_ids].to_numpy()
    assert (annotated.counts == 1).all() and (annotated.gallery_ids[annotated.indices] == own).all()
    assert all(annotated[q][0] in exhaustive[q] for q in range(len(annotated)))
    assert exhaustive.counts.sum() > annotated.counts.sum()


def test_the_knob_makes_captions_vaguer():
    means = [
        load_scenes("tiny", ambiguity=a).relevance_sets["exhaustive"]("train").counts.mean()
        for a in (0.0, 0.3, 0.6, 1.0)
    ]
    assert means == sorted(means) and means[-1] > 3 * means[0]


def test_images_show_what_the_scene_says():
    """The middle of a large square has its colour; the same place in another image has not."""
    from xmr_core.data.scenes.corpus import _RGB, render

    scenes, _ = world(n=300)
    pixels = render(scenes, np.random.default_rng(0)).astype(float)
    seen = 0
    for n, o in zip(*np.nonzero(scenes.present & (scenes.shape == 1) & (scenes.size == 2)), strict=True):
        row, column = divmod(scenes.place[n, o], 3)
        y, x = int((row + 0.5) * 64 / 3), int((column + 0.5) * 64 / 3)
        middle = pixels[n, y - 2 : y + 3, x - 2 : x + 3].mean((0, 1))
        assert np.abs(middle - _RGB[scenes.colour[n, o]]).max() < 45
        seen += 1
    assert seen > 20


def test_a_damaged_cache_file_is_rebuilt_and_said_so():
    before = load_scenes("tiny")
    (file,) = paths.folder("cache").glob("scenes-*.npz")
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)
    with pytest.warns(UserWarning, match="rebuilt"):
        after = load_scenes("tiny")
    assert (before.read_pixels(np.arange(5)) == after.read_pixels(np.arange(5))).all()
    load_scenes("tiny")
