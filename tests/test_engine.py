"""A gallery on an existing engine: the same answers as from faiss, embedded and through the client of a server."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from xmr_core.base import fingerprint
from xmr_core.base.errors import BadInput, CannotWrite, DamagedFile
from xmr_core.base.types import Embedding, EmbeddingSet, GaussianEmbedding
from xmr_core.evaluation.engine import top_k
from xmr_core.search import build_engine, open_engine, open_gallery, two_stage, write_gallery
from xmr_core.similarities import Chamfer, Cosine, DistanceLogit, SmoothChamfer

pytest.importorskip("qdrant_edge", reason="galleries on an engine need the extra `engine` (qdrant-edge-py)")


def sets(n=300, k=4, d=16, seed=0) -> EmbeddingSet:
    """Ragged, around 20 topics; padding is far too long."""
    draw = torch.Generator().manual_seed(seed)
    topics = F.normalize(torch.randn(20, d, generator=torch.Generator().manual_seed(99)), dim=-1)
    centre = topics[torch.randint(20, (n,), generator=draw)][:, None]
    x = F.normalize(centre + 0.2 * torch.randn(n, k, d, generator=draw), dim=-1)
    mask = torch.arange(k)[None] < torch.randint(1, k + 1, (n, 1), generator=draw)
    return EmbeddingSet(torch.where(mask[..., None], x, 100 * centre), mask)


@pytest.fixture
def memory():
    """The client's own engine in memory, with the interface that it has for a server."""
    client = pytest.importorskip("qdrant_client", reason="servers need qdrant-client").QdrantClient(":memory:")
    yield client
    client.close()


@pytest.fixture(params=["embedded", "client"])
def made(request, tmp_path):
    """A function: items → (the opened engine, the gallery from disk, folder, digest)."""
    client = request.getfixturevalue("memory") if request.param == "client" else None
    opened = []

    def make(given, **options):
        file = write_gallery(tmp_path / "gallery.safetensors", [given], len(given))
        gallery, digest = open_gallery(file), fingerprint.file_hash(file)
        build_engine(gallery, tmp_path, digest, client=client, **options)
        opened.append(open_engine(tmp_path, gallery, digest, client))
        return opened[-1], gallery, tmp_path, digest

    yield make
    for engine in opened:
        engine.close()


@pytest.mark.parametrize("modality", ["captions", "images"])
def test_certified_answers_are_exact_search(made, modality):
    engine, gallery, *_ = made(sets())
    queries = sets(6, 3, seed=5)
    for similarity in (SmoothChamfer(), Chamfer()):
        answers = two_stage(engine, queries, similarity, 5, per_element=20, modality=modality, most=10**6)
        assert answers.certified.all()
        assert np.array_equal(answers.positions, top_k(similarity, queries, gallery, 5, modality)[1])


def test_vectors_and_distributions_are_sets_of_one(made):
    x = sets(k=1).x[:, 0]
    for given, similarity in (
        (Embedding(3 * x), Cosine()),
        (GaussianEmbedding(x, torch.rand(300, 16) - 3), DistanceLogit()),
    ):
        engine, gallery, *_ = made(given)
        answers = two_stage(engine, gallery[:4], similarity, 5, per_element=300)
        assert answers.certified.all()
        with torch.no_grad():
            exact = similarity(gallery, gallery[:4]).T.sort(dim=1, descending=True, stable=True).indices[:, :5]
        assert np.array_equal(answers.positions, exact.numpy())
        engine.close()


def test_only_real_elements_are_held_and_each_leads_to_its_item(made):
    given = sets()
    engine, *_ = made(given)
    assert engine.about["elements"] == engine.collection.count() == int(given.mask.sum())
    everything = engine.propose(np.eye(16, dtype=np.float32), 10**6)
    assert np.isneginf(everything.bounds).all()
    for row in everything.items:
        assert np.array_equal(np.bincount(row, minlength=300), given.mask.sum(1).numpy())
    few = engine.propose(np.eye(16, dtype=np.float32), 7)
    best = (given.x[given.mask] @ torch.eye(16)).topk(8, dim=0).values
    assert (few.bounds >= best[7].numpy() - 1e-6).all() and np.allclose(few.bounds, best[6].numpy(), atol=1e-3)


@pytest.mark.slow
def test_a_graph_bounds_nothing_and_certification_asks_without_it(tmp_path):
    file = write_gallery(tmp_path / "gallery.safetensors", [sets(6000, 2)], 6000)
    gallery, digest = open_gallery(file), fingerprint.file_hash(file)
    build_engine(gallery, tmp_path, digest, graph=True)
    engine = open_engine(tmp_path, gallery, digest)
    answers = two_stage(engine, gallery[:3], SmoothChamfer(), 3, 50, probes=64)
    assert "a walk in a graph" in answers.reason and not answers.certified.any()
    sure = two_stage(engine, gallery[:3], SmoothChamfer(), 3, 50, probes=64, most=10**6)
    assert sure.certified.all()
    assert np.array_equal(sure.positions, top_k(SmoothChamfer(), gallery[:3], gallery, 3)[1])
    engine.close()


