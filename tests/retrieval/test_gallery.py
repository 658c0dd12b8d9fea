"""Galleries on disk: the same bits, mapped, nothing spoilt opened; and the best k of them."""

import os
import signal
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from xmr_core.base import files
from xmr_core.base.errors import BadInput, CannotWrite, DamagedFile
from xmr_core.base.types import Embedding, EmbeddingSet, GaussianEmbedding
from xmr_core.evaluation.ranks import score_matrix
from xmr_core.retrieval.index import open_gallery, open_index, save_index, write_gallery
from xmr_core.retrieval.library import example_library
from xmr_core.retrieval.ranking import search
from xmr_core.similarities import smooth_chamfer


def sets(n=50, k=4, d=16, seed=0) -> EmbeddingSet:
    """Ragged, unit rows."""
    draw = torch.Generator().manual_seed(seed)
    mask = torch.arange(k)[None] < torch.randint(1, k + 1, (n, 1), generator=draw)
    return EmbeddingSet(F.normalize(torch.randn(n, k, d, generator=draw), dim=-1), mask)


GALLERIES = {
    "vectors": Embedding(torch.randn(50, 16)),
    "sets": sets(),
    "one element": EmbeddingSet(torch.randn(50, 1, 16), torch.ones(50, 1, dtype=torch.bool)),
    "distributions without samples": GaussianEmbedding(torch.randn(50, 16), torch.randn(50, 16)),
    "distributions": GaussianEmbedding(torch.randn(50, 16), torch.randn(50, 16), torch.randn(50, 7, 16)),
}


def tensors(r) -> dict[str, torch.Tensor]:
    return {
        name: getattr(r, name)
        for name in ("x", "mask", "mean", "log_std", "samples")
        if getattr(r, name, None) is not None
    }


@pytest.mark.parametrize("name", GALLERIES)
@pytest.mark.parametrize("step", [1, 7, 50])
def test_a_gallery_comes_back_bit_for_bit_whatever_the_chunks(tmp_path, name, step):
    given = GALLERIES[name]
    path = write_gallery(tmp_path / "g.safetensors", (given[at : at + step] for at in range(0, 50, step)), 50)
    found, foreign = open_gallery(path), load_file(path)
    assert type(found) is type(given) and len(found) == 50
    assert tensors(found).keys() == tensors(given).keys() == foreign.keys()
    for field, tensor in tensors(given).items():
        assert torch.equal(tensors(found)[field], tensor) and tensors(found)[field].dtype == tensor.dtype
        assert torch.equal(foreign[field], tensor), "any safetensors reader can read it"
    assert [p.name for p in tmp_path.iterdir()] == ["g.safetensors"]


def test_a_gallery_is_mapped_and_taking_rows_copies_nothing(tmp_path):
    given = sets(4000, 4, 128)
    path = write_gallery(tmp_path / "g.safetensors", [given], 4000)
    found = open_gallery(path)
    assert found[100:200].x.data_ptr() == found.x.data_ptr() + 100 * 4 * 128 * 4
    found.x[3] = 0.0  # a private copy of that page
    assert not torch.equal(found.x[3], given.x[3]) and torch.equal(open_gallery(path).x[3], given.x[3])


@pytest.mark.parametrize("name", GALLERIES)
def test_half_precision_takes_half_the_disk_and_is_scored_in_float32(tmp_path, name):
    given = GALLERIES[name]
    whole = write_gallery(tmp_path / "f32.safetensors", [given], 50)
    half = write_gallery(tmp_path / "f16.safetensors", [given], 50, dtype="float16")
    found = open_gallery(half)
    assert isinstance(found, type(given)) and half.stat().st_size < 0.65 * whole.stat().st_size
    for rows in (slice(3, 9), 4, torch.tensor([1, 40])):
        block = found[rows]
        assert all(t.dtype in (torch.float32, torch.bool) for t in tensors(block).values())
        assert all(
            torch.allclose(t.float(), tensors(given[rows])[f].float(), atol=2e-3) for f, t in tensors(block).items()
        )
    if isinstance(given, EmbeddingSet):
        assert np.allclose(
            score_matrix(smooth_chamfer, found, given), score_matrix(smooth_chamfer, given, given), atol=1e-2
        )


