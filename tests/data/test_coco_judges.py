"""Who else judged COCO's test images: ECCV Caption and CxC in both directions, plausible matches from instance
annotations.
"""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from karpathy_files import coco_folder, coco_record, draw

from xmr_core.base.errors import BadInput, XmrError
from xmr_core.base.types import Relevance
from xmr_core.data.readers.assembly import FaultLog, TwoWayRelevance

PLAUSIBLE = ("plausible ζ=0", "plausible ζ=1", "plausible ζ=2")


pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def coco(tmp_path):
    return coco_folder(tmp_path / "data")


def write_instances(coco, labels: dict[int, list[int]], folder: str = "annotations") -> None:
    """The real layout; crowds have run lengths for polygons."""
    segment = {"segmentation": [[1.5, 2.0, 3.25, 4.0]], "area": 7.5, "iscrowd": 0, "bbox": [0, 0, 1, 1], "id": 7}
    annotations = [{**segment, "image_id": i, "category_id": c} for i, chosen in labels.items() for c in chosen]
    annotations[0] |= {"segmentation": {"counts": [272, 2], "size": [4, 6]}, "iscrowd": 1}
    value = {
        "info": {"year": 2014}, "images": [{"license": 3, "file_name": "a.jpg", "id": i} for i in labels],
        "licenses": [], "annotations": annotations,
        "categories": [{"supercategory": "person", "id": c, "name": str(c)} for c in range(1, 91)],
    }  # fmt: skip
    (coco.root / folder).mkdir(exist_ok=True)
    (coco.root / folder / "instances_val2014.json").write_text(json.dumps(value))


@pytest.mark.parametrize("folder", ["", "annotations"])
def test_plausible_matches_of_labelled_images(coco, folder):
    coco.records.append(coco_record(7, "test", 5))
    draw(coco.root / "val2014" / coco.records[-1]["filename"])
    write_instances(coco, {900: [1, 1, 90], 896: [90, 1], 895: [1], 4321: [7], 898: [1]}, folder)  # 5 has no label
    corpus = coco.load()
    assert tuple(corpus.relevance_sets) == ("annotated", *PLAUSIBLE)
    exact, near, nearer = (corpus.relevance_sets[kind]("test") for kind in PLAUSIBLE)
    assert exact.gallery_ids.tolist() == [900, 896, 895]
    assert exact.query_ids.tolist() == corpus.captions.index[corpus.rows("test")[1]][:15].tolist()
    assert [exact[q].tolist() for q in (0, 5, 10)] == [[0, 1], [0, 1], [2]]
    assert (near.counts == 3).all() and (nearer.counts == 3).all()
    assert corpus.relevance_sets[PLAUSIBLE[0]]("val").gallery_ids.tolist() == [898]
    with pytest.raises(BadInput, match="no image of 'train'"):
        corpus.relevance_sets[PLAUSIBLE[0]]("train")


