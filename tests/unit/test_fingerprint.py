"""Names of files follow their content."""

import os
import shutil

import numpy as np
import pytest

from xmr_core.base import fingerprint, paths
from xmr_core.base.errors import DamagedFile
from xmr_core.base.fingerprint import file_content, files_content


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    out = [tmp_path / f"{n}.bin" for n in range(3)]
    for file in out:
        file.write_bytes(rng.bytes(100_000))
    return out


def change(file, at):
    raw = bytearray(file.read_bytes())
    raw[at] ^= 1
    file.write_bytes(raw)


@pytest.mark.parametrize("at", [0, 50_001, 99_999])
def test_one_byte_anywhere_changes_the_name(files, at):
    before = file_content(files[0]), files_content(files)
    change(files[0], at)
    assert file_content(files[0]) != before[0] and files_content(files) != before[1]


def test_places_and_times_do_not_count_but_the_order_does(files, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    moved = [shutil.copy(file, tmp_path / "elsewhere" / f"other{n}") for n, file in enumerate(files)]
    os.utime(files[0], (1, 1))
    assert files_content(moved) == files_content(files) != files_content(files[::-1])


def test_large_files_are_named_by_samples_of_them(files, monkeypatch):
    whole = file_content(files[0])
    monkeypatch.setattr(fingerprint, "LARGE", 50_000)
    monkeypatch.setattr(fingerprint, "_SAMPLES", 4)
    monkeypatch.setattr(fingerprint, "_PIECE", 1000)
    sampled = file_content(files[0])
    assert sampled != whole
    change(files[0], 50_000)  # between samples, which begin at 0, 33,000, 66,000 and 99,000
    assert file_content(files[0]) == sampled
    for at in (500, 33_500, 66_500, 99_999):
        change(files[0], at)
        assert file_content(files[0]) != sampled
        change(files[0], at)
    files[0].write_bytes(files[0].read_bytes() + b"x")
    assert file_content(files[0]) != sampled, "the length counts"


def test_many_files_are_read_once(files, monkeypatch):
    first = files_content(files)
    monkeypatch.setattr(fingerprint, "file_content", lambda file: pytest.fail("read again"))
    assert files_content(files) == first
    (note,) = paths.folder("cache").glob("content-*.json")
    note.write_text("{")
    monkeypatch.undo()
    os.environ["XMR_HOME"] = str(note.parent.parent)
    assert files_content(files) == first, "a damaged note is made again"
    del os.environ["XMR_HOME"]


def test_a_file_that_is_gone_is_named(files):
    files[1].unlink()
    with pytest.raises(DamagedFile, match=r"1\.bin cannot be read"):
        files_content(files)
