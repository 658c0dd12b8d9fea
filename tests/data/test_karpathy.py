"""Flickr30K and COCO from Karpathy's split files: order, ids, and what is wrong in real files."""

import json

import numpy as np
import pytest
from karpathy_files import coco_folder, draw, flickr_folder, record

from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.data.readers.assembly import FaultLog
from xmr_core.evaluation.metrics import PROTOCOLS, Protocol

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def flickr(tmp_path):
    return flickr_folder(tmp_path / "data")


@pytest.fixture
def coco(tmp_path):
    return coco_folder(tmp_path / "data")


@pytest.fixture(params=["flickr30k", "coco"])
def either(request):
    return request.getfixturevalue(request.param.removesuffix("30k"))


def test_flickr30k_in_the_order_of_the_file(flickr):
    corpus = flickr.load()
    assert corpus.images["split"].tolist() == ["test", "train", "val", "train", "test", "test", "train"]
    assert corpus.images.index.tolist() == [f"{n}.jpg" for n in range(7)]
    assert corpus.captions.index[:6].tolist() == ["9", "8", "7", "6", "5", "109"]
    assert corpus.captions.loc["407", "text"] == "A dog number 4 runs in way 2 ."
    assert corpus.captions.loc["407", "split"] == "test"
    assert not corpus.faults and list(corpus.relevance_sets) == ["annotated"]
    assert set(corpus.about["protocols"]) <= set(PROTOCOLS)
    annotated = corpus.relevance_sets["annotated"]("test")
    assert annotated.gallery_ids.tolist() == ["0.jpg", "4.jpg", "5.jpg"]
    assert annotated.indices.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    assert corpus.read_pixels(np.array([3]), 8).shape == (1, 8, 8, 3)


def test_coco_keeps_five_sentences_and_its_own_numbers(coco):
    corpus = coco.load()
    assert corpus.images.index.tolist() == list(range(900, 893, -1)) and corpus.images["split"].tolist()[3] == "train"
    assert corpus.captions.index[corpus.captions["image_id"] == 899].tolist() == [109, 108, 107, 106, 105]
    assert corpus.faults == {"sentences beyond 5 of an image, not used": 2}
    assert corpus.about["protocols"] == ["full"]
    assert set(corpus.about["relevance sets left out"]) == {"eccv", "cxc", "plausible"}
    image_of = corpus.relevance_sets["annotated"]("test").indices
    assert [fold[0].tolist() for fold in Protocol("", 3, 3, "").folds(3, image_of)] == [[0], [1], [2]]
    assert corpus.images.index[corpus.rows("test")[0]].tolist() == [900, 896, 895], (
        "contiguous parts of the file are the folds"
    )


def test_the_protocols_of_the_full_sizes(flickr, coco, monkeypatch):
    for folder, fitting, size in ((flickr, ["flickr-1k"], 1000), (coco, ["coco-5k", "coco-1k"], 5000)):
        first = folder.records[0]
        for n in range(size - 3):
            more = {"filepath": first["filepath"], "cocoid": 10_000 + n} if folder is coco else {}
            folder.records.append(record(100 + n, "test", f"more{n}.png", 1, **more))
        monkeypatch.setattr(
            "xmr_core.data.readers.official.list_images",
            lambda _, records=folder.records: {r["filename"]: __file__ for r in records},
        )
        corpus = folder.load()
        assert corpus.about["protocols"] == [*fitting, "full"] and set(fitting) <= set(PROTOCOLS)
        assert corpus.faults["images with fewer than 5 captions"] == size - 3


@pytest.mark.parametrize("place", ["images/{0}", "images", "images/trainval35k", "{0}/{0}"])
def test_usual_places_of_the_images(coco, place):
    for year in ("train2014", "val2014"):
        (coco.root / "moved").mkdir(exist_ok=True)
        (coco.root / year).rename(coco.root / "moved" / year)
    for r in coco.records:
        draw(coco.root / place.format(r["filepath"]) / r["filename"])
    assert len(coco.load().images) == 7


