"""A check of a folder of data lists everything that is wrong with it, at once."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from xmr_core.base.errors import DamagedFile
from xmr_core.data.readers.check import check_corpus
from xmr_core.data.readers.folder import load_folder
from xmr_core.data.readers.official import load_flickr8k
from xmr_core.data.readers.precomputed import load_precomputed
from xmr_core.features.images import inspect_image, read_image
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
    assert report.usable and not report.tolerated and text.endswith("It can be trained on.")
    assert report.splits.loc["train"].tolist() == [8, 40, 5, 5, 5, 8, 8, 8] and "12 images, 60 captions" in text
    assert "words: 14 in train; 12.5% of those in val and test are others" in text and "images decoded: 12" in text
    assert "  10.jpg  A dog number 10 runs in way 1 ." in text


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_named_and_judged(flickr, fault):
    spoil, line, usable = FAULTS[fault]
    spoil(flickr)
    report = check_corpus("flickr8k", load_flickr8k, flickr)
    assert line in report.text() and report.usable is usable
    assert report.text().splitlines()[-1].startswith("It can be" if usable else "  1. ")


def test_many_faults_are_listed_at_once(flickr):
    names = [name for name in FAULTS if name != "an empty split"]
    for name in names:
        FAULTS[name][0](flickr)
    report = check_corpus("flickr8k", load_flickr8k, flickr)
    assert len(report.obstacles) == 3 and sum(report.tolerated.values()) > 6


def test_a_folder_to_search_is_none_to_train_on(tmp_path):
    (tmp_path / "photos").mkdir()
    Image.fromarray(noise(0, 80, 80, 3)).save(tmp_path / "photos" / "a.png")
    report = check_corpus("folder", load_folder, tmp_path / "photos")
    assert len(report.obstacles) == 3 and "to be searched" in report.text()


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
    assert "It can be trained on." in capsys.readouterr().out
    cut(flickr)
    assert main(["check", "flickr8k", str(flickr), "--shallow"]) == 0
    assert main(["check", "flickr8k", str(flickr)]) == 1
    out = capsys.readouterr().out
    assert "It cannot be trained on:\n  1. 1 images cannot be decoded" in out
    assert main(["check", "flickr9k", str(flickr)]) == 2 and "Did you mean 'flickr8k'?" in capsys.readouterr().err
    assert main(["check", "folder", str(tmp_path / "nowhere")]) == 1
