"""Search in two stages, on every engine: exact where everything is proposed, measured where not, never half-built."""

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
from xmr_core.retrieval.engine import build_elements, build_engine, open_elements, open_engine
from xmr_core.retrieval.index import open_gallery, open_index, write_gallery
from xmr_core.retrieval.ranking import recall, search, two_stage
from xmr_core.similarities import DistanceLogit, chamfer, cosine, max_pairwise, scan, smooth_chamfer
from xmr_core.training.runs import train_or_load
from xmr_study.cli import main

EVERYTHING = 10**6  # elements, or lists
PACKAGES = {"faiss": "faiss", "embedded": "qdrant_edge", "client": "qdrant_client"}


def sets(n=600, k=4, d=16, seed=0, ragged=True) -> EmbeddingSet:
    """Around 20 topics, unit rows; padding holds what no one should find: the topics themselves, far too long."""
    draw = torch.Generator().manual_seed(seed)
    topics = F.normalize(torch.randn(20, d, generator=torch.Generator().manual_seed(99)), dim=-1)
    centre = topics[torch.randint(20, (n,), generator=draw)]
    x = F.normalize(centre[:, None] + 0.25 * torch.randn(n, k, d, generator=draw), dim=-1)
    lengths = torch.randint(1, k + 1, (n, 1), generator=draw) if ragged else torch.full((n, 1), k)
    mask = torch.arange(k)[None] < lengths
    return EmbeddingSet(torch.where(mask[..., None], x, 100 * centre[:, None]), mask)


def on_disk(given, folder: Path):
    """(the gallery from disk, its digest)."""
    file = write_gallery(folder / "gallery.safetensors", [given], len(given))
    return open_gallery(file), fingerprint.file_hash(file)


@pytest.fixture
def memory():
    """The client's own engine in memory, with the interface that it has for a server."""
    client = pytest.importorskip("qdrant_client", reason="servers need qdrant-client").QdrantClient(":memory:")
    yield client
    client.close()


@pytest.fixture(params=PACKAGES)
def made(request, tmp_path):
    """A function: items → (the opened elements, the gallery from disk, how to open them again)."""
    pytest.importorskip(PACKAGES[request.param], reason="engines need the extras `search` and `engine`")
    client, opened = request.getfixturevalue("memory") if request.param == "client" else None, []

    def make(given):
        gallery, digest = on_disk(given, tmp_path)
        if request.param == "faiss":
            build_elements(gallery, tmp_path, digest)
            reopen = partial(open_elements, tmp_path, probes=EVERYTHING)
        else:
            build_engine(gallery, tmp_path, digest, client=client)
            reopen = partial(open_engine, tmp_path, client=client)
        opened.append(reopen(gallery=gallery, digest=digest))
        return opened[-1], gallery, partial(reopen, digest=digest)

    yield make
    for elements in opened:
        elements.close()


@pytest.fixture
def lists(tmp_path):
    """A function: items → (their opened lists of faiss, the gallery from disk, folder, digest)."""
    pytest.importorskip("faiss", reason="two-stage search needs the extra `search` (faiss-cpu)")

    def make(given, **options):
        gallery, digest = on_disk(given, tmp_path)
        build_elements(gallery, tmp_path, digest, **options)
        return open_elements(tmp_path, gallery, digest, probes=EVERYTHING), gallery, tmp_path, digest

    return make


@pytest.mark.parametrize("asking", ["captions", "images"])
def test_proposing_everything_is_exact_search(made, asking):
    elements, gallery, _ = made(sets())
    queries = sets(6, 3, seed=5)
    for similarity in (smooth_chamfer, chamfer, max_pairwise, partial(scan, direction="t2i", sharpness=9.0)):
        exact = top_k(similarity, queries, gallery, 10, asking)
        scores, positions = two_stage(elements, queries, similarity, 10, EVERYTHING, asking)
        assert np.array_equal(positions, exact[1]) and np.allclose(scores, exact[0], atol=1e-6)
        assert recall(elements, queries, similarity, 10, EVERYTHING, asking) == 1.0


def test_single_vectors_are_sets_of_one_and_distributions_stand_at_their_means(made):
    """The nearest mean is not the best answer where its variance is large: proposals by means, then exact scores."""
    x, lengths = sets(k=1, ragged=False).x[:, 0], torch.logspace(-1, 1, 600)[:, None]  # compared by direction
    draw = torch.Generator().manual_seed(1)
    for given, similarity in (
        (Embedding(lengths * x), cosine),
        (GaussianEmbedding(x, torch.rand(600, 16, generator=draw) - 2.0), DistanceLogit()),
    ):
        elements, gallery, _ = made(given)
        exact = top_k(similarity, gallery[:5], gallery, 10)[1]
        assert np.array_equal(two_stage(elements, gallery[:5], similarity, 10, EVERYTHING)[1], exact)
        elements.close()


