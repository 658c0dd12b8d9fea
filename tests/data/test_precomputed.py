"""Region features in SCAN's layout, and arrays of rows that are larger than memory."""

import os
from pathlib import Path

import numpy as np
import pytest

from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.row_file import JoinedRows, RowFile
from xmr_core.data.readers import precomputed
from xmr_core.data.readers.assembly import FaultLog
from xmr_core.data.readers.check import check_corpus
from xmr_core.data.readers.precomputed import load_precomputed
from xmr_core.training.runs import base_config, train_or_load
from xmr_core.training.runs.train_run import plan_run

REGIONS, WIDTH = 3, 4


pytestmark = pytest.mark.usefixtures("own_home")


def features(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, REGIONS, WIDTH)).astype(np.float32)


def captions(stem: str, n: int) -> list[str]:
    return [f"A dog of {stem} number {i} runs in way {c} ." for i in range(n) for c in range(5)]


def write(folder: Path, stem: str, n: int, repeat: bool, seed: int = 0) -> np.ndarray:
    """One split as in the public package. Returns its features, one row an image."""
    array = features(n, seed)
    np.save(folder / f"{stem}_ims.npy", np.repeat(array, 5, axis=0) if repeat else array)
    (folder / f"{stem}_caps.txt").write_text("\n".join(captions(stem, n)) + "\n")
    ids = [seed * 100 + i for i in range(n) for _ in range(5 if repeat else 1)]
    (folder / f"{stem}_ids.txt").write_text("".join(f"{i}\n" for i in ids))
    return array


@pytest.fixture
def scan(tmp_path):
    """train with one row an image, dev and testall with five, as in the public package."""
    folder = tmp_path / "f30k_precomp"
    folder.mkdir()
    for stem, n, repeat, seed in (("train", 6, False, 1), ("dev", 2, True, 2), ("testall", 3, True, 3)):
        write(folder, stem, n, repeat, seed)
    return folder


def test_rows_and_lines_find_each_other_in_both_layouts(scan):
    corpus = load_precomputed(scan)
    assert corpus.images["split"].value_counts().to_dict() == {"train": 6, "test": 3, "val": 2} and not corpus.faults
    wanted = np.concatenate([features(6, 1), features(2, 2), features(3, 3)])
    assert corpus.features.shape == wanted.shape and (corpus.features[:] == wanted).all()
    assert corpus.captions.loc["test/2#4", ["image_id", "text", "split"]].tolist() == [
        "test/2",
        captions("testall", 3)[14],
        "test",
    ]
    assert corpus.images["source_id"].tolist() == [f"{100 + i}" for i in range(6)] + ["200", "201", "300", "301", "302"]
    relevance = corpus.relevance_sets["annotated"]("test")
    assert relevance.indices.tolist() == np.repeat(np.arange(3), 5).tolist()
    assert list(relevance.gallery_ids) == ["test/0", "test/1", "test/2"]
    assert corpus.about["cells"] == REGIONS and corpus.about["width"] == WIDTH
    assert corpus.about["ordered_cells"] is False
    assert corpus.about["repeated"] == {"train": False, "dev": True, "testall": True} and corpus.read_pixels is None


def test_fingerprints_follow_the_content(scan, tmp_path):
    first = load_precomputed(scan)
    assert load_precomputed(scan).fingerprint == first.fingerprint
    scan.rename(tmp_path / "elsewhere")
    moved = load_precomputed(tmp_path / "elsewhere")
    assert moved.fingerprint == first.fingerprint, "where it lies does not count"
    file = tmp_path / "elsewhere" / "dev_caps.txt"
    file.write_text(file.read_text().replace("way 3", "way 9", 1))
    words = load_precomputed(tmp_path / "elsewhere")
    assert words.fingerprint != first.fingerprint and words.image_fingerprint == first.image_fingerprint
    write(tmp_path / "elsewhere", "dev", 2, True, seed=7)
    assert load_precomputed(tmp_path / "elsewhere").image_fingerprint != first.image_fingerprint


def test_captions_with_faults_keep_their_places(scan):
    lines = captions("train", 6)
    lines[1], lines[2], lines[3], lines[7] = "b'A man in bytes .'", 'b"A man\'s hat ."', r"b'A caf\xe9 .'", ""
    content = "\n".join(lines).encode() + b"\n\n\n"
    (scan / "train_caps.txt").write_bytes(content.replace(b"number 3 runs in way 0", b"caf\xe9 3"))
    (scan / "dev_ids.txt").write_text("1\n2\n3\n")
    (scan / "testall_capids.txt").write_text("".join(f"{n}\n" for n in range(15)))
    corpus = load_precomputed(scan)
    assert corpus.faults == {
        "captions written as Python bytes (b'…')": 3, "lines that are not UTF-8, read as Windows-1252": 1,
        "captions without a word": 1, "blank lines after the last caption": 2,
        "lists of ids of another length, not read": 1, "images with fewer than 5 captions": 1,
    }  # fmt: skip
    texts = corpus.captions["text"]
    assert texts[["train/0#1", "train/0#2", "train/0#3"]].tolist() == ["A man in bytes .", "A man's hat .", "A café ."]
    assert texts["train/3#0"] == "A dog of train café 3 ." and "train/1#2" not in texts
    assert texts["train/1#3"] == captions("train", 6)[8] and texts["train/5#4"] == captions("train", 6)[29]
    assert corpus.images["source_id"]["val/0"] == "" and corpus.captions["source_id"]["test/1#2"] == "7"


