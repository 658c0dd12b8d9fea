"""A check of a folder of data lists everything that is wrong with it, at once."""

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tiny_models
from PIL import Image

from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.data.readers.check import check_corpus
from xmr_core.data.readers.folder import load_folder
from xmr_core.data.readers.official import load_flickr8k
from xmr_core.data.readers.precomputed import load_precomputed
from xmr_core.features.images import inspect_image, read_image
from xmr_core.training.runs.config import RunConfig
from xmr_study.cli import main

pytestmark = pytest.mark.usefixtures("own_home")


def noise(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 255, shape, np.uint8)


@pytest.fixture
def flickr(tmp_path):
    """Twelve images in Flickr8k's layout, without a fault."""
    root = tmp_path / "flickr"
    (root / "Flickr8k_text").mkdir(parents=True), (root / "Flicker8k_Dataset").mkdir()
    for n in range(12):
        Image.fromarray(noise(n, 80, 100, 3)).save(image_file(root, n))
    lines = [f"{n}.jpg#{c}\tA dog number {n} runs in way {c} ." for n in range(12) for c in range(5)]
    token_file(root).write_text("\n".join(lines) + "\n")
    for split, numbers in (("train", range(8)), ("dev", (8, 9)), ("test", (10, 11))):
        (root / "Flickr8k_text" / f"Flickr_8k.{split}Images.txt").write_text("".join(f"{n}.jpg\n" for n in numbers))
    return root


def image_file(root: Path, n: int) -> Path:
    return root / "Flicker8k_Dataset" / f"{n}.jpg"


def token_file(root: Path) -> Path:
    return root / "Flickr8k_text" / "Flickr8k.token.txt"


def edit(root: Path, old: bytes, new: bytes) -> None:
    content = token_file(root).read_bytes()
    assert old in content
    token_file(root).write_bytes(content.replace(old, new, 1))


def cut(root: Path, n: int = 4, keep: float = 0.7) -> None:
    whole = image_file(root, n).read_bytes()
    image_file(root, n).write_bytes(whole[: int(len(whole) * keep)])


# how the folder is spoiled → a part of the report, and whether it can still be trained on
FAULTS = {
    "a missing image": (lambda r: image_file(r, 11).unlink(), "images that are not in", False),
    "a truncated JPEG": (cut, "1 images cannot be decoded", False),
    "ids that repeat": (lambda r: edit(r, b"2.jpg#1", b"2.jpg#0"), "the first is '2.jpg#0'", False),
    "fewer than five captions": (
        lambda r: edit(r, b"A dog number 0 runs in way 4 .", b"..."), "images with fewer than 5 captions: 0.jpg", True
    ),
    "a caption without an image": (
        lambda r: edit(r, b"3.jpg#2", b"gone.jpg#2"), "1  captions of a missing image: gone.jpg#2", True
    ),
    "a bad line": (
        lambda r: edit(r, b"3.jpg#3\t", b"rubbish "), "1  lines that are no caption: Flickr8k.token.txt line 19", True
    ),
    "an empty split": (
        lambda r: (r / "Flickr8k_text" / "Flickr_8k.devImages.txt").write_text(""), "no captions in split val",
        False,
    ),
    "Latin-1": (lambda r: edit(r, b"way 3", b"caf\xe9"), "read as Windows-1252: Flickr8k.token.txt line 4", True),
}  # fmt: skip


def test_a_folder_without_faults_has_none(flickr):
    report = check_corpus("flickr8k", load_flickr8k, flickr)
    text = report.text()
    assert report.usable and not report.tolerated and "\nIt can be trained on, but:\n" in text and "pretrained" in text
    assert "2 images of val cannot tell which epoch is best" in text
    assert report.splits.loc["train"].tolist() == [8, 40, 5, 5, 5, 8, 8, 8] and "12 images, 60 captions" in text
    assert "words: 14 in train; 12.5% of those in val and test are others" in text and "images decoded: 12" in text
    assert "  10.jpg  A dog number 10 runs in way 1 ." in text


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_named_and_judged(flickr, fault):
    spoil, line, usable = FAULTS[fault]
    spoil(flickr)
    report = check_corpus("flickr8k", load_flickr8k, flickr)
    assert line in report.text() and report.usable is usable
    assert ("\nIt can be" if usable else "\nIt cannot be") in report.text()


