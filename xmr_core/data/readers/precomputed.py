"""Region features in the layout of SCAN, SGRAF, VSE∞, VSE+2AD and DivE: arrays of rows and lines of captions."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from xmr_core.base.errors import BadInput
from xmr_core.base.files import existing
from xmr_core.base.fingerprint import LARGE, content_hash, files_content
from xmr_core.base.row_file import JoinedRows, RowFile, bad_rows
from xmr_core.base.types import Corpus
from xmr_core.data.readers import assembly
from xmr_core.data.readers.assembly import USUAL, FaultLog, read_lines

# Our split → stems of its files, best first
STEMS = {"train": ("train",), "val": ("dev",), "test": ("testall", "test")}
SAMPLE = 64  # images of a split that are searched for rows that should be equal, and in large files for NaN


@dataclass(frozen=True)
class _Split:
    stem: str
    features: RowFile  # one row for each image
    every: int  # equal rows that an image has in the file, 1 or USUAL
    each: int  # captions of an image
    images: pd.DataFrame  # index image_id; columns split, source_id ('' where unknown)
    captions: pd.DataFrame  # index caption_id; columns image_id, text, source_id


def load_precomputed(data_root: Path | str, faults: FaultLog | None = None) -> Corpus:
    """Corpus of region features "images l e" without image files; they are read row by row, never all at once.

    The files in data_root are described in docs/data.md#data-precomputed. An image has one row and any number of
    consecutive lines, the same for all, or five equal rows and five lines; the counts tell which, and a sample of rows
    is compared. A blank line keeps its place. All of dev is val; the authors' programs evaluate its first 1,000 images
    only.
    image_id: 'val/12' is the 13th image of its file. caption_id: 'val/12#3' is the fourth line of that image. Columns
    source_id: ids in the original collection, from `{stem}_ids.txt` and `{stem}_capids.txt`, '' without them.
    about: cells l, width e, repeated (whether rows are), protocol (what the test split is), boxes (their unit), and
    captions (of an image, where these are not five).
    Tolerated: as in usable_tables; bytes that are not UTF-8, lines in Python's notation for bytes (b'…'), blank lines
    after the last caption, lists of ids of another length.
    Raises: BadInput for missing files (all three splits are needed), counts that do not fit, arrays without three axes
        or with another l or e than those of other splits, NaN or infinity (in files of more than 1 GiB: in a sample of
        rows; `check` searches all); DamagedFile for a file that is
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
        with faults.noting():
            splits.append(_read_split(base, name, faults))
    if not splits:
        raise BadInput(f"{base} holds no split of precomputed features that can be used.")
    shapes = {s.stem: s.features.shape[1:] for s in splits}
    if len(set(shapes.values())) > 1:
        faults.refuse(f"{base} holds other numbers an image in every split: {shapes}. Take one extractor for all.")
    splits = [s for s in splits if shapes[s.stem] == shapes[splits[0].stem]]
    images = pd.concat([s.images for s in splits]).rename_axis("image_id")
    captions = pd.concat([s.captions for s in splits]).rename_axis("caption_id")
    images, captions = assembly.usable_tables("precomputed", images, captions, faults)
    features, (boxes, unit) = JoinedRows([s.features for s in splits]), (None, "")
    with faults.noting():
        boxes, unit = _read_boxes(base, splits)
    repeated = {s.stem: s.every > 1 for s in splits}
    content = [files_content([s.features.path for s in splits]), [*repeated.values()], images.index.tolist()]
    tables = [table.reset_index().to_dict("list") for table in (images, captions)]
    # detected regions have no fixed place, and there are no pixels
    about = {"cells": features.shape[1], "width": features.shape[2], "ordered_cells": False, "resolution": 0}
    about["repeated"] = repeated
    if {s.each for s in splits} != {USUAL}:
        about["captions"] = ", ".join(f"{s.each} an image in {s.stem}_caps.txt" for s in splits)
    return Corpus(
        name="precomputed",
        images=images,
        captions=captions,
        fingerprint=content_hash([content, *tables]),
        image_fingerprint=content_hash(content),
        read_pixels=None,
        relevance_sets=assembly.annotated_relevance(images, captions),
        features=features,
        boxes=boxes,
        faults=dict(faults.counts),
        about={**about, "protocol": _protocol(base, splits), **({"boxes": unit} if unit else {})},
    )