def test_only_real_elements_are_held_and_the_nearest_are_proposed(made):
    given = sets()
    elements, *_ = made(given)
    assert elements.about["elements"] == elements.engine.count() == int(given.mask.sum()) < given.mask.numel()
    everywhere = elements.propose(given[:3], EVERYTHING)
    assert all(rows.tolist() == list(range(600)) for rows in everywhere)
    owner, axes = given.mask.nonzero()[:, 0], Embedding(torch.eye(16))
    nearest = (given.x[given.mask] @ torch.eye(16)).topk(7, dim=0).indices.T
    found = [len({*rows.tolist()} & {*owner[best].tolist()}) / len({*owner[best].tolist()})
             for rows, best in zip(elements.propose(axes, 7), nearest, strict=True)]  # fmt: skip
    assert np.mean(found) > 0.9, "an element in 8 bits may change places with the next"


def test_equal_scores_stand_in_file_order(made):
    given = sets(40, 3)
    elements, *_ = made(given[torch.arange(120) % 40])
    _, positions = two_stage(elements, given[:5], smooth_chamfer, 3, EVERYTHING)
    assert positions.tolist() == [[n, n + 40, n + 80] for n in range(5)]


def test_a_second_build_replaces_the_first_and_what_does_not_belong_together_is_refused(made):
    first, *_ = made(sets())
    first.close()
    elements, gallery, reopen = made(sets(50, seed=3))
    everything = np.concatenate(elements.propose(Embedding(torch.eye(16)), EVERYTHING))
    assert elements.about["items"] == 50 and everything.max() < 50
    for call, word in (
        (lambda: two_stage(elements, sets(2, d=8), smooth_chamfer), "width 8"),
        (lambda: two_stage(elements, sets(2), smooth_chamfer, k=0), "k must"),
        (lambda: two_stage(elements, sets(2), smooth_chamfer, per_element=0), "per_element"),
        (lambda: reopen(gallery[:5]), "another gallery"),
        (lambda: reopen(gallery, digest="0" * 16), "another gallery"),
    ):
        with pytest.raises(BadInput, match=word):
            call()


def test_a_look_into_few_lists_finds_most_with_exact_scores(lists):
    index, gallery, *_ = lists(sets(3000))
    queries, shares = sets(40, 4, seed=7, ragged=False), []
    exact = top_k(smooth_chamfer, queries, gallery, 10)[1]
    for per_element, probes in ((10, 1), (50, 4), (400, 32)):
        few = replace(index, engine=replace(index.engine, probes=probes))
        scores, positions = two_stage(few, queries, smooth_chamfer, 10, per_element)
        for q in range(0, 40, 13):
            whole = smooth_chamfer(gallery[torch.from_numpy(positions[q])], queries[q])[:, 0].numpy()
            assert np.allclose(scores[q], whole, atol=1e-6) and (np.diff(scores[q]) <= 0).all()
        shares.append(recall(few, queries, smooth_chamfer, 10, per_element))
        found = [len({*e} & {*p}) for e, p in zip(exact.tolist(), positions.tolist(), strict=True)]
        assert shares[-1] == pytest.approx(sum(found) / exact.size)
    assert shares == sorted(shares) and shares[0] < shares[2] and shares[2] >= 0.95


def test_fewer_proposals_than_answers_are_filled_up(lists):
    index, *_ = lists(sets(200, 1))
    one_list = replace(index, engine=replace(index.engine, probes=1))  # which holds fewer than 200
    for n, k in ((3, 10), (200, 200)):
        scores, positions = two_stage(one_list, sets(9, 1, seed=4), smooth_chamfer, k, n)
        assert positions.shape == scores.shape == (9, k) and (positions[:, 0] >= 0).all()
        assert (positions < 0).any(1).all() and ((positions >= 0).sum(1) <= n).all()
        assert np.isneginf(scores[positions < 0]).all() and np.isfinite(scores[positions >= 0]).all()


@pytest.mark.parametrize("n", [1, 30])
def test_a_gallery_too_small_for_lists_has_one(lists, n):
    index, *_ = lists(sets(n), codes="float32")
    assert index.about["lists"] == 1
    assert two_stage(index, sets(2, seed=3), smooth_chamfer, 5)[1][:, : min(n, 5)].min() >= 0


def test_one_seed_gives_one_index_and_chunks_do_not_matter(lists, monkeypatch):
    first = (lists(sets(), seed=3)[2] / "elements.faiss").read_bytes()
    monkeypatch.setattr(building, "_CHUNK", 100)
    assert (lists(sets(), seed=3)[2] / "elements.faiss").read_bytes() == first
    assert (lists(sets(), seed=4)[2] / "elements.faiss").read_bytes() != first


