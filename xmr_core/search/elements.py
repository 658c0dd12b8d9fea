"""An approximate index over the elements of all sets of a gallery: inverted lists of unit vectors, built by faiss."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import from_numpy

from xmr_core.base import files
from xmr_core.base.errors import BadInput, CannotWrite, unknown
from xmr_core.base.files import atomic
from xmr_core.base.masked import require_element
from xmr_core.base.types import EmbeddingSet, GaussianEmbedding, Representation
from xmr_core.search.files import (
    building,
    check_files,
    described,
    read_by_size,
    read_manifest,
    start_anew,
    write_manifest,
)
from xmr_core.search.list_caps import ListCaps
from xmr_core.search.proposals import Extent, Proposals, nearest_left_out, rounding

FORMAT = 1
MANIFEST, LISTS, CAPS = "elements.json", "elements.faiss", "elements.caps.safetensors"
CODES = {"float32": "Flat", "uint8": "SQ8"}  # a number takes 4 bytes, or 1
_AGAIN = "xmr_core.search.build_elements(gallery, folder, digest), or the command `index` with --elements"
_CHUNK = 1 << 16  # elements added at a time
_PER_LIST = 39  # training elements for each list that k-means asks for at least
_MOST_PER_LIST = 64  # more make no better lists


@dataclass(frozen=True)
class Elements:
    """An opened index of a gallery's elements. lists: an index of faiss, in which the number of an element is the
    position of its item. gallery: the items themselves. about: the contents of elements.json. caps: how far the lists
    reach; None in an index that was built without."""

    lists: object
    gallery: Representation
    about: dict
    caps: ListCaps | None = None

    def propose(self, elements: Float[np.ndarray, "e d"], per_element: int, probes: int | None = None) -> Proposals:
        """For each unit vector the items of the `per_element` elements nearest to it among `probes` lists; None: all.
        An element outside these lists is bounded by the reach of its list (ListCaps)."""
        vectors = np.ascontiguousarray(elements, np.float32)
        probes, p = min(probes or self.lists.nlist, self.lists.nlist), min(per_element, self.lists.ntotal)
        nearness, searched = self.lists.quantizer.search(vectors, probes)
        cosines, items = np.empty((len(vectors), p), np.float32), np.empty((len(vectors), p), np.int64)
        faiss = faiss_library()  # its own wrapper would take the number of lists from the index, which threads share
        pointers = [faiss.swig_ptr(a) for a in (searched, nearness, cosines, items)]
        options = faiss.SearchParametersIVF(nprobe=probes)
        self.lists.search_preassigned_c(len(vectors), faiss.swig_ptr(vectors), p, *pointers, False, options)
        everything = probes == self.lists.nlist and p == self.lists.ntotal
        if self.caps is None:
            bounds = np.full(len(items), -np.inf if everything else 1.0)
            return Proposals(items, bounds, "" if everything else "the index was built without the reach of its lists")
        nearest = nearest_left_out(cosines, items, vectors.shape[1], everything, self.about["coding"])
        cosines = cosines.astype(np.float64) + self.about["coding"] + rounding(vectors.shape[1])
        return Proposals(items, np.maximum(nearest, self.caps.outside(vectors, searched)), cosines=cosines)


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
    if codes not in CODES:
        raise unknown("codes", codes, CODES)
    if isinstance(gallery, EmbeddingSet):
        require_element(gallery.mask, "set")
    folder, n = Path(folder), len(gallery)
    with building(folder):
        start_anew(folder / MANIFEST, (LISTS, CAPS))
        k, d = most_elements(gallery), unit_elements(gallery[:1])[0].shape[1]
        total = int(gallery.mask.sum()) if isinstance(gallery, EmbeddingSet) else n
        lists = lists or 1 << max(0, round(np.log2(2 * total**0.5)))
        sample = np.random.default_rng(seed).permutation(n)[: -(-_MOST_PER_LIST * lists * n // total)]
        training, _ = unit_elements(gallery[from_numpy(np.sort(sample))])
        lists = max(1, min(lists, len(training) // _PER_LIST))
        index = faiss.index_factory(d, f"IVF{lists},{CODES[codes]}", faiss.METRIC_INNER_PRODUCT)
        index.cp.seed = seed
        index.train(training)
        step, caps, extents = max(1, _CHUNK // k), ListCaps.empty(index), []
        for start in progress(range(0, n, step)):
            chunk = gallery[start : start + step]
            vectors, items = unit_elements(chunk)
            caps.add(faiss, index, vectors, items + start)
            extents.append(Extent.from_items(chunk))
        _write_lists(faiss, index, folder / LISTS)
        files.write_atomic(folder / CAPS, caps.to_bytes())
        write_manifest(
            folder / MANIFEST,
            {
                "format": FORMAT, "gallery": digest, "items": n, "elements": total, "width": d,
                "number": "the position of its item", "lists": lists, "codes": codes, "seed": seed,
                "faiss": faiss.__version__, "extent": asdict(Extent.joined(extents)), "coding": caps.coding,
                "files": {name: described(folder / name) for name in (LISTS, CAPS)},
            },
        )  # fmt: skip
    return folder


def open_elements(folder: Path | str, gallery: Representation, digest: str, verify: bool | None = None) -> Elements:
    """The index of a gallery's elements, memory-mapped: a list is read when a query needs it.

    digest: of the gallery's file. verify: as of open_index. faiss itself reads the file of lists, so open only indexes
    that you, or people you trust, have built.
    Raises: BadInput without faiss, for a folder without a finished index, or for elements of another gallery;
        DamagedFile for a file that is missing, cut or altered.
    """
    faiss = faiss_library()
    folder = Path(folder)
    about = read_manifest(folder / MANIFEST, FORMAT, _AGAIN)
    check_files(folder, about["files"], read_by_size(about["files"], (LISTS,), verify), _AGAIN)
    if about["gallery"] != digest or about["items"] != len(gallery):
        raise BadInput(
            f"the elements in {folder} are those of another gallery ({about['items']:,} items). "
            f"Build them again: {_AGAIN}."
        )
    index = faiss.read_index(str(folder / LISTS), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
    # Threads that are started for every query take more time than they save.
    faiss.downcast_InvertedLists(index.invlists).prefetch_nthread = 0
    caps = ListCaps.open(folder / CAPS, index) if CAPS in about["files"] else None  # older indexes have none
    return Elements(index, gallery, about, caps)


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


def most_elements(items: Representation) -> int:
    """The number of elements for which every item has room."""
    return items.x.shape[1] if isinstance(items, EmbeddingSet) else 1


def _write_lists(faiss, index, path: Path) -> None:
    try:
        with atomic(path) as temporary:
            faiss.write_index(index, str(temporary))
    except RuntimeError as e:  # from faiss
        reason = str(e).strip().splitlines()[-1]
        raise CannotWrite(f"cannot write {path} ({reason}). Free some space or choose another folder.") from None


def faiss_library():
    """The module faiss. Raises: BadInput where it is not installed."""
    try:
        import faiss
    except ImportError:
        raise BadInput("an index over set elements needs faiss: pip install 'xmr-study[search]'.") from None
    return faiss
