"""CUB-200-2011: photographs of birds with ten captions each, split by class."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from xmr_core.base.errors import BadInput, require_choice
from xmr_core.base.files import existing
from xmr_core.base.types import SPLITS, Corpus, Relevance
from xmr_core.data.readers.assembly import FaultLog, find_path, list_images, photograph_corpus, read_lines, same_class

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
    captions = _captions(base, images.index.unique(), faults)
    about = {"fold": str(fold), "protocols": ["full"]}
    splits = (*SPLITS, "seen")  # unseen images of classes that were trained on
    corpus = photograph_corpus("cub", images, captions, faults, about=about, usual=CAPTIONS, splits=splits)

    def class_relevance(split: str) -> Relevance:
        i, t = corpus.rows(split)
        classes, owners = corpus.images["class"], corpus.captions["image_id"].iloc[t]
        caption_classes, image_classes = classes.loc[owners].to_numpy(), classes.iloc[i].to_numpy()
        return same_class(caption_classes, image_classes, owners.index, corpus.images.index[i])

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


def _captions(base: Path, image_ids: Iterable[str], faults: FaultLog) -> pd.DataFrame:
    """Index caption_id; columns image_id, text."""
    folder = find_path(base, _CAPTION_FOLDERS, "cub")
    rows = []
    for image_id in image_ids:
        file = (folder / image_id).with_suffix(".txt")
        texts = read_lines(file, faults) if file.exists() else []
        rows += [(f"{image_id}#{n}", image_id, text.strip()) for n, text in enumerate(texts)]
    if not rows:
        raise BadInput(f"cub: {folder} holds no caption; it needs a folder for each class, with a .txt for each image.")
    return pd.DataFrame(rows, columns=["caption_id", "image_id", "text"]).set_index("caption_id")