def test_many_faults_are_listed_at_once(flickr):
    names = [name for name in FAULTS if name != "an empty split"]
    for name in names:
        FAULTS[name][0](flickr)
    report = check_corpus("flickr8k", load_flickr8k, flickr)
    assert len(report.obstacles) == 3 and sum(report.tolerated.values()) > 6


@pytest.mark.parametrize(
    "captions, obstacle, warning",
    [
        (["🐶🏃", "🐱"], "text_model", ""),
        ([f"thedogrunsoverthegreengrass{n}" for n in range(40)], "text_model", "100% of the words"),
        ([f"a{n} dog{n} of{n}" for n in range(40)], "", "100% of the words of 6 test captions"),
        (["一只狗在跑", "एक लड़का"], "", ""),
    ],
)
def test_captions_that_words_cannot_serve(tmp_path, captions, obstacle, warning):
    for n in range(40):
        Image.fromarray(noise(n, 9, 9, 3)).save(tmp_path / f"{n}.png")
    rows = [f"{n}.png,{captions[n % len(captions)]}" for n in range(40)]
    (tmp_path / "captions.csv").write_text("\n".join(["image,caption", *rows]), encoding="utf-8")
    report = check_corpus("folder", load_folder, tmp_path)
    assert report.usable is not bool(obstacle) and obstacle in "".join(report.obstacles)
    assert warning in report.text() and bool(warning or obstacle) == ("warning:" in report.text())


def test_a_text_model_that_does_not_serve(tmp_path, flickr, capsys):
    net = tiny_models.save("bert", tmp_path / "bert")
    assert main(["check", "flickr8k", str(flickr), "--text-model", str(net)]) == 0
    assert "warning:" in capsys.readouterr().out
    token_file(flickr).write_text(token_file(flickr).read_text().replace("A dog number", "a dog " * 9))
    main(["check", "flickr8k", str(flickr), "--text-model", str(net)])
    assert "40 of 40 train captions are longer than 20 word pieces" in capsys.readouterr().out
    token_file(flickr).write_text(re.sub(r"\t.*", "\tएक लड़का", token_file(flickr).read_text()))
    assert main(["check", "flickr8k", str(flickr), "--text-model", str(net)]) == 1


def test_a_folder_to_search_is_none_to_train_on(tmp_path):
    (tmp_path / "photos").mkdir()
    Image.fromarray(noise(0, 80, 80, 3)).save(tmp_path / "photos" / "a.png")
    report = check_corpus("folder", load_folder, tmp_path / "photos")
    assert len(report.obstacles) == 3 and "to be searched" in report.text()


def test_images_without_contrast_of_other_kinds_and_all_that_are_damaged_are_listed(flickr):
    folder = flickr / "Flicker8k_Dataset"
    for n, deep in (("4", 4095), ("5", 65535), ("6", 10)):  # twelve bits in sixteen, sixteen, and nearly of one colour
        array = np.linspace(0, deep, 100).reshape(10, 10).astype(np.uint16 if deep > 10 else np.uint8)
        Image.fromarray(array).save(folder / f"{n}.jpg", "PNG" if deep > 10 else "JPEG")
    (folder / "x.HEIC").touch(), (folder / "y.avif").touch()
    for n in range(7, 12):
        (folder / f"{n}.jpg").write_bytes(b"none")
    report = check_corpus("flickr8k", load_flickr8k, flickr)
    assert "2  images that use less than a tenth of the range of their numbers: 4.jpg, 6.jpg" in report.text()
    assert "2  images of kinds that are not read (.avif, .heic): convert them to JPEG or PNG: " in report.text()
    assert "5 images cannot be decoded" in report.text() and all(f"{n}.jpg" in report.text() for n in range(7, 12))


