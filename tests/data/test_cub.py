"""CUB in its official layout with PCME's or Reed's class lists: splits that do not overlap, class relevance, faults."""

import numpy as np
import pytest
from PIL import Image

from xmr_core.base.errors import BadInput
from xmr_core.data.readers.assembly import FaultLog
from xmr_core.data.readers.official import load_cub
from xmr_core.evaluation.evaluate import evaluate_scores

BIRDS = ["001.Black_footed_Albatross", "002.Laysan_Albatross", "003.Sooty_Albatross", "004.Groove_billed_Ani"]
BIRDS += ["005.Crested_Auklet"]
EACH = 14  # images of a bird


pytestmark = pytest.mark.usefixtures("own_home")


def image_id(bird: int, n: int) -> str:
    return f"{BIRDS[bird]}/{BIRDS[bird][4:].title()}_{n:04d}_{700 + n}.jpg"


def write(file, lines) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def cub(tmp_path):
    """Four training birds and one for test, as the archives unpack: two folders side by side, and PCME's lists."""
    root = tmp_path / "data"
    names = [image_id(b, n) for b in range(5) for n in range(EACH)]
    write(root / "CUB_200_2011" / "images.txt", [f"{k} {name}" for k, name in enumerate(names, 1)])
    write(
        root / "CUB_200_2011" / "image_class_labels.txt",
        [f"{k} {1 + k0 // EACH}" for k0, k in enumerate(range(1, len(names) + 1))],
    )
    write(root / "CUB_200_2011" / "classes.txt", [f"{k} {bird}" for k, bird in enumerate(BIRDS, 1)])
    for k, name in enumerate(names):
        text = root / "cvpr2016_cub" / "text_c10" / name.replace(".jpg", ".txt")
        write(text, [f"this bird number {k} has a beak of {c} inches." for c in range(10)])
        file = root / "CUB_200_2011" / "images" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (5, 4), (k, 0, 0)).save(file)
    lists = root / "annotations" / "cub"
    write(lists / "trainvalclasses.txt", [BIRDS[b] for b in (2, 0, 4, 1)])
    write(lists / "testclasses.txt", [BIRDS[3]])
    write(lists / "trainclasses1.txt", [BIRDS[b] for b in (2, 0, 1)])
    write(lists / "valclasses1.txt", [BIRDS[4]])
    write(lists / "seen_test_images.txt", [image_id(4, 0), image_id(0, 13), image_id(2, 5)])
    return root


def birds_of(corpus, split: str) -> set[str]:
    return set(corpus.images["class"][corpus.images["split"] == split])


def test_the_final_split_holds_images_out_for_validation(cub):
    corpus = load_cub(cub)
    assert corpus.images["split"].value_counts().to_dict() == {"train": 51, "test": 14, "seen": 3, "val": 2}
    assert birds_of(corpus, "test") == {BIRDS[3]}
    assert BIRDS[3] not in birds_of(corpus, "train") | birds_of(corpus, "val")
    assert set(corpus.images.index[corpus.images["split"] == "seen"]) == {
        image_id(4, 0),
        image_id(0, 13),
        image_id(2, 5),
    }
    # 13 images of the first bird are left, then 14 and 13: the 20th is number 7 of the second, the 40th number 13 of
    # the third
    assert corpus.images.index[corpus.images["split"] == "val"].tolist() == [image_id(1, 6), image_id(2, 13)]
    assert not corpus.faults and len(corpus.captions) == 700 and corpus.about["fold"] == ""
    assert corpus.captions.loc[f"{image_id(3, 2)}#4", "text"] == "this bird number 44 has a beak of 4 inches."
    assert corpus.images.index.tolist() == [image_id(b, n) for b in range(5) for n in range(EACH)]
    assert corpus.read_pixels(np.array([30]), 4)[0, 0, 0, 0] == pytest.approx(30, abs=3)


def test_a_fold_validates_on_classes_of_its_own(cub):
    corpus = load_cub(cub, fold="1")
    assert birds_of(corpus, "train") == {BIRDS[0], BIRDS[1], BIRDS[2]} and birds_of(corpus, "test") == {BIRDS[3]}
    assert len(corpus.rows("val")[0]) == EACH and birds_of(corpus, "val") == {BIRDS[4]}, (
        "held-out images count only in training classes"
    )
    assert set(corpus.images.index[corpus.images["split"] == "seen"]) == {image_id(0, 13), image_id(2, 5)}
    assert corpus.fingerprint != load_cub(cub).fingerprint
    assert corpus.image_fingerprint == load_cub(cub).image_fingerprint
    with pytest.raises(BadInput, match="trainclasses2.txt"):
        load_cub(cub, fold="2")
    with pytest.raises(BadInput, match="fold of cub '4'"):
        load_cub(cub, fold="4")


