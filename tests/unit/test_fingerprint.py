"""Names of files follow their content."""

import os
import shutil

import numpy as np
import pytest

from xmr_core.base import fingerprint, paths
from xmr_core.base.errors import DamagedFile
from xmr_core.base.fingerprint import file_content, files_content, stamps
from xmr_core.features.cache import cached_array


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


def in_place(file, content):
    file.write_bytes(content)


def moved_over(file, content):
    other = file.with_name("other")
    other.write_bytes(content)
    os.utime(other, ns=(0, file.stat().st_mtime_ns))
    os.replace(other, file)


def by_a_link(file, content):
    first, second = file.with_name("first"), file.with_name("second")
    file.rename(first), second.write_bytes(content)
    file.symlink_to(second)


def in_a_map(file, content):
    mapped = np.memmap(file, np.uint8, "r+")
    mapped[:] = np.frombuffer(content, np.uint8)
    mapped.flush()


@pytest.mark.parametrize("change", [in_place, moved_over, by_a_link, in_a_map])
def test_another_content_of_one_size_and_time_has_another_name(files, change):
    """As archives, `rsync -t` and swaps of two files leave it."""
    before, content, time = files_content(files), files[0].read_bytes(), files[0].stat().st_mtime_ns
    change(files[0], content[::-1])
    os.utime(files[0], ns=(time, time))
    assert files_content(files) != before and stamps([files[0].parent])
    first = stamps([files[0].parent, "~/no such place"])
    change(files[0], content)
    os.utime(files[0], ns=(time, time))
    assert files_content(files) == before, "the content counts, and no touch"
    assert stamps([files[0].parent, "~/no such place"]) != first == first


def test_files_that_are_swapped_change_places(files):
    before, second = files_content(files), files[1].read_bytes()
    for file in files:
        os.utime(file, (1, 1))
    files[0].rename(files[0].with_name("x")), files[1].rename(files[0]), files[0].with_name("x").rename(files[1])
    assert files_content(files) != before and files[0].read_bytes() == second
    assert files_content([files[1], files[0], files[2]]) == before


def test_a_cached_array_that_is_replaced_is_noticed(tmp_path):
    make = lambda: cached_array("numbers", [1], (3,), np.float64, lambda start: [np.arange(3.0)[start:]])  # noqa: E731
    (file,) = make() is make() or paths.folder("cache").glob("numbers-*.npy")
    raw, time = bytearray(file.read_bytes()), file.stat().st_mtime_ns
    raw[-1] ^= 1
    file.write_bytes(raw)
    os.utime(file, ns=(time, time))
    with pytest.warns(UserWarning, match="is rebuilt"):
        assert make().tolist() == [0, 1, 2]


def test_a_file_that_is_gone_is_named(files):
    files[1].unlink()
    with pytest.raises(DamagedFile, match=r"1\.bin cannot be read"):
        files_content(files)
