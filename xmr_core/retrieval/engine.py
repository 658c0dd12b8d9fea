"""An engine holds the elements of all sets of a gallery and proposes items: inverted lists of faiss, or Qdrant,
embedded or on a server. Only this file names their packages.

One vector per item, or the mean of a distribution, is a set of one; padding is left out. Scores never come from an
engine, but from the gallery (`ranking.two_stage`).
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import from_numpy

from xmr_core.base.errors import BadInput, CannotWrite, DamagedFile, XmrError, require, require_choice
from xmr_core.base.files import atomic, rebuilt, settled, write_record
from xmr_core.base.tensors import require_element
from xmr_core.base.types import Brief, EmbeddingSet, GaussianEmbedding, Representation
from xmr_core.models.model_folder import check_files, described, read_manifest

FORMAT = 1
MANIFEST, LISTS, ENGINE_MANIFEST, ENGINE = "elements.json", "elements.faiss", "engine.json", "engine"
_LISTS_OWN, _ENGINE_OWN = (LISTS, MANIFEST), (ENGINE, ENGINE_MANIFEST)  # the last says that all is there
CODES = {"float32": "Flat", "uint8": "SQ8"}  # a number takes 4 bytes, or 1
PROBES = 64  # lists that are searched
_CHUNK = 1 << 14  # elements added at a time
_PER_LIST = 39  # training elements for each list that k-means asks for at least
_MOST_PER_LIST = 64  # more make no better lists
_HNSW = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000}
_CANDIDATES = 64  # that a walk in the graph keeps at least


@dataclass(frozen=True)
class Elements(Brief):
    """The opened elements of a gallery; the number of an element is slots · (position of its item) + its place in the
    item. engine: Lists, Embedded or Server, which hold unit vectors with numbers; `nearest` gives the numbers of the p
    nearest to each vector, −1 for none. about: the contents of the manifest."""

    engine: "Lists | Embedded | Server"
    gallery: Representation
    about: dict

    def propose(self, queries: Representation, n: int) -> list[Int[np.ndarray, " p"]]:
        """For each query the items of the n elements nearest to each of its elements; see ranking.Proposer."""
        elements, owner = unit_elements(queries)
        if elements.shape[1] != (width := unit_elements(self.gallery[:1])[0].shape[1]):
            raise BadInput(f"queries of width {elements.shape[1]} do not fit elements of width {width}.")
        numbers = self.engine.nearest(elements, min(n, self.about["elements"]))
        items = numbers // self.about.get("slots", 1)  # of −1 it is −1
        if items.max(initial=-1) >= len(self.gallery):
            raise DamagedFile(f"the engine proposes item {items.max()} of {len(self.gallery)}. Build it again.")
        return [np.unique(rows[rows >= 0]) for rows in (items[owner == q] for q in range(len(queries)))]

    def close(self) -> None:
        """Release the engine's files, or its connection."""
        self.engine.close()