def test_lists_are_mapped_not_read(lists):
    import faiss

    index, *_ = lists(sets())
    assert isinstance(faiss.downcast_InvertedLists(index.engine.index.invlists), faiss.OnDiskInvertedLists)


def test_a_proposer_of_ones_own_needs_two_things():
    class Plain:
        gallery = Embedding(torch.randn(50, 8, generator=torch.Generator().manual_seed(0)))

        def propose(self, queries, n):
            cosines = F.normalize(queries.x, dim=-1) @ F.normalize(self.gallery.x, dim=-1).T
            return [np.sort(row) for row in cosines.topk(n, dim=1).indices.numpy()]

    engine = Plain()
    found = two_stage(engine, engine.gallery[:5], cosine, 3, 10)[1]
    assert np.array_equal(found, top_k(cosine, engine.gallery[:5], engine.gallery, 3)[1])


@pytest.mark.slow
def test_a_graph_finds_most(tmp_path):
    pytest.importorskip("qdrant_edge")
    gallery, digest = on_disk(sets(6000, 2), tmp_path)
    build_engine(gallery, tmp_path, digest, graph=True)
    engine = open_engine(tmp_path, gallery, digest)
    assert recall(engine, gallery[:9], smooth_chamfer, 3, 50) > 0.9
    engine.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dive", "vse++"])