def test_features_are_looked_at_too(tmp_path):
    for stem, n in (("train", 300), ("dev", 2), ("testall", 2)):
        array = np.random.default_rng(0).normal(size=(n, 3, 4)).astype(np.float32)
        array[1] = 0
        array[148:150, 0, 0] = np.inf
        np.save(tmp_path / f"{stem}_ims.npy", array)
        (tmp_path / f"{stem}_caps.txt").write_text("A dog .\n" * n * 5)
    report = check_corpus("precomputed", load_precomputed, tmp_path)
    assert "304 × 3 × 4" in report.text() and "of 304 of them, 3 are all zero" in report.text()
    assert "first in row 148" in report.obstacles[0] and report.obstacles[1:] == [
        "2 of 304 images hold NaN or infinity: train/148, train/149"
    ]
    assert len(check_corpus("precomputed", load_precomputed, tmp_path, deep=False).obstacles) == 1
    (tmp_path / "dev_caps.txt").write_text("A dog .\n" * 9)
    np.save(tmp_path / "testall_ims.npy", np.zeros((0, 3, 4), np.float32))
    both = check_corpus("precomputed", load_precomputed, tmp_path)
    assert len(both.obstacles) == 6, "two files, then inf twice, val and test without images"


def test_decoding_judges_as_reading_does(tmp_path):
    """The fast look must call bad exactly what reading an image for training would call bad."""
    rng, verdicts = np.random.default_rng(0), []
    whole = Image.fromarray(np.kron(noise(0, 10, 12, 3), np.ones((20, 20, 1), np.uint8)))
    for kind, options in (("JPEG", {}), ("JPEG", {"progressive": True}), ("PNG", {}), ("WEBP", {}), ("GIF", {})):
        whole.save(tmp_path / "x", format=kind, **options)
        content = (tmp_path / "x").read_bytes()
        for n in range(30):
            changed = bytearray(content)
            if n % 2:
                changed = changed[: int(rng.integers(len(content)))]
            elif n:
                changed[int(rng.integers(len(content)))] ^= 0xFF
            (tmp_path / "x").write_bytes(changed)
            try:
                read_image(tmp_path / "x", 32)
                readable = True
            except DamagedFile:
                readable = False
            assert (inspect_image(tmp_path / "x") == "") is readable, (kind, n)
            verdicts.append(readable)
    assert 40 < sum(verdicts) < 110


def test_the_command_says_it_and_ends_with_a_status(flickr, capsys, tmp_path):
    assert main(["check", "flickr8k", str(flickr)]) == 0
    assert "It can be trained on, but:" in capsys.readouterr().out
    cut(flickr)
    assert main(["check", "flickr8k", str(flickr), "--shallow"]) == 0
    assert main(["check", "flickr8k", str(flickr)]) == 1
    out = capsys.readouterr().out
    assert "It cannot be trained on:\n  1. 1 images cannot be decoded" in out
    assert main(["check", "flickr9k", str(flickr)]) == 2 and "Did you mean 'flickr8k'?" in capsys.readouterr().err
    assert main(["check", "folder", str(tmp_path / "nowhere")]) == 1


