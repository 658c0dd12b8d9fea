"""An approximate index over the elements of all sets of a gallery: inverted lists of unit vectors, built by faiss."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import from_numpy

from xmr_core.base.checks import require_choice
from xmr_core.base.errors import BadInput, CannotWrite
from xmr_core.base.extras import require
from xmr_core.base.files import atomic, write_record
from xmr_core.base.masked import require_element
from xmr_core.base.types import EmbeddingSet, GaussianEmbedding, Representation
from xmr_core.search.files import building, check_files, described, read_manifest, remove

FORMAT = 1
MANIFEST, LISTS = "elements.json", "elements.faiss"
CODES = {"float32": "Flat", "uint8": "SQ8"}  # a number takes 4 bytes, or 1
PROBES = 64  # lists that are searched
_AGAIN = "xmr_core.search.build_elements(gallery, folder, digest), or the command `index` with --elements"
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
