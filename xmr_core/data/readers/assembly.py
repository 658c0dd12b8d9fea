"""What all readers share: faults in files, finding and reading them, relevance, and tables that become a Corpus."""

import ast
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import regex
from jaxtyping import Bool, Int

from xmr_core.base.errors import BadInput, DamagedFile, XmrError, require_number
from xmr_core.base.fingerprint import content_hash, file_content, files_content
from xmr_core.base.paths import decoded, decoded_text, is_text, read_regular
from xmr_core.base.types import SPLITS, Corpus, Relevance
from xmr_core.features.images import OTHER_SUFFIXES, RESOLUTION, SUFFIXES, image_reader, is_image
from xmr_core.features.words import tokenise

EXAMPLES = 3  # stored of each kind of fault
USUAL = 5  # captions of an image in most collections


@dataclass(eq=False)
class FaultLog:
    """The faults that a reader meets.

    A tolerated fault is counted, and the reader leaves the item out. A refused fault raises an error at once. With
    collect=True a refusal is only noted and the reader continues as far as it can, so that a check can list everything
    that is wrong with a folder.

    counts: kind → how often it was tolerated. examples: kind → the first few. refused: the refusals that were noted.
    >>> faults = FaultLog(collect=True)
    >>> faults.tolerate("captions without a word", ["a.jpg#3", "b.jpg#0"])
    >>> faults.refuse("captions.csv names images twice", ["a.jpg"])
    >>> dict(faults.counts), faults.refused
    ({'captions without a word': 2}, ["captions.csv names images twice: 1, the first is 'a.jpg'."])
    """

    collect: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def tolerate(self, kind: str, examples: str | Iterable[object], times: int | None = None) -> None:
        """Count faults. kind: a phrase in the plural. examples: where they are; each counts once without `times`."""
        examples = [examples] if isinstance(examples, str) else list(examples)
        if times := len(examples) if times is None else times:
            self.counts[kind] += times
            stored = self.examples.setdefault(kind, [])
            stored += [str(example)[:120] for example in examples[: EXAMPLES - len(stored)]]

    def refuse(self, fault: str, items: Iterable[object] | None = None) -> None:
        """Raise BadInput with the fault. When collecting, note it; the caller then continues without the item.

        items: what has this fault; without any of them there is none.
        """
        if items is not None:
            if not (items := list(items)):
                return
            fault = f"{fault}: {len(items):,}, the first is {items[0]!r}."
        if not self.collect:
            raise BadInput(fault)
        self.refused.append(fault)

    @contextmanager
    def noting(self) -> Iterator[None]:
        """When collecting, an error in the block ends the block only, and is noted as a refusal."""
        try:
            yield
        except XmrError as e:
            if not self.collect:
                raise
            self.refused.append(str(e))


# Finding and reading the files of a collection.


def find_path(folder: Path, names: Sequence[str], corpus: str, hint: str = "") -> Path:
    """The first of these files or folders that exists. Raises: BadInput with all the names that were tried."""
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise BadInput(f"{corpus} needs {' or '.join(names)} in {folder}. Put it there or give the right data_root.{hint}")


