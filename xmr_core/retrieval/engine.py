"""An approximate index over the elements of all sets of a gallery: inverted lists of unit vectors, built by faiss."""

import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import from_numpy

from xmr_core.base.checks import require_choice
from xmr_core.base.errors import BadInput, CannotWrite, DamagedFile, XmrError, require
from xmr_core.base.files import atomic, write_record
from xmr_core.base.masked import require_element
from xmr_core.base.types import EmbeddingSet, GaussianEmbedding, Representation
from xmr_core.evaluation.ranks import MODALITIES, checked_k, top_k
from xmr_core.models.model_folder import building, check_files, described, read_manifest, remove
from xmr_core.retrieval.ranking import best_of
from xmr_core.similarities.base import Similarity, as_similarity

FORMAT = 1
MANIFEST, LISTS = "elements.json", "elements.faiss"
CODES = {"float32": "Flat", "uint8": "SQ8"}  # a number takes 4 bytes, or 1
PROBES = 64  # lists that are searched
_AGAIN = "xmr_core.retrieval.engine.build_elements(gallery, folder, digest), or the command `index` with --elements"
_CHUNK = 1 << 16  # elements added at a time
_PER_LIST = 39  # training elements for each list that k-means asks for at least
_MOST_PER_LIST = 64  # more make no better lists


@dataclass(frozen=True)
class Elements:
    """An opened index of a gallery's elements. lists: an index of faiss, in which the number of an element is the
    position of its item. gallery: the items themselves. about: the contents of elements.json. probes: how many lists,
    those nearest to an element, are searched for it."""

    lists: object
    gallery: Representation
    about: dict
    probes: int = PROBES

    def propose(self, queries: Representation, n: int) -> list[Int[np.ndarray, " p"]]:
        """For each query the items of the n elements nearest to each of its elements; see two_stage.Proposer."""
        elements, owner = unit_elements(queries)
        options = faiss_library().SearchParametersIVF(nprobe=min(self.probes, self.lists.nlist))
        items = self.lists.search(elements, min(n, self.lists.ntotal), params=options)[1]
        return items_by_query(items, owner, len(queries))