def build_elements(
    gallery: Representation, folder: Path | str, digest: str, lists: int | None = None, codes: str = "uint8",
    seed: int = 0,
) -> Path:  # fmt: skip
    """Index every real element of every set by faiss. Returns the folder.

    The centres of the lists come from k-means (inner product) on a random sample of items. During the build the lists
    are in memory (width + 8 bytes per element with codes='uint8'); the gallery can stay on disk. elements.json is
    written last.

    Args:
        digest: of the gallery's file (fingerprint.file_hash, or Library.digest), by which open_elements checks that
            both belong together.
        lists: how many; None takes 2√elements, rounded to a power of two.
        codes: 'uint8' or 'float32', how exactly elements are stored for proposing items.
    Raises: BadInput without faiss, or for a set that is all padding; CannotWrite where the folder refuses.
    """
    faiss = faiss_library()
    require_choice("codes", codes, CODES)

    def trained(place: Path) -> Lists:
        n, total = len(gallery), int(gallery.mask.sum()) if isinstance(gallery, EmbeddingSet) else len(gallery)
        wanted = lists or 1 << max(0, round(np.log2(2 * total**0.5)))
        sample = np.random.default_rng(seed).permutation(n)[: -(-_MOST_PER_LIST * wanted * n // total)]
        training, _ = unit_elements(gallery[from_numpy(np.sort(sample))])
        kinds = f"IVF{max(1, min(wanted, len(training) // _PER_LIST))},{CODES[codes]}"
        index = faiss.index_factory(training.shape[1], kinds, faiss.METRIC_INNER_PRODUCT)
        index.cp.seed = seed
        index.train(training)
        return Lists(index, file=place / LISTS)

    facts = {"codes": codes, "seed": seed, "faiss": faiss.__version__}
    return _build(gallery, folder, digest, _LISTS_OWN, trained, facts)


@settled(_LISTS_OWN)
def open_elements(
    folder: Path | str, gallery: Representation, digest: str, verify: bool = False, probes: int = PROBES
) -> Elements:
    """The index of a gallery's elements, memory-mapped: a list is read when a query needs it.

    digest: of the gallery's file. verify: as of open_index. probes: how many lists, those nearest to an element, are
    searched for it; more find more, and take longer. faiss itself reads the file of lists, so open only indexes that
    you, or people you trust, have built.
    Raises: BadInput without faiss, for a folder without a finished index, or for elements of another gallery;
        DamagedFile for a file that is missing, cut or altered.
    """
    faiss, again = faiss_library(), "build_elements, or the command `index` with --elements"
    about = _read_manifest(Path(folder) / MANIFEST, gallery, digest, again)
    check_files(Path(folder), {LISTS: about["files"][LISTS]}, again, verify)
    index = faiss.read_index(str(Path(folder) / LISTS), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
    # Threads that are started for every query take more time than they save.
    faiss.downcast_InvertedLists(index.invlists).prefetch_nthread = 0
    return Elements(Lists(index, probes), gallery, about)


def build_engine(
    gallery: Representation, folder: Path | str, digest: str, url: str = "", graph: bool = False, client: object = None
) -> Path:
    """Give every real element of every set to Qdrant. Returns the folder.

    Without `url` the embedded edition writes into the folder 'engine' below; with it, a collection named after the
    digest is made on a server, and one of that name is replaced. engine.json is written last.

    Args: digest: as of build_elements. graph: also build a graph (HNSW), by which proposals are faster and
        approximate; it takes long. client: a connected qdrant_client.QdrantClient in the place of a URL.
    Raises: BadInput without the engine's package, or for a set that is all padding; CannotWrite where the engine
        refuses.
    """
    facts = {"slots": _slots(gallery), "graph": graph, "server": bool(url) or client is not None}
    width = unit_elements(gallery[:1])[0].shape[1]
    empty = lambda place: _qdrant(place, digest, facts, url, client, width)  # noqa: E731
    return _build(gallery, folder, digest, _ENGINE_OWN, empty, facts)


@settled(_ENGINE_OWN)
def open_engine(
    folder: Path | str, gallery: Representation, digest: str, client: object = None, url: str = ""
) -> Elements:
    """The elements of a gallery in the engine that build_engine filled. An embedded engine is open once at a time.

    client, url: as of build_engine; every query goes there, so no file in the folder says where. The vectors in an
    engine have no digest: damaged ones propose other items, which are scored exactly all the same.
    Raises: BadInput without the engine's package, for a folder without a finished build, or one of another gallery, or
        for vectors on a server without its address; DamagedFile where the engine has lost elements, cannot read its
        files or does not answer.
    """
    about = _read_manifest(Path(folder) / ENGINE_MANIFEST, gallery, digest, "build_engine")
    if about["server"] and not url and client is None:
        raise BadInput(f"the elements of {folder} are on a server, whose address you give: open_engine(…, url=…).")
    try:
        engine = _qdrant(folder, digest, about, url, client)
        present = engine.count()
    except XmrError:
        raise
    except Exception as e:  # the engines raise nothing more special
        raise DamagedFile(f"the engine of {folder} cannot be opened ({e}). Start it, or build it again.") from None
    if present != about["elements"]:
        raise DamagedFile(f"the engine of {folder} holds {present} of {about['elements']} elements. Build it again.")
    return Elements(engine, gallery, about)


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
    return F.normalize(items.x[items.mask].float(), dim=-1).numpy(), items.mask.nonzero()[:, 0].numpy()


def faiss_library():
    """The module faiss. Raises: BadInput where it is not installed."""
    return _module("faiss", "search")


def _module(name: str, extra: str = "engine"):
    require("a gallery on an engine", extra, name)
    return import_module(name)


def _slots(gallery: Representation) -> int:
    return gallery.x.shape[1] if isinstance(gallery, EmbeddingSet) else 1


def _build(
    gallery: Representation, folder: Path | str, digest: str, own: tuple[str, str], empty: Callable, facts: dict
) -> Path:
    """Fill an engine. own: its files. empty: makes it in the place that it gets."""
    if isinstance(gallery, EmbeddingSet):
        require_element(gallery.mask, "set")
    folder, step, slots, total = Path(folder), max(1, _CHUNK // _slots(gallery)), facts.get("slots", 1), 0
    with rebuilt(folder, own) as place:
        try:
            with closing(empty(place)) as engine:
                for start in range(0, len(gallery), step):
                    vectors, items = unit_elements(gallery[start : start + step])
                    places = np.arange(len(items)) - np.searchsorted(items, items)  # each item's count from 0
                    engine.add(vectors, (items + start) * slots + places % slots)
                    total += len(items)
                facts = facts | (engine.finish() or {})
        except (XmrError, MemoryError):
            raise
        except Exception as e:  # the engines raise nothing more special
            reason = str(e).strip().splitlines()[-1:]
            raise CannotWrite(f"the engine of {folder} cannot hold its elements or does not answer {reason}.") from None
        about = {"format": FORMAT, "gallery": digest, "items": len(gallery), "elements": total, **facts}
        write_record(place / own[1], about)
    return folder


def _read_manifest(path: Path, gallery: Representation, digest: str, again: str) -> dict:
    about = read_manifest(path, FORMAT, again)
    if about["gallery"] != digest or about["items"] != len(gallery):
        raise BadInput(f"the elements in {path.parent} are those of another gallery. Build them again: {again}.")
    return about


@dataclass(frozen=True)
class Lists(Brief):
    """Inverted lists of faiss. file: where they are to be written."""

    index: object
    probes: int = PROBES
    file: Path | None = None

    def add(self, vectors, numbers):
        self.index.add_with_ids(vectors, numbers)

    def finish(self):
        with atomic(self.file) as temporary:
            faiss_library().write_index(self.index, str(temporary))
        return {"lists": self.index.nlist, "files": {LISTS: described(self.file)}}

    def count(self):
        return self.index.ntotal

    def nearest(self, vectors, p):
        options = faiss_library().SearchParametersIVF(nprobe=min(self.probes, self.index.nlist))
        return self.index.search(vectors, p, params=options)[1]

    def close(self):
        """faiss closes its file when the index is forgotten."""


def _qdrant(folder: Path | str, digest: str, about: dict, url: str, client: object, width: int | None = None):
    """The vectors of a gallery in Qdrant. width: make an empty collection of this width."""
    if about["server"]:
        return Server(url, client, f"xmr-{digest}", about["graph"], width)
    return Embedded(Path(folder) / ENGINE, about["graph"], width)


class _Qdrant:
    """What both editions share. q: the module with their classes. graph: search by it, and not among all."""

    def __init__(self, q, graph: bool):
        self._q, self._graph = q, graph

    def nearest(self, vectors, p):
        how = self._q.SearchParams(exact=not self._graph, hnsw_ef=max(_CANDIDATES, p) if self._graph else None)
        out = np.full((len(vectors), p), -1, np.int64)
        for row, points in zip(out, self._answers(vectors.tolist(), p, how), strict=True):
            row[: len(points)] = [point.id for point in points]
        return out


class Embedded(_Qdrant):
    """Vectors in a folder."""

    def __init__(self, folder: Path, graph: bool, width: int | None):
        q = _module("qdrant_edge")
        super().__init__(q, graph)
        if width is None:
            self._shard = q.EdgeShard.load(str(folder))
            return
        folder.mkdir(parents=True)
        # no log of updates: a build that is killed is built again; no graph unless finish asks for one
        vectors = q.EdgeVectorParams(size=width, distance=q.Distance.Dot, memory=q.Memory.Cold)
        config = q.EdgeConfig(vectors=vectors, hnsw_config=q.HnswIndexConfig(**_HNSW), wal_enabled=False)
        self._shard = q.EdgeShard.create(str(folder), config)

    def add(self, vectors, numbers):
        points = [self._q.Point(n, v) for n, v in zip(numbers.tolist(), vectors, strict=True)]
        self._shard.update(self._q.UpdateOperation.upsert_points(points))

    def finish(self):
        self._shard.flush()
        if self._graph:
            self._shard.optimize()

    def count(self):
        return self._shard.count(self._q.CountRequest(exact=True))

    def _answers(self, vectors, p, how):
        requests = [self._q.QueryRequest(limit=p, query=self._q.Query.Nearest(v), params=how) for v in vectors]
        return self._shard.query_batch(self._q.QueryBatchRequest(requests))

    def close(self):
        self._shard.close()


class Server(_Qdrant):
    """Vectors on a server, which builds the graph by itself."""

    def __init__(self, url: str, client: object, name: str, graph: bool, width: int | None):
        q, self._own, self._name = _module("qdrant_client.models"), client is None, name
        super().__init__(q, graph)
        self._client = client or _module("qdrant_client").QdrantClient(url=url)
        if width is not None:
            vectors = q.VectorParams(size=width, distance=q.Distance.DOT, on_disk=True)
            if self._client.collection_exists(name):
                self._client.delete_collection(name)
            hnsw = q.HnswConfigDiff(**(_HNSW if graph else {"m": 0}))
            self._client.create_collection(name, vectors_config=vectors, hnsw_config=hnsw)

    def add(self, vectors, numbers):
        batch = self._q.Batch(ids=numbers.tolist(), vectors=vectors.tolist())
        self._client.upsert(self._name, points=batch, wait=True)

    def finish(self):
        """Every call waited for its end."""

    def count(self):
        return self._client.count(self._name, exact=True).count

    def _answers(self, vectors, p, how):
        requests = [self._q.QueryRequest(query=v, limit=p, params=how) for v in vectors]
        return [r.points for r in self._client.query_batch_points(self._name, requests)]

    def close(self):
        if self._own:
            self._client.close()
