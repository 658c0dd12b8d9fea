"""Any folder of images, with captions as people write them down, or without."""

import json
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from xmr_core.base.errors import BadInput
from xmr_core.data.readers.assembly import FaultLog
from xmr_core.data.readers.folder import caption_table, from_frame, hash_split, load_folder

pytestmark = pytest.mark.usefixtures("own_home")


IMAGES = ("beach.jpg", "dog.png", "trip/beach.jpg", "trip/tree.JPG", "trip/far/river.webp")


@pytest.fixture
def photos(tmp_path):
    """Five images, two of one name, in sub-folders; beside them what other systems leave there."""
    folder = tmp_path / "photos"
    rng = np.random.default_rng(0)
    for name in IMAGES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (40, 60, 3), np.uint8)).save(folder / name)
    (folder / "trip" / "._tree.jpg").write_bytes(b"\0\5\26\7")
    (folder / ".thumbs").mkdir()
    (folder / ".thumbs" / "dog.png").write_bytes(b"")
    (folder / "trip" / "again").symlink_to(folder, target_is_directory=True)
    return folder


def rows(corpus) -> list[tuple[str, str]]:
    return list(zip(corpus.captions["image_id"], corpus.captions["text"], strict=True))


def test_images_are_known_by_suffix_and_without_one_by_content(tmp_path):
    names = ("a.JFIF", "b.jpe", "c.Png", "without", "x/0013", "of a dog.jpg")
    (tmp_path / "x").mkdir()
    for name in names:
        Image.new("RGB", (9, 9)).save(tmp_path / name, "JPEG")
    (tmp_path / "README").write_text("no image")
    (tmp_path / "captions.csv").write_text("image,caption\n" + "".join(f"{name},A dog.\n" for name in names))
    corpus = load_folder(tmp_path)
    assert set(corpus.images.index) == set(corpus.captions["image_id"]) == set(names)
    assert corpus.read_pixels(range(6)).shape == (6, 224, 224, 3) and not corpus.faults
    for n, name in enumerate(names):
        (tmp_path / name).rename(tmp_path / f"{n}.heic")
    with pytest.raises(BadInput, match=r"only images of kinds that are not read \(\.heic\): convert them"):
        load_folder(tmp_path)


def test_without_captions_it_is_a_folder_to_search(photos):
    corpus = load_folder(photos)
    assert corpus.images.index.tolist() == sorted(IMAGES) and set(corpus.images["split"]) == {"test"}
    assert len(corpus.captions) == 0
    relevance = corpus.relevance_sets["annotated"]("test")
    assert len(relevance) == 0 and list(relevance.gallery_ids) == sorted(IMAGES) and not corpus.faults
    assert "to be searched" in corpus.about["splits"] and corpus.read_pixels(np.arange(5)).shape == (5, 224, 224, 3)
    (photos / "notes.txt").write_text("x")
    assert load_folder(photos).faults == {
        "text files that are not read (captions are looked for in captions.csv, captions.tsv, captions.jsonl, "
        "captions.txt, metadata.csv, metadata.jsonl, results.csv, results*.token, *.token.txt, *.json)": 1
    }


LISTS = {
    "['a dog' 'a cat']": 2, "[ 'a dog', 'a cat' ]": 2, '("a dog", "a cat")': 2, "{'a dog', 'a cat'}": 2,
    json.dumps(['a "big" dog', "a cat 🐕", None]): 2, '["a man\'s dog" \'a cat\']': 2, "[b'a dog', b'a cat']": 2,
    repr(np.array(["a dog", "a cat"], object)): 2, repr(np.array(["a dog", "a cat"])): 2,
    repr(list(np.array(["a dog", "it's"]))): 2, "['a dog' 'a cat' ... 'a cow']": 3, "['a dog', nan]": 1,
    "<StringArray>\n['a dog', 'a cat']\nLength: 2, dtype: str": 2,
    "['a man's dog', 'a cat']": 0, "['a dog' 'a ca": 0, "{'en': 'a dog'}": 0, "nan": 0, "None": 0, "<NA>": 0,
    "[nan]": 0,
    "[a dog] runs": 1, '("a dog" it says)': 1, "none of the dogs": 1,
}  # fmt: skip