def build_elements(
    gallery: Representation, folder: Path | str, digest: str, lists: int | None = None, codes: str = "uint8",
    seed: int = 0, progress: Callable = iter,
) -> Path:  # fmt: skip
    """Index every real element of every set; padding is left out, and one vector per item, or the mean of a
    distribution, is a set of one. Returns the folder.

    The centres of the lists come from k-means (inner product) on a random sample of items. Elements are added in
    chunks, each with the position of its item as its number, so sets may differ in size. During the build the lists are
    in memory (width + 8 bytes per element with codes='uint8'); the gallery can stay on disk. elements.json is written
    last.

    Args:
        digest: of the gallery's file (fingerprint.file_hash, or Index.digest), by which open_elements checks that both
            belong together.
        lists: how many; None takes 2√elements, rounded to a power of two.
        codes: 'uint8' or 'float32', how exactly elements are stored for proposing items. Scores are always computed
            from the gallery.
        progress: wraps the range of chunks, for example tqdm.
    Raises: BadInput without faiss, or for a set that is all padding; CannotWrite where the folder refuses.
    """
    faiss = faiss_library()
    require_choice("codes", codes, CODES)
    if isinstance(gallery, EmbeddingSet):
        require_element(gallery.mask, "set")
    folder, n, width = Path(folder), len(gallery), width_of(gallery)
    with building(folder):
        remove(folder, (MANIFEST, LISTS), (MANIFEST, LISTS))
        total = int(gallery.mask.sum()) if isinstance(gallery, EmbeddingSet) else n
        lists = lists or 1 << max(0, round(np.log2(2 * total**0.5)))
        sample = np.random.default_rng(seed).permutation(n)[: -(-_MOST_PER_LIST * lists * n // total)]
        training, _ = unit_elements(gallery[from_numpy(np.sort(sample))])
        lists = max(1, min(lists, len(training) // _PER_LIST))
        index = faiss.index_factory(width, f"IVF{lists},{CODES[codes]}", faiss.METRIC_INNER_PRODUCT)
        index.cp.seed = seed
        index.train(training)
        step = max(1, _CHUNK // most_elements(gallery))
        for start in progress(range(0, n, step)):
            vectors, items = unit_elements(gallery[start : start + step])
            index.add_with_ids(vectors, items + start)
        try:
            with atomic(folder / LISTS) as temporary:
                faiss.write_index(index, str(temporary))
        except RuntimeError as e:  # from faiss
            reason = str(e).strip().splitlines()[-1]
            raise CannotWrite(f"cannot write {folder / LISTS} ({reason}). Choose another folder.") from None
        write_record(
            folder / MANIFEST,
            {
                "format": FORMAT, "gallery": digest, "items": n, "elements": total, "width": width,
                "number": "the position of its item", "lists": lists, "codes": codes, "seed": seed,
                "faiss": faiss.__version__, "files": {LISTS: described(folder / LISTS)},
            },
        )  # fmt: skip
    return folder


def open_elements(
    folder: Path | str, gallery: Representation, digest: str, verify: bool | None = None, probes: int = PROBES
) -> Elements:
    """The index of a gallery's elements, memory-mapped: a list is read when a query needs it.

    digest: of the gallery's file. verify: as of open_index. probes: as of Elements; more find more, and take longer.
    faiss itself reads the file of lists, so open only indexes that you, or people you trust, have built.
    Raises: BadInput without faiss, for a folder without a finished index, or for elements of another gallery;
        DamagedFile for a file that is missing, cut or altered.
    """
    faiss = faiss_library()
    folder = Path(folder)
    about = read_manifest(folder / MANIFEST, FORMAT, _AGAIN)
    check_files(folder, about["files"], (LISTS,), verify, _AGAIN)
    require_same_gallery(about, folder, gallery, digest, _AGAIN)
    index = faiss.read_index(str(folder / LISTS), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
    # Threads that are started for every query take more time than they save.
    faiss.downcast_InvertedLists(index.invlists).prefetch_nthread = 0
    return Elements(index, gallery, about, probes)


def require_same_gallery(about: dict, folder: Path, gallery: Representation, digest: str, again: str) -> None:
    """Refuse elements that are not those of a gallery. about: their manifest. Raises: BadInput."""
    if about["gallery"] != digest or about["items"] != len(gallery):
        raise BadInput(
            f"the elements in {folder} are those of another gallery ({about['items']:,} items). "
            f"Build them again: {again}."
        )


def unit_elements(items: Representation) -> tuple[Float[np.ndarray, "e d"], Int[np.ndarray, " e"]]:
    """(all real elements of some items in order, with unit norm; position of the item of each). A distribution has one,
    its mean.

    >>> import torch
    >>> from xmr_core.base.types import Embedding
    >>> unit_elements(Embedding(torch.tensor([[3.0, 0.0]])))[0].tolist()
    [[1.0, 0.0]]
    """
    if not isinstance(items, EmbeddingSet):
        x = items.mean if isinstance(items, GaussianEmbedding) else items.x
        return F.normalize(x.float(), dim=-1).numpy(), np.arange(len(items))
    owner = items.mask.nonzero()[:, 0]
    return F.normalize(items.x[items.mask].float(), dim=-1).numpy(), owner.numpy()


def items_by_query(items: Int[np.ndarray, "e n"], owner: Int[np.ndarray, " e"], queries: int) -> list[np.ndarray]:
    """What Proposer.propose returns. items: those of the elements nearest to each element of some queries, −1 for none.
    owner: the query of each.

    >>> items_by_query(np.array([[2, 2], [0, -1]]), np.array([0, 0]), 1)[0].tolist()
    [0, 2]
    """
    return [np.unique(rows[rows >= 0]) for rows in (items[owner == q] for q in range(queries))]


def width_of(items: Representation) -> int:
    """The width of elements, vectors or means."""
    return (items.mean if isinstance(items, GaussianEmbedding) else items.x).shape[-1]


def most_elements(items: Representation) -> int:
    """The number of elements for which every item has room."""
    return items.x.shape[1] if isinstance(items, EmbeddingSet) else 1


def faiss_library():
    """The module faiss. Raises: BadInput where it is not installed."""
    require("an index over set elements", "search", "faiss")
    import faiss

    return faiss


# Qdrant, embedded or on a server, as a collection of unit vectors. Only this file names its two packages.


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


# A gallery's elements in an existing vector engine (Qdrant): in a folder of this machine, or on a server by URL.


ENGINE_FORMAT = 1
ENGINE_MANIFEST = "engine.json"
_engine_AGAIN = "xmr_core.retrieval.engine.build_engine(gallery, folder, digest)"
_engine_CHUNK = 1 << 12  # elements sent at a time
_CANDIDATES = 64  # that a walk in the graph keeps at least


@dataclass(frozen=True)
class EngineElements:
    """Elements in a vector engine, opened. collection: where they are; the number of an element is slots · (position
    of its item) + its place in the item. gallery: the items themselves. about: the contents of engine.json."""

    collection: Embedded | Server
    gallery: Representation
    about: dict

    def propose(self, queries: Representation, n: int) -> list[Int[np.ndarray, " p"]]:
        """For each query the items of the n elements nearest to each of its elements; see two_stage.Proposer. The
        engine compares all elements, or follows its graph where it was built with one."""
        elements, owner = unit_elements(queries)
        n = min(n, self.about["elements"])
        numbers = self.collection.nearest(elements, n, max(_CANDIDATES, n) if self.about["graph"] else None)
        return items_by_query(np.where(numbers < 0, -1, numbers // self.about["slots"]), owner, len(queries))

    def close(self) -> None:
        """Release the engine's files, or its connection."""
        self.collection.close()


def build_engine(
    gallery: Representation, folder: Path | str, digest: str, url: str = "", graph: bool = False,
    progress: Callable = iter, client: object = None,
) -> Path:  # fmt: skip
    """Give every real element of every set to Qdrant; one vector per item, or the mean of a distribution, is a set of
    one. Returns the folder.

    Without `url` the embedded edition writes into the folder 'engine' below; with it, a collection named after the
    digest is made on a server, and one of that name is replaced. engine.json is written last.

    Args:
        digest: of the gallery's file, by which open_engine checks that both belong together.
        graph: also build a graph (HNSW), by which proposals are faster and approximate. It takes long: about a minute
            for 40,000 elements on two cores.
        progress: wraps the range of chunks. client: a connected qdrant_client.QdrantClient in the place of a URL.
    Raises: BadInput without the engine's package, or for a set that is all padding; CannotWrite where the engine
        refuses.
    """
    if isinstance(gallery, EmbeddingSet):
        require_element(gallery.mask, "set")
    folder, n, slots, width = Path(folder), len(gallery), most_elements(gallery), width_of(gallery)
    server = url or ("a client" if client is not None else "")
    with building(folder):
        remove(folder, [ENGINE_MANIFEST])
        if not server:
            shutil.rmtree(folder / "engine", ignore_errors=True)
        step, total = max(1, _engine_CHUNK // slots), 0
        try:
            with closing(open_collection(folder, digest, url, client, width=width, graph=graph)) as collection:
                for start in progress(range(0, n, step)):
                    vectors, items = unit_elements(gallery[start : start + step])
                    first = np.searchsorted(items, items)  # of the same item, so that places count from 0
                    collection.add(vectors, (items + start) * slots + np.arange(len(items)) - first)
                    total += len(items)
                collection.finish(graph)
        except XmrError:
            raise
        except Exception as e:  # the engines raise nothing more special
            raise CannotWrite(f"the engine {server} cannot hold the elements, or does not answer ({e}).") from None
        write_record(
            folder / ENGINE_MANIFEST,
            {
                "format": ENGINE_FORMAT, "gallery": digest, "items": n, "elements": total, "width": width,
                "slots": slots, "graph": graph, "server": server,
            },
        )  # fmt: skip
    return folder


def open_engine(folder: Path | str, gallery: Representation, digest: str, client: object = None) -> EngineElements:
    """The elements of a gallery in the engine that build_engine filled. An embedded engine is open once at a time.

    Raises: BadInput without the engine's package, for a folder without a finished build, or one of another gallery;
        DamagedFile where the engine has lost elements, cannot read its files or does not answer.
    """
    folder = Path(folder)
    about = read_manifest(folder / ENGINE_MANIFEST, ENGINE_FORMAT, _engine_AGAIN)
    require_same_gallery(about, folder, gallery, digest, _engine_AGAIN)
    where = about["server"] or folder / "engine"
    try:
        collection = open_collection(folder, digest, "" if client is not None else about["server"], client)
        present = collection.count()
    except XmrError:
        raise
    except Exception as e:
        raise DamagedFile(
            f"the engine {where} cannot be opened ({e}). Start it, or build it again: {_engine_AGAIN}."
        ) from None
    if present != about["elements"]:
        lost = f"{present:,} elements and was given {about['elements']:,}"
        raise DamagedFile(f"the engine {where} has {lost}. Build it again: {_engine_AGAIN}.")
    return EngineElements(collection, gallery, about)


# Search in two stages for galleries larger than memory: elements propose items, the exact similarity ranks them.


class Proposer(Protocol):
    """An engine that holds the elements of a gallery. Whatever has these two is searched by `two_stage`.

    gallery: the items themselves, from which proposed ones are scored.
    """

    gallery: Representation

    def propose(self, queries: Representation, n: int) -> list[Int[np.ndarray, " p"]]:
        """For each query the positions of the items that hold the n elements nearest to each of its own elements,
        ascending, each once."""
        ...


def two_stage(
    index: Proposer, queries: Representation, similarity: Similarity, k: int = 10, per_element: int = 100,
    modality: str = "captions",
) -> tuple[Float[np.ndarray, "q k"], Int[np.ndarray, "q k"]]:  # fmt: skip
    """(scores, positions) of the best k items for every query among those that an engine proposes; −∞ and −1 where
    fewer were proposed, equal scores in file order.

    Every real element of a query proposes the items of the `per_element` elements nearest to it by cosine; a
    distribution proposes by its mean. All proposed items are taken from the gallery and scored exactly, so a returned
    item has the score of exact search. An item can be missed only if none of its elements is near one of the query's;
    `recall` measures how often.

    Args:
        index: Elements, EngineElements or any other Proposer.
        modality: of the queries: 'captions' (the gallery holds images) or 'images'.
    Raises: BadInput for k or per_element below 1, another modality, or another width than the gallery's.
    """
    require_choice("modality", modality, MODALITIES)
    if checked_k(k) and per_element < 1:
        raise BadInput(f"per_element must be at least 1, got {per_element}.")
    if width_of(queries) != width_of(index.gallery):
        raise BadInput(f"queries of width {width_of(queries)} do not fit elements of width {width_of(index.gallery)}.")
    scores, positions = np.full((len(queries), k), -np.inf, np.float32), np.full((len(queries), k), -1, np.int64)
    similarity = as_similarity(similarity)
    with torch.inference_mode():
        for q, items in enumerate(index.propose(queries, per_element)):
            if len(items):  # top_k would first measure how exact its scores are, which takes longer than a few of them
                best, order = best_of(similarity, queries[q : q + 1], index.gallery, items, k, modality)
                scores[q, : len(best)], positions[q, : len(best)] = best, order
    return scores, positions


def recall(
    index: Proposer, queries: Representation, similarity: Similarity, k: int = 10, per_element: int = 100,
    modality: str = "captions",
) -> float:  # fmt: skip
    """Share of the k best items of exact search that two_stage finds, in any order, over the given queries, in [0, 1].

    Args and raises: as two_stage. Every item of the gallery is compared with every query, so give a sample of queries.
    """
    found = two_stage(index, queries, similarity, k, per_element, modality)[1]
    exact = top_k(similarity, queries, index.gallery, k, modality)[1]
    return float(np.mean([np.isin(e, f).mean() for e, f in zip(exact, found, strict=True)]))
