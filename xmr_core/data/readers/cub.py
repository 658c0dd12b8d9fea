"""CUB-200-2011 birds with ten captions each, split by class."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from xmr_core.base import paths
from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import Corpus
from xmr_core.data.readers.faults import Faults
from xmr_core.data.readers.photographs import needed, photograph_corpus, pictures_in, read_lines
from xmr_core.data.readers.plausible_match import same_class

FOLDS = ("", "1", "2", "3")
CAPTIONS = 10
VAL_EVERY = 20
_LIST_FOLDERS = ("", "splits/", "annotations/", "annotations/cub/", "datasets/annotations/cub/", "cvpr2016_cub/", "CUB_200_2011/")
_CAPTION_FOLDERS = ("text_c10", "cvpr2016_cub/text_c10", "CUB_200_2011/text_c10", "birds/text_c10")


def load_cub(data_root: Path | str, fold: str = "", faults: Faults | None = None) -> Corpus:
    """Corpus of 11,788 photographs of 200 kinds of bird with ten captions each; a split has classes of its own.

    data_root holds images.txt, classes.txt, image_class_labels.txt and `images/` (or a folder CUB_200_2011 with them), Reed's
    `text_c10/<class>/<picture>.txt`, one caption a line, and lists of classes, one a line ('076.Dark_eyed_Junco', or its number):
    PCME's, whose names are those of Xian et al., or Reed's, here or in a folder `splits`, `annotations`, `cvpr2016_cub` and the like.
    Splits, test being always the 50 classes of testclasses.txt and never part of another:
        fold '': train is the 150 classes of trainvalclasses.txt; every 20th picture of them, in the order of images.txt, is val.
            PCME trains on these 5 % as well, but takes the test classes for validation. Without that file, Reed's trainclasses.txt
            and valclasses.txt, 100 and 50 classes.
        fold '1', '2', '3': train is the 100 classes of trainclasses{fold}.txt, val the 50 of valclasses{fold}.txt.
        seen: pictures of training classes that seen_test_images.txt holds out, if there is such a list.
    image_id: 'class/picture.jpg', caption_id: 'class/picture.jpg#n'. images has a column class.
    judges: 'annotated' (a caption and its own picture), 'class' (every picture of the caption's class, what PCME reports).
    Tolerated and counted: what photograph_corpus says, pictures that images.txt does not list, classes called otherwise in a
    list than in classes.txt (the number counts), held-out pictures of no training or validation class. Refused: lines without a number and
    a value, a class in two lists or in none of classes.txt, a listed picture that is missing.
    Raises: BadInput naming the file or folder that was looked for, or for an unknown fold.
    Source: Wah et al., 2011; Reed et al., CVPR 2016; Xian et al., CVPR 2017; Chun et al., CVPR 2021 (PCME); METHODS §10.4.
    """
    faults = faults or Faults()
    base = paths.existing(data_root, "data_root of cub")
    if str(fold) not in FOLDS:
        raise BadInput(f"fold of cub is '' (150 classes to train on), '1', '2' or '3' (100 to train on, 50 to validate), got {fold!r}.")
    birds = base if (base / "images.txt").exists() else base / "CUB_200_2011"
    listed, labels, names = (
        _numbered(needed(birds, [f"{file}.txt"], "cub"), faults) for file in ("images", "image_class_labels", "classes")
    )
    images = _images(birds, listed, labels, names, faults)
    images["split"] = _splits(base, images, names, str(fold), faults)
    there = images["path"] != ""
    used = images["split"] != ""
    if (gone := images.index[used & ~there]).size:
        faults.refuse(f"cub: {len(gone):,} of {used.sum():,} pictures are missing, the first is {gone[0]!r}, looked for in {birds}/images.")
    images = images[there]
    corpus = photograph_corpus(
        "cub",
        images,
        _captions(base, images.index.unique(), faults),
        faults,
        about={"fold": str(fold), "protocols": ["full"]},
        usual=CAPTIONS,
    )

    def of_class(split: str) -> Relevance:
        i, t = corpus.rows(split)
        pictures, captions = corpus.images["class"].iloc[i], corpus.captions["image_id"].iloc[t]
        return same_class(corpus.images["class"].loc[captions].to_numpy(), pictures.to_numpy(), captions.index, pictures.index)

    return replace(corpus, judges={**corpus.judges, "class": of_class})


def _numbered(file: Path, faults: Faults) -> dict[int, str]:
    """The lines 'number value' of a file."""
    found, bad = {}, []
    for at, line in enumerate(read_lines(file, faults), 1):
        number, _, value = line.strip().partition(" ")
        if number.isdecimal() and value.strip() and int(number) not in found:
            found[int(number)] = value.strip()
        elif line.strip():
            bad.append(f"line {at}: {line[:60]!r}")
    if bad:
        faults.refuse(f"{file}: {len(bad)} lines are no 'number value', or repeat a number, the first is {bad[0]}. Mend the file.")
    return found


def _images(birds: Path, listed: dict[int, str], labels: dict[int, str], names: dict[int, str], faults: Faults) -> pd.DataFrame:
    """Index image_id; columns class ('076.Dark_eyed_Junco') and path ('' where the file is missing), in the order of images.txt."""
    files = pictures_in(needed(birds, ["images"], "cub"), deep=True)
    kinds = {number: names.get(int(label), "") if label.isdecimal() else "" for number, label in labels.items()}
    if unlabelled := [name for number, name in listed.items() if not kinds.get(number)]:
        faults.refuse(f"cub: {len(unlabelled)} pictures have no class in image_class_labels.txt, the first is {unlabelled[0]!r}.")
    kept = [(name, kinds[number]) for number, name in listed.items() if kinds.get(number)]
    extra = sorted(set(files) - set(listed.values()))
    faults.tolerate("pictures that images.txt does not list", extra[0] if extra else "", len(extra))
    return pd.DataFrame(
        {"class": [kind for _, kind in kept], "path": [files.get(name, "") for name, _ in kept]},
        index=pd.Index([name for name, _ in kept], name="image_id", dtype=object),
    )


def _splits(base: Path, images: pd.DataFrame, names: dict[int, str], fold: str, faults: Faults) -> np.ndarray:
    """A split for every picture, '' for none."""

    def a_list(name: str) -> Path:
        return needed(base, [f"{folder}{name}.txt" for folder in _LIST_FOLDERS], "cub")

    def is_there(name: str) -> bool:
        return any((base / f"{folder}{name}.txt").exists() for folder in _LIST_FOLDERS)

    whole = not fold and (is_there("trainvalclasses") or not is_there("trainclasses"))
    lists = {"train": "trainvalclasses"} if whole else {"train": f"trainclasses{fold}", "val": f"valclasses{fold}"}
    split_of: dict[str, str] = {}
    for split, name in {**lists, "test": "testclasses"}.items():
        file = a_list(name)
        chosen = _classes(file, names, faults)
        if twice := [c for c in chosen if c in split_of]:
            faults.refuse(
                f"{file} holds {len(twice)} classes of {split_of[twice[0]]!r} too, the first is {twice[0]!r}. A class has one split."
            )
        split_of = {**dict.fromkeys(chosen, split), **split_of}
    splits = images["class"].map(split_of).fillna("").to_numpy(dtype=object)
    if is_there("seen_test_images"):
        file = a_list("seen_test_images")
        held = [line.strip() for line in read_lines(file, faults) if line.strip()]
        if strange := [name for name in held if name not in images.index]:
            faults.refuse(f"{file} lists {len(strange)} pictures that images.txt does not, the first is {strange[0]!r}.")
        out = images.index.isin(held)
        unfit = images.index[out & ~np.isin(splits, ["train", "val"])]
        faults.tolerate("held-out pictures of no training or validation class", unfit[0] if len(unfit) else "", len(unfit))
        splits[out & (splits == "train")] = "seen"
    if whole:
        splits[np.flatnonzero(splits == "train")[VAL_EVERY - 1 :: VAL_EVERY]] = "val"
    return splits


def _classes(file: Path, names: dict[int, str], faults: Faults) -> list[str]:
    """The classes a list names, as classes.txt calls them."""
    number_of = {name.partition(".")[2]: number for number, name in names.items()}
    found, bad = [], []
    for line in filter(None, map(str.strip, read_lines(file, faults))):
        number, _, called = line.partition(".")
        number = int(number) if number.isdecimal() else number_of.get(line, -1)
        if number not in names:
            bad.append(line)
            continue
        if called and line != names[number]:
            faults.tolerate("classes called otherwise than in classes.txt", f"{line} in {file.name}")
        found.append(names[number])
    if bad:
        faults.refuse(f"{file} names {len(bad)} classes that are not in classes.txt, the first is {bad[0]!r}.")
    return list(dict.fromkeys(found))


def _captions(base: Path, image_ids: Iterable[str], faults: Faults) -> pd.DataFrame:
    """Index caption_id; columns image_id, text."""
    folder = needed(base, _CAPTION_FOLDERS, "cub")
    rows = []
    for image_id in image_ids:
        file = (folder / image_id).with_suffix(".txt")
        texts = read_lines(file, faults) if file.exists() else []
        rows += [(f"{image_id}#{n}", image_id, text.strip()) for n, text in enumerate(texts)]
    if not rows:
        raise BadInput(f"cub: {folder} holds no caption of any picture. It needs a folder for each class with one .txt for each picture.")
    return pd.DataFrame(rows, columns=["caption_id", "image_id", "text"]).set_index("caption_id")