def list_images(folder: Path, deep: bool = False, faults: FaultLog | None = None) -> dict[str, str]:
    """Name → path of every image file in a folder, by its suffix, or by its content where a name has none.

    Hidden files are left out. So are names that are not UTF-8, and images of kinds that are not read; they are counted.
    deep: also in its sub-folders; the name is then the path below the folder. Links to folders are followed once.
    Raises: BadInput where all images are of kinds that are not read.
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(folder, "trip").mkdir(), Path(folder, "trip", "beach.JPG").touch(), Path(folder, "notes.txt").touch()
    ...     list(list_images(Path(folder))), list(list_images(Path(folder), deep=True))
    (None, None, None)
    ([], ['trip/beach.JPG'])
    """
    images: dict[str, str] = {}
    visited, unread, faults = set(), [], faults or FaultLog()

    def refuse(error: OSError) -> None:
        raise DamagedFile(f"{error.filename} cannot be listed ({error.strerror}).")

    for place, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        status = os.stat(place)
        if (status.st_dev, status.st_ino) in visited:
            folders.clear()  # a link back to a folder that was listed already
            continue
        visited.add((status.st_dev, status.st_ino))
        folders[:] = [name for name in folders if deep and not name.startswith(".") and _is_utf8(name)]
        faults.tolerate("files whose name is not UTF-8", [ascii(name) for name in names if not _is_utf8(name)])
        shown = [name for name in names if not name.startswith(".") and _is_utf8(name)]
        unread += [name for name in shown if name.lower().endswith(OTHER_SUFFIXES)]
        paths = [Path(place, name) for name in shown]
        paths = [p for p in paths if p.name.lower().endswith(SUFFIXES) or (not p.suffix and is_image(p))]
        images |= {path.relative_to(folder).as_posix(): str(path) for path in paths}
    kinds = ", ".join(sorted({Path(name).suffix.lower() for name in unread}))
    fault = f"images of kinds that are not read ({kinds}): convert them to JPEG or PNG"
    if unread and not images:
        faults.refuse(f"{folder} holds only {fault}")
    faults.tolerate(fault, unread)
    return images


def _is_utf8(name: str) -> bool:
    return name.encode(errors="ignore").decode() == name


def read_bytes(file: Path) -> bytes:
    """All bytes of a file of a collection. Raises: DamagedFile for one that cannot be read, or is no regular file."""
    try:
        return read_regular(file)
    except OSError as e:
        raise DamagedFile(f"{file} cannot be read ({e.strerror}).") from None


