"""Two-stage search: exact where it looks everywhere, measured where it does not, and never half-built."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tiny import tiny_config

from xmr_core.base import files, fingerprint
from xmr_core.base.errors import BadInput, CannotWrite, DamagedFile
from xmr_core.base.types import Embedding, EmbeddingSet, GaussianEmbedding
from xmr_core.evaluation.ranks import top_k
from xmr_core.retrieval import engine as building
from xmr_core.retrieval.engine import build_elements, open_elements, recall, two_stage
from xmr_core.retrieval.index import open_gallery, open_index, write_gallery
from xmr_core.retrieval.search import search
from xmr_core.similarities import DistanceLogit, chamfer, cosine, max_pairwise, scan, smooth_chamfer
from xmr_core.training.runs import train_or_load
from xmr_study.cli import main

faiss = pytest.importorskip("faiss", reason="two-stage search needs the extra `search` (faiss-cpu)")
EVERYTHING = 10**6  # elements, or lists


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
    """A function: a gallery → (its opened elements, all lists of which are searched, the gallery from disk, folder,
    digest)."""

    def make(given, **options):
        file = write_gallery(tmp_path / "gallery.safetensors", [given], len(given))
        gallery, digest = open_gallery(file), fingerprint.file_hash(file)
        build_elements(gallery, tmp_path, digest, **options)
        return open_elements(tmp_path, gallery, digest, probes=EVERYTHING), gallery, tmp_path, digest

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
    scores, positions = two_stage(index, queries, similarity, 10, EVERYTHING, asking)
    assert np.array_equal(positions, exact[1]) and np.allclose(scores, exact[0], atol=1e-6)
    assert recall(index, queries, similarity, 10, EVERYTHING, asking) == 1.0 and index.about["lists"] > 1


def test_single_vectors_are_sets_of_one(made):
    lengths = torch.logspace(-1, 1, 600)[:, None]  # elements are compared by direction, items by the similarity
    vectors = Embedding(sets(k=1, ragged=False).x[:, 0] * lengths)
    index, gallery, *_ = made(vectors, codes="float32")
    assert [rows.tolist() for rows in index.propose(vectors, 1)] == [[n] for n in range(600)]
    queries = Embedding(sets(5, 1, seed=3, ragged=False).x[:, 0])
    exact, found = top_k(cosine, queries, gallery, 10), two_stage(index, queries, cosine, 10, EVERYTHING)
    assert np.array_equal(found[1], exact[1])


def test_padding_is_never_proposed_and_every_real_element_is(made):
    given = sets()
    index, *_ = made(given, codes="float32")
    assert index.lists.ntotal == index.about["elements"] == int(given.mask.sum()) < given.mask.numel()
    everywhere = faiss.SearchParametersIVF(nprobe=index.lists.nlist)
    for row in index.lists.search(np.eye(16, dtype=np.float32), index.lists.ntotal, params=everywhere)[1]:
        assert np.array_equal(np.bincount(row, minlength=600), given.mask.sum(1).numpy()), "once for each real element"
    wild = sets(3, 4, seed=8)
    tame = EmbeddingSet(torch.where(wild.mask[..., None], wild.x, 0.0), wild.mask)
    for lists, n in ((2, 5), (EVERYTHING, EVERYTHING)):
        few = replace(index, probes=lists)
        a, b = (two_stage(few, queries, smooth_chamfer, 5, n)[1] for queries in (wild, tame))
        assert np.array_equal(a, b)


def test_what_is_found_has_its_exact_score_and_a_look_into_few_lists_finds_most(made):
    index, gallery, *_ = made(sets(3000))
    queries = sets(40, 4, seed=7, ragged=False)
    exact, shares = top_k(smooth_chamfer, queries, gallery, 10)[1], []
    for per_element, probes in ((10, 1), (50, 4), (400, 32)):
        few = replace(index, probes=probes)
        scores, positions = two_stage(few, queries, smooth_chamfer, 10, per_element)
        for q in range(0, 40, 13):
            whole = smooth_chamfer(gallery[torch.from_numpy(positions[q])], queries[q])[:, 0].numpy()
            assert np.allclose(scores[q], whole, atol=1e-6) and (np.diff(scores[q]) <= 0).all()
        shares.append(recall(few, queries, smooth_chamfer, 10, per_element))
        found = [len({*e} & {*p}) for e, p in zip(exact.tolist(), positions.tolist(), strict=True)]
        assert shares[-1] == pytest.approx(sum(found) / exact.size)
    assert shares == sorted(shares) and shares[0] < shares[2] and shares[2] >= 0.95


def test_fewer_proposals_than_answers_are_filled_up(made):
    index, *_ = made(sets(200, 1))
    one_list = replace(index, probes=1)  # which holds fewer than 200
    for n, k in ((3, 10), (200, 200)):
        scores, positions = two_stage(one_list, sets(9, 1, seed=4), smooth_chamfer, k, n)
        assert positions.shape == scores.shape == (9, k) and (positions[:, 0] >= 0).all()
        assert (positions < 0).any(1).all() and ((positions >= 0).sum(1) <= n).all()
        assert np.isneginf(scores[positions < 0]).all() and np.isfinite(scores[positions >= 0]).all()


def test_equal_scores_stand_in_file_order(made):
    given = sets(40, 3)
    index, *_ = made(given[torch.arange(120) % 40])
    _, positions = two_stage(index, given[:5], smooth_chamfer, 3, EVERYTHING)
    assert positions.tolist() == [[n, n + 40, n + 80] for n in range(5)]


@pytest.mark.parametrize("n", [1, 3, 30])
def test_a_gallery_too_small_for_lists_has_one(made, n):
    index, *_ = made(sets(n))
    assert index.about["lists"] == 1
    assert two_stage(index, sets(2, seed=3), smooth_chamfer, 5)[1][:, : min(n, 5)].min() >= 0


def test_one_seed_gives_one_index_and_chunks_do_not_matter(made, monkeypatch):
    first = (made(sets(), seed=3)[2] / "elements.faiss").read_bytes()
    monkeypatch.setattr(building, "_CHUNK", 100)
    assert (made(sets(), seed=3)[2] / "elements.faiss").read_bytes() == first
    assert (made(sets(), seed=4)[2] / "elements.faiss").read_bytes() != first


def test_lists_are_mapped_not_read(made):
    index, *_ = made(sets())
    assert isinstance(faiss.downcast_InvertedLists(index.lists.invlists), faiss.OnDiskInvertedLists)
    maps = Path("/proc/self/maps")
    if maps.exists():
        assert "elements.faiss" in maps.read_text()


def test_a_proposer_of_ones_own_needs_two_things():
    """A third engine: plain numpy."""

    class Plain:
        gallery = Embedding(torch.randn(50, 8, generator=torch.Generator().manual_seed(0)))

        def propose(self, queries, n):
            cosines = F.normalize(queries.x, dim=-1) @ F.normalize(self.gallery.x, dim=-1).T
            return [np.sort(row) for row in cosines.topk(n, dim=1).indices.numpy()]

    engine = Plain()
    found = two_stage(engine, engine.gallery[:5], cosine, 3, 10)[1]
    assert np.array_equal(found, top_k(cosine, engine.gallery[:5], engine.gallery, 3)[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dive", "vse++"])
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
    assert found.attrs == exact.attrs == {"unknown_words": ("zeppelin",), "nearest": {}}
    monkeypatch.setattr("xmr_core.retrieval.search.rank", lambda *_: pytest.fail("everything was compared"))
    capsys.readouterr()
    assert main(["search", str(out), text, "--fast", "-k", "4"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()[1:]] == exact["item"].tolist()[:4]
    (out / "elements.json").unlink()
    assert main(["search", str(out), text, "--fast"]) == 2
    assert "elements.json" in capsys.readouterr().err


def test_distributions_stand_at_their_means_and_are_ranked_with_their_variance(made):
    """The nearest mean is not the best answer where its variance is large: proposals by means, then exact scores."""
    means = sets(k=1, ragged=False).x[:, 0]
    gallery = GaussianEmbedding(means, torch.rand(600, 16, generator=torch.Generator().manual_seed(1)) - 2.0)
    index, gallery, folder, digest = made(gallery)
    assert gallery.samples is None
    queries = GaussianEmbedding(sets(30, k=1, seed=5, ragged=False).x[:, 0], torch.full((30, 16), -2.0))
    similarity = DistanceLogit()
    exact = similarity(gallery, queries).T.sort(dim=1, descending=True, stable=True)
    scores, found = two_stage(index, queries, similarity, 10, EVERYTHING)
    assert np.array_equal(found, exact.indices[:, :10].numpy())
    assert np.allclose(scores, exact.values[:, :10].detach().numpy(), atol=1e-5)
    nearest = (gallery.mean @ queries.mean.T).argmax(0)
    assert (torch.from_numpy(found[:, 0]) != nearest).any()
    assert recall(open_elements(folder, gallery, digest), queries, similarity) > 0.9


# ------------------------------------------------------------------------------------------------------ what is refused


def test_what_has_no_elements_or_does_not_fit_is_refused(made, tmp_path):
    index, gallery, folder, digest = made(sets())
    empty = EmbeddingSet(gallery.x, gallery.mask & (torch.arange(600) != 7)[:, None])
    for call, word in (
        (lambda: build_elements(empty, tmp_path / "x", "0"), "set 7"),
        (lambda: build_elements(gallery, tmp_path / "x", "0", codes="uint9"), "uint8"),
        (lambda: two_stage(index, sets(2, d=8), smooth_chamfer), "width 8"),
        (lambda: two_stage(index, sets(2), smooth_chamfer, k=0), "k must"),
        (lambda: two_stage(index, sets(2), smooth_chamfer, per_element=0), "per_element"),
        (lambda: open_elements(folder, gallery, "0" * 16), "another gallery"),
        (lambda: open_elements(folder, gallery[:5], digest), "another gallery"),
        (lambda: open_elements(tmp_path / "x", gallery, digest), "Build it"),
    ):
        with pytest.raises(BadInput, match=word):
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


def test_an_index_with_what_an_earlier_version_wrote_beside_it_opens(made):
    index, gallery, folder, digest = made(sets())
    about = json.loads((folder / "elements.json").read_text())
    caps = files.write_atomic(folder / "elements.caps.safetensors", b"caps")
    listed = about.pop("files") | {caps.name: {"bytes": 4, "digest": fingerprint.file_hash(caps)}}
    del about["seal"]
    files.write_record(folder / "elements.json", about | {"files": listed, "coding": 0.1, "extent": {"longest": 1.0}})
    found = two_stage(open_elements(folder, gallery, digest, probes=EVERYTHING), gallery[:3], chamfer)
    assert np.array_equal(found[1], two_stage(index, gallery[:3], chamfer)[1])


def test_without_faiss_one_line_says_what_to_install(made, tmp_path, monkeypatch, capsys):
    _, gallery, folder, digest = made(sets())
    monkeypatch.setitem(sys.modules, "faiss", None)  # as if it were not installed
    for call in (lambda: build_elements(gallery, tmp_path, digest), lambda: open_elements(folder, gallery, digest)):
        with pytest.raises(BadInput, match=r"xmr-study\[search\]"):
            call()
    assert main(["index", "any", str(tmp_path / "x"), "--elements"]) == 2
    assert "xmr-study[search]" in capsys.readouterr().err
    monkeypatch.undo()
    open_elements(folder, gallery, digest)  # what was there is left alone


@pytest.mark.slow
def test_the_room_is_imported_without_faiss():
    code = "import sys\nimport xmr_core.retrieval\nassert 'faiss' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# --------------------------------------------------------------------------------------------------------------- killed


@pytest.mark.slow
@pytest.mark.parametrize("step", ["os.fsync", "faiss.write_index", "xmr_core.retrieval.engine.write_record"])
def test_a_build_that_stops_anywhere_is_not_taken_for_complete(made, monkeypatch, step):
    _, gallery, folder, digest = made(sets())

    def stops(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(step, stops)
        with pytest.raises(KeyboardInterrupt):
            build_elements(gallery, folder, digest, seed=1)
    with pytest.raises(BadInput, match=r"elements\.json"):
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
from xmr_core.retrieval import build_elements, open_gallery
real = faiss.write_index
def die(index, path):
    real(index, path)
    os.kill(os.getpid(), signal.SIGKILL)
faiss.write_index = die
build_elements(open_gallery({str(folder / "gallery.safetensors")!r}), {str(folder)!r}, {digest!r})
"""
    assert subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL).returncode == -signal.SIGKILL
    assert list(folder.glob(".elements.faiss.*.tmp"))
    with pytest.raises(BadInput, match=r"elements\.json"):
        open_elements(folder, gallery, digest)
    build_elements(gallery, folder, digest)
    assert not list(folder.glob(".*.tmp"))