def test_a_second_build_replaces_the_first(made):
    first, *_ = made(sets())
    first.close()
    engine, *_ = made(sets(50, seed=3))
    assert engine.about["items"] == 50 and engine.propose(np.eye(16, dtype=np.float32), 10**6).items.max() < 50


def test_what_does_not_belong_together_is_refused(made):
    engine, gallery, folder, digest = made(sets())
    engine.close()
    with pytest.raises(BadInput, match="another gallery"):
        open_engine(folder, gallery[:5], digest)
    with pytest.raises(BadInput, match="another gallery"):
        open_engine(folder, gallery, "0" * 16)
    (folder / "engine.json").unlink()
    with pytest.raises(BadInput, match=r"has no engine\.json.*build_engine"):
        open_engine(folder, gallery, digest)


def test_an_engine_that_lost_its_elements_is_not_opened(tmp_path, memory):
    file = write_gallery(tmp_path / "gallery.safetensors", [sets()], 300)
    gallery, digest = open_gallery(file), fingerprint.file_hash(file)
    build_engine(gallery, tmp_path, digest, client=memory)
    memory.delete(f"xmr-{digest}", points_selector=[0, 4])
    with pytest.raises(DamagedFile, match=r"has \d+ elements and was given \d+"):
        open_engine(tmp_path, gallery, digest, memory)
    memory.delete_collection(f"xmr-{digest}")
    with pytest.raises(DamagedFile, match="does not open"):
        open_engine(tmp_path, gallery, digest, memory)
    build_engine(gallery, tmp_path, digest)
    for file in (tmp_path / "engine").rglob("*.json"):
        file.write_text("{")
    with pytest.raises(DamagedFile, match="cannot be opened"):
        open_engine(tmp_path, gallery, digest)


def test_a_build_that_stops_is_not_taken_for_complete(tmp_path, monkeypatch):
    gallery = sets()

    def stops(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("xmr_core.search.qdrant._Embedded.add", stops)
    with pytest.raises(CannotWrite, match="No space left"):
        build_engine(gallery, tmp_path, "digest")
    with pytest.raises(BadInput, match="engine.json"):
        open_engine(tmp_path, gallery, "digest")
    monkeypatch.undo()
    build_engine(gallery, tmp_path, "digest")
    open_engine(tmp_path, gallery, "digest").close()


def test_a_server_that_does_not_answer_is_said(tmp_path):
    pytest.importorskip("qdrant_client")
    with pytest.raises((DamagedFile, CannotWrite), match="does not answer"):
        build_engine(sets(), tmp_path, "digest", url="http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("package", "options"), [("qdrant_edge", {}), ("qdrant_client", {"url": "http://127.0.0.1:9"})]
)
def test_without_its_package_one_line_says_what_to_install(tmp_path, monkeypatch, package, options):
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed: importing it raises
    with pytest.raises(BadInput, match=r"pip install 'xmr-study\[engine\]'"):
        build_engine(sets(), tmp_path, "digest", **options)


@pytest.mark.slow
def test_the_benchmark_refuses_to_time_more_queries_than_there_are():
    script = Path(__file__).parents[1] / "benchmarks" / "two_stage.py"
    asked = subprocess.run([sys.executable, script, "--queries=2", "--exact=3"], capture_output=True, text=True)
    assert asked.returncode == 2 and "--exact 3 of --queries 2: give at least as many" in asked.stderr


@pytest.mark.slow
def test_the_benchmark_runs_at_a_small_size():
    """Two engines and three galleries; it checks certified answers against exact search itself."""
    pytest.importorskip("faiss")
    script = Path(__file__).parents[1] / "benchmarks" / "two_stage.py"
    sizes = {"items": 600, "elements": 2, "width": 16, "queries": 2, "exact": 2, "topics": 20, "most": 1000}
    options = [f"--{name}={value}" for name, value in sizes.items()]
    out = subprocess.run([sys.executable, script, *options], capture_output=True, text=True, check=True).stdout
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines() if line.startswith("| ")]
    assert len(rows) == 7 and {len(row) for row in rows} == {15}
    assert {row[1] for row in rows[1:]} == {"faiss", "qdrant"}
    assert all(0 <= float(row[12]) <= float(row[13]) <= 1 for row in rows[1:])