def test_annotations_of_coco_without_karpathys_file_lead_to_the_reader_that_takes_them(coco):
    coco.load()
    coco.json.unlink()
    with pytest.raises(BadInput, match=r"coco needs .*dataset_coco\.json(?!.*folder')"):
        coco.read()
    (coco.root / "annotations").mkdir(exist_ok=True)
    (coco.root / "annotations" / "captions_train2017.json").touch()
    with pytest.raises(BadInput, match=r"take dataset='folder': it reads captions_train2017\.json"):
        coco.read()


@pytest.mark.parametrize("filepath", [None, "/", "../..", "/etc"])
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
    with pytest.raises(BadInput, match="images are missing"):
        coco.read()


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
    with pytest.raises(BadInput, match="images are missing"):
        either.read()


def test_missing_images_are_counted_once_with_the_first(either):
    for n in (1, 4):
        next(either.root.rglob(either.records[n]["filename"])).unlink()
    with pytest.raises(BadInput, match=f"images are missing .*: 2, the first is '{either.records[1]['filename']}'"):
        either.load()
    corpus = either.load(faults := FaultLog(collect=True))
    assert len(faults.refused) == 1 and len(corpus.images) == 5 and len(corpus.captions) == 25
    assert "captions of a missing image" not in corpus.faults


def lack(records):
    del records[2]["split"], records[3]["sentences"]
    records[4]["split"], records[6] = "tset", "COCO_val2014_000000391895.jpg"


def repeat_a_caption(records):
    records[5]["sentences"][0]["sentid"] = records[0]["sentences"][0]["sentid"]


@pytest.mark.parametrize(
    ("spoil", "says", "left"),
    [
        (lack, "records, .*: 4, the first", (3, 15)),
        (repeat_a_caption, "ids of captions repeat: 1", (7, 34)),
    ],
)
def test_records_that_are_refused(either, spoil, says, left):
    spoil(either.records)
    with pytest.raises(BadInput, match=says):
        either.load()
    corpus = either.load(faults := FaultLog(collect=True))
    assert len(faults.refused) == 1 and (len(corpus.images), len(corpus.captions)) == left


def test_sentences_that_are_tolerated(either):
    a, b, c, d = (either.records[n]["sentences"] for n in (0, 4, 5, 6))
    a[0]["raw"], b[1:] = " . ", []
    c.clear()
    del d[0]["raw"], d[1]["sentid"]
    d[2] = "A dog ."
    corpus = either.load()
    beyond = {"sentences beyond 5 of an image, not used": 2} if either.name == "coco" else {}
    assert corpus.faults == beyond | {
        "captions without a word": 1, "images with fewer than 5 captions": 3, "images without a caption": 1,
        "sentences that cannot be read": 3,
    }  # fmt: skip
    assert len(corpus.rows("test")[0]) == 3 and len(corpus.rows("test")[1]) == 5


@pytest.mark.parametrize("content", ["[1, 2]", '{"images": [{"id": 1, "file_name": "a.jpg"}]}'])
def test_json_that_is_not_karpathys(either, content):
    either.json.write_text(content)
    with pytest.raises(BadInput, match=either.json.name):
        either.read()


def test_json_that_was_cut_short(either):
    either.load()
    whole = either.json.read_bytes()
    for content in (whole[:-40], whole[:1], b""):
        either.json.write_bytes(content)
        with pytest.raises(DamagedFile, match=either.json.name):
            either.read()


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-32"])
def test_another_unicode_encoding_is_no_fault(either, encoding):
    before = either.load()
    either.json.write_bytes(either.json.read_text(encoding="utf-8").encode(encoding))
    assert either.read().fingerprint == before.fingerprint and either.read().faults == before.faults
    either.json.write_bytes(either.json.read_bytes()[:-3])
    with pytest.raises(DamagedFile, match="cut short"):
        either.read()


def test_bytes_that_are_not_utf8(either):
    either.records[0]["sentences"][0]["raw"] = "A CAFE and a café"
    either.load()
    text = json.dumps(json.loads(either.json.read_text()), ensure_ascii=False)
    either.json.write_bytes(b"\xef\xbb\xbf" + text.encode().replace(b"CAFE", b"caf\xe9"))
    corpus = either.read()
    assert corpus.captions["text"].iloc[0] == "A café and a café", "what is UTF-8 stays so"
    assert corpus.faults["texts that are not UTF-8, read as Windows-1252"] == 1
