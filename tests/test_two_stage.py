"""Two-stage search: exact where it looks everywhere, honest where it does not, and never half-built."""

import builtins
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tiny import tiny_config

from xmr_core.base import fingerprint
from xmr_core.base.errors import BadInput, CannotWrite, DamagedFile
from xmr_core.base.types import Embedding, EmbeddingSet, GaussianEmbedding
from xmr_core.evaluation.engine import top_k
from xmr_core.search import (
    build_elements,
    open_elements,
    open_gallery,
    open_index,
    recall,
    search,
    two_stage,
    write_gallery,
)
from xmr_core.search import elements as building
from xmr_core.similarities import DistanceLogit, chamfer, cosine, max_pairwise, scan, smooth_chamfer
from xmr_core.training.runs import train_or_load
from xmr_core.ui.cli import main

faiss = pytest.importorskip("faiss", reason="two-stage search needs the extra `search` (faiss-cpu)")
EVERYTHING = {"per_element": 10**6, "probes": 10**6}


def sets(n=600, k=4, d=16, seed=0, ragged=True) -> EmbeddingSet:
    """Around 20 topics, unit rows; padding holds what no one should find: the topics themselves, far too long."""
    draw = torch.Generator().manual_seed(seed)
    topics = F.normalize(torch.randn(20, d, generator=torch.Generator().manual_seed(99)), dim=-1)
    centre = topics[torch.randint(20, (n,), generator=draw)]
    x = F.normalize(centre[:, None] + 0.25 * torch.randn(n, k, d, generator=draw), dim=-1)
    lengths = torch.randint(1, k + 1, (n, 1), generator=draw) if ragged else torch.full((n, 1), k)
    mask = torch.arange(k)[None] < lengths
    return EmbeddingSet(torch.where(mask[..., None], x, 100 * centre[:, None]), mask)


@pytest.fixture
def made(tmp_path):
    """A function: a gallery → (its opened elements, the gallery from disk, folder, digest)."""

    def make(given, **options):
        file = write_gallery(tmp_path / "gallery.safetensors", [given], len(given))
        gallery, digest = open_gallery(file), fingerprint.file_hash(file)
        build_elements(gallery, tmp_path, digest, **options)
        return open_elements(tmp_path, gallery, digest), gallery, tmp_path, digest

    return make


@pytest.mark.parametrize("asking", ["captions", "images"])
@pytest.mark.parametrize(
    "similarity",
    [smooth_chamfer, chamfer, max_pairwise, partial(scan, direction="t2i", sharpness=9.0, aggregate="mean")],
)
@pytest.mark.parametrize("codes", ["uint8", "float32"])
def test_looking_everywhere_is_exact_search(made, asking, similarity, codes):
    index, gallery, *_ = made(sets(), codes=codes)
    queries = sets(7, 3, seed=5)
    exact = top_k(similarity, queries, gallery, 10, asking)
    scores, positions = two_stage(index, queries, similarity, 10, **EVERYTHING, modality=asking)
    assert np.array_equal(positions, exact[1]) and np.allclose(scores, exact[0], atol=1e-6)
    assert recall(positions, exact[1]) == 1.0 and index.about["lists"] > 1


def test_single_vectors_are_sets_of_one(made):
    lengths = torch.logspace(-1, 1, 600)[:, None]  # elements are compared by direction, items by the similarity
    vectors = Embedding(sets(k=1, ragged=False).x[:, 0] * lengths)
    index, gallery, *_ = made(vectors, codes="float32")
    assert index.propose((vectors.x / lengths).numpy(), 1, 10**6).items[:, 0].tolist() == list(range(600))
    queries = Embedding(sets(5, 1, seed=3, ragged=False).x[:, 0])
    exact, found = top_k(cosine, queries, gallery, 10, "captions"), two_stage(index, queries, cosine, 10, **EVERYTHING)
    assert np.array_equal(found.positions, exact[1])


