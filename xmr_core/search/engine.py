"""A gallery's elements in an existing vector engine (Qdrant): in a folder of this machine, or on a server by URL."""

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import filelock
import numpy as np
from jaxtyping import Float

from xmr_core.base import files
from xmr_core.base.errors import BadInput, CannotWrite, DamagedFile
from xmr_core.base.masked import require_element
from xmr_core.base.types import EmbeddingSet, Representation
from xmr_core.search.elements import most_elements, unit_elements
from xmr_core.search.files import read_manifest, start_anew, write_manifest
from xmr_core.search.proposals import Extent, Proposals, nearest_left_out, rounding
from xmr_core.search.qdrant import Collection, open_collection

FORMAT = 1
MANIFEST = "engine.json"
_AGAIN = "xmr_core.search.build_engine(gallery, folder, digest)"
_CHUNK = 1 << 12  # elements sent at a time


@dataclass(frozen=True)
class EngineElements:
    """Elements in a vector engine, opened. collection: where they are; the number of an element is slots · (position
    of its item) + its place in the item. gallery: the items themselves. about: the contents of engine.json."""

    collection: Collection
    gallery: Representation
    about: dict

    def propose(self, elements: Float[np.ndarray, "e d"], per_element: int, probes: int | None = None) -> Proposals:
        """For each unit vector the items of the `per_element` elements nearest to it. The engine compares all elements,
        so that the last one bounds the others; with a graph and `probes` it follows the graph and keeps that many
        candidates, at least `per_element`, and bounds nothing."""
        p = min(per_element, self.about["elements"])
        graph = self.about["graph"] and probes is not None
        numbers, cosines = self.collection.nearest(elements, p, max(probes, p) if graph else None)
        items = np.where(numbers < 0, -1, numbers // self.about["slots"])
        if graph:
            return Proposals(items, np.ones(len(items)), "a walk in a graph says nothing about what it did not visit")
        width = elements.shape[1]
        bounds = nearest_left_out(cosines, items, width, p == self.about["elements"])
        return Proposals(items, bounds, cosines=cosines.astype(np.float64) + rounding(width))

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
    folder, n, slots = Path(folder), len(gallery), most_elements(gallery)
    server = url or ("a client" if client is not None else "")
    with filelock.FileLock(files.make_folder(folder) / "lock"):
        start_anew(folder / MANIFEST, ())
        if not server:
            shutil.rmtree(folder / "engine", ignore_errors=True)
        width, step = unit_elements(gallery[:1])[0].shape[1], max(1, _CHUNK // slots)
        collection = open_collection(folder, digest, url, client, width=width, graph=graph)
        extents, total = [], 0
        try:
            for start in progress(range(0, n, step)):
                chunk = gallery[start : start + step]
                vectors, items = unit_elements(chunk)
                first = np.searchsorted(items, items)  # of the same item, so that places count from 0
                collection.add(vectors, (items + start) * slots + np.arange(len(items)) - first)
                extents.append(Extent.from_items(chunk))
                total += len(items)
            collection.finish(graph)
        except collection.errors as e:
            raise CannotWrite(f"the engine cannot hold the elements ({e}). Free some space, or start it.") from None
        finally:
            collection.close()
        write_manifest(
            folder / MANIFEST,
            {
                "format": FORMAT, "gallery": digest, "items": n, "elements": total, "width": width, "slots": slots,
                "graph": graph, "server": server, "extent": asdict(Extent.joined(extents)),
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
    if about["gallery"] != digest or about["items"] != len(gallery):
        raise BadInput(
            f"the engine in {folder} holds the elements of another gallery ({about['items']:,} items). "
            f"Build it again: {_AGAIN}."
        )
    url = "" if client is not None else about["server"]
    collection = open_collection(folder, digest, url, client)
    try:
        present = collection.count()
    except collection.errors as e:
        raise DamagedFile(
            f"the engine {about['server'] or folder / 'engine'} does not open ({e}). "
            f"Start it, or build it again: {_AGAIN}."
        ) from None
    if present != about["elements"]:
        raise DamagedFile(
            f"the engine {about['server'] or folder / 'engine'} has {present:,} elements and was given "
            f"{about['elements']:,}. Build it again: {_AGAIN}."
        )
    return EngineElements(collection, gallery, about)