def test_what_repeats_is_counted_and_named_and_says_what_can_be_reached(tmp_path):
    """One file under two names, one image in other containers or colour modes, four that differ in the place of
    two pixels."""
    picture = Image.fromarray(np.kron(noise(0, 8, 10, 3), np.ones((10, 10, 1), np.uint8)))
    picture.save(tmp_path / "a.jpg"), picture.convert("L").save(tmp_path / "grey.png")
    shutil.copy(tmp_path / "a.jpg", tmp_path / "copy.jpg")
    for name in ("a.png", "a.bmp", "a.webp"):
        Image.open(tmp_path / "a.jpg").save(tmp_path / name, **({"lossless": True} if "webp" in name else {}))
    content = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "comment.jpg").write_bytes(content[:2] + b"\xff\xfe\x00\x04hi" + content[2:])
    Image.open(tmp_path / "grey.png").convert("RGB").save(tmp_path / "grey.bmp")
    for n in range(4):
        other = noise(1, 80, 100, 3)
        other[0, [0, n + 1]] = other[0, [n + 1, 0]]  # the same mean of each block of a JPEG
        for kind in ("png", "jpg"):
            Image.fromarray(other).save(tmp_path / f"other{n}.{kind}", quality=100)
    splits = {"a.jpg": "train", "grey.png": "train", "copy.jpg": "val", "grey.bmp": "val"}
    rows = [(p.name, f"number {p.name}", splits.get(p.name, "test")) for p in sorted(tmp_path.iterdir())]
    texts = {"other0.png": "a dog", "other1.png": " a  dog", "other2.png": "A dog!", "grey.png": "a dog"}
    frame = pd.DataFrame([(name, texts.get(name, text), split) for name, text, split in rows])
    frame.to_csv(tmp_path / "captions.csv", index=False, header=["image", "caption", "split"])
    text = check_corpus("folder", load_folder, tmp_path).text()
    for line in (
        "val: 2 images are in train too: copy.jpg = a.jpg, grey.bmp = grey.png",
        "test: 4 images have the content of another: a.bmp, a.png, a.webp, …",
        "test: 4 images are in train too: a.bmp = a.jpg",
        "test: 2 of 12 captions are word for word those of another image",
        "test: 1 of 12 captions are so without case and punctuation alone",
        "test: 2 of 12 captions are word for word in train too",
        # a, a, a, a: no text finds one of four equal images first, and for the image one of their four texts is first;
        # the dogs: a text finds one of two images first, and each image has the other's text before its own
        "test: the best that any model can reach is R@1 58.3 image to text and 58.3 text to image",
    ):
        assert line in text, line
    assert "val: the best" not in text and "train: the best" not in text
    assert "content of another" not in check_corpus("folder", load_folder, tmp_path, deep=False).text()


def test_equal_rows_of_features_are_noticed(tmp_path):
    for stem, seed in (("train", 0), ("dev", 1), ("test", 2)):
        array = np.random.default_rng(seed).normal(size=(6, 3, 4)).astype(np.float32)
        if stem != "dev":
            array[4], array[5, 0] = array[2], array[2, 0]  # the last shares only an element
            array[1] = 7
        np.save(tmp_path / f"{stem}_ims.npy", array)
        (tmp_path / f"{stem}_caps.txt").write_text("".join(f"{stem} dog {n}\n" for n in range(30)))
    text = check_corpus("precomputed", load_precomputed, tmp_path).text()
    assert "train: 2 images have the content of another: train/2, train/4" in text
    assert "test: 2 images have the content of another: test/2, test/4" in text
    assert (
        "test: 1 images are in train too: test/1 = train/1" in text and "dev" not in text.split("what repeats")[1][:300]
    )
    assert "R@1 83.3 image to text and 66.7 text to image" in text


def test_a_clean_folder_repeats_nothing(flickr):
    assert "what repeats" not in check_corpus("flickr8k", load_flickr8k, flickr).text()


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("/bin/xmr", "xmr"),
        ("/x/xmr_core/__main__.py", "python -m xmr_core"),
        ("/x/xmr_study/__main__.py", "python -m xmr_study"),
    ],
)
def test_help_says_how_it_was_called(monkeypatch, capsys, program, name):
    monkeypatch.setattr("sys.argv", [program])
    with pytest.raises(SystemExit):
        main(["--help"])
    assert capsys.readouterr().out.startswith(f"usage: {name} ")


def test_of_many_names_only_the_nearest_are_said():
    with pytest.raises(BadInput) as error:
        RunConfig().replace(epoch=3)
    said = str(error.value)
    assert "Did you mean 'epochs'?" in said and len(said) < 300 and "DataConfig" in said
