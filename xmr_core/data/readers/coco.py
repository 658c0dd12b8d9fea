"""COCO and Flickr30K with Karpathy's splits, and who else is right on COCO's test images."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from xmr_core.base.errors import BadInput, require_choice
from xmr_core.base.files import existing
from xmr_core.base.types import Corpus, Relevance
from xmr_core.data.readers.assembly import (
    USUAL,
    ZETAS,
    FaultLog,
    TwoWayRelevance,
    find_path,
    list_images,
    photograph_corpus,
    plausible_match,
    read_json,
)

# restval is a part of COCO's validation images on which everybody trains
SPLIT_OF = {"train": "train", "restval": "train", "val": "val", "test": "test"}
_FOLDERS = ("", "annotations/", "karpathy/", "caption_datasets/", "splits/")


def karpathy_tables(
    data_root: Path | str, name: str, places: Sequence[str], faults: FaultLog, id_field: str = "", limit: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The images and captions of `dataset_{name}.json`, in its order, as `photograph_corpus` needs them.

    Args: places: folders of images below data_root, tried one after the other; '{0}' stands for the record's filepath.
        id_field: the field with the number of an image; ids of images and captions are then integers. With '', the id
        of an image is its file name, that of a caption its sentid as text. limit: sentences used of an image, 0 for
        all.
    Returns: images (index image_id; columns split, path), captions (index caption_id; columns image_id, text: 'raw').
    Tolerated: bytes that are not UTF-8, sentences beyond the limit, sentences without text or number. Refused, with
    number and first example: records that lack a field, unknown splits, names or ids that repeat, missing images.
    Raises: BadInput, when the file is missing or is not one of Karpathy's, or when no folder of images is there;
        DamagedFile, when the file is truncated.
    Source: Karpathy & Fei-Fei, CVPR 2015 (caption_datasets.zip).
    """
    base = existing(data_root, f"data_root of {name}")
    file = find_path(base, [f"{folder}dataset_{name}.json" for folder in _FOLDERS], name)
    records = _read_records(file, name, id_field, faults)
    paths = _paths(records, base, places, name)
    missing = [record["filename"] for record in records.values() if not paths[record["filename"]]]
    faults.refuse(f"{name}: images are missing in {', '.join(places)} of {base}", missing)
    records = {i: record for i, record in records.items() if paths[record["filename"]]}
    rows, beyond = [], 0
    for image_id, record in records.items():
        sentences = record["sentences"][: limit or None]
        beyond += len(record["sentences"]) - len(sentences)
        for sentence in sentences:
            try:
                number, text = int(str(sentence["sentid"])), sentence["raw"].strip()
            except (KeyError, TypeError, ValueError, AttributeError):
                faults.tolerate("sentences that cannot be read", record["filename"])
                continue
            rows.append((number if id_field else str(number), image_id, text))
    faults.tolerate(f"sentences beyond {limit} of an image, not used", (), beyond)
    splits = [SPLIT_OF[record["split"]] for record in records.values()]
    places = [paths[record["filename"]] for record in records.values()]
    images = pd.DataFrame({"split": splits, "path": places}, index=pd.Index(list(records), name="image_id"))
    captions = pd.DataFrame(rows, columns=["caption_id", "image_id", "text"]).set_index("caption_id")
    return images, captions


def _read_records(file: Path, name: str, id_field: str, faults: FaultLog) -> dict[object, dict]:
    """id → record of a file that is Karpathy's, of this collection."""

    def without_tokens(item: dict) -> dict:
        item.pop("tokens", None)  # most of the file, and never used: 'raw' is the caption
        return item

    value = read_json(file, faults, without_tokens)
    records = value.get("images") if isinstance(value, dict) else None
    if not isinstance(records, list) or str(value.get("dataset", name)).lower() != name:
        raise BadInput(
            f"{file} is not one of Karpathy's split files. Give dataset_{name}.json of caption_datasets.zip."
        )
    sound, names, unfit, repeated = {}, set(), [], []
    for number, record in enumerate(records):
        try:
            image_id = int(str(record[id_field])) if id_field else record["filename"]  # 896.5 is no id
            usable = record["filename"] and record["split"] in SPLIT_OF and isinstance(record["sentences"], list)
        except (KeyError, TypeError, ValueError):
            usable = False
        if not usable or not isinstance(record["filename"], str):
            unfit.append(number)
        elif image_id in sound or record["filename"] in names:
            repeated.append(image_id)
        else:
            sound[image_id] = record
            names.add(record["filename"])
    fields = ", ".join(filter(None, ("filename", "sentences", "split", id_field)))
    faults.refuse(f"{file}: records, numbered from 0, lack one of {fields}, or hold another value there", unfit)
    faults.refuse(f"{file}: records repeat a file name or id", repeated)
    if not sound:
        raise BadInput(f"{file} holds no usable record. Give dataset_{name}.json of caption_datasets.zip.")
    return sound


