"""Any folder of images, with captions in a table or in lines of JSON, or without captions."""

import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd

from xmr_core.base.errors import BadInput
from xmr_core.base.files import existing
from xmr_core.base.types import Corpus
from xmr_core.data.images.files import SUFFIXES
from xmr_core.data.readers.assembly import photograph_corpus
from xmr_core.data.readers.caption_file import read_caption_file
from xmr_core.data.readers.fault_log import FaultLog
from xmr_core.data.readers.files import list_images

FILES = ("captions.csv", "captions.tsv", "captions.jsonl")
_WORDS = {
    "train": ("train", "training", "restval"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}
_OUR_SPLIT = {"": "", **{word: split for split, words in _WORDS.items() for word in words}}


def load_folder(data_root: Path | str, faults: FaultLog | None = None) -> Corpus:
    """Corpus of the images in a folder and its sub-folders. image_id: the path below the folder ('holiday/beach.jpg').

    Captions, any number for an image, stand in one of FILES (see read_caption_file). A line names its image by this
    path, by a longer path that ends in it, or by an end of it that only one image has. Without such a file the corpus
    can be searched: every image is in test, and there are no captions.
    Splits come from the column split; a blank means none. Without that column, an image with captions gets a split by a
    hash of its image_id, 80 % train, 10 % val and 10 % test, so that adding images moves no other; an image without
    captions gets none. about['splits'] says which way was taken.
    Tolerated: as in read_caption_file and photograph_corpus; captions given twice, names that fit several images.
    Raises: BadInput for a folder without images, two caption files, captions of which none names an image in the
        folder, unknown splits, an image in two splits.
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("RGB", (9, 9)).save(f"{folder}/dog.png")
    ...     load_folder(folder).images["split"].to_dict()
    {'dog.png': 'test'}
    """
    faults = faults or FaultLog()
    base = existing(data_root, "data_root of folder")
    files = list_images(base, deep=True) if base.is_dir() else {}
    if not files:
        formats = f"({', '.join(SUFFIXES)} are looked for, in sub-folders too)"
        raise BadInput(f"folder: no image in {base} {formats}. Give the right data_root.")
    caption_files = [name for name in FILES if (base / name).exists()]
    if len(caption_files) > 1:
        faults.refuse(f"{base} holds {' and '.join(caption_files)}. Keep the one that is meant.")
    if caption_files:
        captions, split_of, origin = _captions(base / caption_files[0], files, faults)
    else:
        captions = pd.DataFrame({"image_id": [], "text": []}, index=pd.Index([], name="caption_id"), dtype=object)
        split_of, origin = dict.fromkeys(files, "test"), "no captions: every image in test, to be searched"
        suffixes = (".csv", ".tsv", ".json", ".jsonl", ".txt")
        texts = sorted(path.name for path in base.iterdir() if path.suffix.lower() in suffixes)
        faults.tolerate(f"text files that are not read (captions are looked for in {', '.join(FILES)})", texts)
    images = pd.DataFrame(sorted(files.items()), columns=["image_id", "path"]).set_index("image_id")
    images["split"] = [split_of.get(image_id, "") for image_id in images.index]
    return photograph_corpus("folder", images, captions, faults, usual=0, about={"splits": origin})


def hash_split(image_id: str) -> str:
    """'train' for 8 of 10 names, 'val' and 'test' for one each; the same on every machine.

    >>> [hash_split(f"{n}.jpg") for n in range(4)]
    ['train', 'train', 'train', 'val']
    """
    tenth = int.from_bytes(hashlib.blake2b(image_id.encode(), digest_size=8).digest(), "big") % 10
    return {8: "val", 9: "test"}.get(tenth, "train")


def _captions(file: Path, files: Mapping[str, str], faults: FaultLog) -> tuple[pd.DataFrame, dict[str, str], str]:
    """(captions, image_id → split, how the splits came about)."""
    table = read_caption_file(file, faults)
    matches = _match_names(table["image"].unique(), files)
    several = [f"{name}: {', '.join(ids[:3])}" for name, ids in matches.items() if len(ids) > 1]
    faults.tolerate("names that fit several images, their captions dropped", several)
    table = table[np.array([len(matches[name]) <= 1 for name in table["image"]], bool)]
    owners = [(matches[name] or [name])[0] for name in table["image"]]
    table = table.assign(image_id=pd.Series(owners, table.index, dtype=object))
    exists = table["image_id"].isin(files)
    if len(table) and not exists.any():
        faults.refuse(
            f"{file}: none of the {len(table):,} captions names an image of the folder. The first names "
            f"{table['image'].iloc[0]!r}; the images in {file.parent} are called like {min(files)!r}."
        )
    if "split" in table:
        split_of, origin = _written_splits(table[exists], file, faults), f"column split of {file.name}"
    else:
        split_of = {image_id: hash_split(image_id) for image_id in table["image_id"][exists]}
        rule = "by a hash of each image's name, 80 % train, 10 % val, 10 % test"
        origin = f"{rule}, because {file.name} has no column split"
    twice = table.duplicated(["image_id", "text"])
    faults.tolerate("captions given twice for an image", table["image"][twice])
    table = table[~twice]
    default_ids = table["image_id"] + "#" + table.groupby("image_id").cumcount().astype(str)
    ids = table["caption_id"].where(table["caption_id"] != "", default_ids)
    return table.set_index(pd.Index(ids.tolist(), name="caption_id"))[["image_id", "text"]], split_of, origin


def _written_splits(table: pd.DataFrame, file: Path, faults: FaultLog) -> dict[str, str]:
    """image_id → our name of the split that its lines give."""
    written = table["split"].str.strip().str.lower()
    if unknown := sorted(set(written) - set(_OUR_SPLIT)):
        accepted = ", ".join(filter(None, _OUR_SPLIT))
        faults.refuse(f"{file}: unknown split {', '.join(map(repr, unknown[:5]))}. Known: {accepted}, or blank.")
    table = table.assign(split=written.map(lambda name: _OUR_SPLIT.get(name, "")))
    table = table.loc[table["split"] != "", ["image_id", "split"]].drop_duplicates()
    several = sorted(set(table["image_id"][table["image_id"].duplicated()]))
    faults.refuse_items(several, f"{file} puts", "images in more than one split", "Give each image one.")
    return dict(zip(table["image_id"], table["split"], strict=True))


def _match_names(names: list[str], files: Mapping[str, str]) -> dict[str, list[str]]:
    """Name of an image as somebody wrote it → the image_ids that it can mean."""
    ids_of: dict[str, list[str]] = {}
    for image_id in files:
        ids_of.setdefault(PurePosixPath(image_id).name, []).append(image_id)

    def matches(written: str) -> list[str]:
        plain = written.replace("\\", "/").removeprefix("./")
        if plain in files:
            return [plain]
        ids = ids_of.get(PurePosixPath(plain).name, [])
        if ends := [image_id for image_id in ids if plain.endswith(f"/{image_id}")]:
            return [max(ends, key=len)]
        return [image_id for image_id in ids if image_id.endswith(f"/{plain}")]

    return {name: matches(name) for name in names}
