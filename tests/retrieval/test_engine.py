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
from xmr_core.evaluation.ranks import top_k
from xmr_core.retrieval.engine import build_engine, open_engine, recall, two_stage
from xmr_core.retrieval.index import open_gallery, write_gallery
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
def test_proposing_everything_is_exact_search(made, modality):
    engine, gallery, *_ = made(sets())
    queries = sets(6, 3, seed=5)
    for similarity in (SmoothChamfer(), Chamfer()):
        found = two_stage(engine, queries, similarity, 5, 10**6, modality)[1]
        assert np.array_equal(found, top_k(similarity, queries, gallery, 5, modality)[1])
        assert recall(engine, queries, similarity, 5, modality=modality) > 0.9


def test_vectors_and_distributions_are_sets_of_one(made):
    x = sets(k=1).x[:, 0]
    for given, similarity in (
        (Embedding(3 * x), Cosine()),
        (GaussianEmbedding(x, torch.rand(300, 16) - 3), DistanceLogit()),
    ):
        engine, gallery, *_ = made(given)
        found = two_stage(engine, gallery[:4], similarity, 5, per_element=300)[1]
        with torch.no_grad():
            exact = similarity(gallery, gallery[:4]).T.sort(dim=1, descending=True, stable=True).indices[:, :5]
        assert np.array_equal(found, exact.numpy())
        engine.close()


def test_only_real_elements_are_held_and_the_nearest_are_proposed(made):
    given = sets()
    engine, *_ = made(given)
    assert engine.about["elements"] == engine.collection.count() == int(given.mask.sum())
    axes, owner = Embedding(torch.eye(16)), given.mask.nonzero()[:, 0]
    nearest = (given.x[given.mask] @ torch.eye(16)).topk(7, dim=0).indices.T
    for found, best in zip(engine.propose(axes, 7), nearest, strict=True):
        assert found.tolist() == owner[best].unique().tolist()


@pytest.mark.slow
def test_a_graph_finds_most(tmp_path):
    file = write_gallery(tmp_path / "gallery.safetensors", [sets(6000, 2)], 6000)
    gallery, digest = open_gallery(file), fingerprint.file_hash(file)
    build_engine(gallery, tmp_path, digest, graph=True)
    engine = open_engine(tmp_path, gallery, digest)
    assert recall(engine, gallery[:9], SmoothChamfer(), 3, 50) > 0.9
    engine.close()


def test_a_second_build_replaces_the_first(made):
    first, *_ = made(sets())
    first.close()
    engine, *_ = made(sets(50, seed=3))
    everything = np.concatenate(engine.propose(Embedding(torch.eye(16)), 10**6))
    assert engine.about["items"] == 50 and everything.max() < 50


def test_what_does_not_belong_together_is_refused(made):
    engine, gallery, folder, digest = made(sets())
    engine.close()
    with pytest.raises(BadInput, match="another gallery"):
        open_engine(folder, gallery[:5], digest)
    with pytest.raises(BadInput, match="another gallery"):
        open_engine(folder, gallery, "0" * 16)
    (folder / "engine.json").unlink()
    with pytest.raises(BadInput, match=r"engine\.json.*build_engine"):
        open_engine(folder, gallery, digest)


def test_an_engine_that_lost_its_elements_is_not_opened(tmp_path, memory):
    file = write_gallery(tmp_path / "gallery.safetensors", [sets()], 300)
    gallery, digest = open_gallery(file), fingerprint.file_hash(file)
    build_engine(gallery, tmp_path, digest, client=memory)
    memory.delete(f"xmr-{digest}", points_selector=[0, 4])
    with pytest.raises(DamagedFile, match=r"\d+ elements"):
        open_engine(tmp_path, gallery, digest, memory)
    memory.delete_collection(f"xmr-{digest}")
    with pytest.raises(DamagedFile, match="Start it"):
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

    monkeypatch.setattr("xmr_core.retrieval.engine.Embedded.add", stops)
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
def test_the_benchmark_runs_at_a_small_size():
    """Two engines and three galleries."""
    pytest.importorskip("faiss")
    script = Path(__file__).parents[2] / "benchmarks" / "two_stage.py"
    sizes = {"items": 600, "elements": 2, "width": 16, "queries": 2, "exact": 2, "topics": 20}
    options = [f"--{name}={value}" for name, value in sizes.items()]
    out = subprocess.run([sys.executable, script, *options], capture_output=True, text=True, check=True).stdout
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines() if line.startswith("| ")]
    assert len(rows) == 7 and {len(row) for row in rows} == {12}
    assert {row[1] for row in rows[1:]} == {"faiss", "qdrant"}
    assert all(0 <= float(row[4]) <= 1 for row in rows[1:])
