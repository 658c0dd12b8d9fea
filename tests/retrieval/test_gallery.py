"""Galleries on disk: the same bits, mapped, nothing spoilt opened; and the best k of them."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from xmr_core.base.errors import BadInput, CannotWrite, DamagedFile
from xmr_core.base.types import Embedding, EmbeddingSet, GaussianEmbedding
from xmr_core.evaluation.ranks import score_matrix
from xmr_core.retrieval.index import open_gallery, write_gallery
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
    assert (
        type(found) is type(given)
        and len(found) == 50
        and tensors(found).keys() == tensors(given).keys() == foreign.keys()
    )
    for field, tensor in tensors(given).items():
        assert torch.equal(tensors(found)[field], tensor) and tensors(found)[field].dtype == tensor.dtype
        assert torch.equal(foreign[field], tensor), "any safetensors reader can read it"
    assert [p.name for p in tmp_path.iterdir()] == ["g.safetensors"]


def test_a_gallery_is_mapped_and_taking_rows_copies_nothing(tmp_path):
    given = sets(4000, 4, 128)
    path = write_gallery(tmp_path / "g.safetensors", [given], 4000)
    found = open_gallery(path)
    maps = Path("/proc/self/maps")
    if maps.exists():
        assert sum("g.safetensors" in line for line in maps.read_text().splitlines()) >= 1
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
        ([sets(5), sets(5)], 9, "float32", "do not end"),
        ([sets(5), Embedding(torch.ones(5, 16))], 10, "float32", "Embedding"),
        ([], 0, "float32", "at least one"),
        ([sets(5)], 5, "float15", "float16"),
        ([Embedding(torch.full((2, 3), float("nan")))], 2, "float32", "NaN"),
        ([Embedding(torch.full((2, 3), 1e5))], 2, "float16", "beyond"),
        ([Embedding(torch.ones(2, 3)), Embedding(torch.ones(2, 4))], 4, "float32", "do not fit"),
        ([{"x": 1}], 1, "float32", "dict"),
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
        lambda raw: raw[:40], lambda raw: raw.replace(b"EmbeddingSet", b"EmbeddingBag"),
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
