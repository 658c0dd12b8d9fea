"""Karpathy's split files of Flickr30K and COCO: one JSON file with pictures, captions and splits."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.data.readers.faults import Faults
from xmr_core.data.readers.photographs import needed, pictures_in

SPLIT_OF = {
    "train": "train",
    "restval": "train",
    "val": "val",
    "test": "test",
}  # restval: the part of COCO's validation set that is trained on
_FOLDERS = ("", "annotations/", "karpathy/", "caption_datasets/", "splits/")


def karpathy_tables(
    data_root: Path | str, name: str, places: Sequence[str], faults: Faults, id_field: str = "", at_most: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The pictures and captions of `dataset_{name}.json`, in its order, for photograph_corpus.

    Args: places: folders of the pictures below data_root, tried in turn; '{0}' in them stands for a record's filepath.
        id_field: field of a record with its whole number; the ids of pictures and captions are then integers. '': the picture's
        id is its file name, the caption's its sentid as text. at_most: sentences used of a picture, 0 for all.
    Returns: images (index image_id; split, path), captions (index caption_id; image_id, text), the text being the field raw.
    Tolerated and counted: bytes that are not UTF-8, sentences beyond at_most or without raw text and number. Refused, each with
    count and first example: records that lack a field, unknown splits, names or ids that repeat, pictures that are missing.
    Raises: BadInput when the file is missing or not one of Karpathy's, or no folder of pictures is there; DamagedFile when it
    is truncated.
    Source: Karpathy & Fei-Fei, CVPR 2015 (caption_datasets.zip).
    """
    base = paths.existing(data_root, f"data_root of {name}")
    file = needed(base, [f"{folder}dataset_{name}.json" for folder in _FOLDERS], name)
    records = _sound(_records(file, name, faults), file, id_field, faults)
    records = _located(records, base, places, name, faults)
    rows, over = [], 0
    for record in records:
        sentences = record["sentences"]
        over += max(0, len(sentences) - at_most) if at_most else 0
        for sentence in sentences[: at_most or None]:
            try:
                number, text = int(str(sentence["sentid"])), sentence["raw"].strip()
            except (KeyError, TypeError, ValueError, AttributeError):
                faults.tolerate("sentences that cannot be read", record["filename"])
                continue
            rows.append((number if id_field else str(number), record["id"], text))
    faults.tolerate(f"sentences beyond {at_most} of a picture, not used", times=over)
    images = pd.DataFrame(
        {"split": [SPLIT_OF[r["split"]] for r in records], "path": [r["path"] for r in records]},
        index=pd.Index([r["id"] for r in records], name="image_id"),
    )
    captions = pd.DataFrame(rows, columns=["caption_id", "image_id", "text"]).set_index("caption_id")
    return images, captions


def read_json_text(file: Path, faults: Faults, each: Callable[[dict], object]) -> object:
    """The value of a large JSON file. each: what to keep of every object in it, called as soon as it is read, innermost first, so
    that what is not needed never piles up in memory. Bytes that are not UTF-8 are read as Latin-1 and counted.
    Raises: DamagedFile when it cannot be read or is no whole JSON."""
    try:
        raw = file.read_bytes()
    except OSError as e:
        raise DamagedFile(f"{file} cannot be read ({e.strerror}).") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text, times = re.subn("[\udc80-\udcff]", lambda bad: chr(ord(bad[0]) - 0xDC00), raw.decode("utf-8-sig", "surrogateescape"))
        faults.tolerate("bytes that are not UTF-8, read as Latin-1", file.name, times)
    del raw
    try:
        return json.loads(text, object_hook=each)
    except json.JSONDecodeError as e:
        raise DamagedFile(
            f"{file} is no whole JSON file ({e.msg}; character {e.pos:,} of {len(text):,}). It was cut short or altered; get it again."
        ) from None
    except (ValueError, RecursionError) as e:
        raise DamagedFile(f"{file} cannot be read as JSON ({e}). Get it again.") from None


