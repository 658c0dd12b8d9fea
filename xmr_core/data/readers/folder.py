"""Any folder of pictures, with captions in a table, in lines of JSON, or without captions."""

import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd

from xmr_core.base import paths
from xmr_core.base.errors import BadInput
from xmr_core.base.types import Corpus
from xmr_core.data.images.files import SUFFIXES
from xmr_core.data.readers.caption_file import read_caption_file
from xmr_core.data.readers.faults import Faults
from xmr_core.data.readers.photographs import SPLITS, photograph_corpus, pictures_in

FILES = ("captions.csv", "captions.tsv", "captions.jsonl")
_OUR_SPLIT = {"": "", "training": "train", "restval": "train", "dev": "val", "valid": "val", "validation": "val", "testing": "test"} | {
    name: name for name in SPLITS
}


def load_folder(data_root: Path | str, faults: Faults | None = None) -> Corpus:
    """Corpus of the pictures in a folder and its sub-folders; image_id is the path below the folder ('holiday/beach.jpg').

    Captions, any number a picture, stand in captions.csv, captions.tsv or captions.jsonl (see data.caption_file). A line names its
    picture by this path, by a longer one that ends in it, or by as much of its end as only one picture has. Without such a file the
    corpus is one to search: every picture in split test, no captions.
    Splits come from the column split (train, val or dev or valid, test; blank: in none). Without it a picture with captions gets one
    by a hash of its image_id, 80 % train, 10 % val, 10 % test, so that adding pictures moves no other; a picture without captions is
    in none. about['splits'] says which.
    Tolerated and counted: see data.caption_file and data.tables; captions given twice for a picture, names that fit several pictures.
    Raises: BadInput for no pictures, two caption files, captions of which none names a picture that is there, unknown splits,
        a picture in two splits.
    """
    faults = faults or Faults()
    base = paths.existing(data_root, "data_root of folder")
    files = pictures_in(base, deep=True) if base.is_dir() else {}
    if not files:
        raise BadInput(
            f"folder: no picture in {base} ({', '.join(SUFFIXES)} are looked for, in sub-folders too). Give the right data_root."
        )
    given = [name for name in FILES if (base / name).exists()]
    if len(given) > 1:
        faults.refuse(f"{base} holds {' and '.join(given)}. Keep the one that is meant.")
    captions = pd.DataFrame({"image_id": [], "text": []}, index=pd.Index([], name="caption_id"), dtype=object)
    if given:
        captions, split_of, told = _captions(base / given[0], files, faults)
    else:
        near = sorted(p.name for p in base.iterdir() if p.suffix.lower() in (".csv", ".tsv", ".json", ".jsonl", ".txt"))
        faults.tolerate(f"text files that are not read (captions are looked for in {', '.join(FILES)})", ", ".join(near), len(near))
        split_of, told = dict.fromkeys(files, "test"), "no captions: every picture in test, to be searched"
    names = sorted(files)
    images = pd.DataFrame(
        {"split": [split_of.get(n, "") for n in names], "path": [files[n] for n in names]}, index=pd.Index(names, name="image_id")
    )
    return photograph_corpus("folder", images, captions, faults, usual=0, about={"splits": told})


def hash_split(image_id: str) -> str:
    """'train' for 8 of 10 names, 'val' and 'test' for one each, the same on every machine."""
    tenth = int.from_bytes(hashlib.blake2b(image_id.encode(), digest_size=8).digest(), "big") % 10
    return {8: "val", 9: "test"}.get(tenth, "train")


def _captions(file: Path, files: Mapping[str, str], faults: Faults) -> tuple[pd.DataFrame, dict[str, str], str]:
    """(captions, image_id → split, how that came about)."""
    table = read_caption_file(file, faults)
    find = _finder(files)
    found = {name: find(name) for name in table["image"].unique()}
    for name, fits in found.items():
        faults.tolerate(
            "names that fit several pictures, their captions dropped", f"{name}: {', '.join(fits[:3])}", times=int(len(fits) > 1)
        )
    table = table[np.array([len(found[name]) <= 1 for name in table["image"]], bool)]
    table = table.assign(image_id=pd.Series([(found[name] or [name])[0] for name in table["image"]], table.index, dtype=object))
    known = table["image_id"].isin(files)
    if len(table) and not known.any():
        faults.refuse(
            f"{file}: none of the {len(table):,} captions names a picture that is there. The first names {table['image'].iloc[0]!r}; "
            f"the pictures in {file.parent} are called like {min(files)!r}."
        )
    split_of = _given_splits(table[known], file, faults) if "split" in table else {i: hash_split(i) for i in table["image_id"][known]}
    told = (
        f"column split of {file.name}"
        if "split" in table
        else f"by a hash of each picture's name, 80 % train, 10 % val, 10 % test, because {file.name} has no column split"
    )
    twice = table.duplicated(["image_id", "text"])
    faults.tolerate("captions given twice for a picture", table["image"][twice].iloc[0] if twice.any() else "", int(twice.sum()))
    table = table[~twice]
    numbered = zip(table["caption_id"], table["image_id"], table.groupby("image_id").cumcount(), strict=True)
    ids = [given or f"{image_id}#{n}" for given, image_id, n in numbered]
    return table.set_index(pd.Index(ids, name="caption_id"))[["image_id", "text"]], split_of, told


def _given_splits(table: pd.DataFrame, file: Path, faults: Faults) -> dict[str, str]:
    """image_id → our name of the split its lines name."""
    written = table["split"].str.strip().str.lower()
    if unknown := sorted(set(written) - set(_OUR_SPLIT)):
        faults.refuse(
            f"{file}: unknown split {', '.join(map(repr, unknown[:5]))}. Known: {', '.join(n for n in _OUR_SPLIT if n)}, or blank."
        )
    ours = written.map(lambda name: _OUR_SPLIT.get(name, ""))
    named = pd.DataFrame({"image_id": table["image_id"], "split": ours})[ours != ""].drop_duplicates()
    if several := sorted(set(named["image_id"][named["image_id"].duplicated()])):
        faults.refuse(f"{file} puts {len(several)} pictures in more than one split, the first is {several[0]!r}. Give each picture one.")
    return dict(zip(named["image_id"], named["split"], strict=True))


def _finder(files: Mapping[str, str]):
    """A function: a picture's name as someone wrote it → the image_ids it can mean."""
    by_name: dict[str, list[str]] = {}
    for image_id in files:
        by_name.setdefault(PurePosixPath(image_id).name, []).append(image_id)

    def find(written: str) -> list[str]:
        plain = written.replace("\\", "/").removeprefix("./")
        if plain in files:
            return [plain]
        alike = by_name.get(PurePosixPath(plain).name, [])
        if inside := [image_id for image_id in alike if plain.endswith(f"/{image_id}")]:
            return [max(inside, key=len)]
        return [image_id for image_id in alike if image_id.endswith(f"/{plain}")]

    return find