def _read_split(base: Path, name: str, faults: FaultLog) -> _Split:
    """The files of one split. Raises: BadInput or DamagedFile, when they cannot be used."""
    present = [stem for stem in STEMS[name] for kind in ("ims.npy", "caps.txt") if (base / f"{stem}_{kind}").exists()]
    stem = (present or STEMS[name])[0]
    images, sentences = base / f"{stem}_ims.npy", base / f"{stem}_caps.txt"
    if missing := [file.name for file in (images, sentences) if not file.exists()]:
        near = ", ".join(sorted({file.parent.name for file in base.glob("*/*_ims.npy")})) or "no folder in it"
        raise BadInput(f"precomputed needs {' and '.join(missing)} in {base}. There are such files in {near}.")
    array = RowFile(images)
    lines = enumerate(read_lines(sentences, faults), 1)
    texts = [assembly.without_bytes_notation(line, f"{sentences.name} line {n}", faults) for n, line in lines]
    if array.ndim != 3 or 0 in array.shape[1:]:
        fault = f"{images} has shape {array.shape}; (rows, regions, width) is needed"
        raise BadInput(f"{fault}. For one vector an image, save array[:, None].")
    every = _rows_of_an_image(array, texts, sentences, faults)
    features = RowFile(array.path, slice(None, None, every))
    searched = _spread(len(features)) if images.stat().st_size > LARGE else range(len(features))
    if bad := bad_rows(features, searched):
        fault = f"{len(bad):,} of {len(searched):,} images hold NaN or infinity, the first in row {bad[0] * every}"
        faults.refuse(f"{array.path}: {fault}, counted from 0. Extract again.")
    source = _ids(base / f"{stem}_ids.txt", (len(features), len(texts)), faults)
    images = pd.DataFrame({"split": name, "source_id": source}, index=[f"{name}/{n}" for n in range(len(features))])
    each = len(texts) // max(1, len(features))
    owners, source = images.index.repeat(each), _ids(base / f"{stem}_capids.txt", (len(texts),), faults)
    ids = [f"{owner}#{n % each}" for n, owner in enumerate(owners)]
    captions = pd.DataFrame({"image_id": owners, "text": texts, "source_id": source}, index=ids)
    return _Split(stem, features, every, each, images, captions)


def _rows_of_an_image(array: RowFile, texts: list[str], file: Path, faults: FaultLog) -> int:
    """How many equal rows an image has. Removes blank lines after the last caption from `texts`."""
    rows, written = len(array), max((n for n, text in enumerate(texts, 1) if text), default=0)
    # all blank lines at the end where as many captions as are needed stand before them, and else those too many
    while texts and not texts[-1] and (not rows or written % rows == 0 or len(texts) % rows):
        texts.pop()
        faults.tolerate("blank lines after the last caption", file.name)
    counts = f"{array.path} has {rows:,} rows and {file.name} {len(texts):,} lines"
    if not rows or not texts or len(texts) % rows:
        raise BadInput(f"{counts}; as many lines are needed, or a whole number of times as many ({rows * USUAL:,}).")
    if len(texts) > rows or rows % USUAL:
        return 1
    blocks = {first: array[first : first + USUAL] for first in (n * USUAL for n in _spread(rows // USUAL))}
    unequal = [n for n, block in blocks.items() if not np.array_equal(block, block[[0] * USUAL], equal_nan=True)]
    if 0 < len(unequal) < len(blocks):  # neither five rows an image nor one
        first = unequal[0]
        raise BadInput(f"{counts}, but rows {first} to {first + USUAL - 1} are not one image five times.")
    pairs = [(n, n + USUAL) for n in blocks if n % (2 * USUAL) == 0 and n + USUAL < rows]
    if not unequal and pairs and all(np.array_equal(array[a], array[b], equal_nan=True) for a, b in pairs):
        raise BadInput(f"{counts}, and an image stands in more than {USUAL} rows. Keep one row of each image.")
    return 1 if unequal else USUAL


def _read_boxes(base: Path, splits: list[_Split]) -> tuple[JoinedRows | None, str]:
    """(boxes "images regions 4" as x1 y1 x2 y2, read row by row; their unit), or (None, '') without any file of boxes.

    An image may have as many rows as in the file of features, or one. The unit is 'relative' (0 to 1, of width and
    height) where no sampled number exceeds 1, and otherwise 'pixels' of the image as the detector read it.
    Raises: BadInput for boxes of some splits only, another shape than the features need, and boxes in the sample that
        are not finite, are negative, end before they start, or have another unit than those of other splits.
    """
    files = [base / f"{s.stem}_boxes.npy" for s in splits]
    if not any(file.exists() for file in files):
        return None, ""
    parts, units = [], set()
    for file, split in zip(files, splits, strict=True):
        boxes, needed = RowFile(file), (*split.features.shape[:2], 4)
        if len(boxes) == len(split.features) * split.every:
            boxes = RowFile(file, slice(None, None, split.every))
        if boxes.shape != needed:
            raise BadInput(f"{file} has shape {boxes.shape}; its features need {needed}: x1 y1 x2 y2 of each region.")
        values = boxes[_spread(len(boxes))].astype(float)
        wrong = ~np.isfinite(values).all(-1) | (values < 0).any(-1) | (values[..., 2:] < values[..., :2]).any(-1)
        if wrong.any():
            fault = f"{wrong.sum()} of {wrong.size} sampled boxes are no x1 y1 x2 y2 with 0 ≤ x1 ≤ x2 and 0 ≤ y1 ≤ y2"
            raise BadInput(f"{file}: {fault}, the first is {values[wrong][0].tolist()}.")
        units.add("relative" if values.max(initial=0) <= 1 else "pixels")
        parts.append(boxes)
    if len(units) > 1:
        raise BadInput(f"the boxes in {base} need one unit for all splits. Save all in pixels or all in 0 to 1.")
    return JoinedRows(parts), units.pop()


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
    if splits[-1].stem not in STEMS["test"]:
        return ""
    text = f"{splits[-1].stem}: {len(splits[-1].features):,} images"
    if splits[-1].stem == "testall":
        text += ", the entire test split; COCO's 1K numbers are means over five folds of it"
        if (base / "test_ims.npy").exists():
            text += ". The files named test are an unfair 1K subset: they are not read"
    return text