@pytest.mark.parametrize("cell", LISTS)
def test_a_list_in_a_cell_is_its_captions_or_none(cell):
    faults = FaultLog()
    rows = [{"image": "a.png", "caption": cell}, {"image": "b.png", "caption": "a cow"}]
    texts = caption_table(enumerate(rows, 1), "x", faults)["text"][:-1].tolist()
    assert len(texts) == LISTS[cell] and (texts or faults.counts) and not any("['" in t or "' '" in t for t in texts)
    assert bool(faults.counts) == any(mark in cell for mark in ("nan", "null", "...")) or not texts


TABLES = {
    "commas": "image,caption\ndog.png,A dog.\nbeach.jpg,\"A beach, wide\nand empty.\"\n",
    "semicolons, other names, another order": "Text;n;FileName\nA dog.;1;dog.png\n"
                                              "A beach, wide and empty.;2;beach.jpg\n",
    "tabs": "file\ttext\ndog.png\tA dog.\nbeach.jpg\tA beach, wide and empty.\n",
    "mark at the start, Windows line ends": "\ufeffimage,caption\r\ndog.png,A dog.\r\n"
                                            "beach.jpg,\"A beach, wide and empty.\"\r\n",
    "blanks behind commas": '"image", "caption", "n"\n"dog.png", "A dog.", "1"\n'
                            'beach.jpg, "A beach, wide and empty.", 2\n',
    "bars, blanks around a name": "Image Name| comment_number| Comment\n dog.png | 0| A dog.\n"
                                  "beach.jpg| 0| A beach, wide and empty.\n",
    "blank lines": "\nimage,caption\n\ndog.png,A dog.\n,\n\nbeach.jpg,\"A beach, wide and empty.\"\n\n",
}  # fmt: skip


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_tables_are_read_however_they_are_written(photos, table):
    (photos / "captions.csv").write_bytes(table.encode())
    corpus = load_folder(photos)
    assert rows(corpus) == [("dog.png", "A dog."), ("beach.jpg", "A beach, wide and empty.")]
    assert corpus.captions.index.tolist() == ["dog.png#0", "beach.jpg#0"] and corpus.faults == {"images in no split": 3}
    (photos / "captions.csv").rename(photos / "captions.tsv")
    assert load_folder(photos).fingerprint == corpus.fingerprint