def _paths(records: dict[object, dict], base: Path, places: Sequence[str], name: str) -> dict[str, str]:
    """File name → path of the image, '' where it is missing. Raises: BadInput where there is no image at all."""

    @cache
    def listing(folder: Path) -> dict[str, str]:
        return list_images(folder) if folder.is_dir() else {}

    def find(record: dict) -> str:
        # the last folder of the filepath only, so that it cannot lead out of data_root
        below = str(record.get("filepath", "")).rstrip("/").rpartition("/")[2].strip(".")
        hits = (listing(base / place.format(below).strip("/")).get(record["filename"]) for place in places)
        return next(filter(None, hits), "")

    paths = {record["filename"]: find(record) for record in records.values()}
    if paths and not any(paths.values()):
        tried = f"one of the folders {', '.join(places)} of {base}"
        raise BadInput(f"{name} needs its images in {tried}. Give the right data_root.")
    return paths


# Flickr30K with Karpathy's splits.


_PLACES = ("flickr30k-images", "flickr30k_images", "flickr30k_images/flickr30k_images", "images", "Images")


def load_flickr30k(data_root: Path | str, faults: FaultLog | None = None) -> Corpus:
    """Corpus of 31,014 photographs with five captions each: 29,000 to train, 1,014 val, 1,000 test.

    The files in data_root are described in docs/data.md#data-flickr30k. image_id: the file name. caption_id: the sentid
    as text. Papers validate on the first 1,000 images of val; here val holds all of them.
    about: 'protocols' that fit the test split.
    Tolerated, refused, raised: as in karpathy_tables and photograph_corpus.
    Source: Young et al., TACL 2014; splits of Karpathy & Fei-Fei, CVPR 2015.
    >>> load_flickr30k("/nowhere")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: data_root of flickr30k not found: /nowhere does not exist. Give the right path.
    """
    faults = faults or FaultLog()
    images, captions = karpathy_tables(data_root, "flickr30k", _PLACES, faults)
    fitting = ["flickr-1k"] if (images["split"] == "test").sum() == 1000 else []
    return photograph_corpus("flickr30k", images, captions, faults, about={"protocols": [*fitting, "full"]})


# Who else is right on COCO's test images: judgments of COCO, CxC and ECCV Caption, and labels of instances.


_FILES = {"annotated": "original", "cxc": "cxc", "eccv": "eccv"}
DIRECTIONS = {"i2t": "image_to_caption", "t2i": "caption_to_image"}


def coco_judgments(
    kind: str,
    direction: str,
    image_ids: Sequence[int],
    caption_ids: Sequence[int],
    folder: str | Path = "",
    absent: str = "drop",
) -> Relevance:
    """The judged queries of one direction, in the order of the ids; the gallery is every item of the other modality.

    Args: kind: 'annotated' (own captions), 'cxc' (24,972 captions and 5,000 images as queries) or 'eccv' (1,332
        captions and 1,261 images). direction: 'i2t' or 't2i'; ECCV Caption judged them separately, so one is not the
        transpose of the other. image_ids, caption_ids: COCO's annotation ids of the items in the corpus. folder: of the
        JSON files, '' for that of the package eccv_caption. absent: 'drop' leaves out relevant items that are not in
        the corpus; 'count' appends them to the gallery, to be scored −∞. The programs of eccv_caption count two
        captions (144675 and 467259) that are not among the 25,000, so that nobody reaches 100 %.
    Returns: a Relevance whose queries are judged, are in the corpus and have a relevant item there.
    Raises: BadInput for an unknown kind, direction or absent, a missing package or file, or ids of another corpus.
    Source: Chun et al., ECCV 2022 (ECCV Caption); Parekh et al., EACL 2021 (CxC); docs/evaluation.md#evaluation-eccv.
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("eccv_image_to_caption", "eccv_caption_to_image"):
    ...         _ = Path(folder, f"{name}.json").write_text('{"1": [11, 13], "2": [12]}')
    ...     coco_judgments("eccv", "i2t", [2, 1], [11, 12, 13], folder).counts
    array([1, 2])
    """
    require_choice("kind of COCO judgment", kind, _FILES)
    require_choice("direction", direction, DIRECTIONS)
    require_choice("absent", absent, ("drop", "count"))
    ids = (image_ids, caption_ids) if direction == "i2t" else (caption_ids, image_ids)
    queries, gallery = map(np.asarray, ids)
    relevant = json.loads((_folder(folder) / f"{_FILES[kind]}_{DIRECTIONS[direction]}.json").read_text())
    members = set(gallery.tolist())
    answered = [q for q in queries.tolist() if members.intersection(relevant.get(str(q), ()))]
    if not answered:
        raise BadInput(
            f"none of the {len(queries)} queries is judged in {kind!r}: these are no ids of COCO's test set."
        )
    pairs = [(q, g) for q in answered for g in relevant[str(q)] if absent == "count" or g in members]
    beyond = sorted({g for _, g in pairs} - members)
    return Relevance.from_pairs(pairs, answered, np.concatenate([gallery, np.array(beyond, gallery.dtype)]))