def test_an_index_with_elements_is_searched_in_two_stages(tmp_path, shared_home, monkeypatch, capsys, name):
    """32 pictures: one list, so that everything is proposed and the answers are those of exact search."""
    pytest.importorskip("faiss")
    monkeypatch.setenv("XMR_HOME", str(shared_home))
    run, out = train_or_load(tiny_config(name, epochs=1)), tmp_path / "index"
    assert main(["index", run.id, str(out), "--elements"]) == 0
    index = open_index(out)
    elements = open_elements(out, index.images, index.digest("images"))
    text = index.texts[0] + " zeppelin"
    exact, found = search(index, text), search(index, text, elements=elements)
    assert found["item"].tolist() == exact["item"].tolist() and np.allclose(found["score"], exact["score"], atol=1e-6)
    assert found.attrs == exact.attrs == {"unknown_words": ("zeppelin",), "nearest": {}, "cut": ""}
    rank = "everything was compared"
    monkeypatch.setattr(sys.modules["xmr_core.retrieval.ranking"], "rank", lambda *_: pytest.fail(rank))
    capsys.readouterr()
    assert main(["search", str(out), text, "--fast", "-k", "4"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()[1:]] == exact["item"].tolist()[:4]
    (out / "elements.json").unlink()
    assert main(["search", str(out), text, "--fast"]) == 2
    assert "elements.json" in capsys.readouterr().err


def test_sets_of_padding_and_unknown_codes_are_refused(lists, tmp_path):
    _, gallery, *_ = lists(sets())
    empty = EmbeddingSet(gallery.x, gallery.mask & (torch.arange(600) != 7)[:, None])
    for call, word in (
        (lambda: build_elements(empty, tmp_path / "x", "0"), "set 7"),
        (lambda: build_elements(gallery, tmp_path / "x", "0", codes="uint9"), "uint8"),
        (lambda: open_elements(tmp_path / "x", gallery, "0"), "Build it"),
    ):
        with pytest.raises(BadInput, match=word):
            call()


@pytest.mark.parametrize("how", ["missing", "cut", "altered"])
def test_a_spoilt_file_of_lists_is_not_opened(lists, how):
    _, gallery, folder, digest = lists(sets())
    path, raw = folder / "elements.faiss", (folder / "elements.faiss").read_bytes()
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(raw[:-5] if how == "cut" else raw[:-5] + bytes([raw[-5] ^ 1]) + raw[-4:])
    with pytest.raises(DamagedFile, match=r"elements\.faiss .*build it again"):
        open_elements(folder, gallery, digest)


def test_lists_of_an_earlier_version_open(lists):
    index, gallery, folder, digest = lists(sets())
    about = json.loads((folder / "elements.json").read_text())
    del about["seal"]
    more = {"elements.caps.safetensors": {"bytes": 4, "digest": "0"}}  # what nothing reads any more
    files.write_record(folder / "elements.json", about | {"files": about["files"] | more, "width": 16})
    found = two_stage(open_elements(folder, gallery, digest, probes=EVERYTHING), gallery[:3], chamfer)
    assert np.array_equal(found[1], two_stage(index, gallery[:3], chamfer)[1])


def test_an_engine_that_lost_its_elements_is_not_opened(tmp_path, memory):
    gallery, digest = on_disk(sets(), tmp_path)
    build_engine(gallery, tmp_path, digest, client=memory)
    memory.delete(f"xmr-{digest}", points_selector=[0, 4])
    with pytest.raises(DamagedFile, match="elements"):
        open_engine(tmp_path, gallery, digest, memory)
    memory.delete_collection(f"xmr-{digest}")
    with pytest.raises(DamagedFile, match="Start it"):
        open_engine(tmp_path, gallery, digest, memory)
    pytest.importorskip("qdrant_edge")
    build_engine(gallery, tmp_path, digest)
    for file in (tmp_path / "engine").rglob("*.json"):
        file.write_text("{")
    with pytest.raises(DamagedFile, match="cannot be opened"):
        open_engine(tmp_path, gallery, digest)


def test_only_the_user_says_where_queries_go(tmp_path, memory, monkeypatch):
    gallery, digest = on_disk(sets(), tmp_path)
    build_engine(gallery, tmp_path, digest, client=memory)
    about = files.read_record(tmp_path / "engine.json")
    files.write_record(tmp_path / "engine.json", about | {"server": "http://elsewhere.example"})
    reached = []
    monkeypatch.setattr("qdrant_client.QdrantClient", lambda url: reached.append(url) or memory)
    with pytest.raises(BadInput, match="url="):
        open_engine(tmp_path, gallery, digest)
    assert open_engine(tmp_path, gallery, digest, url="http://mine").engine.count() and reached == ["http://mine"]


def test_an_engine_that_proposes_what_the_gallery_has_not_is_damaged(tmp_path, memory):
    gallery, digest = on_disk(sets(), tmp_path)
    build_engine(gallery, tmp_path, digest, client=memory)
    opened = open_engine(tmp_path, gallery, digest, memory)
    with pytest.raises(DamagedFile, match="proposes"):
        replace(opened, gallery=gallery[:2]).propose(gallery[:2], 1000)


@pytest.mark.parametrize("package", ["faiss", "qdrant_edge", "qdrant_client"])
def test_without_its_package_one_line_says_what_to_install(tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed: importing it raises
    with pytest.raises(BadInput, match=r"pip install 'xmr-study\[(search|engine)\]'"):
        if package == "faiss":
            build_elements(sets(), tmp_path, "digest")
        else:
            build_engine(sets(), tmp_path, "digest", url="http://127.0.0.1:9" if package == "qdrant_client" else "")


def test_a_server_that_does_not_answer_is_said(tmp_path):
    pytest.importorskip("qdrant_client")
    with pytest.raises((DamagedFile, CannotWrite), match="does not answer"):
        build_engine(sets(), tmp_path, "digest", url="http://127.0.0.1:9")


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError("in faiss\nwrite error: No space left on device")])
@pytest.mark.parametrize("step", ["faiss.write_index", "xmr_core.retrieval.engine.Embedded.add", "os.fsync"])
def test_a_build_that_stops_anywhere_is_not_taken_for_complete(tmp_path, monkeypatch, step, error):
    pytest.importorskip("faiss"), pytest.importorskip("qdrant_edge")
    gallery, digest = on_disk(sets(), tmp_path)
    build, reopen = (build_engine, open_engine) if "Embedded" in step else (build_elements, open_elements)

    def stops(*_):
        raise error

    if step != "os.fsync" or error is KeyboardInterrupt:
        with monkeypatch.context() as patch:
            patch.setattr(step, stops)
            with pytest.raises((KeyboardInterrupt, CannotWrite), match="No space|^$"):
                build(gallery, tmp_path, digest)
        with pytest.raises(BadInput, match="Build it"):
            reopen(tmp_path, gallery, digest)
    build(gallery, tmp_path, digest)
    reopen(tmp_path, gallery, digest).close()
    assert not list(tmp_path.glob(".*.tmp"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_killed_build_leaves_the_old_elements_as_they_were(lists):
    _, gallery, folder, digest = lists(sets())
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
    assert list(folder.glob(".elements.json.*.tmp"))
    open_elements(folder, gallery, digest)
    build_elements(gallery, folder, digest)
    assert not list(folder.glob(".*.tmp"))


@pytest.mark.slow
def test_the_benchmark_runs_at_a_small_size():
    pytest.importorskip("faiss")
    script = Path(__file__).parents[2] / "benchmarks" / "two_stage.py"
    sizes = {"items": 600, "elements": 2, "width": 16, "queries": 2, "exact": 2, "topics": 20}
    options = [*(f"--{name}={value}" for name, value in sizes.items()), "--engine=faiss", "--case=topics"]
    out = subprocess.run([sys.executable, script, *options], capture_output=True, text=True, check=True).stdout
    cells = [cell.strip() for cell in out.split("|")[1:-1]]
    assert len(cells) == 12 and cells[1] == "faiss" and 0 <= float(cells[4]) <= 1
