"""Captions in COCO's JSON: a list of images, and a list of annotations that refer to them."""

import re
from pathlib import Path

import pandas as pd

from xmr_core.data.readers.caption_file import caption_table
from xmr_core.data.readers.fault_log import FaultLog
from xmr_core.data.readers.files import read_json, read_lines

LISTED = ("train.txt", "val.txt", "test.txt")  # names of the images of a split, one a line
_NEEDED = "of COCO: an object with the lists 'images' (id, file_name) and 'annotations' (image_id, caption)"
_USED = ("id", "file_name", "split", "image_id", "caption")  # of images and annotations; all else fills the memory


def read_coco_captions(file: Path, faults: FaultLog) -> pd.DataFrame:
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


def words_of_name(file: Path) -> list[str]:
    """The words of a file's name, without numbers: where COCO says the split.

    >>> words_of_name(Path("annotations/captions_train2017.json"))
    ['captions', 'train']
    """
    return re.findall("[a-z]+", file.stem.lower())


def listed_splits(folders: list[Path], faults: FaultLog) -> dict[str, str]:
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