def coco_test_captions(folder: str | Path = "") -> Int[np.ndarray, "25000"]:
    """The caption ids of the 5K test images in the order whose contiguous fifths are the 1K folds."""
    return np.load(_folder(folder) / "coco_test_ids.npy")


def _folder(folder: str | Path) -> Path:
    """The folder of the JSON files: the given one, or that of the package."""
    spec = None if folder else find_spec("eccv_caption")
    place = Path(spec.origin).parent / "data" if spec and spec.origin else Path(folder or "eccv_caption")
    if not (place / "eccv_image_to_caption.json").exists():
        raise BadInput(
            f"{place} holds no judgments of COCO. pip install 'xmr-study[coco]', or give the folder of its JSON."
        )
    return place


def read_instances(file: Path | str, faults: FaultLog) -> tuple[Int[np.ndarray, "n 2"], dict[int, str]]:
    """(the different (image id, category id) pairs of instances_val2014.json, ascending; the names of the categories).
    Crowds count like any instance.

    Only two numbers of each of the 300,000 annotations are retained while reading, because the polygons would take
    gigabytes. Raises: BadInput for a file without instance annotations, DamagedFile for a truncated one.
    """
    file, pairs, names, unfit = Path(file), set(), {}, 0

    def collect(item: dict) -> dict | None:
        nonlocal unfit
        if "category_id" in item:
            try:
                pairs.add((int(item["image_id"]), int(item["category_id"])))
            except (KeyError, TypeError, ValueError):
                unfit += 1
        elif "supercategory" in item and isinstance(item.get("id"), int):
            names[item["id"]] = str(item.get("name", item["id"]))
        return item if "annotations" in item else None

    value = read_json(file, faults, collect)
    if not pairs or not isinstance(value, dict):
        raise BadInput(
            f"{file} holds no instance annotations (image_id, category_id). Give COCO's, or take the file out."
        )
    faults.tolerate("instance annotations without an image or category", file.name, unfit)
    return np.array(sorted(pairs)), names


def label_codes(
    pairs: Int[np.ndarray, "n 2"], image_ids: Int[np.ndarray, " i"]
) -> tuple[Int[np.ndarray, "i c"], Bool[np.ndarray, " i"]]:
    """(1 where an image shows a category, with one column for each category of the pairs; whether it shows any)."""
    row_of = {image: row for row, image in enumerate(np.asarray(image_ids).tolist())}
    categories, column = np.unique(pairs[:, 1], return_inverse=True)
    row = np.array([row_of.get(image, -1) for image in pairs[:, 0].tolist()], np.int64)
    codes = np.zeros((len(row_of), len(categories)), np.int8)
    codes[row[row >= 0], column[row >= 0]] = 1
    return codes, codes.any(1)


# COCO with Karpathy's splits and all its relevance sets.


_coco_PLACES = ("{0}", "images/{0}", "images", "images/trainval35k", "{0}/{0}")  # {0}: train2014 or val2014
_INSTANCES = ("", "annotations/", "annotations/annotations/", "annotations_trainval2014/annotations/")


