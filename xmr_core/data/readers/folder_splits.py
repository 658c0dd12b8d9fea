"""Splits of a folder of images: written beside the captions, named by files and sub-folders, or by a hash."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

import pandas as pd

from xmr_core.data.readers.fault_log import FaultLog

_WORDS = {
    "train": ("train", "training", "restval"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
OUR_SPLIT = {"": "", **{word: split for split, words in _WORDS.items() for word in words}}
_HASHED = {8: "val", 9: "test"}


def hash_split(image_id: str) -> str:
    """'train' for 8 of 10 names, 'val' and 'test' for one each; the same on every machine.

    >>> [hash_split(f"{n}.jpg") for n in range(4)]
    ['train', 'train', 'train', 'val']
    """
    return _HASHED.get(_tenth(image_id), "train")


def _tenth(image_id: str) -> int:
    return int.from_bytes(hashlib.blake2b(image_id.encode(), digest_size=8).digest(), "big") % 10


def written_splits(table: pd.DataFrame, source: str, faults: FaultLog) -> dict[str, str]:
    """image_id → our name of the split that the rows of a table give (columns image_id, split).

    Refused: unknown splits, an image in two of them.
    """
    written = table["split"].str.strip().str.lower()
    if unknown := sorted(set(written) - set(OUR_SPLIT)):
        accepted = ", ".join(filter(None, OUR_SPLIT))
        faults.refuse(f"{source}: unknown split {', '.join(map(repr, unknown[:5]))}. Known: {accepted}, or blank.")
    table = table.assign(split=written.map(lambda name: OUR_SPLIT.get(name, "")))
    table = table.loc[table["split"] != "", ["image_id", "split"]].drop_duplicates()
    several = sorted(set(table["image_id"][table["image_id"].duplicated()]))
    faults.refuse_items(several, f"{source} puts", "images in more than one split", "Give each image one.")
    return dict(zip(table["image_id"], table["split"], strict=True))


def word_split(words: Iterable[str]) -> str:
    """The split that the first word that names one means, or ''.

    >>> word_split(["captions", "validation"]), word_split(["captions"])
    ('val', '')
    """
    return next((OUR_SPLIT[word] for word in words if OUR_SPLIT.get(word)), "")


def folder_splits(image_ids: Iterable[str]) -> dict[str, str]:
    """image_id → the split that one of its sub-folders names; images outside such a folder are left out.

    >>> folder_splits(["train2017/1.jpg", "data/validation/2.jpg", "trained/3.jpg"])
    {'train2017/1.jpg': 'train', 'data/validation/2.jpg': 'val'}
    """
    pairs = (
        (i, word_split(part.lower().rstrip("0123456789") for part in PurePosixPath(i).parts[:-1])) for i in image_ids
    )
    return {image_id: split for image_id, split in pairs if split}


def completed(split_of: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Splits of which val or test may be missing, with a tenth of train in each one that is; and what was done.

    The tenth is that of `hash_split`. Without train, nothing is done.
    """
    present = set(split_of.values())
    drawn = {tenth: split for tenth, split in _HASHED.items() if split not in present and "train" in present}
    out = {i: drawn.get(_tenth(i), split) if split == "train" else split for i, split in split_of.items()}
    how = f"; {' and '.join(drawn.values())} by a hash of each image's name, a tenth of train each" if drawn else ""
    return out, how
