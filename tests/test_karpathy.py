"""Flickr30K and COCO from Karpathy's split files: order, ids, judges, and what is wrong in real files."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from xmr_core.data import coco_judgments
from xmr_core.data.both_ways import BothWays
from xmr_core.data.coco import load_coco
from xmr_core.data.faults import Faults
from xmr_core.data.flickr30k import load_flickr30k
from xmr_core.errors import BadInput, DamagedFile
from xmr_core.evaluate import evaluate_scores
from xmr_core.protocols import PROTOCOLS, Protocol
from xmr_core.relevance import Relevance

SPLITS = ("test", "train", "val", "restval", "test", "test", "train")  # in no order, as in the real file
PLAUSIBLE = ("plausible ζ=0", "plausible ζ=1", "plausible ζ=2")


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))


def record(n: int, split: str, name: str, sentences: int = 5, **more) -> dict:
    texts = [f"A dog number {n} runs in way {c} ." for c in range(sentences)]
    ids = [100 * n + 9 - c for c in range(sentences)]  # ids neither ascend nor start at 0
    return {
        "sentids": ids, "imgid": n, "split": split, "filename": name,
        "sentences": [{"tokens": t.lower().split(), "raw": t, "imgid": n, "sentid": i} for t, i in zip(texts, ids, strict=True)], **more,
    }  # fmt: skip


def draw(file) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 4), (sum(file.name.encode()) % 256, 9, 0)).save(file)


class Folder:
    """A data_root whose JSON a test may alter before it loads it."""

    def __init__(self, root, name: str, records: list[dict]):
        self.root, self.name, self.records = root, name, records
        self.json = root / f"dataset_{name}.json"

    def load(self, faults: Faults | None = None):
        self.json.write_text(json.dumps({"images": self.records, "dataset": self.name}))
        return self.read(faults)

    def read(self, faults: Faults | None = None):
        return {"coco": load_coco, "flickr30k": load_flickr30k}[self.name](self.root, faults)


@pytest.fixture
def flickr(tmp_path):
    records = [record(n, split, f"{n}.jpg") for n, split in enumerate(SPLITS)]
    for r in records:
        draw(tmp_path / "data" / "flickr30k-images" / r["filename"])
    return Folder(tmp_path / "data", "flickr30k", records)


def coco_record(n: int, split: str, cocoid: int, sentences: int = 5) -> dict:
    year = "train2014" if split == "train" else "val2014"
    return record(n, split, f"COCO_{year}_{cocoid:012d}.jpg", sentences, filepath=year, cocoid=cocoid)


@pytest.fixture
def coco(tmp_path):
    records = [coco_record(n, split, 900 - n, 7 if n == 1 else 5) for n, split in enumerate(SPLITS)]
    for r in records:
        draw(tmp_path / "data" / r["filepath"] / r["filename"])
    return Folder(tmp_path / "data", "coco", records)


@pytest.fixture(params=["flickr30k", "coco"])
def either(request):
    return request.getfixturevalue(request.param.removesuffix("30k"))


def test_flickr30k_in_the_order_of_the_file(flickr):
    corpus = flickr.load()
    assert corpus.images["split"].tolist() == ["test", "train", "val", "train", "test", "test", "train"]
    assert corpus.images.index.tolist() == [f"{n}.jpg" for n in range(7)]
    assert corpus.captions.index[:6].tolist() == ["9", "8", "7", "6", "5", "109"]
    assert corpus.captions.loc["407", "text"] == "A dog number 4 runs in way 2 ." and corpus.captions.loc["407", "split"] == "test"
    assert not corpus.faults and list(corpus.judges) == ["annotated"] and set(corpus.about["protocols"]) <= set(PROTOCOLS)
    annotated = corpus.judges["annotated"]("test")
    assert annotated.gallery_ids.tolist() == ["0.jpg", "4.jpg", "5.jpg"] and annotated.indices.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    assert corpus.read_pixels(np.array([3]), 8).shape == (1, 8, 8, 3)


def test_coco_keeps_five_sentences_and_its_own_numbers(coco):
    corpus = coco.load()
    assert corpus.images.index.tolist() == list(range(900, 893, -1)) and corpus.images["split"].tolist()[3] == "train"
    assert corpus.captions.index[corpus.captions["image_id"] == 899].tolist() == [109, 108, 107, 106, 105]
    assert corpus.faults == {"sentences beyond 5 of a picture, not used": 2}
    assert corpus.about["protocols"] == ["full"] and set(corpus.about["judges left out"]) == {"eccv", "cxc", "plausible"}
    image_of = corpus.judges["annotated"]("test").indices
    assert [fold[0].tolist() for fold in Protocol("", 3, 3, "").folds(3, image_of)] == [[0], [1], [2]]
    assert corpus.images.index[corpus.rows("test")[0]].tolist() == [900, 896, 895], "contiguous parts of the file are the folds"


def test_the_protocols_of_the_full_sizes(flickr, coco, monkeypatch):
    for folder, fitting, size in ((flickr, ["flickr-1k"], 1000), (coco, ["coco-5k", "coco-1k"], 5000)):
        first = folder.records[0]
        for n in range(size - 3):
            more = {"filepath": first["filepath"], "cocoid": 10_000 + n} if folder is coco else {}
            folder.records.append(record(100 + n, "test", f"more{n}.png", 1, **more))
        monkeypatch.setattr(
            "xmr_core.data.karpathy.pictures_in", lambda _, records=folder.records: {r["filename"]: __file__ for r in records}
        )
        corpus = folder.load()
        assert corpus.about["protocols"] == [*fitting, "full"] and set(fitting) <= set(PROTOCOLS)
        assert corpus.faults["pictures with fewer than 5 captions"] == size - 3


@pytest.mark.parametrize("place", ["images/{0}", "images", "images/trainval35k", "{0}/{0}"])
def test_usual_places_of_the_pictures(coco, place):
    for year in ("train2014", "val2014"):
        (coco.root / "moved").mkdir(exist_ok=True)
        (coco.root / year).rename(coco.root / "moved" / year)
    for r in coco.records:
        draw(coco.root / place.format(r["filepath"]) / r["filename"])
    assert len(coco.load().images) == 7


@pytest.mark.parametrize("filepath", [None, "", "/", "..", "../..", "/etc"])
def test_a_filepath_leads_nowhere_else(coco, filepath):
    for r in coco.records:
        draw(coco.root / "images" / r["filename"])
        r["filepath"] = filepath
    del coco.records[0]["filepath"]
    for year in ("train2014", "val2014"):
        (coco.root / year).rename(coco.root.parent / year)
    paths_found = coco.load().images["path"].tolist()
    assert all(path.startswith(str(coco.root / "images")) for path in paths_found)
    (coco.root / "images").rename(coco.root.parent / "images")
    with pytest.raises(BadInput, match="needs its pictures in one of the folders"):
        coco.read()


@pytest.mark.parametrize("folder", ["annotations", "karpathy", "caption_datasets"])
def test_usual_places_of_the_json(either, folder):
    before = either.load().fingerprint
    (either.root / folder).mkdir()
    either.json.rename(either.root / folder / either.json.name)
    assert either.read().fingerprint == before


def test_the_fingerprint_follows_texts_and_splits(either):
    before = either.load().fingerprint
    either.records[0]["sentences"][0]["raw"] += " indeed"
    changed = either.load().fingerprint
    either.records[1]["split"] = "val"
    assert len({before, changed, either.load().fingerprint}) == 3


def test_missing_files_are_named(either):
    either.load()
    with pytest.raises(BadInput, match="data_root of .* does not exist"):
        type(either)(either.root / "nowhere", either.name, []).read()
    either.json.rename(either.root / "elsewhere")
    with pytest.raises(BadInput, match=rf"caption_datasets/{either.json.name}"):
        either.read()
    (either.root / "elsewhere").rename(either.json)
    for r in either.records:
        next(either.root.rglob(r["filename"])).unlink()
    with pytest.raises(BadInput, match="needs its pictures in one of the folders (flickr30k-images|val2014)"):
        either.read()


def test_missing_pictures_are_counted_once_with_the_first(either):
    for n in (1, 4):
        next(either.root.rglob(either.records[n]["filename"])).unlink()
    with pytest.raises(BadInput, match=f"2 of 7 pictures are missing, the first is '{either.records[1]['filename']}'"):
        either.load()
    corpus = either.load(faults := Faults(collect=True))
    assert len(faults.refused) == 1 and len(corpus.images) == 5 and len(corpus.captions) == 25
    assert "captions of a missing picture" not in corpus.faults


def lack(records):
    del records[2]["split"], records[3]["sentences"]


def misspell(records):
    records[2]["split"] = "tset"


def repeat_a_file(records):
    records[5]["filename"] = records[0]["filename"]


def repeat_a_caption(records):
    records[5]["sentences"][0]["sentid"] = records[0]["sentences"][0]["sentid"]


def odd_record(records):
    records[2] = "COCO_val2014_000000391895.jpg"


@pytest.mark.parametrize(
    ("spoil", "says", "left"),
    [
        (lack, "2 records lack one of filename, split, sentences.*the first is number 2", (5, 25)),
        (misspell, "1 records are of a split that is none of train, restval, val, test, the first is 'tset'", (6, 30)),
        (repeat_a_file, "1 records repeat a file name or id", (6, 30)),
        (repeat_a_caption, "1 caption ids repeat", (7, 34)),
        (odd_record, "1 records lack one of", (6, 30)),
    ],
)
def test_records_that_are_refused(either, spoil, says, left):
    spoil(either.records)
    with pytest.raises(BadInput, match=says):
        either.load()
    corpus = either.load(faults := Faults(collect=True))
    assert len(faults.refused) == 1 and (len(corpus.images), len(corpus.captions)) == left


@pytest.mark.parametrize("given", [896.5, "896", 900, "x", None])
def test_numbers_of_coco_pictures(coco, given):
    coco.records[4]["cocoid"] = given
    if given == "896":
        assert coco.load().images.index[4] == 896
    else:
        with pytest.raises(BadInput, match="repeat a file name or id" if given == 900 else "lack one of .*cocoid"):
            coco.load()


def test_sentences_that_are_tolerated(either):
    a, b, c, d = (either.records[n]["sentences"] for n in (0, 4, 5, 6))
    a[0]["raw"], b[1:] = " . ", []
    c.clear()
    del d[0]["raw"], d[1]["sentid"]
    d[2] = "A dog ."
    corpus = either.load()
    beyond = {"sentences beyond 5 of a picture, not used": 2} if either.name == "coco" else {}
    assert corpus.faults == beyond | {
        "captions without a word": 1, "pictures with fewer than 5 captions": 3, "pictures without a caption": 1, "sentences that cannot be read": 3,
    }  # fmt: skip
    assert len(corpus.rows("test")[0]) == 3 and len(corpus.rows("test")[1]) == 5


def test_an_empty_split_is_empty_and_no_accident(either):
    either.records = [r for r in either.records if r["split"] != "test"]
    corpus = either.load()
    assert [len(rows) for rows in corpus.rows("test")] == [0, 0] and len(corpus.judges["annotated"]("test")) == 0
    assert list(corpus.judges) == ["annotated"] and corpus.about["protocols"] == ["full"]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("[1, 2]", "found list"),
        ('{"images": []}', "found an object with 'images'"),
        ('{"info": {}, "annotations": [{"id": 1, "caption": "a"}], "images": [{"id": 1, "file_name": "a.jpg"}]}', "'info', 'annotations'"),
        ("{}", "found an object with nothing"),
    ],
)
def test_json_that_is_not_karpathys(either, content, found):
    either.json.write_text(content)
    with pytest.raises(BadInput, match=f"is not one of Karpathy's split files: expected .*{found}.*Give dataset_{either.name}.json"):
        either.read()


def test_json_of_another_data_set(either):
    either.load()
    either.json.write_text(either.json.read_text().replace(f'"dataset": "{either.name}"', '"dataset": "flickr8k"'))
    with pytest.raises(BadInput, match=f"says it is of 'flickr8k', not of '{either.name}'"):
        either.read()


def test_json_that_was_cut_short(either):
    either.load()
    whole = either.json.read_bytes()
    for content in (whole[:-40], whole[:1], b""):
        either.json.write_bytes(content)
        with pytest.raises(DamagedFile, match=rf"{either.json.name} is no whole JSON file .*; character [\d,]+ of {len(content):,}\)"):
            either.read()


def test_a_byte_order_mark_is_no_fault(either):
    before = either.load()
    either.json.write_bytes(b"\xef\xbb\xbf" + either.json.read_bytes())
    assert either.read().fingerprint == before.fingerprint and either.read().faults == before.faults


def test_bytes_that_are_not_utf8(either):
    either.records[0]["sentences"][0]["raw"] = "A CAFE and a café"
    either.load()
    text = json.dumps(json.loads(either.json.read_text()), ensure_ascii=False)
    either.json.write_bytes(b"\xef\xbb\xbf" + text.encode().replace(b"CAFE", b"caf\xe9"))
    corpus = either.read()
    assert corpus.captions["text"].iloc[0] == "A café and a café", "what is UTF-8 stays so"
    assert corpus.faults["bytes that are not UTF-8, read as Latin-1"] == 1


# who else judged COCO's test pictures


def write_instances(coco, labels: dict[int, list[int]], folder: str = "annotations") -> None:
    """The real layout; crowds have run lengths for polygons."""
    annotations = [
        {"segmentation": [[1.5, 2.0, 3.25, 4.0]], "area": 7.5, "iscrowd": 0, "image_id": i, "bbox": [0, 0, 1, 1], "category_id": c, "id": 7}
        for i, chosen in labels.items()
        for c in chosen
    ]
    annotations[0] |= {"segmentation": {"counts": [272, 2], "size": [4, 6]}, "iscrowd": 1}
    value = {
        "info": {"year": 2014}, "images": [{"license": 3, "file_name": "a.jpg", "id": i} for i in labels], "licenses": [], "annotations": annotations,
        "categories": [{"supercategory": "person", "id": c, "name": str(c)} for c in range(1, 91)],
    }  # fmt: skip
    (coco.root / folder).mkdir(exist_ok=True)
    (coco.root / folder / "instances_val2014.json").write_text(json.dumps(value))


@pytest.mark.parametrize("folder", ["", "annotations"])
def test_plausible_matches_of_labelled_pictures(coco, folder):
    coco.records.append(coco_record(7, "test", 5))
    draw(coco.root / "val2014" / coco.records[-1]["filename"])
    write_instances(coco, {900: [1, 1, 90], 896: [90, 1], 895: [1], 4321: [7], 898: [1]}, folder)  # 5 has no label
    corpus = coco.load()
    assert tuple(corpus.judges) == ("annotated", *PLAUSIBLE)
    exact, near, nearer = (corpus.judges[kind]("test") for kind in PLAUSIBLE)
    assert (
        exact.gallery_ids.tolist() == [900, 896, 895]
        and exact.query_ids.tolist() == corpus.captions.index[corpus.rows("test")[1]][:15].tolist()
    )
    assert [exact[q].tolist() for q in (0, 5, 10)] == [[0, 1], [0, 1], [2]]
    assert (near.counts == 3).all() and (nearer.counts == 3).all()
    assert corpus.judges[PLAUSIBLE[0]]("val").gallery_ids.tolist() == [898]
    with pytest.raises(BadInput, match="none of the 3 pictures of 'train' is labelled"):
        corpus.judges[PLAUSIBLE[0]]("train")


def test_labels_of_other_pictures_are_left_out_and_said(coco):
    write_instances(coco, {1: [1]})
    corpus = coco.load()
    assert list(corpus.judges) == ["annotated"] and "none of the 3 pictures of 'test'" in corpus.about["judges left out"]["plausible"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            '{"images": [], "annotations": [{"image_id": 900, "id": 1, "caption": "a"}]}',
            "holds no instance annotations: expected .*category_id",
        ),
        ('{"annotations": [{"image_id": 900, "categ', "is no whole JSON file"),
        ('[{"image_id": 900, "category_id": 1}]', "holds no instance annotations"),
    ],
)
def test_instances_that_are_none(coco, content, says):
    (coco.root / "instances_val2014.json").write_text(content)
    with pytest.raises(BadInput, match=says):
        coco.load()
    corpus = coco.load(faults := Faults(collect=True))
    assert len(faults.refused) == 1 and list(corpus.judges) == ["annotated"] and len(corpus.images) == 7


def test_an_instance_without_a_picture_is_counted(coco):
    write_instances(coco, {900: [1], 896: [1]})
    file = coco.root / "annotations" / "instances_val2014.json"
    file.write_text(file.read_text().replace('"image_id": 896', '"image_id": null'))
    assert coco.load().faults["instance annotations without a picture or category"] == 1


def test_without_the_package_there_are_no_judgments_but_a_note(coco, monkeypatch):
    monkeypatch.setattr(coco_judgments, "find_spec", lambda _: None)
    corpus = coco.load()
    assert list(corpus.judges) == ["annotated"]
    assert all("install it" in corpus.about["judges left out"][kind] for kind in ("eccv", "cxc"))


@pytest.fixture
def judged(coco):
    """The test pictures are real ones with their real ids: one that ECCV Caption asked about, and four whose captions fit it."""
    pytest.importorskip("eccv_caption", reason="eccv_caption brings the judgments of COCO")
    data = Path(find_spec("eccv_caption").origin).parent / "data"
    eccv, owners = (json.loads((data / f"{name}.json").read_text()) for name in ("eccv_image_to_caption", "original_caption_to_image"))
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
    assert list(corpus.judges) == ["annotated", "eccv", "cxc"] and set(corpus.about["judges left out"]) == {"plausible"}
    image_ids, caption_ids = (
        table.index.to_numpy()[rows] for table, rows in zip((corpus.images, corpus.captions), corpus.rows("test"), strict=True)
    )
    for kind in ("eccv", "cxc"):
        t2i = corpus.judges[kind]("test")
        for relevance, name, queries, gallery in (
            (t2i, "caption_to_image", caption_ids, image_ids), (t2i.transpose(), "image_to_caption", image_ids, caption_ids),
        ):  # fmt: skip
            assert relevance.query_ids.tolist() == queries.tolist() and relevance.gallery_ids.tolist() == gallery.tolist()
            told = json.loads((data / f"{kind}_{name}.json").read_text())
            for q, query in enumerate(queries.tolist()):
                assert set(gallery[relevance[q]].tolist()) == set(told.get(str(query), [])) & set(gallery.tolist()), (kind, name, query)
        assert relevance.counts.sum() > 5
    with pytest.raises(BadInput, match="not COCO annotation ids of the test images"):
        corpus.judges["eccv"]("val")


def test_the_judgments_go_through_evaluation(judged):
    corpus = judged[0].load()
    relevances = {kind: judge("test") for kind, judge in corpus.judges.items()}
    scores = np.zeros((len(corpus.rows("test")[0]), len(corpus.rows("test")[1])))
    eccv = relevances["eccv"]
    for query in range(len(eccv.transpose())):
        scores[query, eccv.transpose()[query]] = 1
    found = evaluate_scores(scores, relevances)
    table = found.per_query[(found.per_query["relevance"] == "eccv") & (found.per_query["direction"] == "i2t")]
    assert (table["r_precision"] == 1).all() and len(table) == np.count_nonzero(eccv.transpose().counts)
    assert found.dropped["eccv", "t2i"] == np.count_nonzero(eccv.counts == 0)


def test_both_ways_are_kept_apart():
    there = Relevance.from_pairs([("c1", "i2"), ("c2", "i1")], ["c1", "c2", "c3"], ["i1", "i2"])
    back = Relevance.from_pairs([("i1", "c3"), ("i2", "c1"), ("i2", "c2")], ["i1", "i2"], ["c1", "c2", "c3"])
    both = BothWays.of(there, back)
    assert both.counts.tolist() == [1, 1, 0] and both.transpose().counts.tolist() == [1, 2]
    again = both.transpose().transpose()
    assert again.indices.tolist() == [1, 0] and again.query_ids.tolist() == ["c1", "c2", "c3"]
    part = both.restrict(np.array([2, 0]), np.array([1, 0]))
    assert [part[q].tolist() for q in (0, 1)] == [[], [0]] and part.query_ids.tolist() == ["c3", "c1"]
    assert [part.transpose()[q].tolist() for q in (0, 1)] == [[1], [0]] and part.transpose().query_ids.tolist() == ["i2", "i1"]
    with pytest.raises(BadInput, match="need the same ids"):
        BothWays.of(there, there)