def load_coco(data_root: Path | str, faults: FaultLog | None = None) -> Corpus:
    """Corpus of 123,287 photographs: 113,287 to train (restval among them), 5,000 val, 5,000 test; five captions each.

    The files in data_root are described in docs/data.md#data-coco. Only the first five sentences of an image are used,
    as in all papers; the others are counted. Images stay in the order of the file, so that contiguous fifths of test
    are the 1K folds. image_id and caption_id (Karpathy's sentid) are COCO's annotation ids, which are integers.
    Relevance sets: 'annotated'. 'eccv' and 'cxc', if eccv_caption is installed and judges the test captions: a
    TwoWayRelevance over the whole split, in which a query that was not judged has no relevant item. 'plausible ζ=0' to
    'plausible ζ=2', if instances_val2014.json is there; its ids leave out images without a label and their captions.
    The column `objects` of images then has the names of the categories that an image shows, joined by '; '.
    about: 'protocols' that fit the test split; 'relevance sets left out', which maps a missing relevance set to the
        reason.
    Tolerated, refused, raised: as in karpathy_tables and photograph_corpus. Refused also: an unusable instance file.
    Source: Lin et al., ECCV 2014; splits of Karpathy & Fei-Fei, CVPR 2015.
    >>> load_coco("/no/such/folder")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: data_root of coco not found: /no/such/folder does not exist. Give the right path.
    """
    faults = faults or FaultLog()
    images, captions = karpathy_tables(data_root, "coco", _coco_PLACES, faults, id_field="cocoid", limit=USUAL)
    pairs, names = np.empty((0, 2), int), {}
    for folder in _INSTANCES:
        if not len(pairs) and (file := Path(data_root).expanduser() / folder / "instances_val2014.json").exists():
            with faults.noting():
                pairs, names = read_instances(file, faults)
    corpus = photograph_corpus("coco", images, captions, faults)
    sets = {kind: cache(partial(_judgments, corpus, kind)) for kind in ("eccv", "cxc")}
    sets |= {f"plausible ζ={zeta}": partial(_plausible, corpus, pairs, zeta) for zeta in ZETAS}
    left_out = {}
    for name in ("eccv", "cxc", f"plausible ζ={ZETAS[0]}"):
        try:
            sets[name]("test")
        except BadInput as e:
            left_out[name.split()[0]] = str(e)
    present = {name: relevance for name, relevance in sets.items() if name.split()[0] not in left_out}
    fitting = ["coco-5k", "coco-1k"] if len(corpus.rows("test")[0]) == 5000 else []
    return replace(
        corpus,
        images=corpus.images.assign(objects=_objects(corpus, pairs, names)) if len(pairs) else corpus.images,
        relevance_sets={**corpus.relevance_sets, **present},
        about={**corpus.about, "protocols": [*fitting, "full"], "relevance sets left out": left_out},
    )


def _ids(corpus: Corpus, split: str) -> tuple[np.ndarray, np.ndarray]:
    """(image ids, caption ids) of a split, in the order of the file."""
    i, t = corpus.rows(split)
    return corpus.images.index.to_numpy()[i], corpus.captions.index.to_numpy()[t]


def _judgments(corpus: Corpus, kind: str, split: str) -> TwoWayRelevance:
    """ECCV Caption or CxC over a whole split."""
    image_ids, caption_ids = _ids(corpus, split)

    def extended(direction: str, queries: np.ndarray, gallery: np.ndarray) -> Relevance:
        part = coco_judgments(kind, direction, image_ids, caption_ids)
        pairs = zip(part.query_ids[part.queries], part.gallery_ids[part.indices], strict=True)
        return Relevance.from_pairs(pairs, queries, gallery)

    return TwoWayRelevance.join(extended("t2i", caption_ids, image_ids), extended("i2t", image_ids, caption_ids))


def _objects(corpus: Corpus, pairs: np.ndarray, names: dict[int, str]) -> list[str]:
    """The names of the categories that each image of the corpus shows, joined by '; '."""
    shown: dict[int, list[str]] = {}
    for image, category in pairs.tolist():
        shown.setdefault(image, []).append(names.get(category, str(category)))
    return ["; ".join(sorted(shown.get(image, ()))) for image in corpus.images.index.tolist()]


def _plausible(corpus: Corpus, pairs: np.ndarray, zeta: int, split: str) -> Relevance:
    """Plausible matches of the labelled images of a split and their captions."""
    image_ids, caption_ids = _ids(corpus, split)
    codes, labelled = label_codes(pairs, image_ids)
    if not labelled.any():
        raise BadInput(
            f"no image of {split!r} has a label in instances_val2014.json beside the data or in annotations."
        )
    image_of = corpus.relevance_sets["annotated"](split).indices
    return plausible_match(codes, image_of, zeta, labelled, caption_ids, image_ids)
