"""Which images could stand for one another, and whether looks lie on objects: on cases that a person can check."""

import json
from itertools import combinations

import numpy as np
import pytest
import torch
from miniatures import miniature

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Embedding, GaussianEmbedding, Relevance
from xmr_core.data.readers.assembly import plausible_match
from xmr_core.data.readers.official import load_coco
from xmr_core.data.scenes import load_scenes
from xmr_study import plausible
from xmr_study.analysis import pointing, sorted_variances
from xmr_study.plausible import interchangeable, nearest_by_objects, plausible_sets, shown_objects


def test_objects_of_coco_have_the_names_of_its_file_and_give_its_plausible_sets(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))
    root = miniature("coco", tmp_path / "coco")
    corpus = load_coco(root)
    shown = shown_objects(corpus)
    content = json.loads((root / "annotations" / "instances_val2014.json").read_text())
    for image in (shown.index[0], shown.index[-1]):
        categories = {a["category_id"] for a in content["annotations"] if a["image_id"] == image}
        assert shown[image] == {f"thing {c}" for c in categories}
    names = sorted({name for names in shown for name in names})
    codes = np.array([[name in own for name in names] for own in shown], int)
    own = corpus.relevance_sets["annotated"]("test").indices
    for zeta, relevance in enumerate(plausible_sets(corpus).values()):
        assert relevance.counts.tolist() == plausible_match(codes, own, zeta).counts.tolist()
    (root / "annotations" / "instances_val2014.json").unlink()
    with pytest.raises(BadInput, match="instances_val2014.json"):
        shown_objects(load_coco(root))


def test_neighbours_differ_in_exactly_zeta_kinds():
    corpus = load_scenes("tiny")
    shown = shown_objects(corpus)
    table = nearest_by_objects(corpus, shown.index[1], each=3)
    assert table["ζ"].iloc[0] == -1 and set(table["ζ"]) == {-1, 0, 1, 2}
    for row in table.iloc[1:].itertuples():
        assert len(shown[row.image_id] ^ shown[shown.index[1]]) == row.ζ


def test_a_group_is_mutual_has_different_images_and_is_the_largest_where_there_is_none_of_n():
    ids = ["a", "a2", "b", "c", "d"]
    own = Relevance.from_pairs(zip(ids, [1, 1, 2, 3, 4], strict=True), ids, [1, 2, 3, 4])
    right = {"a": [1, 2], "a2": [1, 2, 3], "b": [1, 2, 3], "c": [1, 2, 3], "d": [4, 1]}
    truth = Relevance.from_pairs([(c, i) for c, images in right.items() for i in images], ids, [1, 2, 3, 4])
    assert interchangeable(truth, own, 3) == [("a2", 1), ("b", 2), ("c", 3)]
    assert interchangeable(truth, own, 4) == [("a2", 1), ("b", 2), ("c", 3)]
    with pytest.raises(BadInput, match="n of at least 1"):
        interchangeable(truth, own, 0)


def two_way(n: int, pairs) -> tuple[Relevance, Relevance]:
    """(truth, own) of n captions, each of an image of its own and right for the images of its pairs."""
    ids, images = [f"c{t}" for t in range(n)], list(range(n))
    own = [(f"c{t}", t) for t in range(n)]
    named = [(f"c{t}", i) for t, i in pairs]
    return Relevance.from_pairs(own + named, ids, images), Relevance.from_pairs(own, ids, images)


@pytest.mark.parametrize("seed", range(4))
def test_the_group_is_the_first_of_all_groups_in_file_order(seed):
    rng, n = np.random.default_rng(seed), 24
    fits = rng.random((n, n)) < 0.6
    truth, own = two_way(n, [(t, i) for t in range(n) for i in range(n) if fits[t, i] and t != i])
    mutual = fits & fits.T
    every = (g for g in combinations(range(n), 3) if all(mutual[a, b] for a, b in combinations(g, 2)))
    assert interchangeable(truth, own, 3) == [(f"c{t}", t) for t in next(every)]


def test_a_search_without_end_ends(monkeypatch):
    """Three kinds of images, and a caption fits all but the others of its kind: groups of three, and none of four."""
    truth, own = two_way(60, [(t, i) for t in range(60) for i in range(60) if i % 3 != t % 3])
    monkeypatch.setattr(plausible, "_MOST", 300)
    assert len(interchangeable(truth, own, 4)) == 3


def test_pointing_counts_the_strongest_cell_and_small_objects_have_one():
    weights = torch.tensor([[0.7, 0.1, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4]])
    masks = torch.tensor([[0.9, 0.3, 0.2, 0.0], [0.0, 0.1, 0.0, 0.0]])
    hit, share, overlap = pointing(weights, masks)
    assert hit.tolist() == [1, 0] and share.tolist() == [0.5, 0.25] and overlap.tolist() == [1.0, 0.0]
    with pytest.raises(BadInput, match="needs a mask with an object"):
        pointing(weights, masks * 0)


def test_variances_are_squares_sorted_and_one_vector_has_none():
    items = GaussianEmbedding(torch.zeros(2, 3), torch.tensor([[0.0, 1.0, -1.0], [0.0, 1.0, -1.0]]))
    assert np.allclose(sorted_variances(items), np.exp([2.0, 0.0, -2.0]))
    for other in (Embedding(torch.zeros(1, 2)), GaussianEmbedding(torch.zeros(1, 2), torch.full((1, 2), -torch.inf))):
        with pytest.raises(BadInput, match="only distributions"):
            sorted_variances(other)
