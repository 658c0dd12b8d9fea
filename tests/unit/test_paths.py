"""Files are whole or absent, damage is noticed, and every refusal is one line."""

import errno
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from unittest import mock

import pytest

from xmr_core.base import files, fingerprint, paths
from xmr_core.base.errors import CannotWrite, DamagedFile


def one_line(error) -> str:
    text = str(error.value)
    assert text and "\n" not in text
    return text


def test_sealed_gives_back_what_was_written(tmp_path):
    for payload in (b"", b"x", os.urandom(5000)):
        assert files.read_sealed(files.write_sealed(tmp_path / "f", payload)) == payload


@pytest.mark.parametrize("keep", [0, 5, 13, 30, 45, 144])
def test_truncated_sealed_file_is_noticed(tmp_path, keep):
    path = files.write_sealed(tmp_path / "f", bytes(100))
    whole = path.read_bytes()
    assert keep < len(whole) == 145
    path.write_bytes(whole[:keep])
    with pytest.raises(DamagedFile) as error:
        files.read_sealed(path)
    assert str(path) in one_line(error) and f"{keep} bytes" in str(error.value)


def test_appended_foreign_and_missing_files_are_noticed(tmp_path):
    path = files.write_sealed(tmp_path / "f", b"payload")
    path.write_bytes(path.read_bytes() + b"\0")
    (tmp_path / "foreign").write_bytes(b"PK\x03\x04 a zip file, perhaps" * 9)
    for bad in (path, tmp_path / "foreign", tmp_path / "absent", tmp_path):
        with pytest.raises(DamagedFile) as error:
            files.read_sealed(bad)
        assert str(bad) in one_line(error)


def test_write_atomic_replaces_and_leaves_nothing_beside(tmp_path):
    files.write_atomic(tmp_path / "deep" / "f", "one")
    path = files.write_atomic(tmp_path / "deep" / "f", "zwei")
    assert path.read_text() == "zwei" and os.listdir(path.parent) == ["f"]
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_full_disk_keeps_the_old_file_and_leaves_no_rest(tmp_path, monkeypatch, function):
    path = files.write_atomic(tmp_path / "f", "old")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, function, full)
    with pytest.raises(CannotWrite) as error:
        files.write_atomic(path, "new")
    assert "No space left" in one_line(error) and str(path) in str(error.value)
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["f"]