def _records(file: Path, name: str, faults: Faults) -> list:
    """The records of a file that is Karpathy's, of this data set."""
    value = read_json_text(file, faults, _without_tokens)
    records = value.get("images") if isinstance(value, dict) else None
    if not isinstance(records, list) or not any(isinstance(r, dict) and {"filename", "sentences", "split"} <= r.keys() for r in records):
        found = f"an object with {', '.join(map(repr, list(value)[:6])) or 'nothing'}" if isinstance(value, dict) else type(value).__name__
        raise BadInput(
            f"{file} is not one of Karpathy's split files: expected an object whose 'images' are records with filename, split and "
            f"sentences (raw, sentid), found {found}. Give dataset_{name}.json of caption_datasets.zip."
        )
    if str(said := value.get("dataset", name)).lower() != name:
        faults.refuse(f"{file} says it is of {said!r}, not of {name!r}. Give dataset_{name}.json of caption_datasets.zip.")
    return records


def _without_tokens(found: dict) -> dict:
    found.pop("tokens", None)  # raw is what is used, and tokens are most of the file
    return found


def _sound(records: list, file: Path, id_field: str, faults: Faults) -> list[dict]:
    """The records that can be used, each with its 'id'."""
    lacking, unknown, repeated, sound = [], [], [], []
    ids, files = set(), set()
    for number, record in enumerate(records):
        try:
            name, split = record["filename"], record["split"]
            own = int(str(record[id_field])) if id_field else name  # 896.5 is no id
            if not (isinstance(name, str) and name and isinstance(split, str) and isinstance(record["sentences"], list)):
                raise TypeError
        except (KeyError, TypeError, ValueError):
            lacking.append(f"number {number}")
            continue
        if split not in SPLIT_OF:
            unknown.append(f"{split!r} of {name!r}")
        elif own in ids or name in files:
            repeated.append(repr(name if name in files else own))
        else:
            sound.append(record | {"id": own})
            ids.add(own), files.add(name)
    fields = "filename, split, sentences" + (f", {id_field}" if id_field else "")
    for found, what in (
        (lacking, f"records lack one of {fields}, or hold another kind of value there"),
        (unknown, f"records are of a split that is none of {', '.join(SPLIT_OF)}"),
        (repeated, "records repeat a file name or id"),
    ):
        if found:
            faults.refuse(f"{file}: {len(found)} {what}, the first is {found[0]}. Get the file again or mend it.")
    return sound


def _located(records: list[dict], base: Path, places: Sequence[str], name: str, faults: Faults) -> list[dict]:
    """The records whose picture is there, each with its 'path'."""
    listings: dict[Path, dict[str, str]] = {}
    folders_of: dict[str, list[Path]] = {}
    missing, located = [], []
    for record in records:
        below = str(record.get("filepath", "")).rstrip("/").rpartition("/")[2].strip(".")  # one folder name, which cannot lead elsewhere
        if below not in folders_of:
            folders_of[below] = [base / place.format(below).strip("/") for place in places]
            for folder in folders_of[below]:
                listings.setdefault(folder, pictures_in(folder) if folder.is_dir() else {})
        path = next((found for folder in folders_of[below] if (found := listings[folder].get(record["filename"]))), None)
        if path:
            located.append(record | {"path": path})
        else:
            missing.append(record["filename"])
    looked = ", ".join(dict.fromkeys(str(folder.relative_to(base)) for folder in listings))
    if records and not any(listings.values()):
        raise BadInput(f"{name} needs its pictures in one of the folders {looked} of {base}; none is there. Give the right data_root.")
    if missing:
        faults.refuse(
            f"{name}: {len(missing):,} of {len(records):,} pictures are missing, the first is {missing[0]!r}, looked for in {looked} "
            f"of {base}. Complete the pictures."
        )
    return located