def test_lines_of_json_may_hold_several_captions(photos):
    lines = [
        {"image": "dog.png", "caption": ["A dog.", "Man's best friend."], "caption_id": ["d1", "d2"], "split": "train"},
        {"file_name": "beach.jpg", "text": "A beach.", "split": "dev", "caption_id": 7},
        {"file": "trip/far/river.webp", "caption": ["A river.", "Water."], "caption_id": "r", "split": None},
    ]
    (photos / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    corpus = load_folder(photos)
    assert corpus.captions["text"].to_dict() == {
        "d1": "A dog.", "d2": "Man's best friend.", "7": "A beach.", "trip/far/river.webp#0": "A river.",
        "trip/far/river.webp#1": "Water.",
    }  # fmt: skip
    assert corpus.images["split"].to_dict() == dict.fromkeys(IMAGES, "") | {"dog.png": "train", "beach.jpg": "val"}


def test_splits_are_given_or_come_from_the_names(photos):
    (photos / "captions.csv").write_text(
        "image,caption,split\ndog.png,A dog.,Train\ndog.png,Again a dog.,\nbeach.jpg,A beach.,validation\n"
        "trip/beach.jpg,Sand.,test\n"
    )
    given = load_folder(photos)
    assert given.images["split"][["dog.png", "beach.jpg", "trip/beach.jpg", "trip/tree.JPG"]].tolist() == [
        "train",
        "val",
        "test",
        "",
    ]
    assert given.captions["split"].tolist() == ["train", "train", "val", "test"]
    assert "column split" in given.about["splits"]
    (photos / "captions.csv").write_text("image,caption\ndog.png,A dog.\ndog.png,Again a dog.\nbeach.jpg,A beach.\n")
    hashed = load_folder(photos)
    assert hashed.images["split"].to_dict() == dict.fromkeys(IMAGES, "") | {
        i: hash_split(i) for i in ("dog.png", "beach.jpg")
    }
    assert "by a hash" in hashed.about["splits"] and "captions.csv has no column split" in hashed.about["splits"]


def test_the_split_of_a_name_never_changes():
    """Written down: a change would move images from training into the test of runs that were made before."""
    assert [hash_split(f"{n}.jpg") for n in range(12)] == [
        "train", "train", "train", "val", "val", "train", "train", "train", "train", "train", "train", "test",
    ]  # fmt: skip
    many = [hash_split(f"{n}.jpg") for n in range(5000)]
    assert [round(many.count(s) / 5000, 2) for s in ("train", "val", "test")] == [0.8, 0.1, 0.1]


def test_names_are_found_by_as_much_of_the_path_as_says_which(photos):
    (photos / "captions.csv").write_text(
        "image,caption\nriver.webp,River.\n./dog.png,Dog.\nD:\\photos\\trip\\tree.JPG,Tree.\n"
        "/home/me/photos/trip/beach.jpg,Trip.\nbeach.jpg,Beach.\nfar/river.webp,Again.\n"
        "elsewhere/river.webp,Not there.\nroundtrip/tree.JPG,Not there.\n"
    )
    corpus = load_folder(photos)
    assert rows(corpus) == [
        ("trip/far/river.webp", "River."), ("dog.png", "Dog."), ("trip/tree.JPG", "Tree."), ("trip/beach.jpg", "Trip."),
        ("beach.jpg", "Beach."), ("trip/far/river.webp", "Again."),
    ]  # fmt: skip
    assert corpus.faults == {"captions of a missing image": 2}
    (photos / "beach.jpg").rename(photos / "trip" / "far" / "beach.jpg")
    assert load_folder(photos).faults["names that fit several images, their captions dropped"] == 1


def test_faults_in_a_table_are_tolerated_and_counted(photos):
    (photos / "captions.csv").write_bytes(
        b"image,caption\n"
        b'dog.png,"A dog\n'  # a quote that is never closed …
        b"dog.png,A cat, asleep\n"  # commas outside quotes
        b'beach.jpg,"A "big" beach"\n'
        b'beach.jpg,A 5" screen\n'
        b"beach.jpg,Caf\xe9\n"
        b"beach.jpg\n"
        b"beach.jpg, ...\n"
        b"gone.jpg,Nothing\n"
        b"trip/tree.JPG,A tree\n"
        b"trip/tree.JPG,A  tree \n"
    )
    corpus = load_folder(photos)
    assert rows(corpus) == [
        ("dog.png", "A dog"), ("dog.png", "A cat, asleep"), ("beach.jpg", 'A "big" beach'),
        ("beach.jpg", 'A 5" screen'),
        ("beach.jpg", "Café"), ("trip/tree.JPG", "A tree"),
    ]  # fmt: skip
    assert corpus.faults == {
        "caption lines with a stray quote or delimiter, mended": 3, "lines that are not UTF-8, read as Windows-1252": 1,
        "caption lines that cannot be read": 1, "captions without a word": 1, "captions of a missing image": 1,
        "captions given twice for an image": 1, "images in no split": 2,
    }  # fmt: skip


def test_faults_in_lines_of_json_are_tolerated_and_counted(photos):
    (photos / "captions.jsonl").write_text(
        '{"image": "dog.png", "caption": "A dog."}\n{"image": "dog.png", "caption": "half a li\n'
        '[1]\n{"image": "dog.png"}\n'
        '{"image": 3.5, "caption": "x"}\n{"image": "dog.png", "caption": [1]}\n' + "[" * 100_000 + "\n"
    )
    corpus = load_folder(photos)
    assert rows(corpus) == [("dog.png", "A dog.")] and corpus.faults["caption lines that cannot be read"] == 6


REFUSED = {
    "missing columns": ({"captions.csv": "photo,words\na,b\n"}, "columns image.* found: .*'photo'"),
    "a line that has no field for the caption": (
        {"captions.csv": "image,caption\n\ndog.png\n"}, r"The first: captions\.csv line 3: 1 fields, the header has 2"
    ),
    "records without a text": (
        {"captions.jsonl": '{"image": "dog.png", "caption": 7}\n'}, r"captions\.jsonl line 1: .*or no text"
    ),
    "captions of another folder": ({"captions.csv": "image,caption\n1.jpg,Dog\n2.jpg,Cat\n"}, "names an image"),
    "an unknown split": ({"captions.csv": "image,caption,split\ndog.png,Dog,trian\n"}, "unknown split .*'trian'"),
    "an image in two splits": (
        {"captions.csv": "image,caption,split\ndog.png,Dog,train\ndog.png,Cat,test\n"}, "more than one split"
    ),
    "ids that repeat": (
        {"captions.csv": "image,caption,caption_id\ndog.png,Dog,7\nbeach.jpg,Beach,7\n"}, "ids of captions"
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", REFUSED)
def test_what_cannot_be_meant_is_refused_in_one_line(photos, fault):
    files, message = REFUSED[fault]
    for name, content in files.items():
        (photos / name).write_text(content)
    with pytest.raises(BadInput, match=message) as error:
        load_folder(photos)
    assert "\n" not in str(error.value)
    noted = FaultLog(collect=True)
    assert len(load_folder(photos, noted).images) == 5 and len(noted.refused) >= 1


def test_a_folder_without_images_is_refused(tmp_path, photos: Path):
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", photos / "dog.png"):
        with pytest.raises(BadInput, match=r"no image in .*\.jpg"):
            load_folder(place)
    with pytest.raises(BadInput, match="does not exist"):
        load_folder(tmp_path / "nowhere")


TWO = (("dog.png", "A dog."), ("beach.jpg", "A beach, wide."))
NUMBERED = {
    "R's names of rows": 'image,caption\n"1","dog.png","A dog."\n"2","beach.jpg","A beach, wide."\n',
    "R, the caption first": 'caption,image\n"x","A dog.",dog.png\n"y","A beach, wide.",beach.jpg\n',
    "a number beside the name of a file": 'image,image_path,caption\n5,dog.png,A dog.\n6,beach.jpg,"A beach, wide."\n',
    "commas in every caption": "image,caption\ndog.png,A dog.\nbeach.jpg,A beach, wide.\n".replace("A dog", "A, dog"),
}


@pytest.mark.parametrize("kind", NUMBERED)
def test_numbers_of_rows_and_images_are_no_names(photos, kind):
    (photos / "5.png").write_bytes((photos / "dog.png").read_bytes())
    (photos / "1.png").write_bytes((photos / "dog.png").read_bytes())
    (photos / "captions.csv").write_text(NUMBERED[kind])
    corpus = load_folder(photos)
    assert [(i, t.replace("A, dog", "A dog")) for i, t in rows(corpus)] == [*TWO]


def test_a_number_beside_the_name_of_a_file_is_no_name_in_a_frame(photos):
    frame = pd.DataFrame({"image": [5, 6], "file_name": [n for n, _ in TWO], "caption": [t for _, t in TWO]})
    assert rows(from_frame(frame, photos)) == [*TWO]


@pytest.mark.parametrize("name", ["é.png", "한/ü.jpg", *(f"ä{n}" for n in range(9))])
def test_a_name_has_one_split_in_both_forms_of_its_letters(name):
    assert hash_split(normalize("NFD", name)) == hash_split(normalize("NFC", name))