def test_padding_is_never_proposed_and_every_real_element_is(made):
    given = sets()
    index, *_ = made(given, codes="float32")
    assert index.lists.ntotal == index.about["elements"] == int(given.mask.sum()) < given.mask.numel()
    everything = index.propose(np.eye(16, dtype=np.float32), 10**6, 10**6).items
    for row in everything:
        assert np.array_equal(np.bincount(row, minlength=600), given.mask.sum(1).numpy()), (
            "an item once for each real element"
        )
    wild = sets(3, 4, seed=8)
    tame = EmbeddingSet(torch.where(wild.mask[..., None], wild.x, 0.0), wild.mask)
    for few in ({"per_element": 5, "probes": 2}, EVERYTHING):
        assert np.array_equal(
            two_stage(index, wild, smooth_chamfer, 5, **few).positions,
            two_stage(index, tame, smooth_chamfer, 5, **few).positions,
        )


def test_what_is_found_has_its_exact_score_and_a_look_into_few_lists_finds_most(made):
    index, gallery, *_ = made(sets(3000))
    queries = sets(40, 4, seed=7, ragged=False)
    exact = top_k(smooth_chamfer, queries, gallery, 10, "captions")
    shares = []
    for per_element, probes in ((10, 1), (50, 4), (400, 32)):
        scores, positions = two_stage(index, queries, smooth_chamfer, 10, per_element, probes)
        for q in range(0, 40, 13):
            whole = smooth_chamfer(gallery[torch.from_numpy(positions[q])], queries[q])[:, 0].numpy()
            assert np.allclose(scores[q], whole, atol=1e-6) and (np.diff(scores[q]) <= 0).all()
        shares.append(recall(positions, exact[1]))
    assert shares == sorted(shares) and shares[0] < shares[2] and shares[2] >= 0.95


def test_fewer_proposals_than_answers_are_filled_up(made):
    index, *_ = made(sets(200, 1))
    scores, positions = two_stage(index, sets(2, 1, seed=4), smooth_chamfer, 10, per_element=3, probes=1)
    assert (
        positions.shape == scores.shape == (2, 10)
        and ((positions >= 0).sum(1) <= 3).all()
        and (positions[:, 0] >= 0).all()
    )
    assert np.isneginf(scores[positions < 0]).all() and np.isfinite(scores[positions >= 0]).all()
    scores, positions = two_stage(
        index, sets(9, 1, seed=4), smooth_chamfer, 200, per_element=200, probes=1
    )  # one list holds fewer
    assert (
        (positions < 0).any(1).all()
        and np.isneginf(scores[positions < 0]).all()
        and np.isfinite(scores[positions >= 0]).all()
    )


def test_equal_scores_stand_in_file_order(made):
    given = sets(40, 3)
    index, *_ = made(given[torch.arange(120) % 40])
    _, positions = two_stage(index, given[:5], smooth_chamfer, 3, **EVERYTHING)
    assert positions.tolist() == [[n, n + 40, n + 80] for n in range(5)]


@pytest.mark.parametrize("n", [1, 3, 30])
def test_a_gallery_too_small_for_lists_has_one(made, n):
    index, *_ = made(sets(n))
    assert index.about["lists"] == 1
    assert two_stage(index, sets(2, seed=3), smooth_chamfer, 5).positions[:, : min(n, 5)].min() >= 0


def test_one_seed_gives_one_index_and_chunks_do_not_matter(made, monkeypatch):
    first = (made(sets(), seed=3)[2] / "elements.faiss").read_bytes()
    assert (made(sets(), seed=3)[2] / "elements.faiss").read_bytes() == first
    monkeypatch.setattr(building, "_CHUNK", 100)
    assert (made(sets(), seed=3)[2] / "elements.faiss").read_bytes() == first
    assert (made(sets(), seed=4)[2] / "elements.faiss").read_bytes() != first


def test_lists_are_mapped_not_read(made):
    index, *_ = made(sets())
    assert isinstance(faiss.downcast_InvertedLists(index.lists.invlists), faiss.OnDiskInvertedLists)
    maps = Path("/proc/self/maps")
    if maps.exists():
        assert "elements.faiss" in maps.read_text()


