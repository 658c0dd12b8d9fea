"""Which files of a folder hold its captions, in the layouts that people use."""

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from unicodedata import normalize

import pandas as pd

from xmr_core.data.readers.caption_file import caption_table, read_caption_file
from xmr_core.data.readers.fault_log import FaultLog
from xmr_core.data.readers.files import read_json, read_lines
from xmr_core.data.readers.folder_splits import word_split

FILES = ("captions.csv", "captions.tsv", "captions.jsonl")
METADATA = ("metadata.csv", "metadata.jsonl")  # as the library datasets reads folders of images
COCO = ("*captions*.json", "annotations/*captions*.json")
SOUGHT = ", ".join((*FILES, *METADATA, COCO[0]))

LISTED = ("train.txt", "val.txt", "test.txt")  # names of the images of a split, one a line
_NEEDED = "of COCO: an object with the lists 'images' (id, file_name) and 'annotations' (image_id, caption)"
_USED = ("id", "file_name", "split", "image_id", "caption")  # of images and annotations; all else fills the memory


@dataclass(frozen=True)
class WrittenCaptions:
    """Captions as they are written beside images.

    table: columns image, text, caption_id and, where one is written, split. source: what to call it in messages.
    names: its files, below the folder. split_origin: where the column split comes from. listed: name of an image →
    split, from lists of names. collection: laid out as published collections are, so that sub-folders may name splits,
    and a caption given twice for an image counts twice, as in the official numbers.
    """

    table: pd.DataFrame
    source: str
    names: str
    split_origin: str = ""
    listed: dict[str, str] | None = None
    collection: bool = False


def read_captions(base: Path, images: Iterable[str], faults: FaultLog) -> WrittenCaptions | None:
    """The captions of a folder, or None: from one of FILES, else of METADATA, else of COCO.

    METADATA may lie in base or in its sub-folders, and names images from its own folder. Several files of COCO are one
    corpus, and the name of each may say its split. images: paths below base of the images that exist, in any form of
    their accents.
    Refused: two files that mean the same; what read_caption_file and read_coco_captions refuse.
    """
    own = [base / name for name in FILES if (base / name).is_file()]
    if own:
        _refuse_several(own, base, faults)
        table = read_caption_file(own[0], faults)
        return WrittenCaptions(table, str(own[0]), own[0].name, f"column split of {own[0].name}")
    images = {normalize("NFC", image) for image in images}
    if metadata := _visible(base, [f"{depth}{name}" for depth in ("", "*/", "*/*/") for name in METADATA]):
        for folder in {file.parent for file in metadata}:
            _refuse_several([file for file in metadata if file.parent == folder], base, faults)
        tables = [_from(file.parent, base, read_caption_file(file, faults), images) for file in metadata]
        return _joined(metadata, base, tables, "column split of")
    if coco := _visible(base, COCO):
        tables = []
        for file in coco:
            place = base / file.stem.lower().removeprefix("captions_")
            table = _from(place, base, _read_coco_captions(file, faults), images)
            if "split" not in table and (split := word_split(re.findall("[a-z]+", file.stem.lower()))):
                table = table.assign(split=split)
            tables.append(table)
        listed = _listed_splits(list(dict.fromkeys((*(file.parent for file in coco), base))), faults)
        return _joined(coco, base, tables, "names or images of", listed)
    return None


def _visible(base: Path, patterns: Iterable[str]) -> list[Path]:
    """The files that fit and are not hidden, each once, in alphabetical order."""
    files = {file for pattern in patterns for file in base.glob(pattern) if file.is_file()}
    return sorted(f for f in files if not any(part.startswith(".") for part in f.relative_to(base).parts))


def _refuse_several(files: list[Path], base: Path, faults: FaultLog) -> None:
    if len(files) > 1:
        names = " and ".join(str(file.relative_to(base)) for file in files)
        faults.refuse(f"{base} holds {names}. Keep the one that is meant.")


def _from(folder: Path, base: Path, table: pd.DataFrame, images: Container[str]) -> pd.DataFrame:
    """A table whose names of images start in base, wherever that names one of `images` (in the form NFC); other names
    stay as they are."""
    prefix = folder.relative_to(base).as_posix()
    if prefix == "." or not len(table):
        return table
    below = {name: f"{prefix}/{name.replace(chr(92), '/').removeprefix('./')}" for name in table["image"]}
    return table.assign(image=[below[n] if normalize("NFC", below[n]) in images else n for n in table["image"]])


def _joined(
    files: list[Path], base: Path, tables: list[pd.DataFrame], origin: str, listed: dict[str, str] | None = None
) -> WrittenCaptions:
    table = pd.concat(tables, ignore_index=True)
    if "split" in table:  # of some files only: the others leave it blank
        table["split"] = table["split"].fillna("")
    names = ", ".join(str(file.relative_to(base)) for file in files)
    source = str(files[0]) if len(files) == 1 else f"{base} ({names})"
    return WrittenCaptions(table, source, names, f"{origin} {names}", listed, collection=True)


def _read_coco_captions(file: Path, faults: FaultLog) -> pd.DataFrame:
    """Columns image, text, caption_id ('', as two files may give one number twice) and split, if the images have one.

    The file holds images (id, file_name and, if wanted, split) and annotations (image_id, caption), as COCO's
    captions_train2017.json does. The result is in the order of the annotations.
    Tolerated: annotations without a caption, or of an image that the file does not list. Refused: no JSON, another
    layout, no caption, image ids that repeat.
    """

    value: object = None
    with faults.noting():
        value = read_json(file, faults, _used)
    lists = [value.get(name) if isinstance(value, dict) else None for name in ("images", "annotations")]
    if not all(isinstance(part, list) and all(isinstance(item, dict) for item in part) for part in lists):
        lists = [[], []]
    images, annotations = lists
    sound = [image for image in images if isinstance(image.get("file_name"), str) and "id" in image]
    lacking = len(images) - len(sound)
    faults.tolerate("images without an id or a file_name", file.name, lacking)
    by_id = {str(image["id"]): image for image in sound}
    if len(by_id) < len(sound):
        faults.refuse(f"{file}: {len(sound) - len(by_id):,} image ids repeat. Give each image one.")
    has_split, records = any("split" in image for image in sound), []
    for number, annotation in enumerate(annotations):
        image = by_id.get(str(annotation.get("image_id")))
        if image is None and isinstance(annotation.get("caption"), str):
            faults.tolerate("captions of an image that their file does not list", f"{file.name} annotation {number}")
            continue
        record = {"image": (image or {}).get("file_name"), "caption": annotation.get("caption")}
        records.append((number, record | ({"split": (image or {}).get("split")} if has_split else {})))
    return caption_table(records, str(file), faults, _NEEDED)


def _used(item: dict) -> dict:
    return item if "annotations" in item else {name: item[name] for name in _USED if name in item}


def _listed_splits(folders: list[Path], faults: FaultLog) -> dict[str, str]:
    """Name of an image, as written → split, from the lists LISTED in the first of the folders that has one.

    Refused: an image in two lists.
    """
    for folder in folders:
        files = [folder / name for name in LISTED if (folder / name).is_file()]
        pairs = [(line.strip(), file.stem) for file in files for line in read_lines(file, faults) if line.strip()]
        if pairs:
            split_of = dict(pairs)
            several = sorted({name for name, split in pairs if split_of[name] != split})
            faults.refuse_items(several, f"the lists in {folder} put", "images in more than one split")
            return split_of
    return {}
