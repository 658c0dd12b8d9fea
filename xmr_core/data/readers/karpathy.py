"""Karpathy's split files of Flickr30K and COCO: one JSON file with images, captions and splits."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pandas as pd

from xmr_core.base.errors import BadInput
from xmr_core.base.files import existing
from xmr_core.data.readers.fault_log import FaultLog
from xmr_core.data.readers.files import find_path, list_images, read_json

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
    records = _sound_records(_read_records(file, name, faults), file, id_field, faults)
    paths = _paths(records, base, places, name)
    missing = [record["filename"] for record in records if not paths[record["id"]]]
    remedy = f"They were looked for in {', '.join(places)} of {base}. Complete the images."
    faults.refuse_items(missing, f"{name}:", f"of {len(records):,} images are missing", remedy)
    records = [record for record in records if paths[record["id"]]]
    rows, beyond = [], 0
    for record in records:
        sentences = record["sentences"][: limit or None]
        beyond += len(record["sentences"]) - len(sentences)
        for sentence in sentences:
            try:
                number, text = int(str(sentence["sentid"])), sentence["raw"].strip()
            except (KeyError, TypeError, ValueError, AttributeError):
                faults.tolerate("sentences that cannot be read", record["filename"])
                continue
            rows.append((number if id_field else str(number), record["id"], text))
    faults.tolerate(f"sentences beyond {limit} of an image, not used", (), beyond)
    ids = pd.Index([r["id"] for r in records], name="image_id")
    images = pd.DataFrame(
        {"split": [SPLIT_OF[r["split"]] for r in records], "path": [paths[i] for i in ids]}, index=ids
    )
    captions = pd.DataFrame(rows, columns=["caption_id", "image_id", "text"]).set_index("caption_id")
    return images, captions


def _read_records(file: Path, name: str, faults: FaultLog) -> list:
    """The records of a file that is Karpathy's, of this collection."""

    def without_tokens(item: dict) -> dict:
        item.pop("tokens", None)  # most of the file, and never used: 'raw' is the caption
        return item

    value = read_json(file, faults, without_tokens)
    records = value.get("images") if isinstance(value, dict) else None
    needed, remedy = {"filename", "sentences", "split"}, f"Give dataset_{name}.json of caption_datasets.zip."
    if not isinstance(records, list) or not any(isinstance(r, dict) and needed <= r.keys() for r in records):
        expected = "an object whose 'images' are records with filename, split and sentences (raw, sentid)"
        raise BadInput(f"{file} is not one of Karpathy's split files: expected {expected}. {remedy}")
    if str(dataset := value.get("dataset", name)).lower() != name:
        faults.refuse(f"{file} says it is of {dataset!r}, not of {name!r}. {remedy}")
    return records


def _sound_records(records: list, file: Path, id_field: str, faults: FaultLog) -> list[dict]:
    """The records that can be used, each with its 'id'."""
    incomplete, repeated, sound = [], [], {}
    names = set()
    for number, record in enumerate(records):
        try:
            name = record["filename"]
            usable = record["split"] in SPLIT_OF and isinstance(record["sentences"], list)
            image_id = int(str(record[id_field])) if id_field else name  # 896.5 is no id
        except (KeyError, TypeError, ValueError):
            usable = False
        if not (usable and isinstance(name, str) and name):
            incomplete.append(number)
        elif image_id in sound or name in names:
            repeated.append(name if name in names else image_id)
        else:
            sound[image_id] = record | {"id": image_id}
            names.add(name)
    fields = f"filename, split ({', '.join(SPLIT_OF)}), sentences{', ' * bool(id_field)}{id_field}"
    fault = f"records, numbered from 0, lack one of {fields}, or hold another value there"
    faults.refuse_items(incomplete, f"{file}:", fault, "Get the file again or mend it.")
    faults.refuse_items(repeated, f"{file}:", "records repeat a file name or id", "Get the file again or mend it.")
    return list(sound.values())


def _paths(records: list[dict], base: Path, places: Sequence[str], name: str) -> dict[object, str]:
    """Id → path of the image, '' where it is missing. Raises: BadInput where there is no image at all."""

    @cache
    def listing(folder: Path) -> dict[str, str]:
        return list_images(folder) if folder.is_dir() else {}

    def find(record: dict) -> str:
        # the last folder of the filepath only, so that it cannot lead out of data_root
        below = str(record.get("filepath", "")).rstrip("/").rpartition("/")[2].strip(".")
        hits = (listing(base / place.format(below).strip("/")).get(record["filename"]) for place in places)
        return next(filter(None, hits), "")

    paths = {record["id"]: find(record) for record in records}
    if records and not any(paths.values()):
        tried = f"one of the folders {', '.join(places)} of {base}"
        raise BadInput(f"{name} needs its images in {tried}. Give the right data_root.")
    return paths
