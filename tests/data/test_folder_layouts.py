"""A folder of images says the same whichever of the usual layouts its captions are written in."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from xmr_core import data
from xmr_core.base.errors import BadInput, XmrError
from xmr_core.data.readers.assembly import FaultLog
from xmr_core.data.readers.check import check_corpus
from xmr_core.data.readers.folder import completed, hash_split, load_folder
from xmr_core.data.scenes import load_scenes
from xmr_core.evaluation.evaluate import evaluate_scores

SPLITS = ("train", "train", "train", "val", "test", "test")
FOLDERS = {"train": "train", "val": "validation", "test": "test"}


pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture(scope="module")
def scenes():
    """(name, pixels, split, captions) of twelve images of the scenes, in the order of their names."""
    corpus = load_scenes("tiny")
    pixels = corpus.read_pixels(np.arange(12))
    texts = [corpus.captions["text"][corpus.captions["image_id"] == i].tolist() for i in corpus.images.index[:12]]
    return [(f"{n:02d}.png", pixels[n], SPLITS[n % 6], list(dict.fromkeys(texts[n]))) for n in range(12)]


def save(folder: Path, scenes, place=lambda name, split: name) -> Path:
    for name, pixels, split, _ in scenes:
        file = folder / place(name, split)
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(file)
    return folder


def frame_of(scenes, image="image", text="caption") -> pd.DataFrame:
    return pd.DataFrame([{image: n, text: t, "split": s} for n, _, s, texts in scenes for t in texts])


def lines_of(records) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def coco_json(scenes, split: str = "", field: bool = False) -> str:
    own = [(n, name, s, texts) for n, (name, _, s, texts) in enumerate(scenes) if s == split or not split]
    images = [
        {"id": 100 + n, "file_name": name, **({"split": s} if field else {}), "width": 64} for n, name, s, _ in own
    ]
    notes = [{"id": 9 * n + c, "image_id": 100 + n, "caption": t} for n, _, _, ts in own for c, t in enumerate(ts)]
    return json.dumps({"info": {"year": 2017}, "licenses": [], "images": images, "annotations": notes})


def captions_csv(folder, scenes):
    frame_of(save(folder, scenes) and scenes).to_csv(folder / "captions.csv", index=False)


def metadata_csv(folder, scenes):
    frame_of(save(folder, scenes) and scenes, "file_name", "text").to_csv(folder / "metadata.csv", index=False)


def metadata_csv_of_lists(folder, scenes):
    save(folder, scenes)
    rows = [{"file_name": n, "captions": str(texts), "split": FOLDERS[s]} for n, _, s, texts in scenes]
    pd.DataFrame(rows).to_csv(folder / "metadata.csv", index=False)


def metadata_jsonl(folder, scenes):
    save(folder, scenes)
    records = [{"file_name": n, "captions": texts, "split": s} for n, _, s, texts in scenes]
    (folder / "metadata.jsonl").write_text(lines_of(records))


def coco_with_a_field(folder, scenes):
    save(folder, scenes)
    (folder / "captions.json").write_text(coco_json(scenes, field=True))


def coco_with_lists(folder, scenes):
    save(folder, scenes, lambda name, split: f"all/{name}")
    (folder / "annotations").mkdir()
    (folder / "annotations" / "my_captions.json").write_text(coco_json(scenes))
    for split in ("train", "val", "test"):
        names = [name for name, _, s, _ in scenes if s == split]
        (folder / f"{split}.txt").write_text("\n".join(names) + "\n")


def coco_by_name(folder, scenes):
    save(folder, scenes, lambda name, split: f"{split}2017/{name}")
    (folder / "annotations").mkdir()
    for split in ("train", "val", "test"):
        (folder / "annotations" / f"captions_{split}2017.json").write_text(coco_json(scenes, split))


def hub_folders(folder, scenes):
    save(folder, scenes, lambda name, split: f"{FOLDERS[split]}/{name}")
    for split, place in FOLDERS.items():
        records = [{"file_name": n, "text": texts} for n, _, s, texts in scenes if s == split]
        (folder / place / "metadata.jsonl").write_text(lines_of(records))


def hub_root(folder, scenes):
    save(folder, scenes, lambda name, split: f"data/{FOLDERS[split]}/{name}")
    rows = [{"file_name": f"data/{FOLDERS[s]}/{n}", "text": t} for n, _, s, texts in scenes for t in texts]
    pd.DataFrame(rows).to_csv(folder / "metadata.csv", index=False)


def tsv(header):
    def write(folder, scenes):
        table = (
            save(folder, scenes)
            and frame_of(scenes)[["caption", "image"] if header == "caption" else ["image", "caption"]]
        )
        table.to_csv(folder / "captions.tsv", index=False, header=bool(header), sep="\t")

    return write


def records(scenes, image: str, text: str, **more):
    return [{image: n, text: texts, "split": s, **more} for n, _, s, texts in scenes]


def jsonl_that_is_an_array(folder, scenes):
    save(folder, scenes)
    (folder / "captions.jsonl").write_text(json.dumps(records(scenes, "image", "caption")))


def jsonl_with_indents(folder, scenes):
    save(folder, scenes)
    laid_out = (json.dumps(record, indent=1) for record in records(scenes, "img", "sentences"))
    (folder / "captions.jsonl").write_text("\n".join(laid_out))


def numbered_columns(folder, scenes):
    save(folder, scenes)
    rows = [{"filename": n, "split": s} | {f"caption_{c}": t for c, t in enumerate(ts)} for n, _, s, ts in scenes]
    pd.DataFrame(rows).to_csv(folder / "captions.csv", index=False)


def blanks_behind_commas(folder, scenes):
    save(folder, scenes)
    rows = [f'"{n}", "{t}", {s}\n' for n, _, s, texts in scenes for t in texts]
    (folder / "captions.csv").write_text("".join(['"image", "caption", "split"\n', *rows]))


def reid_json(folder, scenes):  # CUHK-PEDES, ICFG-PEDES
    save(folder, scenes)
    (folder / "reid_raw.json").write_text(
        json.dumps(records(scenes, "file_path", "captions", processed_tokens=[["a"]]))
    )


def karpathy_json(folder, scenes):  # RSICD, UCM, RSITMD, Flickr8k, COCO
    save(folder, scenes, lambda name, split: f"RSICD_images/{name}")
    images = [
        {"filename": n, "filepath": "RSICD_images", "split": "restval" if s == "train" else s, "imgid": k,
         "sentences": [{"raw": t, "tokens": t.split(), "imgid": k} for t in texts]}
        for k, (n, _, s, texts) in enumerate(scenes)
    ]  # fmt: skip
    (folder / "dataset_RSICD.json").write_text(json.dumps({"images": images, "dataset": "RSICD"}))
    (folder / "settings.json").write_text("[1, {}]")


def lists_by_name(folder, scenes):  # BLIP
    save(folder, scenes, lambda name, split: f"val2014/{name}")
    for split in ("train", "val", "test"):
        own = [{"image": f"val2014/{n}", "caption": ts, "image_id": n[:2]} for n, _, s, ts in scenes if s == split]
        (folder / f"coco_karpathy_{split}.json").write_text(json.dumps(own))


def lists_in_one_object(folder, scenes):
    save(folder, scenes, lambda name, split: f"imgs/{name}")
    lists = {s: [{"img_path": f"imgs/{n}", "captions": ts} for n, _, own, ts in scenes if own == s] for s in SPLITS}
    (folder / "data_captions.json").write_text(json.dumps(lists))


def texts_beside_images(folder, scenes):
    save(folder, scenes, lambda name, split: f"{FOLDERS[split]}/{name}")
    for name, _, split, texts in scenes:
        (folder / FOLDERS[split] / f"{name[:2]}.txt").write_text("\n".join(texts))
        (folder / FOLDERS[split] / f"{name[:2]}.json").write_text('{"url": "x", "caption": "another"}')


FLAT = (
    captions_csv, metadata_csv, metadata_csv_of_lists, metadata_jsonl, coco_with_a_field, jsonl_that_is_an_array,
    jsonl_with_indents, numbered_columns, blanks_behind_commas, reid_json,
)  # fmt: skip
IN_FOLDERS = (
    coco_with_lists, coco_by_name, hub_folders, hub_root, karpathy_json, lists_by_name, lists_in_one_object,
    texts_beside_images,
)  # fmt: skip


def lines(file: str, line: str, head: str = ""):
    """A layout without splits: a line for each caption, of name, stem, number and text."""

    def write(folder, scenes):
        save(folder, scenes)
        rows = [line.format(name=n, stem=n[:2], k=k, text=t) for n, _, _, ts in scenes for k, t in enumerate(ts)]
        (folder / file).write_text("".join(f"{row}\n" for row in [head, *rows] if row))

    return write


def object_of_names(folder, scenes):
    save(folder, scenes)
    (folder / "descriptions.json").write_text(json.dumps({n: ts for n, _, _, ts in scenes}))


def json_beside_images(folder, scenes):
    save(folder, scenes)
    for name, _, _, texts in scenes:
        (folder / f"{name[:2]}.json").write_text(json.dumps({"caption": texts, "width": 64, "key": name[:2]}))


WITHOUT_SPLITS = {
    "Kaggle's Flickr8k": lines("captions.txt", "{name},{text}", "image,caption"),
    "Flickr8k's tokens": lines("Flickr8k.token.txt", "{name}#{k}\t{text}"),
    "Flickr30K's tokens": lines("results_20130124.token", "{name}#{k}\t{text}"),
    "Kaggle's Flickr30K": lines("results.csv", "{name}| {k}| {text}", "image_name| comment_number| comment"),
    "no header": lines("captions.csv", '{name},"{text}"'),
    "names without a suffix": lines("captions.csv", "{stem};{text}", "image_id;description"),
    "an object of names": object_of_names,
    "JSON beside the images": json_beside_images,
}


@pytest.mark.parametrize("layout", WITHOUT_SPLITS)
def test_layouts_without_splits(layout, scenes, tmp_path):
    WITHOUT_SPLITS[layout](tmp_path, scenes)
    corpus = load_folder(tmp_path)
    assert [(i, t) for i, t, _ in rows_of(corpus).values()] == [(n, t) for n, _, _, ts in scenes for t in ts]
    assert corpus.images["split"].to_dict() == {name: hash_split(name) for name, *_ in scenes} and not corpus.faults


def test_labels_beside_images_are_no_captions_and_two_files_of_captions_are_refused(scenes, tmp_path):
    save(tmp_path, scenes)
    (tmp_path / "results.csv").write_text("epoch,loss\n1,2\n")
    (tmp_path / "hub.token").write_text("secret")
    for name, *_ in scenes:
        (tmp_path / f"{name[:2]}.txt").write_text("0 0.5 0.5 1.2e-05 0.25\nCar 0.0 0 1.5 6 1 3 2 1\n")
    assert not len(load_folder(tmp_path).captions)
    for name in ("dataset_a.json", "dataset_b.json"):
        (tmp_path / name).write_text(json.dumps(records(scenes, "image", "caption")))
    with pytest.raises(BadInput, match=r"dataset_a\.json and dataset_b\.json\. Keep the one"):
        load_folder(tmp_path)


def test_captions_of_one_person_apply_to_all_images_of_it(scenes, tmp_path):
    save(tmp_path, scenes)
    own = [
        {**record, "id": n // 2, "split": "test"} for n, record in enumerate(records(scenes, "file_path", "captions"))
    ]
    (tmp_path / "reid_raw.json").write_text(json.dumps(own))
    sets = load_folder(tmp_path).relevance_sets
    assert list(sets) == ["annotated", "group"] and set(sets["annotated"]("test").counts) == {1}
    assert set(sets["group"]("test").counts) == {2}
    (tmp_path / "reid_raw.json").write_text(json.dumps([{**record, "id": 1} for record in own]))
    assert list(load_folder(tmp_path).relevance_sets) == ["annotated"], "one person everywhere is none"


def test_numbers_of_an_images_captions_are_no_persons(scenes, tmp_path):
    save(tmp_path, scenes)
    rows = [{"image": n, "id": k, "caption": t} for n, _, _, ts in scenes[1:] for k, t in enumerate(ts)]
    pd.DataFrame(rows).drop(index=1).to_csv(tmp_path / "captions.csv", index=False)  # one image has no captions
    assert list(load_folder(tmp_path).relevance_sets) == ["annotated"]


def test_names_that_differ_in_the_case_of_their_suffix_are_told_apart(tmp_path):
    names, texts = ["b.JPG", "b.jpg", "c.JPG", "c.jpg"], ["one dog", "two dogs", "one cat", "two cats"]
    for n, name in enumerate(names):
        Image.new("RGB", (8, 8), (40 * n, 0, 0)).save(tmp_path / name)
    pd.DataFrame({"image": names, "caption": texts}).to_csv(tmp_path / "captions.csv", index=False)
    captions = load_folder(tmp_path).captions
    assert dict(zip(captions["image_id"], captions["text"], strict=True)) == dict(zip(names, texts, strict=True))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("image\tcaption\n1\ta.png\tone\n2\tb.png\ttwo\n3\tc.png\tthree\n", "one two three"),  # R numbers rows
        ("image,image_path,caption\n5,a.png,one\n6,b.png,two\n7,c.png,three\n", "one two three"),
        ("image,caption,split\na.png,one,nan\nb.png,two,\nc.png,three,train\n", "one two three"),
        ('{"image": "a.png", "captions": ["one", null]}\n{"image": "b.png", "captions": ["nan", "two"]}', "one two"),
        ('{"image": "a.png", "caption": "half \\ud83d"}', "half ?"),
    ],
)
def test_odd_tables_give_each_image_its_own_captions(tmp_path, text, wanted):
    for name in ("a", "b", "c", "1", "2", "3", "5", "6", "7"):
        Image.new("RGB", (9, 9)).save(tmp_path / f"{name}.png")
    (tmp_path / ("captions.jsonl" if text[0] == "{" else "captions.csv")).write_text(text)
    captions = load_folder(tmp_path).captions
    assert " ".join(captions["text"]) == wanted and set(captions["image_id"]) <= {"a.png", "b.png", "c.png"}


def test_splits_are_those_of_lists_and_folders_where_a_table_has_none(tmp_path):
    names = [f"{split}/{n}.png" for split in ("train", "test") for n in range(20)]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (9, 9)).save(tmp_path / name)
    (tmp_path / "captions.csv").write_text("image,caption\n" + "".join(f"{n},a dog\n" for n in names))
    splits = load_folder(tmp_path).images["split"]
    assert all((splits[n] == "test") == n.startswith("test/") for n in names)
    (tmp_path / "test.txt").write_text(f"{names[0]}\n")
    assert load_folder(tmp_path).images["split"].value_counts()["test"] == 1
    for n in range(50):
        assert hash_split(f"cafe\u0301{n}.png") == hash_split(f"caf\u00e9{n}.png")


NAMES = (
    "my  photo.jpg", "Bildschirmfoto\u202f12.png", "nb\u00a0sp.png", " lead.png", "trail .png", "e\u0301.png",
    "100%20.png", 'a,b "c".png', "007.png", "12345.png", "UPPER.PNG", "a;b|c.png", "sub/x.png", "café.png",
)  # fmt: skip
WRITTEN = {"sub/x.png": ".\\sub\\x.png", "e\u0301.png": "\u00e9.png", "12345.png": "12345", "UPPER.PNG": "UPPER.png"}
SAID = ('A  dog\u2028runs, "fast"', " Ein süßer\u00a0Hund; zwei|drei ", "[not a list", "A\0 zero", "7")
ROWS = [(n, SAID[k % 5], ("train", "Valid", " test ")[k % 14 % 3], f"c{k}") for k, n in enumerate(NAMES * 2)]
HEAD = ("image", "caption", "split", "caption_id")


def table(delimiter: str):
    def write(file: Path) -> None:
        with file.with_suffix(".tsv" if delimiter == "\t" else ".csv").open("w", newline="", encoding="utf-8") as f:
            csv.writer(f, delimiter=delimiter).writerows([HEAD, *((WRITTEN.get(n, n), *row) for n, *row in ROWS)])

    return write


def dicts(number=str) -> list[dict]:
    rows = [dict(zip(HEAD, (WRITTEN.get(n, n), *row), strict=True)) for n, *row in ROWS]
    return [row | {"image": number(row["image"]) if row["image"] == "12345" else row["image"]} for row in rows]


DOORS = {
    "commas": table(","), "semicolons": table(";"), "tabs": table("\t"), "bars": table("|"),
    "JSON lines": lambda file: file.with_suffix(".jsonl").write_text(lines_of(dicts(int))),
    "a JSON array": lambda file: file.with_suffix(".json").write_text(json.dumps(dicts(), indent=1)),
    "COCO": lambda file: file.with_suffix(".json").write_text(json.dumps({
        "images": [{"id": n, "file_name": row["image"], "split": row["split"]} for n, row in enumerate(dicts())],
        "annotations": [{"image_id": n, "caption": row["caption"]} for n, row in enumerate(dicts())],
    })),
    "frame": lambda file: pd.DataFrame(dicts(int)),
    "frame of other types": lambda file: pd.DataFrame(dicts()).astype("string").astype(
        {"split": "category", "caption": object}),
    "frame of paths and lists": lambda file: pd.DataFrame(
        [row | {"image": Path(row["image"]), "caption": np.array([row["caption"]])} for row in dicts()]),
    "frame of pyarrow": lambda file: pd.DataFrame(dicts()).convert_dtypes(dtype_backend="pyarrow"),
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
def test_every_door_gives_the_same_corpus(door, tmp_path):
    if "pyarrow" in door:
        pytest.importorskip("pyarrow")
    for name in NAMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (9, 9), (len(name), 0, 0)).save(tmp_path / name)
    frame = DOORS[door](tmp_path / "captions")
    corpus = data.from_frame(frame, tmp_path) if isinstance(frame, pd.DataFrame) else load_folder(tmp_path)
    wanted = {(n, " ".join(t.split()), {"Valid": "val"}.get(s, s.strip()), i) for n, t, s, i in ROWS}
    captions = corpus.captions.reset_index()
    got = set(captions[["image_id", "text", "split", "caption_id"]].itertuples(index=False, name=None))
    if door == "COCO":  # it names no captions
        got, wanted = {row[:3] for row in got}, {row[:3] for row in wanted}
    assert got == wanted and not corpus.faults


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_encodings_and_line_ends_change_nothing(encoding, end, scenes, tmp_path):
    save(tmp_path, scenes[:1])
    texts = ["Ein süßer Hund", "Un garçon – à côté", "¿Qué hace la niña?", "A dog"]
    content = end.join(["image,caption", *(f"00.png,{text}" for text in texts), ""]).encode(encoding)
    (tmp_path / "captions.csv").write_bytes(content)
    assert load_folder(tmp_path).captions["text"].tolist() == texts


FOREIGN = {
    "gb18030": "一只狗在草地上跑", "big5": "一隻狗在草地上跑", "euc-kr": "개가 잔디밭에서 달린다",
    "shift-jis": "犬が草の上を走っている",
    "cp1251": "Собака бежит по траве", "koi8-r": "Собака бежит по траве", "cp1253": "Ένας σκύλος τρέχει",
    "cp1250": "Mężczyzna biegnie po łące", "cp1254": "Köpek çimlerde koşuyor", "mac_roman": "Ein Mädchen fährt",
}  # fmt: skip


@pytest.mark.parametrize("encoding", FOREIGN)
@pytest.mark.parametrize("file", ["captions.csv", "captions.json"])
def test_what_is_neither_utf8_nor_western_is_refused_with_its_first_line(file, encoding, scenes, tmp_path):
    save(tmp_path, scenes[:1])
    rows = [("00.png", "A dog"), ("00.png", FOREIGN[encoding])] * 9
    lines = [dict(zip(HEAD, row, strict=False)) for row in rows]
    content = "image,caption\n" + "".join(f"{i},{t}\n" for i, t in rows)
    content = json.dumps(lines, ensure_ascii=False) if file.endswith(".json") else content
    (tmp_path / file).write_bytes(content.encode(encoding))
    line = r"string \d+" if file.endswith(".json") else "line 3"
    with pytest.raises(BadInput, match=rf"captions.* is neither UTF-8 .from {line} on.*Save it as UTF-8"):
        load_folder(tmp_path)


def plain(text: str) -> str:
    return text.rsplit("/", 1)[-1]


def rows_of(corpus) -> dict[str, tuple[str, str, str]]:
    """caption → image, text, split; without the folders of the names."""
    table = zip(corpus.captions["image_id"], corpus.captions["text"], corpus.captions["split"], strict=True)
    return {plain(c): (plain(i), text, split) for c, (i, text, split) in zip(corpus.captions.index, table, strict=True)}


def ranks_of(corpus, split: str) -> dict[tuple[str, str], int]:
    """(direction, query) → rank of the first relevant item, by made-up scores of colours and words."""
    i, t = corpus.rows(split)
    colours = corpus.read_pixels(i).reshape(len(i), -1, 3).mean(1) / 255 - 0.5
    vectors = np.array([[text.count("r"), text.count("e"), len(text)] for text in corpus.captions["text"].iloc[t]])
    done = evaluate_scores(colours @ (vectors / 50.0).T, {"annotated": corpus.relevance_sets["annotated"](split)})
    rows = done.per_query[["direction", "query", "first_rank"]].itertuples(index=False, name=None)
    return {(direction, plain(str(query))): rank for direction, query, rank in rows}


@pytest.fixture(scope="module")
def wanted(scenes, tmp_path_factory):
    captions_csv(folder := tmp_path_factory.mktemp("wanted"), scenes)
    return load_folder(folder)


@pytest.mark.parametrize("layout", [*FLAT, *IN_FOLDERS], ids=lambda f: f.__name__)
def test_every_layout_gives_the_same_corpus(layout, scenes, wanted, tmp_path):
    layout(tmp_path, scenes)
    corpus = load_folder(tmp_path)
    assert rows_of(corpus) == rows_of(wanted) and len(corpus.captions) > 50 and not corpus.faults
    assert {plain(i): s for i, s in corpus.images["split"].items()} == wanted.images["split"].to_dict()
    ranks = ranks_of(wanted, "test")
    assert ranks_of(corpus, "test") == ranks and len(ranks) == 4 + len(wanted.rows("test")[1])
    assert len(set(ranks.values())) > 2
    if layout in FLAT:
        assert corpus.fingerprint == wanted.fingerprint and corpus.image_fingerprint == wanted.image_fingerprint


def test_a_frame_gives_the_same_corpus(scenes, wanted, tmp_path):
    folder = save(tmp_path, scenes)
    of_lists = pd.DataFrame([{"file": Path(n), "text": np.array(ts), "split": s} for n, _, s, ts in scenes])
    for frame in (frame_of(scenes), frame_of(scenes, "file_name", "text"), of_lists):
        corpus = data.from_frame(frame, images=folder, name="frames")
        assert corpus.fingerprint == wanted.fingerprint and corpus.name == "frames"
    prepared = data.prepare(data.config_for(corpus, features="pixels"))
    assert [len(prepared.splits[s].image_rows) for s in ("train", "val", "test")] == [6, 2, 4]


@pytest.mark.parametrize("header", ["", "image", "caption"])
def test_two_columns_and_tabs(header, scenes, tmp_path):
    tsv(header)(tmp_path, scenes)
    corpus = load_folder(tmp_path)
    assert {(i, t) for i, t, _ in rows_of(corpus).values()} == {(n, t) for n, _, _, ts in scenes for t in ts}
    assert corpus.images["split"].to_dict() == {name: hash_split(name) for name, *_ in scenes}
    assert corpus.about["captions"] == "captions.tsv" and "has no column split" in corpus.about["splits"]


def test_a_missing_split_is_a_tenth_of_train(scenes, tmp_path):
    save(tmp_path, scenes, lambda name, split: f"{split}2017/{name}")
    (tmp_path / "annotations").mkdir()
    for split in ("train", "val"):
        (tmp_path / "annotations" / f"captions_{split}2017.json").write_text(coco_json(scenes, split))
    corpus = load_folder(tmp_path)
    assert "test by a hash of each image's name, a tenth of train each" in corpus.about["splits"]
    names = {f"train/{n}.jpg": "train" for n in range(2000)} | {"v.jpg": "val"}
    split_of, how = completed(names)
    counts = [list(split_of.values()).count(s) for s in ("train", "val", "test")]
    assert counts[1] == 1 and 150 < counts[2] < 250 and sum(counts) == 2001 and "test by" in how
    assert all(
        split_of[name] == ("test" if hash_split(name) == "test" else "train") for name in names if name != "v.jpg"
    )
    assert completed({"a": "test"}) == ({"a": "test"}, "") and completed(split_of)[0] == split_of


def test_names_in_metadata_start_in_its_own_folder(scenes, tmp_path):
    """Two folders may use the same names, as every folder of the hub may."""
    for split in ("train", "test"):
        save(tmp_path / split, scenes[:3])
        records = [{"file_name": n, "text": f"{split} of {n}"} for n, *_ in scenes[:3]]
        (tmp_path / split / "metadata.jsonl").write_text(lines_of(records))
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "metadata.csv").write_text("")
    texts = load_folder(tmp_path).captions.set_index("image_id")["text"].to_dict()
    assert texts == {f"{s}/{n}": f"{s} of {n}" for s in ("train", "test") for n, *_ in scenes[:3]}


ODD = {
    "metadata twice": ({"metadata.csv": "file_name,text\n", "metadata.jsonl": ""}, "Keep the one"),
    "a list of another corpus": (
        {"captions.json": coco_json([("00.png", 0, "", ["Dog"])]), "train.txt": "no.png\n"}, "not in the folder"
    ),
    "lists that overlap": (
        {"captions.json": coco_json([("00.png", 0, "", ["Dog"])]), "train.txt": "00.png\n", "val.txt": "00.png\n"},
        "more than one split",
    ),
    "COCO cut short": ({"captions.json": coco_json([("a", 0, "val", ["b"])])[:-9]}, "no whole JSON"),
    "COCO in another layout": ({"captions.json": '{"images": {}, "annotations": []}'}, "of COCO"),
    "COCO with an id twice": (
        {"captions.json": json.dumps({"images": [{"id": 1, "file_name": f"0{n}.png"} for n in range(2)],
                                      "annotations": [{"image_id": 1, "caption": "A dog."}]})},
        "ids repeat",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", ODD)
def test_what_is_wrong_is_one_clear_line(fault, scenes, tmp_path):
    save(tmp_path, scenes[:3])
    files, message = ODD[fault]
    for name, content in files.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(XmrError, match=message) as error:
        load_folder(tmp_path)
    assert "\n" not in str(error.value)
    report = check_corpus("folder", load_folder, tmp_path)
    assert not report.usable and any(str(error.value)[:40] in reason for reason in report.obstacles)


def test_ragged_json_is_tolerated_and_counted(scenes, tmp_path):
    save(tmp_path, scenes[:3])
    images = [{"id": n, "file_name": f"{n:02d}.png"} for n in range(3)] + [
        {"id": 9},
        {"id": 7, "file_name": "gone.png"},
    ]
    notes = [{"image_id": 0, "caption": "A  dog."}, {"image_id": "1", "caption": "A cat."}, {"image_id": 2},
             {"image_id": 5, "caption": "Nobody."}, {"image_id": 7, "caption": "Gone."},
             {"image_id": 2, "caption": "."}, {"image_id": 0, "caption": "A dog."}]  # fmt: skip
    (tmp_path / "captions.json").write_text(json.dumps({"images": images, "annotations": notes}))
    faults = FaultLog()
    corpus = load_folder(tmp_path, faults)
    assert list(corpus.captions["text"]) == ["A dog.", "A cat.", "A dog."], "collections count a repeated caption twice"
    assert corpus.faults == {
        "images without an id or a file_name": 1, "caption lines that cannot be read": 1,
        "captions of an image that their file does not list": 1, "captions of a missing image": 1,
        "captions without a word": 1, "images without a caption": 1,
    }  # fmt: skip


def test_a_frame_is_refused_in_one_line_or_its_faults_are_counted(scenes, tmp_path):
    folder, frame = save(tmp_path, scenes[:3]), frame_of(scenes[:3])
    with pytest.raises(BadInput, match="found: .*'words'"):
        data.from_frame(frame.rename(columns={"caption": "words"}), folder)
    odd = pd.concat(
        [frame, pd.DataFrame({"image": [None, "00.png"], "caption": ["No image.", np.nan], "split": np.nan})]
    )
    corpus = data.from_frame(odd, folder)
    assert len(corpus.captions) == len(frame) and corpus.faults == {"caption lines that cannot be read": 2}


def test_metadata_without_a_column_split_takes_its_folder_and_words_for_nothing_are_blank(scenes, tmp_path):
    for split in ("train", "test"):
        save(tmp_path / split, scenes[:3])
    lines = [f"{n},{n} shown,{s}\n" for (n, *_), s in zip(scenes[:3], ("train", "val", "None"), strict=True)]
    (tmp_path / "train" / "metadata.csv").write_text("file_name,text,split\n" + "".join(lines))
    (tmp_path / "test" / "metadata.csv").write_text("file_name,text\n00.png,A dog.\n01.png,A cat.\n")
    assert load_folder(tmp_path).images["split"].tolist() == ["test", "test", "", "train", "val", ""]


def test_what_a_model_said_is_not_read_and_two_languages_are_refused(scenes, tmp_path):
    save(tmp_path, [(f"{n}.png", *own[1:]) for n, own in enumerate(scenes)])
    said = [{"image_id": n, "caption": "a thing"} for n in range(12)]
    (tmp_path / "captions_val_x_results.json").write_text(json.dumps(said))
    assert not len(load_folder(tmp_path).captions)
    own = [(f"{n}.png", *own[1:]) for n, own in enumerate(scenes)]
    (tmp_path / "captions_de.json").write_text(coco_json(own))
    assert "a thing" not in set(load_folder(tmp_path).captions["text"])
    (tmp_path / "captions_en.json").write_text(coco_json(own[3:]))
    with pytest.raises(BadInput, match=r"captions_de\.json and captions_en\.json"):
        load_folder(tmp_path)