def test_labels_of_other_images_are_left_out_and_said(coco):
    write_instances(coco, {1: [1]})
    corpus = coco.load()
    assert list(corpus.relevance_sets) == ["annotated"]
    assert "no image of 'test'" in corpus.about["relevance sets left out"]["plausible"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"annotations": [{"image_id": 900, "categ', "no whole JSON"),
        ('[{"image_id": 900, "category_id": 1}]', "holds no instance annotations"),
    ],
)
def test_instances_that_are_none(coco, content, says):
    (coco.root / "instances_val2014.json").write_text(content)
    with pytest.raises(XmrError, match=says):
        coco.load()
    corpus = coco.load(faults := FaultLog(collect=True))
    assert len(faults.refused) == 1 and list(corpus.relevance_sets) == ["annotated"] and len(corpus.images) == 7


def test_without_the_package_there_are_no_judgments_but_a_note(coco, monkeypatch):
    monkeypatch.setattr("xmr_core.data.readers.official.find_spec", lambda _: None)
    corpus = coco.load()
    assert list(corpus.relevance_sets) == ["annotated"]
    assert all("pip install" in corpus.about["relevance sets left out"][kind] for kind in ("eccv", "cxc"))


@pytest.fixture
def judged(coco):
    """The test images are real ones with their real ids: one that ECCV Caption asked about, and four whose captions fit
    it.
    """
    pytest.importorskip("eccv_caption", reason="eccv_caption brings the judgments of COCO")
    data = Path(find_spec("eccv_caption").origin).parent / "data"
    eccv, owners = (
        json.loads((data / f"{name}.json").read_text())
        for name in ("eccv_image_to_caption", "original_caption_to_image")
    )
    order = np.load(data / "coco_test_ids.npy").tolist()
    asked = next(iter(eccv))
    ids = list(dict.fromkeys([int(asked), *(owners[str(c)][0] for c in eccv[asked] if str(c) in owners)]))[:5]
    coco.records = [r for r in coco.records if r["split"] != "test"]
    for n, cocoid in enumerate(ids):
        r = coco_record(50 + n, "test", cocoid)
        r["sentids"] = [c for c in order if owners[str(c)] == [cocoid]]
        for sentence, number in zip(r["sentences"], r["sentids"], strict=True):
            sentence["sentid"] = number
        coco.records.append(r)
        draw(coco.root / "val2014" / r["filename"])
    return coco, data


def test_the_ids_are_those_of_the_judgments(judged):
    coco, data = judged
    corpus = coco.load()
    assert list(corpus.relevance_sets) == ["annotated", "eccv", "cxc"]
    assert set(corpus.about["relevance sets left out"]) == {"plausible"}
    image_ids, caption_ids = (
        table.index.to_numpy()[rows]
        for table, rows in zip((corpus.images, corpus.captions), corpus.rows("test"), strict=True)
    )
    for kind in ("eccv", "cxc"):
        t2i = corpus.relevance_sets[kind]("test")
        for relevance, name, queries, gallery in (
            (t2i, "caption_to_image", caption_ids, image_ids),
            (t2i.transpose(), "image_to_caption", image_ids, caption_ids),
        ):  # fmt: skip
            assert relevance.query_ids.tolist() == queries.tolist()
            assert relevance.gallery_ids.tolist() == gallery.tolist()
            told = json.loads((data / f"{kind}_{name}.json").read_text())
            for q, query in enumerate(queries.tolist()):
                assert set(gallery[relevance[q]].tolist()) == set(told.get(str(query), [])) & set(gallery.tolist()), (
                    kind,
                    name,
                    query,
                )
        assert relevance.counts.sum() > 5
    with pytest.raises(BadInput, match="no ids of COCO"):
        corpus.relevance_sets["eccv"]("val")


def test_both_ways_are_kept_apart():
    there = Relevance.from_pairs([("c1", "i2"), ("c2", "i1")], ["c1", "c2", "c3"], ["i1", "i2"])
    back = Relevance.from_pairs([("i1", "c3"), ("i2", "c1"), ("i2", "c2")], ["i1", "i2"], ["c1", "c2", "c3"])
    both = TwoWayRelevance.join(there, back)
    assert both.counts.tolist() == [1, 1, 0] and both.transpose().counts.tolist() == [1, 2]
    again = both.transpose().transpose()
    assert again.indices.tolist() == [1, 0] and again.query_ids.tolist() == ["c1", "c2", "c3"]
    part = both.restrict(np.array([2, 0]), np.array([1, 0]))
    assert [part[q].tolist() for q in (0, 1)] == [[], [0]] and part.query_ids.tolist() == ["c3", "c1"]
    assert [part.transpose()[q].tolist() for q in (0, 1)] == [[1], [0]]
    assert part.transpose().query_ids.tolist() == ["i2", "i1"]
    with pytest.raises(BadInput, match="need the same ids"):
        TwoWayRelevance.join(there, there)
