"""Collections of photographs in their official layouts: Flickr8k, Flickr30K and COCO with Karpathy's splits, CUB.

The known faults of their files are tolerated and counted. Other judges of COCO's test images are read here, too.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from xmr_core.base.errors import BadInput, require_choice
from xmr_core.base.files import existing
from xmr_core.base.types import SPLITS, Corpus, Relevance
from xmr_core.data.readers import assembly
from xmr_core.data.readers.assembly import ZETAS, FaultLog, find_path, list_images, photograph_corpus, read_lines

# Flickr8k.


_IMAGE_FOLDERS = ("Flicker8k_Dataset", "Flickr8k_Dataset", "Images", "images")
_SPLIT_FILES = {"train": "trainImages", "val": "devImages", "test": "testImages"}


def load_flickr8k(data_root: Path | str, faults: FaultLog | None = None) -> Corpus:
    """Corpus of about 8,000 photographs with five captions each.

    The files in data_root are described in docs/data.md#data-flickr8k. Images in none of the three lists get split ''.
    Relevance sets: 'annotated'. 'human', if the expert ratings are there: also pairs whose mean rating is 3 or more.
    'crowd', if the crowd's answers are there: also pairs that more than half of the crowd called right.
    grades: 'expert', the mean of three ratings from 1 (unrelated) to 4 (describes the image without errors); 'crowd',
    the share of yes in [0, 1].
    Tolerated: as in photograph_corpus; a space in the place of the tab, lines that are no caption or no rating, bytes
    that are not UTF-8.
    Raises: BadInput for a missing file or folder, ids that repeat, a listed image that is missing.
    Source: Hodosh, Young & Hockenmaier, JAIR 2013.
    >>> load_flickr8k("/no/such/folder")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: data_root of flickr8k not found: /no/such/folder does not exist. Give the right path.
    """
    faults = faults or FaultLog()
    base = existing(data_root, "data_root of flickr8k")
    text = base / "Flickr8k_text" if (base / "Flickr8k_text").is_dir() else base
    folder = find_path(base, _IMAGE_FOLDERS, "flickr8k")
    files, split_of = list_images(folder, faults=faults), {}
    for split, stem in _SPLIT_FILES.items():
        file = find_path(text, [f"Flickr_8k.{stem}.txt"], "flickr8k")
        names = " ".join(read_lines(file, faults)).split()
        twice = dict.fromkeys(name for name in names if name in split_of)
        faults.refuse(f"{file} lists images that another split lists too", twice)
        split_of |= dict.fromkeys(names, split)
        faults.refuse(f"{file} lists images that are not in {folder}", [n for n in names if n not in files])
    captions = _flickr_captions(find_path(text, ["Flickr8k.token.txt"], "flickr8k"), faults)
    expert = _ratings(text / "ExpertAnnotations.txt", _expert_grade, faults)
    crowd = _ratings(text / "CrowdFlowerAnnotations.txt", _crowd_grade, faults)
    grades = {kind: table for kind, table in (("expert", expert), ("crowd", crowd)) if len(table)}
    relevant = {"human": expert[expert["grade"] >= 3.0]} if len(expert) else {}
    relevant |= {"crowd": crowd[crowd["grade"] > 0.5]} if len(crowd) else {}
    pairs = {name: table[["caption_id", "image_id"]].itertuples(index=False) for name, table in relevant.items()}
    return photograph_corpus("flickr8k", assembly.image_table(files, split_of), captions, faults, pairs, grades)


def _flickr_captions(file: Path, faults: FaultLog) -> pd.DataFrame:
    """Rows caption_id → image_id, text. A line is 'image.jpg#n<tab>caption'."""
    rows = []
    for number, line in enumerate(read_lines(file, faults), 1):
        if not line.strip():
            continue
        caption_id, _, text = line.partition("\t" if "\t" in line else " ")
        image_id, mark, _ = caption_id.rpartition("#")
        place = f"{file.name} line {number}"
        if not mark:
            faults.tolerate("lines that are no caption", f"{place}: {line[:60]!r}")
            continue
        faults.tolerate("captions with a space for the tab", [place] * ("\t" not in line))
        rows.append((caption_id, image_id, text.strip()))
    return pd.DataFrame(rows, columns=["caption_id", "image_id", "text"]).set_index("caption_id")


def _ratings(file: Path, grade: Callable[..., float], faults: FaultLog) -> pd.DataFrame:
    """Columns image_id, caption_id and grade; no rows when there is no such file. A line is 'image<tab>caption<tab>…'.

    Lines are decoded one by one, because the circulating copy of the crowd's answers holds a block of damaged bytes.
    """
    rows = []
    for number, line in enumerate(assembly.read_bytes(file).split(b"\n") if file.exists() else [], 1):
        try:
            image_id, caption_id, *fields = line.decode("ascii").rstrip("\r").split("\t")
            rows.append((image_id, caption_id, grade(*fields)))
        except (ValueError, TypeError):
            if line.strip():
                faults.tolerate("rating lines that cannot be read", f"{file.name} line {number}")
    return pd.DataFrame(rows, columns=["image_id", "caption_id", "grade"])


def _expert_grade(*ratings: str) -> float:
    """The mean of three ratings from 1 to 4."""
    if len(ratings) != 3 or not set(ratings) <= set("1234"):
        raise ValueError
    return sum(map(int, ratings)) / 3


def _crowd_grade(share: str, yes: str, no: str) -> float:
    """The share of yes, in [0, 1]; the numbers of answers follow it."""
    if not 0 <= float(share) <= 1 or min(int(yes), int(no)) < 0:
        raise ValueError
    return float(share)


# CUB-200-2011: photographs of birds with ten captions each, split by class.


FOLDS = ("", "1", "2", "3")
CAPTIONS = 10
VAL_EVERY = 20
_LIST_FOLDERS = (
    "", "splits", "annotations", "annotations/cub", "datasets/annotations/cub", "cvpr2016_cub", "CUB_200_2011"
)  # fmt: skip
_CAPTION_FOLDERS = ("text_c10", "cvpr2016_cub/text_c10", "CUB_200_2011/text_c10", "birds/text_c10")


def load_cub(data_root: Path | str, faults: FaultLog | None = None, *, fold: str = "") -> Corpus:
    """Corpus of 11,788 photographs of 200 bird classes with ten captions each; a class is in one split only.

    The files in data_root, and the splits of every fold, are described in docs/data.md#data-cub.
    fold: '' trains on 150 classes, of whose images every 20th, in the order of images.txt, is val; '1', '2' and '3'
    train on 100 classes and validate on 50. test always holds the 50 classes of testclasses.txt. Images of training
    classes that seen_test_images.txt holds out form the split 'seen'. PCME trains on val as well and takes the test
    classes for validation. The lists name a class as '076.Dark_eyed_Junco', as 'Dark_eyed_Junco' or by its number.
    image_id: 'class/image.jpg'. caption_id: 'class/image.jpg#n'. images has a column class.
    Relevance sets: 'annotated' (a caption and its own image), 'class' (all images of the caption's class, as in PCME).
    Tolerated: as in photograph_corpus; images that are not in images.txt, classes with another name in a list than in
    classes.txt (the number counts), held-out images of other classes. Refused: lines without number and value, a class
    in two lists or not in classes.txt, missing images.
    Raises: BadInput for a missing file or folder, or an unknown fold.
    Source: Wah et al., 2011; Reed et al., CVPR 2016; Xian et al., CVPR 2017; Chun et al., CVPR 2021 (PCME).
    >>> load_cub("/no/such/folder")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: data_root of cub not found: /no/such/folder does not exist. Give the right path.
    """
    faults = faults or FaultLog()
    base = existing(data_root, "data_root of cub")
    require_choice("fold of cub", str(fold), FOLDS)
    birds = base if (base / "images.txt").exists() else base / "CUB_200_2011"
    tables = [find_path(birds, [f"{name}.txt"], "cub") for name in ("images", "image_class_labels", "classes")]
    listed, labels, names = (_read_numbered(file, faults) for file in tables)
    images = _images(birds, listed, labels, names, faults)
    images["split"] = _splits(base, images, names, str(fold), faults)
    exists = images["path"] != ""
    lost = images.index[(images["split"] != "") & ~exists]
    faults.refuse(f"cub: images are missing in {birds}/images", lost)
    images = images[exists]
    captions = _bird_captions(base, images.index.unique(), faults)
    about = {"fold": str(fold), "protocols": ["full"]}
    splits = (*SPLITS, "seen")  # unseen images of classes that were trained on
    corpus = photograph_corpus("cub", images, captions, faults, about=about, usual=CAPTIONS, splits=splits)

    def class_relevance(split: str) -> Relevance:
        i, t = corpus.rows(split)
        classes, owners = corpus.images["class"], corpus.captions["image_id"].iloc[t]
        caption_classes, image_classes = classes.loc[owners].to_numpy(), classes.iloc[i].to_numpy()
        return assembly.same_class(caption_classes, image_classes, owners.index, corpus.images.index[i])

    return replace(corpus, relevance_sets={**corpus.relevance_sets, "class": class_relevance})


def _read_numbered(file: Path, faults: FaultLog) -> dict[int, str]:
    """The lines 'number value' of a file."""
    values, bad = {}, []
    for line in filter(None, map(str.strip, read_lines(file, faults))):
        number, _, value = line.partition(" ")
        if number.isdecimal() and value.strip() and int(number) not in values:
            values[int(number)] = value.strip()
        else:
            bad.append(line[:60])
    faults.refuse(f"{file}: lines are no 'number value', or repeat a number", bad)
    return values


def _images(
    birds: Path, listed: dict[int, str], labels: dict[int, str], names: dict[int, str], faults: FaultLog
) -> pd.DataFrame:
    """Index image_id; columns class and path ('' where the file is missing), in the order of images.txt."""
    files = list_images(find_path(birds, ["images"], "cub"), deep=True)
    name_of = {str(number): name for number, name in names.items()}
    classes = [name_of.get(labels.get(number, "").lstrip("0"), "") for number in listed]
    paths, index = [files.get(name, "") for name in listed.values()], pd.Index(listed.values(), name="image_id")
    images = pd.DataFrame({"class": classes, "path": paths}, index=index)
    faults.refuse("cub: images have no class in image_class_labels.txt", index[images["class"] == ""])
    faults.tolerate("images that images.txt does not list", sorted(set(files) - set(listed.values())))
    return images[images["class"] != ""]


def _splits(base: Path, images: pd.DataFrame, names: dict[int, str], fold: str, faults: FaultLog) -> np.ndarray:
    """The split of every image, '' for none."""

    def list_file(name: str) -> Path | None:
        return next((f for place in _LIST_FOLDERS if (f := base / place / f"{name}.txt").exists()), None)

    hold_out = not fold and bool(list_file("trainvalclasses") or not list_file("trainclasses"))
    train = {"train": "trainvalclasses"} if hold_out else {"train": f"trainclasses{fold}", "val": f"valclasses{fold}"}
    split_of: dict[str, str] = {}
    for split, name in {**train, "test": "testclasses"}.items():
        file = list_file(name) or find_path(base, [f"{name}.txt"], "cub")
        classes = _read_classes(file, names, faults)
        faults.refuse(f"{file} holds classes of another split", [c for c in classes if c in split_of])
        split_of = {**dict.fromkeys(classes, split), **split_of}
    splits = images["class"].map(split_of).fillna("").to_numpy(dtype=object)
    if file := list_file("seen_test_images"):
        held = [line.strip() for line in read_lines(file, faults) if line.strip()]
        faults.refuse(f"{file} lists images that images.txt does not", [n for n in held if n not in images.index])
        out = images.index.isin(held)
        other = images.index[out & ~np.isin(splits, ["train", "val"])]
        faults.tolerate("held-out images of no training or validation class", other)
        splits[out & (splits == "train")] = "seen"
    if hold_out:
        splits[np.flatnonzero(splits == "train")[VAL_EVERY - 1 :: VAL_EVERY]] = "val"
    return splits


def _read_classes(file: Path, names: dict[int, str], faults: FaultLog) -> list[str]:
    """The classes of a list, with their names in classes.txt."""
    number_of = {name.partition(".")[2]: number for number, name in names.items()}
    classes, bad = [], []
    for line in filter(None, map(str.strip, read_lines(file, faults))):
        prefix, _, name = line.partition(".")
        listed = names.get(int(prefix) if prefix.isdecimal() else number_of.get(line, -1))
        if listed is None:
            bad.append(line)
            continue
        if name and line != listed:
            faults.tolerate("classes with another name than in classes.txt", f"{line} in {file.name}")
        classes.append(listed)
    faults.refuse(f"{file} names classes that are not in classes.txt", bad)
    return list(dict.fromkeys(classes))


def _bird_captions(base: Path, image_ids: Iterable[str], faults: FaultLog) -> pd.DataFrame:
    """Index caption_id; columns image_id, text."""
    folder = find_path(base, _CAPTION_FOLDERS, "cub")
    rows = []
    for image_id in image_ids:
        file = (folder / image_id).with_suffix(".txt")
        texts = read_lines(file, faults) if file.exists() else []
        rows += [(f"{image_id}#{n}", image_id, text.strip()) for n, text in enumerate(texts)]
    return pd.DataFrame(rows, columns=["caption_id", "image_id", "text"]).set_index("caption_id")


# The files of Karpathy & Fei-Fei.


# restval is a part of COCO's validation images on which everybody trains
SPLIT_OF = {"train": "train", "restval": "train", "val": "val", "test": "test"}
_LISTS = ("", "annotations/", "karpathy/", "caption_datasets/", "splits/")


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
    Raises: BadInput, when the file is missing or is not one of Karpathy's, or when images are missing;
        DamagedFile, when the file is truncated.
    Source: Karpathy & Fei-Fei, CVPR 2015 (caption_datasets.zip).
    """
    base = existing(data_root, f"data_root of {name}")
    own = next((f.name for place in ("", "annotations/") for f in base.glob(f"{place}captions_*.json")), "")
    hint = f" Or take dataset='folder': it reads {own}, with COCO's own splits." if own else ""
    file = find_path(base, [f"{folder}dataset_{name}.json" for folder in _LISTS], name, hint)
    records = _read_records(file, name, id_field, faults)

    @cache
    def listing(folder: Path) -> dict[str, str]:
        return list_images(folder) if folder.is_dir() else {}

    for record in records.values():
        # the last folder of the filepath only, so that it cannot lead out of data_root
        below = str(record.get("filepath", "")).rstrip("/").rpartition("/")[2].strip(".")
        hits = (listing(base / place.format(below).strip("/")).get(record["filename"]) for place in places)
        record["path"] = next(filter(None, hits), "")
    missing = [record["filename"] for record in records.values() if not record["path"]]
    tried = f"{', '.join(places)} of {base}"
    faults.refuse(f"{name}: images are missing in {tried}", missing)
    records = {i: record for i, record in records.items() if record["path"]}
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
    paths = [record["path"] for record in records.values()]
    images = pd.DataFrame({"split": splits, "path": paths}, index=pd.Index(list(records), name="image_id"))
    captions = pd.DataFrame(rows, columns=["caption_id", "image_id", "text"]).set_index("caption_id")
    return images, captions


def _read_records(file: Path, name: str, id_field: str, faults: FaultLog) -> dict[object, dict]:
    """id → record of a file that is Karpathy's, of this collection."""

    # tokens are most of the file, and never used: 'raw' is the caption
    value = assembly.read_json(file, faults, lambda item: {k: v for k, v in item.items() if k != "tokens"})
    records = value.get("images") if isinstance(value, dict) else None
    if not isinstance(records, list) or not records or str(value.get("dataset", name)).lower() != name:
        raise BadInput(f"{file} is no split file of Karpathy. Give dataset_{name}.json of caption_datasets.zip.")
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
    return sound


# Flickr30K with Karpathy's splits.


_FLICKR30K_PLACES = ("flickr30k-images", "flickr30k_images", "flickr30k_images/flickr30k_images", "images", "Images")


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
    images, captions = karpathy_tables(data_root, "flickr30k", _FLICKR30K_PLACES, faults)
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
    relevant = json.loads((_folder(folder) / f"{_FILES[kind]}_{DIRECTIONS[direction]}.json").read_bytes())
    members = set(gallery.tolist())
    answered = [q for q in queries.tolist() if members.intersection(relevant.get(str(q), ()))]
    if not answered:
        raise BadInput(f"no query is judged in {kind!r}: these are no ids of COCO's test set.")
    pairs = [(q, g) for q in answered for g in relevant[str(q)] if absent == "count" or g in members]
    beyond = sorted({g for _, g in pairs} - members)
    return Relevance.from_pairs(pairs, answered, np.concatenate([gallery, np.array(beyond, gallery.dtype)]))


def _folder(folder: str | Path) -> Path:
    """The folder of the JSON files: the given one, or that of the package."""
    spec = None if folder else find_spec("eccv_caption")
    place = Path(spec.origin).parent / "data" if spec and spec.origin else Path(folder or "eccv_caption")
    if not (place / "eccv_image_to_caption.json").exists():
        raise BadInput(f"{place} holds no judgments of COCO. pip install 'xmr-study[coco]', or give its folder.")
    return place


def _read_instances(file: Path, faults: FaultLog) -> tuple[dict[int, set[int]], dict[int, str]]:
    """(image id → the ids of the categories in instances_val2014.json; the names of the categories). Crowds count like
    any instance.

    Only two numbers of each of the 300,000 annotations are retained while reading, because the polygons would take
    gigabytes. Raises: BadInput for a file without instance annotations, DamagedFile for a truncated one.
    """
    shown, names, unfit = defaultdict(set), {}, 0

    def collect(item: dict) -> dict | None:
        nonlocal unfit
        if "category_id" in item:
            try:
                image, category = int(item["image_id"]), int(item["category_id"])
                shown[image].add(category)
            except (KeyError, TypeError, ValueError):
                unfit += 1
        elif "supercategory" in item and isinstance(item.get("id"), int):
            names[item["id"]] = str(item.get("name", item["id"]))
        return item if "annotations" in item else None

    value = assembly.read_json(file, faults, collect)
    if not shown or not isinstance(value, dict):
        raise BadInput(f"{file} holds no instance annotations. Give COCO's, or take the file out.")
    faults.tolerate("instance annotations without an image or category", file.name, unfit)
    return shown, names


# COCO with Karpathy's splits and all its relevance sets.


_COCO_PLACES = ("{0}", "images/{0}", "images", "images/trainval35k", "{0}/{0}")  # {0}: train2014 or val2014
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
    images, captions = karpathy_tables(data_root, "coco", _COCO_PLACES, faults, id_field="cocoid", limit=assembly.USUAL)
    shown, names = {}, {}
    for folder in _INSTANCES:
        if not shown and (file := Path(data_root).expanduser() / folder / "instances_val2014.json").exists():
            with faults.noting():
                shown, names = _read_instances(file, faults)
    corpus = photograph_corpus("coco", images, captions, faults)
    sets = {kind: cache(partial(_judgments, corpus, kind)) for kind in ("eccv", "cxc")}
    sets |= {f"plausible ζ={zeta}": partial(_plausible, corpus, shown, zeta) for zeta in ZETAS}
    left_out = {}
    for name in ("eccv", "cxc", f"plausible ζ={ZETAS[0]}"):
        try:
            sets[name]("test")
        except BadInput as e:
            left_out[name.split()[0]] = str(e)
    present = {name: relevance for name, relevance in sets.items() if name.split()[0] not in left_out}
    fitting = ["coco-5k", "coco-1k"] if len(corpus.rows("test")[0]) == 5000 else []
    table = corpus.images
    if shown:
        named = [sorted(names.get(kind, str(kind)) for kind in shown.get(image, ())) for image in table.index.tolist()]
        table = table.assign(objects=["; ".join(own) for own in named])
    return replace(
        corpus,
        images=table,
        relevance_sets={**corpus.relevance_sets, **present},
        about={**corpus.about, "protocols": [*fitting, "full"], "relevance sets left out": left_out},
    )


def _ids(corpus: Corpus, split: str) -> tuple[np.ndarray, np.ndarray]:
    """(image ids, caption ids) of a split, in the order of the file."""
    i, t = corpus.rows(split)
    return corpus.images.index.to_numpy()[i], corpus.captions.index.to_numpy()[t]


def _judgments(corpus: Corpus, kind: str, split: str) -> assembly.TwoWayRelevance:
    """ECCV Caption or CxC over a whole split."""
    image_ids, caption_ids = _ids(corpus, split)

    def extended(direction: str, queries: np.ndarray, gallery: np.ndarray) -> Relevance:
        part = coco_judgments(kind, direction, image_ids, caption_ids)
        pairs = zip(part.query_ids[part.queries], part.gallery_ids[part.indices], strict=True)
        return Relevance.from_pairs(pairs, queries, gallery)

    forward = extended("t2i", caption_ids, image_ids)
    return assembly.TwoWayRelevance.join(forward, extended("i2t", image_ids, caption_ids))


def _plausible(corpus: Corpus, shown: Mapping[int, set[int]], zeta: int, split: str) -> Relevance:
    """Plausible matches of the labelled images of a split and their captions."""
    image_ids, caption_ids = _ids(corpus, split)
    kinds = sorted(set().union(*shown.values()))
    codes = [[kind in shown.get(image, ()) for kind in kinds] for image in image_ids.tolist()]
    codes = np.array(codes, np.int8).reshape(len(image_ids), len(kinds))
    if not codes.any():
        raise BadInput(f"no image of {split!r} has a label in instances_val2014.json.")
    image_of = corpus.relevance_sets["annotated"](split).indices
    return assembly.plausible_match(codes, image_of, zeta, codes.any(1), caption_ids, image_ids)
