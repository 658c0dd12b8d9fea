"""Qdrant, embedded or on a server, as a collection of unit vectors. Only this file names its two packages."""

from importlib import import_module
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from xmr_core.base.extras import require

_HNSW = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000}


def open_collection(
    folder: Path, digest: str, url: str = "", client: object = None, width: int | None = None, graph: bool = False
):
    """The collection of a gallery: Embedded in the folder 'engine', or a Server by URL or client. width: make an empty
    one of this width. graph: the server is to build a graph.

    Raises: BadInput without the package; whatever the engine raises.
    """
    if url or client is not None:
        return Server(url, client, f"xmr-{digest}", width, graph)
    return Embedded(folder / "engine", width)


class Embedded:
    """Unit vectors with numbers, in a folder. nearest: the numbers of
    the p nearest to each vector, of all (candidates None) or by a walk in the graph; −1 for none."""

    def __init__(self, folder: Path, width: int | None):
        self._q = q = _module("qdrant_edge")
        if width is None:
            self._shard = q.EdgeShard.load(str(folder))
            return
        folder.mkdir(parents=True)
        # no log of updates: a build that is killed is built again; no graph unless finish asks for one
        vectors = q.EdgeVectorParams(size=width, distance=q.Distance.Dot, memory=q.Memory.Cold)
        config = q.EdgeConfig(vectors=vectors, hnsw_config=q.HnswIndexConfig(**_HNSW), wal_enabled=False)
        self._shard = q.EdgeShard.create(str(folder), config)

    def add(self, vectors: Float[np.ndarray, "e d"], numbers: Int[np.ndarray, " e"]) -> None:
        points = [self._q.Point(n, v) for n, v in zip(numbers.tolist(), vectors, strict=True)]
        self._shard.update(self._q.UpdateOperation.upsert_points(points))

    def finish(self, graph: bool) -> None:
        self._shard.flush()
        if graph:
            self._shard.optimize()

    def count(self):
        return self._shard.count(self._q.CountRequest(exact=True))

    def nearest(self, vectors: Float[np.ndarray, "e d"], p: int, candidates: int | None) -> Int[np.ndarray, "e p"]:
        q = self._q
        how = q.SearchParams(exact=candidates is None, hnsw_ef=candidates)
        requests = [q.QueryRequest(limit=p, query=q.Query.Nearest(v.tolist()), params=how) for v in vectors]
        return _numbers(self._shard.query_batch(q.QueryBatchRequest(requests)), p)

    def close(self):
        self._shard.close()


class Server:
    """The same on a server."""

    def __init__(self, url: str, client: object, name: str, width: int | None, graph: bool):
        self._models = models = _module("qdrant_client.models")
        self._own = client is None
        self._client, self._name = client or _module("qdrant_client").QdrantClient(url=url), name
        if width is not None:
            hnsw = models.HnswConfigDiff(**(_HNSW if graph else {"m": 0}))
            vectors = models.VectorParams(size=width, distance=models.Distance.DOT, on_disk=True)
            if self._client.collection_exists(name):
                self._client.delete_collection(name)
            self._client.create_collection(name, vectors_config=vectors, hnsw_config=hnsw)

    def add(self, vectors, numbers):
        batch = self._models.Batch(ids=numbers.tolist(), vectors=vectors.tolist())
        self._client.upsert(self._name, points=batch, wait=True)

    def finish(self, graph):
        """A server builds the graph by itself."""

    def count(self):
        return self._client.count(self._name, exact=True).count

    def nearest(self, vectors, p, candidates):
        how = self._models.SearchParams(exact=candidates is None, hnsw_ef=candidates)
        requests = [self._models.QueryRequest(query=v.tolist(), limit=p, params=how) for v in vectors]
        return _numbers([r.points for r in self._client.query_batch_points(self._name, requests)], p)

    def close(self):
        if self._own:
            self._client.close()


def _numbers(answers: list[list], p: int) -> Int[np.ndarray, "e p"]:
    out = np.full((len(answers), p), -1, np.int64)
    for row, points in zip(out, answers, strict=True):
        row[: len(points)] = [point.id for point in points]
    return out


def _module(name: str):
    require("a gallery on an engine", "engine", name)
    return import_module(name)