@pytest.mark.slow
def test_what_changes_under_an_equal_size_and_time_is_another_corpus_and_another_run(scan):
    """In one process, too; and a run that was trained before does not go on with it."""
    small = {"preset": "quick", "epochs": 1, "d": 8, "device": "cpu", "dataset": "precomputed"}
    config = base_config("vse++", data_root=str(scan), **small)
    run = train_or_load(config)
    assert run.prepared() is train_or_load(config).prepared()
    for file in ("train_ims.npy", "train_caps.txt"):
        before, time = (scan / file).read_bytes(), (scan / file).stat().st_mtime_ns
        (scan / file).write_bytes(before[:-5] + b"7 7 .")
        os.utime(scan / file, ns=(time, time))
        assert plan_run(config).id != run.id
        with pytest.raises(BadInput, match=r"corpus.* changed since it was trained"):
            run.prepared()
        (scan / file).write_bytes(before)
        assert plan_run(config).id == run.id and train_or_load(config).provenance == run.provenance


def spoil_array(change):
    """A fault made by changing one array file."""

    def spoil(folder: Path, stem: str = "dev") -> None:
        file = folder / f"{stem}_ims.npy"
        np.save(file, change(np.load(file)), allow_pickle=True)

    return spoil


def cut(file: str, size: int):
    return lambda folder: (folder / file).write_bytes((folder / file).read_bytes()[:size])


def with_one_nan(array: np.ndarray) -> np.ndarray:
    array[5:10, 1, 2] = np.nan
    return array


def one_image_of_two(folder: Path) -> None:
    np.save(folder / "dev_ims.npy", np.concatenate([np.repeat(features(1), 5, axis=0), features(5)]))


REFUSED = {
    "array of another length": (spoil_array(lambda a: a[:7]), "7 rows and dev_caps.txt 10 lines"),
    "one image five times and five others": (one_image_of_two, r"rows 5 to 9 are not one image five times"),
    "one image ten times": (spoil_array(lambda a: a[[0] * 10]), "an image stands in more than 5 rows"),
    "one vector an image": (spoil_array(lambda a: a[:, 0]), r"shape \(10, 4\); \(rows, regions, width\) is needed"),
    "another width": (spoil_array(lambda a: a[:, :, :3]), "other numbers an image in every split"),
    "NaN": (spoil_array(with_one_nan), r"dev_ims\.npy: 1 of 2 images hold NaN or infinity, the first in row 5"),
    "no dev": (lambda f: [(f / n).unlink() for n in ("dev_ims.npy", "dev_caps.txt")], "needs dev_ims.npy and dev_caps"),
    "half a testall": (
        lambda f: (write(f, "test", 1, True), (f / "testall_caps.txt").unlink()), r"needs testall_caps\.txt",
    ),
    "captions in GB18030": (
        lambda f: (f / "dev_caps.txt").write_bytes("一只狗在草地上跑\n".encode("gb18030") * 10),
        "neither UTF-8 .from line 1 on",
    ),
    "a cut array": (cut("dev_ims.npy", 200), "cut short"),
}  # fmt: skip


@pytest.mark.parametrize("fault", REFUSED)
def test_what_does_not_fit_is_refused_in_one_line(scan, fault):
    spoil, message = REFUSED[fault]
    spoil(scan)
    with pytest.raises((BadInput, DamagedFile), match=message) as error:
        load_precomputed(scan)
    assert "\n" not in str(error.value)
    noted = FaultLog(collect=True)
    rest = load_precomputed(scan, noted)
    assert len(noted.refused) == 1
    left = {"half a testall": {"val"}, "NaN": {"val", "test"}}.get(fault, {"test"})
    assert set(rest.images["split"]) == {"train", *left}
    parts = {"val": features(2, 2), "test": features(3, 3)}
    wanted = np.concatenate([features(6, 1), *(part for split, part in parts.items() if split in left)])
    assert (rest.features[:] == wanted).sum() >= wanted.size - 5, "rows of the splits that are left"


