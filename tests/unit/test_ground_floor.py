"""Types, relevance, masked reductions, files: what everything else stands on."""

import errno
import os
import platform
import resource
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from xmr_core.base import files as storage
from xmr_core.base import fingerprint, machine, paths, tensors
from xmr_core.base.errors import BadInput, CannotWrite, DamagedFile
from xmr_core.base.machine import environment, reused_buffers
from xmr_core.base.types import EmbeddingSet, Features, Relevance


def test_rows_slice_and_move_every_tensor_and_leave_none_alone():
    f = Features(torch.arange(12.0).view(3, 2, 2), torch.ones(3, 2, dtype=torch.bool))
    assert len(f) == 3 and len(f[1:]) == 2 and f[1].local_feats.shape == (1, 2, 2) and f.global_feat is None
    assert torch.equal(f[-1].local_feats, f.local_feats[2:]) and f.to(torch.float64).local_feats.dtype == torch.float64
    s = EmbeddingSet(f.local_feats, f.mask, residual=f.local_feats + 1)
    assert torch.equal(s[torch.tensor([2, 0])].residual, (f.local_feats + 1)[[2, 0]])


PAIRS = [("c1", "i1"), ("c0", "i0"), ("c1", "i0"), ("c1", "i1")]


def test_relevance_is_sparse_many_to_many_and_counts_a_pair_once():
    r = Relevance.from_pairs(PAIRS, ["c0", "c1", "c2"], ["i0", "i1"])
    assert [r[q].tolist() for q in range(3)] == [[0], [0, 1], []] and r.counts.tolist() == [1, 2, 0]
    t = r.transpose()
    assert [t[q].tolist() for q in range(2)] == [[0, 1], [1]] and t.query_ids.tolist() == ["i0", "i1"]
    assert (t.transpose().indices == r.indices).all()
    assert r.restrict(np.array([1, 0]), np.array([1])).counts.tolist() == [1, 0]
    assert r.dense(np.array([1, 0, 1]), np.array([1, 0, 1])).tolist() == [[True] * 3, [False, True, False], [True] * 3]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: Relevance.from_pairs([("c9", "i0")], ["c0"], ["i0"]), "id 'c9' occurs in a relevant pair"),
        (lambda: Relevance.from_pairs([], ["c0", "c0"], ["i0"]), "query ids repeat"),
        (
            lambda: Relevance(np.array([0, 1]), np.array([3]), np.array(["c"]), np.array(["i"])),
            "in the gallery",
        ),
        (lambda: Relevance(np.array([0]), np.array([]), np.array(["c"]), np.array(["i"])), "more than queries"),
        (lambda: tensors.require_element(torch.tensor([[True], [False]]), "caption"), "caption 1 has no valid element"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(BadInput, match=message):
        call()


@pytest.mark.parametrize("fill", [0.0, 1e30, -1e30])
def test_masked_reductions_see_only_what_is_real(fill):
    x = torch.tensor([[1.0, -2.0, 3.0], [5.0, 0.0, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 0]]).bool()
    x = x.masked_fill(~mask, fill).requires_grad_()
    assert_close(tensors.masked_mean(x, mask).tolist(), [-0.5, 5.0, 0.0])
    assert tensors.masked_max(x, mask).tolist() == [1.0, 5.0, -np.inf]
    assert_close(tensors.masked_logsumexp(x, mask)[:2].tolist(), [np.log(np.exp(1) + np.exp(-2)), 5.0])
    soft = tensors.masked_softmax(x, mask)
    assert_close(soft.sum(1).tolist(), [1.0, 1.0, 0.0])
    assert_close(soft[0, 0].item(), np.exp(1) / (np.exp(1) + np.exp(-2)))
    (
        soft.square().sum() + tensors.masked_mean(x, mask).sum() + tensors.masked_logsumexp(x[:2], mask[:2]).sum()
    ).backward()
    assert torch.isfinite(x.grad).all() and (x.grad[~mask] == 0).all()


def test_sealed_files_notice_damage(tmp_path):
    path = storage.write_sealed(tmp_path / "f", b"payload" * 100)
    assert storage.read_sealed(path) == b"payload" * 100
    raw = path.read_bytes()
    for damaged in (raw[:-1], raw[: len(raw) // 2], b"", b"other" + raw, raw[:50] + bytes([raw[50] ^ 1]) + raw[51:]):
        path.write_bytes(damaged)
        with pytest.raises(DamagedFile, match="is damaged"):
            storage.read_sealed(path)


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = storage.write_atomic(tmp_path / "f", "old")

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CannotWrite, match="No space left"):
        storage.write_atomic(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["f"]


@pytest.mark.slow
def test_a_real_limit_on_file_size_is_one_clear_line(tmp_path):
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "from xmr_core.base import files; files.write_atomic(sys.argv[1], b'x' * 5000)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "f")], capture_output=True, text=True)
    assert done.returncode and "CannotWrite: cannot write" in done.stderr.splitlines()[-1] and not os.listdir(tmp_path)


def test_a_file_where_a_folder_should_be(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "x", tmp_path / "file" / "deeper" / "x"):
        with pytest.raises(CannotWrite, match=r"cannot write"):
            storage.write_atomic(path, "y")
    with pytest.raises(CannotWrite):
        storage.make_folder(tmp_path / "file")


def test_a_read_only_folder(tmp_path, monkeypatch):
    import tempfile

    def refuse(**_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with pytest.raises(CannotWrite, match="Read-only"):
        storage.write_atomic(tmp_path / "x", "y")


def test_names_of_content_do_not_depend_on_order():
    assert fingerprint.content_hash({"a": 1, "b": [2]}) == fingerprint.content_hash({"b": [2], "a": 1})
    assert fingerprint.content_hash({"a": 1}) != fingerprint.content_hash({"a": 1.5})


def test_home_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "new"))
    assert paths.folder("runs") == (tmp_path / "new" / "runs").resolve() and paths.folder("runs").is_dir()


def test_rebuilding_is_said(tmp_path):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        storage.warn_rebuilt(tmp_path / "f", DamagedFile("reason"))
    assert "rebuilt" in str(said[0].message) and "reason" in str(said[0].message)


def pages_cleared(times: int = 10, megabytes: int = 100) -> int:
    """Page faults of making and freeing an array: at least one for each two megabytes, the size of a huge page."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        np.empty(megabytes << 20, np.uint8)[::4096] = 1
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_reused_buffers_are_not_cleared_again_and_are_given_back():
    anew = pages_cleared()
    if anew < 1_000:
        pytest.skip(f"this kernel counts no page faults ({anew} for a gigabyte of new arrays)")
    with reused_buffers():
        pages_cleared(1)
        assert pages_cleared() < min(anew / 5, 200)
    assert pages_cleared() > 400, "the setting stays"  # the system may answer with huge pages the second time
    pages_cleared(1, 16)
    assert pages_cleared(10, 16) < anew / 50, "smaller arrays are mapped anew too"


def test_without_glibc_nothing_is_set(monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("musl", "1.2"))
    monkeypatch.setattr("ctypes.CDLL", lambda name: pytest.fail("a C library was opened"))
    with reused_buffers():
        pass


def test_the_device_of_a_number_names_the_model_of_the_processor(monkeypatch):
    monkeypatch.setattr(machine, "processor", lambda: "A Processor 7")
    assert environment("cpu").device == f"cpu (A Processor 7, {os.cpu_count()} cores)"


def test_models_of_one_name_are_told_by_their_numbers(monkeypatch):
    told = []
    for model in (2, 17):
        text = f"processor : 0\ncpu family : 26\nmodel : {model}\nmodel name : AMD EPYC\n\nprocessor : 1\nmodel : 99\n"
        monkeypatch.setattr(Path, "read_text", lambda self, text=text, **_: text)
        machine.processor.cache_clear()
        told.append(machine.processor())
    monkeypatch.undo()
    machine.processor.cache_clear()
    assert told == ["AMD EPYC, family 26, model 2", "AMD EPYC, family 26, model 17"], "of the first core"