def read_lines(file: Path, faults: FaultLog) -> list[str]:
    """Lines of a text file in any encoding that `decoded_text` reads, without line ends; those that are not UTF-8 are
    counted. Raises: BadInput for a file in another encoding; DamagedFile for one that cannot be read.
    """
    text, odd = decoded_text(read_bytes(file), file)
    faults.tolerate("lines that are not UTF-8, read as Windows-1252", [f"{file.name} line {number}" for number in odd])
    text = text if "\n" in text else text.replace("\r", "\n")  # of an old Mac, or saved as if it were
    lines = [line.rstrip("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def literal(text: str) -> object:
    """The value of a literal of Python; None for anything else."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def without_bytes_notation(line: str, place: str, faults: FaultLog) -> str:
    """A line without the notation in which Python writes bytes, as some files have it: b'A dog runs .'"""
    line = line.strip()
    raw = literal(line) if line[:2] in ("b'", 'b"') else None
    if not isinstance(raw, bytes):
        return line
    faults.tolerate("captions written as Python bytes (b'…')", place)
    return decoded(raw)[0].strip()


def read_json(file: Path, faults: FaultLog, reduce: Callable[[dict], object]) -> object:
    """The value of a large JSON file, in any encoding that `decoded_text` reads.

    reduce: what to retain of an object. It is called for every object as soon as that is read, innermost first, so that
    what is not needed never fills the memory.
    Raises: BadInput for another encoding; DamagedFile, when the file cannot be read or is not a complete JSON file.
    """
    text, odd = decoded_text(read_bytes(file), file, b'"')
    faults.tolerate("texts that are not UTF-8, read as Windows-1252", file.name, len(odd))
    try:
        return json.loads(text, object_hook=reduce)
    except (ValueError, RecursionError) as e:
        raise DamagedFile(f"{file} is no whole JSON file ({e}). It was cut short or altered; get it again.") from None


# Which images are relevant to a caption: its own, those of its class, or those that show nearly the same objects.


ZETAS = (0, 1, 2)  # PMRP is the mean over these; docs/differences.md#x-50


@dataclass(frozen=True)
class TwoWayRelevance(Relevance):
    """A Relevance whose two directions were judged separately, so that the transpose has pairs of its own.

    The lists of this object are those of its queries; `backward` is the other direction. It can be transposed and
    restricted like any Relevance, so evaluation treats it like any other.
    Raises: BadInput, when the ids of `backward` are not those of this object, in the same order, with the roles
        swapped.
    >>> forward = Relevance.from_pairs([("c1", "i2")], ["c1", "c2"], ["i1", "i2"])
    >>> backward = Relevance.from_pairs([("i1", "c1"), ("i2", "c1")], ["i1", "i2"], ["c1", "c2"])
    >>> TwoWayRelevance.join(forward, backward).transpose().counts
    array([1, 1])
    """

    backward: Relevance

    def __post_init__(self):
        super().__post_init__()
        pairs = (self.query_ids, self.backward.gallery_ids), (self.gallery_ids, self.backward.query_ids)
        if not all(np.array_equal(*pair) for pair in pairs):
            raise BadInput("two directions need the same ids: the queries of the one are the gallery of the other.")

    @classmethod
    def join(cls, forward: Relevance, backward: Relevance) -> "TwoWayRelevance":
        """From two directions, such as captions → images and images → captions."""
        return cls(forward.indptr, forward.indices, forward.query_ids, forward.gallery_ids, backward)

    def transpose(self) -> "TwoWayRelevance":
        """The other direction, as it was judged."""
        forward = Relevance(self.indptr, self.indices, self.query_ids, self.gallery_ids)
        return TwoWayRelevance.join(self.backward, forward)

    def restrict(self, queries: np.ndarray, gallery: np.ndarray) -> "TwoWayRelevance":
        """Both directions among some positions only, renumbered in that order."""
        return TwoWayRelevance.join(super().restrict(queries, gallery), self.backward.restrict(gallery, queries))


def annotated_relevance(
    images: pd.DataFrame, captions: pd.DataFrame, more_pairs: Mapping[str, Iterable[tuple]] | None = None
) -> dict[str, Callable[[str], Relevance]]:
    """Relevance sets, name → split → Relevance, with captions as queries and images as gallery.

    'annotated' comes first: a caption and its own image. Args: images: index image_id, column split. captions: index
    caption_id, columns image_id and split. more_pairs: names of further sets, and the (caption_id, image_id) pairs that
    each of them adds to the annotated ones; pairs with an id that is not in the split are left out.
    >>> images = pd.DataFrame({"split": "test"}, index=["i1", "i2"])
    >>> captions = pd.DataFrame({"image_id": ["i1", "i2"], "split": "test"}, index=["c1", "c2"])
    >>> sets = annotated_relevance(images, captions, {"human": [("c1", "i2")]})
    >>> [sets[name]("test").counts.tolist() for name in sets]
    [[1, 1], [2, 1]]
    """
    more_pairs = {"annotated": (), **{name: list(pairs) for name, pairs in (more_pairs or {}).items()}}

    @cache
    def relevance(name: str, split: str) -> Relevance:
        owner = captions.loc[captions["split"] == split, "image_id"]
        gallery = images.index[images["split"] == split]
        queries, members = set(owner.index), set(gallery)
        more = [(c, i) for c, i in more_pairs[name] if c in queries and i in members]
        return Relevance.from_pairs([*owner.items(), *more], owner.index.to_numpy(), gallery.to_numpy())

    return {name: partial(relevance, name) for name in more_pairs}


def plausible_match(
    codes: Int[np.ndarray, "i c"],
    image_of: Int[np.ndarray, " t"],
    zeta: int,
    labelled: Bool[np.ndarray, " i"] | None = None,
    caption_ids: Sequence | None = None,
    image_ids: Sequence | None = None,
) -> Relevance:
    """Captions as queries, images as gallery; relevant where Σ_c |codes[image_of[t], c] − codes[i, c]| ≤ ζ.

    Args: codes: 1 where an image shows an object of class c, else 0. image_of: position of the image for which a
        caption was written. zeta: how many classes may differ, ≥ 0. labelled: False removes an image from the gallery
        and its captions from the queries (48 of COCO's 5,000 images have no label). Ids default to positions.
    Raises: BadInput for a negative ζ, codes other than 0 and 1, or shapes that do not fit.
    Source: Chun et al., CVPR 2021 (PCME): PMRP is the mean R-Precision over ζ = 0, 1, 2;
    docs/evaluation.md#evaluation-pmrp.
    >>> plausible_match(np.array([[1, 0], [1, 1], [0, 1]]), np.arange(3), zeta=1).counts
    array([2, 3, 2])
    """
    codes, image_of = np.asarray(codes), np.asarray(image_of)
    labelled = np.ones(len(codes), bool) if labelled is None else np.asarray(labelled, bool)
    require_number("ζ", zeta, 0, hint="PMRP averages 0, 1 and 2.")
    if codes.ndim != 2 or not np.isin(codes, (0, 1)).all() or len(labelled) != len(codes):
        raise BadInput(f"label codes are 0 or 1, images × classes; got {codes.shape}, and {len(labelled)} labels.")
    if (image_of < 0).any():
        raise BadInput("every caption needs the position of its image, counted from 0.")
    x = codes.astype(np.int32)
    near = x.sum(1)[:, None] + x.sum(1)[None] - 2 * x @ x.T <= zeta  # Hamming distance of codes of 0 and 1
    relevance = _of_matrix(near[image_of], caption_ids, image_ids)
    return relevance.restrict(np.flatnonzero(labelled[image_of]), np.flatnonzero(labelled))


def same_class(
    query_class: Sequence,
    gallery_class: Sequence,
    query_ids: Sequence | None = None,
    gallery_ids: Sequence | None = None,
) -> Relevance:
    """Relevant is every item of the query's class; docs/evaluation.md#evaluation-cub. Ids default to positions.

    >>> same_class(["gull", "wren"], ["wren", "wren", "gull"]).counts
    array([1, 2])
    """
    return _of_matrix(np.asarray(query_class)[:, None] == np.asarray(gallery_class)[None], query_ids, gallery_ids)


def _of_matrix(relevant: np.ndarray, *ids: Sequence | None) -> Relevance:
    named = [np.arange(n) if own is None else own for n, own in zip(relevant.shape, ids, strict=True)]
    return Relevance.from_matrix(relevant, *named)


# From tables of images and captions to a Corpus.


_REMEDY = "A reader is shown in docs/howto/extend.md."


def require_corpus(value: object, name: str) -> Corpus:
    """What a reader returned. Raises: BadInput unless it is a Corpus."""
    if not isinstance(value, Corpus):
        raise BadInput(f"the reader of {name} must return a Corpus, got {type(value).__name__}. {_REMEDY}")
    return value


def require_name(name: str) -> None:
    """Raise BadInput unless a corpus can be called so, in tables and in names of runs."""
    if not isinstance(name, str) or not name.replace("-", "_").isidentifier():
        raise BadInput(f"name must be made of letters, digits, '_' and '-', got {name!r}.")


def usable_tables(
    name: str,
    images: pd.DataFrame,
    captions: pd.DataFrame,
    faults: FaultLog,
    usual: int = USUAL,
    splits: Sequence[str] = SPLITS,
    columns: Sequence[str] = ("split",),
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(images, captions) without what cannot be used; every caption gets the split of its image.

    Args: images: index image_id, column split ('' = in no split). captions: index caption_id, columns image_id and
        text. usual: captions that an image should have, 0 for any number. A corpus without any caption can be searched,
        so that is no fault. splits: names that a split may have. columns: those that images must have.
    Tolerated: captions of a missing image and captions without a word (both are dropped, but signs where most captions
    are such: a text model reads them), images with fewer captions
    than usual or with none, images in no split. Refused: ids that repeat, captions whose text is no text (NaN, say),
    images in a split of another name than `splits`.
    Raises: BadInput for tables without these columns.
    """
    for kind, table, needed in (("images", images, columns), ("captions", captions, ("image_id", "text"))):
        if not isinstance(table, pd.DataFrame) or not set(needed) <= set(table):
            raise BadInput(f"{name}: the {kind} must be a DataFrame with columns {needed}. {_REMEDY}")
        faults.refuse(f"{name}: ids of {kind} repeat", table.index[table.index.duplicated()])
    images, captions = (table[~table.index.duplicated()] for table in (images, captions))
    written = np.array([is_text(text) for text in captions["text"]], bool)
    faults.refuse(f"{name}: captions whose text is no string (NaN) or no whole one", captions.index[~written])
    captions = captions[written]
    missing = ~captions["image_id"].isin(images.index)
    empty = ~missing & np.array([not tokenise(text) for text in captions["text"]], bool)
    if empty.sum() * 2 > len(captions):  # captions of signs, which only a text model reads
        empty &= np.array([not regex.search(r"\p{So}", text) for text in captions["text"]], bool)
    faults.tolerate("captions of a missing image", captions.index[missing])
    faults.tolerate("captions without a word", captions.index[empty])
    captions = captions[~missing & ~empty].copy()
    captions["split"] = images["split"].reindex(captions["image_id"]).to_numpy()
    other = images["split"][~images["split"].isin([*splits, ""])]
    faults.refuse(f"{name}: images in a split that is not called {', '.join(splits)} or ''", other.items())
    counts = captions["image_id"].value_counts().reindex(images.index, fill_value=0)[images["split"] != ""]
    faults.tolerate("images in no split", images.index[images["split"] == ""])
    if len(captions):
        faults.tolerate("images without a caption", counts.index[counts == 0])
    faults.tolerate(f"images with fewer than {usual} captions", counts.index[(counts > 0) & (counts < usual)])
    return images, captions


def image_table(files: Mapping[str, str], split_of: Mapping[str, str]) -> pd.DataFrame:
    """Index image_id, in alphabetical order; columns path, and split ('' where none is given)."""
    images = pd.DataFrame(sorted(files.items()), columns=["image_id", "path"]).set_index("image_id")
    return images.assign(split=[split_of.get(image_id, "") for image_id in images.index])


def photograph_corpus(
    name: str,
    images: pd.DataFrame,
    captions: pd.DataFrame,
    faults: FaultLog,
    more_pairs: Mapping[str, Iterable[tuple]] | None = None,
    grades: Mapping[str, pd.DataFrame] | None = None,
    about: Mapping[str, object] | None = None,
    usual: int = USUAL,
    splits: Sequence[str] = SPLITS,
) -> Corpus:
    """A Corpus of image files: usable rows only, with fingerprints and relevance sets.

    Args: images: as for `usable_tables`, with a column path (of a file that exists, or its bytes) and any further
        columns. captions, faults, usual, splits: as for `usable_tables`, whose faults are counted here. more_pairs: as
        for `annotated_relevance`.
    Raises: BadInput for tables without these columns; DamagedFile, when a file cannot be read for its fingerprint.
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("RGB", (9, 9)).save(f"{folder}/dog.png")
    ...     images = pd.DataFrame({"split": ["test"], "path": [f"{folder}/dog.png"]}, index=["i1"])
    ...     captions = pd.DataFrame({"image_id": ["i1"], "text": ["A dog."]}, index=["c1"])
    ...     photograph_corpus("mine", images, captions, FaultLog()).faults
    {'images with fewer than 5 captions': 1}
    """
    images, captions = usable_tables(name, images, captions, faults, usual, splits, ("split", "path"))
    grades, files = dict(grades or {}), images["path"].tolist()
    in_memory = any(isinstance(file, bytes) for file in files)
    content = content_hash([*map(file_content, files)]) if in_memory else files_content(files)
    graded = [table.to_csv() for table in grades.values()]
    texts = [captions.index.tolist(), captions["image_id"].tolist(), captions["text"].tolist()]
    return Corpus(
        name=name,
        images=images,
        captions=captions,
        fingerprint=content_hash([content, images.drop(columns="path").to_csv(), texts, graded]),
        image_fingerprint=content_hash([content, images.index.tolist()]),
        read_pixels=image_reader(files),
        relevance_sets=annotated_relevance(images, captions, more_pairs),
        grades=grades,
        faults=dict(faults.counts),
        about={"resolution": RESOLUTION, **(about or {})},
    )