def test_reeds_lists_and_one_folder_for_all(cub):
    lists = cub / "annotations" / "cub"
    for name in ("trainvalclasses", "seen_test_images", "testclasses"):
        (lists / f"{name}.txt").unlink()
    write(cub / "trainclasses.txt", ["1", "Laysan_Albatross"])
    write(cub / "valclasses.txt", ["3.Sooty_Albatros"])
    write(cub / "testclasses.txt", [BIRDS[3]])
    for part in [*(cub / "CUB_200_2011").iterdir(), cub / "cvpr2016_cub" / "text_c10"]:
        part.rename(cub / part.name)
    corpus = load_cub(cub)
    assert [sorted(birds_of(corpus, split)) for split in ("train", "val", "test", "seen")] == [
        BIRDS[:2],
        [BIRDS[2]],
        [BIRDS[3]],
        [],
    ]
    assert corpus.faults == {"classes with another name than in classes.txt": 1, "images in no split": EACH}


def test_classes_are_relevant(cub):
    corpus = load_cub(cub)
    assert list(corpus.relevance_sets) == ["annotated", "class"]
    seen = corpus.relevance_sets["class"]("seen")
    assert (seen.counts == 1).all() and len(seen) == 30, "three birds, one image each"
    train = corpus.relevance_sets["class"]("train")
    kinds = dict(zip(corpus.images.index, corpus.images["class"], strict=True))
    for q in (0, 200, 509):
        own = kinds[train.query_ids[q].partition("#")[0]]
        assert set(train.gallery_ids[train[q]]) == {i for i in train.gallery_ids if kinds[i] == own}
    relevances = {kind: relevance("test") for kind, relevance in corpus.relevance_sets.items()}
    table = evaluate_scores(np.random.default_rng(0).random((14, 140)), relevances).per_query
    assert (table[table["relevance"] == "class"]["R@1"] == 1).all(), "the test images are of one class"
    assert table[table["relevance"] == "annotated"]["R@1"].mean() < 1


@pytest.mark.parametrize(
    "missing",
    [
        "CUB_200_2011/image_class_labels.txt", "CUB_200_2011/images", "cvpr2016_cub/text_c10",
        "annotations/cub/testclasses.txt",
    ],
)  # fmt: skip
def test_missing_files_are_named(cub, missing):
    (cub / missing).rename(cub / "elsewhere")
    with pytest.raises(BadInput, match=missing.rpartition("/")[2]):
        load_cub(cub)
    with pytest.raises(BadInput, match="data_root of cub"):
        load_cub(cub / "nowhere")


def test_captions_that_are_tolerated(cub):
    texts = cub / "cvpr2016_cub" / "text_c10"
    (texts / image_id(0, 0).replace("jpg", "txt")).unlink()
    (texts / image_id(0, 1).replace("jpg", "txt")).write_bytes(b"a caf\xe9 bird\n" + b"a bird\r\n" * 8 + b" . \n")
    draw = cub / "CUB_200_2011" / "images" / BIRDS[0] / "more.jpg"
    Image.new("RGB", (2, 2)).save(draw)
    corpus = load_cub(cub)
    assert corpus.faults == {
        "images without a caption": 1, "captions without a word": 1, "images with fewer than 10 captions": 1,
        "lines that are not UTF-8, read as Windows-1252": 1, "images that images.txt does not list": 1,
    }  # fmt: skip
    assert corpus.captions["text"].iloc[:2].tolist() == ["a café bird", "a bird"]


@pytest.mark.parametrize(
    ("file", "line", "says"),
    [
        ("CUB_200_2011/images.txt", "nonsense", "or repeat a number: 1, the first is 'nonsense'"),
        ("CUB_200_2011/images.txt", "71 001.Black_footed_Albatross/x.jpg", "have no class"),
        ("annotations/cub/testclasses.txt", BIRDS[0], "classes of another split"),
        ("annotations/cub/testclasses.txt", "201.Dodo", "the first is '201.Dodo'"),
        ("annotations/cub/seen_test_images.txt", "x.jpg", "the first is 'x.jpg'"),
    ],
)  # fmt: skip
def test_lists_that_are_refused(cub, file, line, says):
    with open(cub / file, "a") as f:
        f.write(line + "\n")
    with pytest.raises(BadInput, match=says):
        load_cub(cub)
    corpus = load_cub(cub, faults=(faults := FaultLog(collect=True)))
    assert len(faults.refused) == 1 and len(corpus.images) == 70 and len(corpus.rows("test")[0]) == EACH


def test_a_held_out_image_of_a_test_class_stays_in_test(cub):
    write(cub / "annotations" / "cub" / "seen_test_images.txt", [image_id(3, 1), image_id(0, 1)])
    corpus = load_cub(cub)
    assert corpus.faults == {"held-out images of no training or validation class": 1}
    assert len(corpus.rows("test")[0]) == EACH and len(corpus.rows("seen")[0]) == 1