def test_a_folder_below_a_file_is_refused_for_everyone(tmp_path):
    (tmp_path / "f").write_text("a file")
    with pytest.raises(CannotWrite) as error:
        files.make_folder(tmp_path / "f" / "deep")
    assert "cannot write" in one_line(error)
    for attempt in (lambda: files.write_atomic(tmp_path / "f" / "g", "x"), lambda: files.make_folder(tmp_path / "f")):
        with pytest.raises(CannotWrite) as error:
            attempt()
        assert "cannot write" in one_line(error)
    with pytest.raises(CannotWrite):
        files.write_atomic(tmp_path, "x")  # the path is a folder
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no resource limits")
def test_a_write_that_the_system_cuts_short_leaves_the_old_file(tmp_path):
    path = files.write_sealed(tmp_path / "f", b"old")
    script = (
        "import resource, signal, sys; from xmr_core.base import files; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); files.write_sealed(sys.argv[1], bytes(5000))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stderr.strip().splitlines()[-1].startswith("xmr_core.base.errors.CannotWrite: cannot write")
    assert files.read_sealed(path) == b"old" and os.listdir(tmp_path) == ["f"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(CannotWrite, match="No permission"):
            files.write_atomic(tmp_path / "f", "x")
    finally:
        tmp_path.chmod(0o700)


def test_json_round_trip_and_damage(tmp_path):
    path = files.write_json(tmp_path / "f.json", {"b": [1, 2.5], "a": "é"})
    assert files.read_json(path) == {"a": "é", "b": [1, 2.5]}
    path.write_text(path.read_text()[:-4])
    for bad in (path, tmp_path / "absent.json"):
        with pytest.raises(DamagedFile) as error:
            files.read_json(bad)
        assert "as JSON" in one_line(error)


def test_hashes_name_the_content(tmp_path):
    assert fingerprint.content_hash({"a": 1, "b": [2]}) == fingerprint.content_hash({"b": [2], "a": 1})
    assert len({fingerprint.content_hash(v) for v in ({"a": 1}, {"a": 1.5}, {"a": "1"}, [1], 1)}) == 5
    (tmp_path / "f").write_bytes(b"abc")
    before = fingerprint.file_hash(tmp_path / "f")
    (tmp_path / "f").write_bytes(b"abd")
    assert before != fingerprint.file_hash(tmp_path / "f") and len(before) == 16


def test_root_is_the_variable_else_the_checkout(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))
    assert (
        paths.root() == tmp_path / "home"
        and paths.folder("runs") == tmp_path / "home" / "runs"
        and paths.folder("runs").is_dir()
    )
    monkeypatch.delenv("XMR_HOME")
    monkeypatch.chdir(tmp_path)
    assert paths.root() == Path(paths.__file__).resolve().parents[2]


def test_a_record_gives_back_what_was_written_and_notices_every_change(tmp_path):
    path, value = tmp_path / "r.json", {"b": [1, 2.5e-07, None], "a": "é", "c": {"é": True}}
    assert files.read_record(files.write_record(path, value)) == value
    content = path.read_bytes()
    for byte in range(len(content)):
        for bit in range(8):
            path.write_bytes(content[:byte] + bytes([content[byte] ^ 1 << bit]) + content[byte + 1 :])
            with pytest.raises(DamagedFile) as error:
                files.read_record(path)
            one_line(error)


def test_only_one_file_writes_under_a_temporary_name():
    package = Path(files.__file__).parents[1]
    words = ("mkstemp", "token_hex", "os.replace")
    writers = {
        p.relative_to(package).as_posix() for p in package.rglob("*.py") if any(w in p.read_text() for w in words)
    }
    assert writers == {"base/files.py"}


def test_what_is_written_has_the_rights_that_the_umask_leaves(tmp_path):
    for mask, expected in ((0o077, 0o600), (0o002, 0o664)):
        before = os.umask(mask)
        try:
            mode = files.write_atomic(tmp_path / f"{mask}", "a").stat().st_mode & 0o777
        finally:
            os.umask(before)
        assert mode == expected


def test_who_waits_for_a_lock_says_for_whom(tmp_path, capfd):
    with ThreadPoolExecutor(1) as pool, files.locked(tmp_path / "lock"):
        waiting = pool.submit(lambda: files.locked(tmp_path / "lock").__enter__())
        deadline = time.monotonic() + 5
        while not (said := capfd.readouterr().err) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert f"held by process {os.getpid()} on " in said and said.count("\n") == 1 and not waiting.done()


@pytest.mark.parametrize("kind", ["link", "second name", "pipe", "folder"])
def test_a_lock_harms_no_other_file(tmp_path, kind):
    precious, lock = tmp_path / "precious", tmp_path / "lock"
    precious.write_text("mine")
    make = {"link": lock.symlink_to, "second name": lock.hardlink_to, "pipe": lambda _: os.mkfifo(lock)}
    make.get(kind, lambda _: lock.mkdir())(precious)
    with pytest.raises(CannotWrite), files.locked(lock):
        pass
    assert precious.read_text() == "mine"


NAMES = ("a.txt", "part", "list.txt")


def put(place, word):
    (place / "part").mkdir()
    for name in ("a.txt", f"part/{word}", "list.txt"):
        (place / name).write_text(word)


@files.settled(NAMES)
def words_of(folder):
    return {path.read_text() for path in sorted(folder.rglob("*")) if path.is_file() and path.name[0] != "."}


def test_new_files_take_the_places_of_old_ones_together(tmp_path):
    """Wherever a build stops, what is opened is of one build; a file of the owner stays."""
    folder = tmp_path / "f"
    with pytest.raises(KeyError), files.rebuilt(folder, NAMES):
        raise KeyError
    assert not folder.exists()
    with files.rebuilt(folder, NAMES) as place:
        put(place, "old")
    (folder / "lock").write_text("old")  # of its owner
    with pytest.raises(KeyError), files.rebuilt(folder, NAMES) as place:
        put(place, "new")
        raise KeyError
    assert words_of(folder) == {"old"} and len(os.listdir(folder)) == 5
    for stop in range(1, 6):  # a kill before each of the moves
        killed = mock.patch.object(files.os, "replace", stopped(stop))
        with suppress(KeyboardInterrupt), files.rebuilt(folder, NAMES) as place:
            put(place, f"new {stop}")
            killed.start()
        killed.stop()
        with suppress(KeyError), files.rebuilt(folder, NAMES):
            raise KeyError  # the next build goes on with the moves first
        assert not list(folder.glob(".*.ready"))
        assert words_of(folder) - {"old"} in ({f"new {stop}"}, {f"new {stop - 1}"} - {"new 0"}), stop
    assert (folder / "lock").read_text() == "old"


def stopped(after, real=os.replace):
    calls = iter(range(after))

    def replace(old, new):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        real(old, new)

    return replace


@pytest.mark.parametrize("inside", ["part", ".list.txt.ready"])
def test_links_in_a_folder_of_others_lead_nowhere_else(tmp_path, inside):
    folder, precious = tmp_path / "f", tmp_path / "precious"
    folder.mkdir(), precious.mkdir()
    (precious / "a.txt").write_text("mine")
    (folder / inside).symlink_to(precious)
    with suppress(CannotWrite), files.rebuilt(folder, NAMES) as place:
        put(place, "new")
    assert [path.name for path in precious.iterdir()] == ["a.txt"] and (precious / "a.txt").read_text() == "mine"


def test_a_block_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(DamagedFile), files.atomic(tmp_path / "f") as temporary:
        temporary.write_text("half")
        raise DamagedFile("its own error stays")
    assert not os.listdir(tmp_path)