@pytest.mark.parametrize("each", [1, 3, 7])
def test_an_image_may_have_any_number_of_captions(scan, each):
    for stem in ("train", "dev"):
        np.save(scan / f"{stem}_ims.npy", features(10, 4))
        (scan / f"{stem}_caps.txt").write_text("".join(f"A dog {n} .\n" for n in range(10 * each)) + "\n" * (each > 1))
    corpus = load_precomputed(scan)
    owners, texts = corpus.captions["image_id"], corpus.captions["text"]
    assert owners[f"val/3#{each - 1}"] == "val/3" and texts[f"val/3#{each - 1}"] == f"A dog {4 * each - 1} ."
    assert (owners == "val/9").sum() == each and (owners == "test/2").sum() == 5
    assert f"{each} an image in dev_caps.txt, 5 an image in testall_caps.txt" in corpus.about["captions"]


def test_every_row_is_searched_for_nan(scan, monkeypatch):
    array = np.load(scan / "train_ims.npy").repeat(60, axis=0)
    array[301, 2, 1] = np.inf
    np.save(scan / "train_ims.npy", array)
    (scan / "train_caps.txt").write_text("A dog .\n" * 5 * len(array))
    said = r"train_ims\.npy: 1 of 360 images hold NaN or infinity, the first in row 301"
    with pytest.raises(BadInput, match=said):
        load_precomputed(scan)
    monkeypatch.setattr(precomputed, "LARGE", 100)  # of a large file training looks at a sample, and check at all
    load_precomputed(scan)
    assert any("train/301" in obstacle for obstacle in check_corpus("precomputed", load_precomputed, scan).obstacles)


INDICES = {
    "one": 3, "the last": -1, "slice": slice(2, 7), "every third": slice(None, None, 3),
    "backwards": slice(None, None, -1), "none": [], "any order, repeated": np.array([7, 2, 2, 9, 0, -1, 3, 4, 5]),
    "mask": np.arange(10) % 3 == 0,
}  # fmt: skip


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES.keys())
def test_a_row_file_reads_as_an_array(tmp_path, index):
    for dtype in (np.float16, np.float32, np.float64):
        array = features(10).astype(dtype)
        np.save(tmp_path / "a.npy", array)
        file = RowFile(tmp_path / "a.npy")
        assert (file.shape, file.dtype, len(file), file.ndim) == (array.shape, array.dtype, 10, 3)
        index = np.array(index, int) if isinstance(index, list) else index
        got = file[index]
        assert got.shape == array[index].shape and got.dtype == dtype and (got == array[index]).all()
        chosen = RowFile(tmp_path / "a.npy", slice(1, None, 2))
        assert chosen.shape == (5, REGIONS, WIDTH) and (chosen[[4, 1]] == array[[9, 3]]).all()
        assert (chosen[:] == array[1::2]).all()
        joined = JoinedRows([RowFile(tmp_path / "a.npy", slice(0, 4)), array[4:]])
        assert joined.shape == array.shape and joined[index].shape == array[index].shape
        assert (joined[index] == array[index]).all()


def test_rows_outside_and_parts_that_do_not_fit_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", features(4))
    file = RowFile(tmp_path / "a.npy")
    for array in (file, JoinedRows([file, file])):
        with pytest.raises(IndexError):
            array[len(array)]
        with pytest.raises(TypeError):
            array[0] = 1
    with pytest.raises(BadInput, match=r"one row shape can be joined, got \[\(2, 4\), \(3, 4\)\]"):
        JoinedRows([file, features(4)[:, :2]])
    assert JoinedRows([file, features(4).astype(np.float64)]).dtype == np.float64


def test_a_file_that_is_cut_while_in_use_raises_and_does_not_kill(tmp_path):
    np.save(tmp_path / "a.npy", features(2000))
    file = RowFile(tmp_path / "a.npy")
    with open(tmp_path / "a.npy", "r+b") as f:
        f.truncate(10_000)
    assert (file[:100] == features(2000)[:100]).all()
    with pytest.raises(DamagedFile, match="cut short"):
        file[[5, 1999, 204, 205, 206]]


def resident() -> int:
    """Bytes of this process in memory, pages of files included."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="resident memory is read from /proc")
def test_reading_a_large_file_holds_no_memory(tmp_path):
    """600 MB, sparse on disk, read in batches from end to end."""
    shape = (2000, 36, 2048)
    with open(tmp_path / "large.npy", "wb") as f:
        np.lib.format.write_array_header_1_0(f, {"descr": "<f4", "fortran_order": False, "shape": shape})
        f.truncate(f.tell() + int(np.prod(shape)) * 4)
    array = RowFile(tmp_path / "large.npy")
    before, most = resident(), 0
    for at in range(0, len(array), 100):
        assert array[at : at + 100].shape == (100, 36, 2048)
        most = max(most, resident())
    assert most - before < 200e6
