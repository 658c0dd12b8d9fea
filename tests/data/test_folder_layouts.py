"""A folder of images says the same whichever of the usual layouts its captions are written in."""

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


FLAT = (captions_csv, metadata_csv, metadata_csv_of_lists, metadata_jsonl, coco_with_a_field)
IN_FOLDERS = (coco_with_lists, coco_by_name, hub_folders, hub_root)


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
