"""Region features in the layout of SCAN, SGRAF, VSE∞, VSE+2AD and DivE: arrays of rows and lines of captions."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from xmr_core.base.errors import BadInput, XmrError
from xmr_core.base.files import existing
from xmr_core.base.fingerprint import content_hash, files_content
from xmr_core.base.row_file import JoinedRows, RowFile
from xmr_core.base.types import Corpus
from xmr_core.data.readers.assembly import USUAL, usable_tables
from xmr_core.data.readers.boxes import optional_boxes
from xmr_core.data.readers.fault_log import FaultLog
from xmr_core.data.readers.files import read_lines, without_bytes_notation
from xmr_core.data.readers.relevance import annotated_relevance

# Our split → stems of its files, best first
STEMS = {"train": ("train",), "val": ("dev",), "test": ("testall", "test")}
SAMPLE = 64  # images of a split that are searched for NaN, and for rows that should be equal


@dataclass(frozen=True)
class _Split:
    name: str
    stem: str
    features: RowFile  # one row for each image
    repeated: bool
    images: pd.DataFrame  # index image_id; columns split, source_id ('' where unknown)
    captions: pd.DataFrame  # index caption_id; columns image_id, text, source_id


def load_precomputed(data_root: Path | str, faults: FaultLog | None = None) -> Corpus:
    """Corpus of region features "images l e" without image files; they are read row by row, never all at once.

    The files in data_root are described in docs/data.md#data-precomputed. An image has five consecutive lines, and one
    row or five equal rows; the counts tell which, and a sample of rows is compared. A blank line keeps its place. All
    of dev is val; the authors' programs evaluate its first 1,000 images only.
    image_id: 'val/12' is the 13th image of its file. caption_id: 'val/12#3' is the fourth line of that image. Columns
    source_id: ids in the original collection, from `{stem}_ids.txt` and `{stem}_capids.txt`, '' without them.
    about: cells l, width e, repeated (whether rows are), protocol (what the test split is), and boxes (their unit).
    Tolerated: as in usable_tables; bytes that are not UTF-8, lines in Python's notation for bytes (b'…'), blank lines
    after the last caption, lists of ids of another length.
    Raises: BadInput for missing files (all three splits are needed), counts that do not fit, arrays without three axes
        or with another l or e than those of other splits, NaN or infinity in the sample; DamagedFile for a file that is
        cut short or is no .npy.
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for stem in ("train", "dev", "testall"):
    ...         np.save(f"{folder}/{stem}_ims.npy", np.zeros((2, 36, 8), np.float32))
    ...         _ = Path(folder, f"{stem}_caps.txt").write_text("A dog .\\n" * 10)
    ...     load_precomputed(folder).features.shape
    (6, 36, 8)
    """
    faults = faults or FaultLog()
    base = existing(data_root, "data_root of precomputed")
    splits: list[_Split] = []
    for name in STEMS:
        try:
            splits.append(_read_split(base, name, faults))
        except XmrError as e:
            if not faults.collect:
                raise
            faults.refuse(str(e))
    for other in splits[1:]:
        shapes = [f"{s.features.shape[1]} × {s.features.shape[2]}" for s in (other, splits[0])]
        if shapes[0] != shapes[1]:
            difference = f"holds {shapes[0]} numbers an image, {splits[0].features.path.name} {shapes[1]}"
            faults.refuse(f"{other.features.path} {difference}. All splits need features of one extractor.")
    splits = [s for s in splits if s.features.shape[1:] == splits[0].features.shape[1:]]
    if not splits:
        raise BadInput(f"{base} holds no split of precomputed features that can be used.")
    images = pd.concat([s.images for s in splits]).rename_axis("image_id")
    captions = pd.concat([s.captions for s in splits]).rename_axis("caption_id")
    images, captions = usable_tables("precomputed", images, captions, faults)
    features = JoinedRows([s.features for s in splits])
    files = [base / f"{s.stem}_boxes.npy" for s in splits]
    every = [USUAL if s.repeated else 1 for s in splits]
    boxes, unit = optional_boxes(files, [s.features for s in splits], every, faults)
    content = [files_content([s.features.path for s in splits]), [s.repeated for s in splits], images.index.tolist()]
    tables = [table.reset_index().to_dict("list") for table in (images, captions)]
    return Corpus(
        name="precomputed",
        images=images,
        captions=captions,
        fingerprint=content_hash([content, *tables]),
        image_fingerprint=content_hash(content),
        read_pixels=None,
        relevance_sets=annotated_relevance(images, captions),
        features=features,
        boxes=boxes,
        faults=dict(faults.counts),
        about={
            "cells": features.shape[1],
            "width": features.shape[2],
            "ordered_cells": False,  # detected regions have no fixed place
            "resolution": 0,  # there are no pixels
            "repeated": {s.stem: s.repeated for s in splits},
            "protocol": _protocol(base, splits),
            **({"boxes": unit} if boxes is not None else {}),
        },
    )


def _read_split(base: Path, name: str, faults: FaultLog) -> _Split:
    """The files of one split. Raises: BadInput or DamagedFile, when they cannot be used."""
    files = {stem: (base / f"{stem}_ims.npy", base / f"{stem}_caps.txt") for stem in STEMS[name]}
    stem = next((stem for stem in files if any(file.exists() for file in files[stem])), STEMS[name][0])
    if missing := [file.name for file in files[stem] if not file.exists()]:
        raise BadInput(_missing(base, name, missing))
    array = RowFile(files[stem][0])
    lines = enumerate(read_lines(files[stem][1], faults), 1)
    texts = [without_bytes_notation(line, f"{stem}_caps.txt line {n}", faults) for n, line in lines]
    if array.ndim != 3 or 0 in array.shape[1:]:
        shape = f"{array.path} has shape {array.shape}; (rows, regions, width) is needed"
        raise BadInput(f"{shape}. For one vector an image, save array[:, None].")
    repeated = _rows_are_repeated(array, texts, stem, faults)
    features = RowFile(array.path, slice(None, None, USUAL)) if repeated else array
    sample = _spread(len(features))
    if bad := [n for n in sample if not np.isfinite(features[n]).all()]:
        fault = f"{len(bad)} of {len(sample)} sampled images hold NaN or infinity, the first is {bad[0]}"
        raise BadInput(f"{array.path}: {fault}. Extract again.")
    images = pd.DataFrame(
        {"split": name, "source_id": _ids(base / f"{stem}_ids.txt", (len(features), len(texts)), faults)},
        index=[f"{name}/{n}" for n in range(len(features))],
    )
    owners, caption_ids = images.index.repeat(USUAL), _ids(base / f"{stem}_capids.txt", (len(texts),), faults)
    captions = pd.DataFrame(
        {"image_id": owners, "text": texts, "source_id": caption_ids},
        index=[f"{owner}#{n % USUAL}" for n, owner in enumerate(owners)],
    )
    return _Split(name, stem, features, repeated, images, captions)


def _missing(base: Path, name: str, files: list[str]) -> str:
    """The message for missing files of a split."""
    remedy = {
        "train": "Give the folder that holds them as data_root.",
        "val": "Models are chosen on it: move about 1,000 images of train there, rows and lines alike.",
        "test": "Results are measured on testall, or on test where there is no testall.",
    }[name]
    if near := sorted({file.parent.name for file in base.glob("*/*_ims.npy")}):
        remedy = f"There are such files in {', '.join(near)}: give that folder as data_root."
    return f"precomputed needs {' and '.join(files)}, looked for in {base}. {remedy}"


def _rows_are_repeated(array: RowFile, texts: list[str], stem: str, faults: FaultLog) -> bool:
    """Whether every image has five rows. Removes blank lines after the last caption from `texts`."""
    rows, counts = len(array), f"{array.path} has {len(array):,} rows and {stem}_caps.txt {len(texts):,} lines"
    if not rows or not texts:
        raise BadInput(f"{counts}: the {stem} split is empty. Put images and captions there.")
    while texts and not texts[-1] and len(texts) not in (rows, rows * USUAL):
        texts.pop()
        faults.tolerate("blank lines after the last caption", f"{stem}_caps.txt")
    if len(texts) == rows * USUAL:
        return False
    if len(texts) != rows or rows % USUAL:
        fits = f"{rows * USUAL:,} lines (each row an image)"
        fits += f" or {rows:,} lines (each image in five rows)" if not rows % USUAL else ""
        needed = f"five lines an image are needed, so {fits} would fit"
        raise BadInput(f"{counts}; {needed}. Copy both files again from one place.")
    for first in (n * USUAL for n in _spread(rows // USUAL)):
        block = array[first : first + USUAL]
        if not all(np.array_equal(block[0], row, equal_nan=True) for row in block[1:]):
            raise BadInput(
                f"{counts}, but rows {first} to {first + USUAL - 1} are not one image five times. Save each image once "
                "with five lines, or in five equal rows."
            )
    return True


def _spread(n: int) -> list[int]:
    """Up to SAMPLE numbers below n, evenly spread, with the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, SAMPLE)).astype(int)).tolist()


def _ids(file: Path, lengths: tuple[int, ...], faults: FaultLog) -> list[str]:
    """One id for each item, from every line or from every fifth of as many lines as captions; '' without the file."""
    ids = [line.strip() for line in read_lines(file, faults)] if file.exists() else []
    if ids and len(ids) in lengths:
        return ids[:: len(ids) // lengths[0]]
    if ids:
        faults.tolerate("lists of ids of another length, not read", f"{file.name}: {len(ids):,} lines")
    return [""] * lengths[0]


def _protocol(base: Path, splits: list[_Split]) -> str:
    """What the test split is."""
    test = next((s for s in splits if s.name == "test"), None)
    text = f"{test.stem}: {len(test.features):,} images" if test else ""
    if test and test.stem == "testall":
        text += ", the entire test split; COCO's 1K numbers are means over five folds of it"
        if (base / "test_ims.npy").exists():
            text += ". The files named test are an unfair 1K subset: they are not read"
    return text
