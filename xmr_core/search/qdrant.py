"""Qdrant, embedded or on a server, as a collection of unit vectors. Only this file names its two packages."""

from importlib import import_module
from pathlib import Path
from typing import Protocol

import numpy as np
from jaxtyping import Float, Int

from xmr_core.base.errors import BadInput, DamagedFile

_HNSW = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000}


class Collection(Protocol):
    """Unit vectors with numbers. errors: the exceptions that the engine raises."""

    errors: tuple[type[Exception], ...]

    def add(self, vectors: Float[np.ndarray, "e d"], numbers: Int[np.ndarray, " e"]) -> None: ...

    def finish(self, graph: bool) -> None:
        """Write everything, and build the graph."""

    def count(self) -> int: ...

    def nearest(
        self, vectors: Float[np.ndarray, "e d"], p: int, candidates: int | None
    ) -> tuple[Int[np.ndarray, "e p"], Float[np.ndarray, "e p"]]:
        """(numbers, cosines) of the p nearest of all (candidates None), or of a walk in the graph; −1 for none."""

    def close(self) -> None: ...


def open_collection(
    folder: Path, digest: str, url: str = "", client: object = None, width: int | None = None, graph: bool = False
) -> Collection:
    """The collection of a gallery: embedded in the folder 'engine', or by URL or client. width: make an empty one.

    Raises: BadInput without the package; DamagedFile where an existing one cannot be opened.
    """
    if url or client is not None:
        return _Server(url, client, f"xmr-{digest}", width, graph)
    return _Embedded(folder / "engine", width)


class _Embedded:
    errors = (Exception,)  # the embedded edition raises nothing more special

    def __init__(self, folder: Path, width: int | None):
        self._q = q = _module("qdrant_edge")
        try:
            if width is None:
                self._shard = q.EdgeShard.load(str(folder))
                return
            folder.mkdir(parents=True)
            # no log of updates: a build that is killed is built again; no graph unless finish asks for one
            vectors = q.EdgeVectorParams(size=width, distance=q.Distance.Dot, memory=q.Memory.Cold)
            config = q.EdgeConfig(vectors=vectors, hnsw_config=q.HnswIndexConfig(**_HNSW), wal_enabled=False)
            self._shard = q.EdgeShard.create(str(folder), config)
        except Exception as e:
            raise DamagedFile(f"the engine's folder {folder} cannot be opened ({e}). Build it again.") from None

    def add(self, vectors, numbers):
        points = [self._q.Point(n, v) for n, v in zip(numbers.tolist(), vectors, strict=True)]
        self._shard.update(self._q.UpdateOperation.upsert_points(points))

    def finish(self, graph):
        self._shard.flush()
        if graph:
            self._shard.optimize()

    def count(self):
        return self._shard.count(self._q.CountRequest(exact=True))

    def nearest(self, vectors, p, candidates):
        q = self._q
        how = q.SearchParams(exact=candidates is None, hnsw_ef=candidates)
        requests = [q.QueryRequest(limit=p, query=q.Query.Nearest(v.tolist()), params=how) for v in vectors]
        return _arrays(self._shard.query_batch(q.QueryBatchRequest(requests)), p)

    def close(self):
        self._shard.close()


class _Server:
    def __init__(self, url: str, client: object, name: str, width: int | None, graph: bool):
        self._models = models = _module("qdrant_client.models")
        from qdrant_client.http.exceptions import ApiException

        self.errors = (ApiException, ValueError, OSError)  # ValueError: of the client itself, for a missing collection
        self._own = client is None
        self._client, self._name = client or _module("qdrant_client").QdrantClient(url=url), name
        if width is not None:
            hnsw = models.HnswConfigDiff(**(_HNSW if graph else {"m": 0}))
            vectors = models.VectorParams(size=width, distance=models.Distance.DOT, on_disk=True)
            try:
                if self._client.collection_exists(name):
                    self._client.delete_collection(name)
                self._client.create_collection(name, vectors_config=vectors, hnsw_config=hnsw)
            except self.errors as e:
                raise DamagedFile(f"the engine {url} does not answer ({e}). Start it, or give another URL.") from None

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
        return _arrays([r.points for r in self._client.query_batch_points(self._name, requests)], p)

    def close(self):
        if self._own:
            self._client.close()


def _arrays(answers: list[list], p: int) -> tuple[np.ndarray, np.ndarray]:
    numbers, cosines = np.full((len(answers), p), -1, np.int64), np.full((len(answers), p), -np.inf, np.float32)
    for row, points in enumerate(answers):
        numbers[row, : len(points)] = [point.id for point in points]
        cosines[row, : len(points)] = [point.score for point in points]
    return numbers, cosines


def _module(name: str):
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0].replace("_edge", "-edge-py").replace("_client", "-client")
        raise BadInput(f"a gallery on an engine needs {package}: pip install 'xmr-study[engine]'.") from None