def test_recall_is_the_share_of_exact_answers():
    exact = np.array([[1, 2, 3, 4], [5, 6, 7, 8]])
    assert recall(np.array([[4, 3, 2, 1], [8, 7, 6, 5]]), exact) == 1.0
    assert recall(np.array([[1, 2, 9, -1], [-1, -1, -1, -1]]), exact) == 0.25
    assert recall(np.array([[1, 2, 3, 4, 9], [5, 6, 0, 0, 8]]), exact) == pytest.approx(7 / 8)
    for found in (exact[:1], exact[0], exact[:, :0]):
        with pytest.raises(BadInput, match="the same queries"):
            recall(found, exact if found.size else found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dive", "vse++"])
@pytest.mark.slow
def test_an_index_with_elements_is_searched_in_two_stages(tmp_path, monkeypatch, capsys, name):
    """32 pictures: one list, so that everything is proposed and the answers are those of exact search."""
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))
    run, out = train_or_load(tiny_config(name)), tmp_path / "index"
    assert main(["index", run.id, str(out), "--elements"]) == 0
    index = open_index(out)
    elements = open_elements(out, index.images, index.digest("images"))
    text = index.texts[0] + " zeppelin"
    exact, found = search(index, text), search(index, text, elements=elements)
    assert found["item"].tolist() == exact["item"].tolist() and np.allclose(found["score"], exact["score"], atol=1e-6)
    assert exact.attrs == {"unknown_words": ("zeppelin",), "nearest": {}}
    assert found.attrs.pop("bound") < found["score"].min()  # −∞ where all elements of all images were proposed
    assert found.attrs == exact.attrs | {"certified": True, "reason": ""}
    monkeypatch.setattr("xmr_core.search.answers.rank", lambda *_: pytest.fail("everything was compared"))
    capsys.readouterr()
    assert main(["search", str(out), text, "--fast", "-k", "4"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()[1:]] == exact["item"].tolist()[:4]
    (out / "elements.json").unlink()
    assert main(["search", str(out), text, "--fast"]) == 2
    assert "has no elements.json" in capsys.readouterr().err


def test_distributions_stand_at_their_means_and_are_ranked_with_their_variance(made):
    """The nearest mean is not the best answer where its variance is large: proposals by means, then exact scores."""
    means = sets(k=1, ragged=False).x[:, 0]
    gallery = GaussianEmbedding(means, torch.rand(600, 16, generator=torch.Generator().manual_seed(1)) - 2.0)
    index, gallery, _, _ = made(gallery)
    assert gallery.samples is None
    queries = GaussianEmbedding(sets(30, k=1, seed=5, ragged=False).x[:, 0], torch.full((30, 16), -2.0))
    similarity = DistanceLogit()
    exact = similarity(gallery, queries).T.sort(dim=1, descending=True, stable=True)
    scores, found = two_stage(index, queries, similarity, **EVERYTHING)
    assert np.array_equal(found, exact.indices[:, :10].numpy())
    assert np.allclose(scores, exact.values[:, :10].detach().numpy(), atol=1e-5)
    nearest = (gallery.mean @ queries.mean.T).argmax(0)
    assert (torch.from_numpy(found[:, 0]) != nearest).any()
    assert recall(two_stage(index, queries, similarity).positions, exact.indices[:, :10]) > 0.9


# ------------------------------------------------------------------------------------------------------ what is refused


def test_what_has_no_elements_or_does_not_fit_is_refused(made, tmp_path):
    index, gallery, folder, digest = made(sets())
    for call, message in (
        (
            lambda: build_elements(
                EmbeddingSet(gallery.x, gallery.mask & (torch.arange(600) != 7)[:, None]), tmp_path / "x", "0"
            ),
            "set 7 has no valid",
        ),
        (
            lambda: build_elements(gallery, tmp_path / "x", "0", codes="uint9"),
            "unknown codes 'uint9'. Did you mean 'uint8'?",
        ),
        (lambda: two_stage(index, sets(2, d=8), smooth_chamfer), "width 8 do not fit elements of width 16"),
        (lambda: two_stage(index, sets(2), smooth_chamfer, k=0), "k must be at least 1, got 0"),
        (lambda: two_stage(index, sets(2), smooth_chamfer, probes=0), "probes must be at least 1"),
        (lambda: two_stage(index, sets(2), smooth_chamfer, modality="texts"), "unknown modality 'texts'"),
        (lambda: open_elements(folder, gallery, "0" * 16), "those of another gallery"),
        (lambda: open_elements(folder, gallery[:5], digest), "those of another gallery"),
        (lambda: open_elements(tmp_path / "x", gallery, digest), "is no folder. Build it"),
    ):
        with pytest.raises(BadInput, match=message):
            call()


@pytest.mark.parametrize("how", ["missing", "cut", "altered"])
def test_a_spoilt_file_of_lists_is_not_opened(made, how):
    _, gallery, folder, digest = made(sets())
    path, raw = folder / "elements.faiss", (folder / "elements.faiss").read_bytes()
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(raw[:-5] if how == "cut" else raw[:-5] + bytes([raw[-5] ^ 1]) + raw[-4:])
    with pytest.raises(DamagedFile, match=r"elements\.faiss .*build it again"):
        open_elements(folder, gallery, digest, verify=True)


def test_without_faiss_one_line_says_what_to_install(made, tmp_path, monkeypatch, capsys):
    _, gallery, folder, digest = made(sets())
    real = builtins.__import__

    def refuse(name, *rest):
        if name == "faiss":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    for call in (lambda: build_elements(gallery, tmp_path, digest), lambda: open_elements(folder, gallery, digest)):
        with pytest.raises(BadInput, match=r"pip install 'xmr-study\[search\]'"):
            call()
    assert (
        main(["index", "any", str(tmp_path / "x"), "--elements"]) == 2
        and "xmr-study[search]" in capsys.readouterr().err
    )
    monkeypatch.undo()
    open_elements(folder, gallery, digest)  # what was there is left alone


@pytest.mark.slow
def test_the_room_is_imported_without_faiss():
    code = "import sys\nimport xmr_core.search\nassert 'faiss' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# --------------------------------------------------------------------------------------------------------------- killed


@pytest.mark.slow
@pytest.mark.parametrize("step", ["os.fsync", "os.replace", "faiss.write_index", "manifest"])
def test_a_build_that_stops_anywhere_is_not_taken_for_complete(made, monkeypatch, step):
    _, gallery, folder, digest = made(sets())
    where = {"os.fsync": "os.fsync", "os.replace": "os.replace", "faiss.write_index": "faiss.write_index"}
    target = where.get(step, "xmr_core.search.elements.write_manifest")

    def stops(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(target, stops)
        with pytest.raises(KeyboardInterrupt):
            build_elements(gallery, folder, digest, seed=1)
    with pytest.raises(BadInput, match=r"has no elements\.json"):
        open_elements(folder, gallery, digest)
    build_elements(gallery, folder, digest)
    open_elements(folder, gallery, digest, verify=True)
    assert not list(folder.glob(".*.tmp"))


def test_a_disk_that_is_full_is_said(made, monkeypatch):
    _, gallery, folder, digest = made(sets())

    def full(*_):
        raise RuntimeError("Error in faiss\nwrite error in elements.faiss: No space left on device")

    monkeypatch.setattr(faiss, "write_index", full)
    with pytest.raises(CannotWrite, match="No space left on device"):
        build_elements(gallery, folder, digest)
    assert not list(folder.glob(".*.tmp")) and not (folder / "elements.faiss").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_killed_build_leaves_nothing_that_opens(made):
    _, gallery, folder, digest = made(sets())
    code = f"""
import os, signal
import faiss
from xmr_core.search import build_elements, open_gallery
real = faiss.write_index
def die(index, path):
    real(index, path)
    os.kill(os.getpid(), signal.SIGKILL)
faiss.write_index = die
build_elements(open_gallery({str(folder / "gallery.safetensors")!r}), {str(folder)!r}, {digest!r})
"""
    assert subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL).returncode == -signal.SIGKILL
    assert list(folder.glob(".elements.faiss.*.tmp"))
    with pytest.raises(BadInput, match=r"has no elements\.json"):
        open_elements(folder, gallery, digest)
    build_elements(gallery, folder, digest)
    assert not list(folder.glob(".*.tmp"))
