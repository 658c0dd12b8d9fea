"""A gallery's elements in an existing vector engine (Qdrant): in a folder of this machine, or on a server by URL."""

import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int

from xmr_core.base.errors import CannotWrite, DamagedFile, XmrError
from xmr_core.base.files import write_record
from xmr_core.base.masked import require_element
from xmr_core.base.types import EmbeddingSet, Representation
from xmr_core.search.elements import items_by_query, most_elements, require_same_gallery, unit_elements, width_of
from xmr_core.search.files import building, read_manifest, remove
from xmr_core.search.qdrant import Embedded, Server, open_collection

FORMAT = 1
MANIFEST = "engine.json"
_AGAIN = "xmr_core.search.build_engine(gallery, folder, digest)"
_CHUNK = 1 << 12  # elements sent at a time
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
        remove(folder, [MANIFEST])
        if not server:
            shutil.rmtree(folder / "engine", ignore_errors=True)
        step, total = max(1, _CHUNK // slots), 0
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
            folder / MANIFEST,
            {
                "format": FORMAT, "gallery": digest, "items": n, "elements": total, "width": width, "slots": slots,
                "graph": graph, "server": server,
            },
        )  # fmt: skip
    return folder


def open_engine(folder: Path | str, gallery: Representation, digest: str, client: object = None) -> EngineElements:
    """The elements of a gallery in the engine that build_engine filled. An embedded engine is open once at a time.

    Raises: BadInput without the engine's package, for a folder without a finished build, or one of another gallery;
        DamagedFile where the engine has lost elements, cannot read its files or does not answer.
    """
    folder = Path(folder)
    about = read_manifest(folder / MANIFEST, FORMAT, _AGAIN)
    require_same_gallery(about, folder, gallery, digest, _AGAIN)
    where = about["server"] or folder / "engine"
    try:
        collection = open_collection(folder, digest, "" if client is not None else about["server"], client)
        present = collection.count()
    except XmrError:
        raise
    except Exception as e:
        raise DamagedFile(
            f"the engine {where} cannot be opened ({e}). Start it, or build it again: {_AGAIN}."
        ) from None
    if present != about["elements"]:
        lost = f"{present:,} elements and was given {about['elements']:,}"
        raise DamagedFile(f"the engine {where} has {lost}. Build it again: {_AGAIN}.")
    return EngineElements(collection, gallery, about)