def test_narrower_sets_are_padded_and_wider_ones_refused(tmp_path):
    narrow, wide = sets(5, 2), sets(5, 6)
    found = open_gallery(write_gallery(tmp_path / "g.safetensors", [wide, narrow], 10))
    assert found.x.shape == (10, 6, 16) and not found.mask[5:, 2:].any()
    assert torch.equal(found.mask[5:, :2], narrow.mask) and torch.equal(found.x[:5], wide.x)
    with pytest.raises(BadInput, match="do not fit"):
        write_gallery(tmp_path / "h.safetensors", [narrow, wide], 10)


@pytest.mark.parametrize(
    ("chunks", "n", "dtype", "word"),
    [
        ([sets(5)], 6, "float32", "5 came"),
        ([sets(5), Embedding(torch.ones(5, 16))], 10, "float32", "Embedding"),
        ([sets(5)], 5, "float15", "float16"),
        ([Embedding(torch.full((2, 3), float("nan")))], 2, "float32", "NaN"),
        ([Embedding(torch.full((2, 3), 1e5))], 2, "float16", "beyond"),
        ([Embedding(torch.ones(2, 3)), Embedding(torch.ones(2, 4))], 4, "float32", "do not fit"),
    ],
)
def test_what_is_no_gallery_is_refused_and_leaves_nothing(tmp_path, chunks, n, dtype, word):
    with pytest.raises(BadInput, match=word):
        write_gallery(tmp_path / "g.safetensors", iter(chunks), n, dtype)
    assert not list(tmp_path.iterdir())


def test_a_disk_that_is_full_while_writing_leaves_nothing(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CannotWrite, match="No space left"):
        write_gallery(tmp_path / "g.safetensors", [sets()], 50)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda raw: raw[:-1], lambda raw: raw + b"\0", lambda raw: b"", lambda raw: b"\xff" * 8 + raw[8:],
        lambda raw: raw.replace(b"EmbeddingSet", b"EmbeddingBag"),
        lambda raw: raw.replace(b"[50,4,16]", b"[50,4,17]"),
        lambda raw: raw.replace(b'"mask"', b'"mush"'),
    ],
)  # fmt: skip
def test_a_spoilt_gallery_is_not_opened(tmp_path, spoil):
    path = write_gallery(tmp_path / "g.safetensors", [sets()], 50)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(DamagedFile, match=r"g\.safetensors .*build it again"):
        open_gallery(path)
    path.unlink()
    with pytest.raises(DamagedFile, match="No such file"):
        open_gallery(path)


def test_an_index_is_open_to_search_while_it_is_built_again(tmp_path):
    """Each time the index of one of two methods is opened whole, and never a mixture; no rest is left."""
    folder, ended = save_index(example_library("dive"), tmp_path / "i"), []

    def build():
        for n in range(8):
            save_index(example_library(("vse++", "dive")[n % 2]), folder)
        ended.append(True)

    builder = threading.Thread(target=build)
    builder.start()
    while not ended:
        library = open_index(folder)
        assert (library.label == "dive") == isinstance(library.images, EmbeddingSet)
        assert len(search(library, "a red circle", k=1)) == 1
    builder.join()
    assert not [path.name for path in folder.rglob("*") if path.suffix in (".tmp", ".ready", ".old")]


def test_a_file_beside_the_list_is_not_read(tmp_path):
    folder = save_index(example_library(), tmp_path / "i")
    about = files.read_record(folder / "index.json")
    for names in ({"../outside": {"digest": ""}}, {"/etc/passwd": {"digest": ""}}):
        files.write_record(folder / "index.json", about | {"files": about["files"] | names})
        with pytest.raises(DamagedFile, match="lies outside"):
            open_index(folder)
    listed = {name: entry for name, entry in about["files"].items() if name != "items.json"}
    files.write_record(folder / "index.json", about | {"files": listed})
    with pytest.raises(DamagedFile, match="items.json is not in the list"):
        open_index(folder, verify=True)


def test_a_search_in_a_forked_process_ends():
    library, threads = example_library(), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        torch.randn(2000, 2000).exp().sum()  # starts torch's own threads, which a fork does not copy
        if not (child := os.fork()):
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)
            torch.randn(2000, 2000).exp().sum()
            search(library, "a red circle", k=1)
            os._exit(0)
    finally:
        torch.set_num_threads(threads)
    assert os.waitpid(child, 0)[1] == 0
