"""Region features in the layout of SCAN (also of SGRAF, VSE∞, VSE+2AD and DivE): arrays of rows and lines of captions."""

import ast
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, XmrError
from xmr_core.base.fingerprint import files_content
from xmr_core.base.row_file import JoinedRows, RowFile
from xmr_core.base.types import Corpus
from xmr_core.data.readers.faults import Faults
from xmr_core.data.readers.photographs import read_lines
from xmr_core.data.readers.tables import USUAL, annotated_judges, usable_tables

STEMS = {"train": ("train",), "val": ("dev",), "test": ("testall", "test")}  # our split → names of its files, the preferred first
SAMPLE = 64  # pictures of a split that are looked at for NaN and for rows that should be equal


@dataclass(frozen=True)
class _Split:
    name: str
    stem: str
    features: RowFile  # one row per picture
    repeated: bool
    texts: list[str]
    source_ids: list[str]  # of the pictures, '' where unknown
    caption_ids: list[str]


def load_precomputed(data_root: Path | str, faults: Faults | None = None) -> Corpus:
    """Corpus of features without pictures: features "images l e", read from the files row by row, never as a whole.

    data_root holds, for train, dev (our val) and testall or test (our test): `{split}_ims.npy` "rows l e" and `{split}_caps.txt`,
    five consecutive lines per picture; `{split}_ids.txt` (a picture's id in its collection per row) and `{split}_capids.txt` (a
    caption's, per line) if wanted: column source_id. Rows are pictures (five lines each) or stand five times (as many rows as
    lines: the public dev, test and testall files); which of the two is told by the counts, and looked after on a sample of rows.
    images: 'val/12' is the 13th picture of its files; captions: 'val/12#3' the fourth line of it. A blank line keeps its place.
    All of dev is validation. The authors' evaluators silently cut it to the first 1,000 pictures (METHODS §1.3).
    Tolerated and counted: see data.tables; bytes that are not UTF-8; lines written as Python bytes (b'…'); blank lines beyond
    the last caption; lists of ids of another length. about: cells l, width e, protocol, what the test split is.
    Raises: BadInput for files that are missing (all three splits are needed), counts that do not fit (both are said), arrays of
        another number of axes or, between splits, of another l or e, NaN or infinity in the sample; DamagedFile for a file that
        is cut short or no .npy.
    """
    faults = faults or Faults()
    base = paths.existing(data_root, "data_root of precomputed")
    splits = [found for name in STEMS if (found := _split(base, name, faults))]
    for other in splits[1:]:
        if (given := other.features.shape[1:]) != (first := splits[0].features.shape[1:]):
            faults.refuse(
                f"{other.features.path} holds {given[0]} × {given[1]} numbers a picture, {splits[0].features.path.name} {first[0]} × {first[1]}. "
                "All splits need features of one extractor."
            )
    splits = [s for s in splits if s.features.shape[1:] == splits[0].features.shape[1:]]
    if not splits:
        raise BadInput(f"{base} holds no split of precomputed features that can be used.")
    images = pd.DataFrame(
        {"split": [s.name for s in splits for _ in s.source_ids], "source_id": [i for s in splits for i in s.source_ids]},
        index=pd.Index([f"{s.name}/{n}" for s in splits for n in range(len(s.features))], name="image_id"),
    )
    owners = [f"{s.name}/{n // USUAL}" for s in splits for n in range(len(s.texts))]
    captions = pd.DataFrame(
        {"image_id": owners, "text": [t for s in splits for t in s.texts], "source_id": [c for s in splits for c in s.caption_ids]},
        index=pd.Index([f"{owner}#{n % USUAL}" for n, owner in enumerate(owners)], name="caption_id"),
    )
    images, captions = usable_tables("precomputed", images, captions, faults)
    features = JoinedRows([s.features for s in splits])
    pictures = [files_content([s.features.path for s in splits]), [s.repeated for s in splits], images.index.tolist()]
    return Corpus(
        name="precomputed",
        images=images,
        captions=captions,
        fingerprint=paths.content_hash([pictures, *(table.reset_index().to_dict("list") for table in (images, captions))]),
        picture_fingerprint=paths.content_hash(pictures),
        read_pixels=None,
        judges=annotated_judges(images, captions),
        features=features,
        faults=dict(faults.counts),
        about={
            "cells": features.shape[1],
            "width": features.shape[2],
            "ordered_cells": False,  # detected regions have no fixed place
            "resolution": 0,  # there are no pictures
            "repeated": {s.stem: s.repeated for s in splits},
            "protocol": _protocol(base, splits),
        },
    )


def _split(base: Path, name: str, faults: Faults) -> _Split | None:
    """The files of one split, checked; None when they cannot be used and the refusal was only noted."""
    stems = STEMS[name]
    stem = next((s for s in stems if _file(base, s, "ims.npy").exists() or _file(base, s, "caps.txt").exists()), stems[0])
    if absent := [f.name for f in (_file(base, stem, "ims.npy"), _file(base, stem, "caps.txt")) if not f.exists()]:
        faults.refuse(_missing(base, name, absent))
        return None
    try:
        array = RowFile(_file(base, stem, "ims.npy"))
        texts = [
            _plain(line, f"{stem}_caps.txt line {n}", faults) for n, line in enumerate(read_lines(_file(base, stem, "caps.txt"), faults), 1)
        ]
        if array.ndim != 3 or 0 in array.shape[1:]:
            raise BadInput(
                f"{array.path} has shape {array.shape}; (rows, regions, width) is needed. One vector a picture: save array[:, None]."
            )
        repeated = _repeated(array, texts, stem, faults)
        features = RowFile(array.path, slice(None, None, USUAL)) if repeated else array
        _look_for_nan(features)
    except XmrError as e:
        if not faults.collect:
            raise
        faults.refuse(str(e))
        return None
    return _Split(
        name,
        stem,
        features,
        repeated,
        texts,
        _ids(_file(base, stem, "ids.txt"), (len(features), len(texts)), faults),
        _ids(_file(base, stem, "capids.txt"), (len(texts),), faults),
    )


def _file(base: Path, stem: str, what: str) -> Path:
    return base / f"{stem}_{what}"


def _missing(base: Path, name: str, absent: list[str]) -> str:
    near = sorted({f.parent.name for f in base.glob("*/*_ims.npy")})
    remedy = {
        "val": "Models are chosen on it: move some pictures of train there, 1,000 or so, rows and lines alike.",
        "test": "testall, or test where there is no testall, is what results are measured on.",
    }.get(name, "Give the folder that holds them as data_root.")
    elsewhere = f" There are such files in {', '.join(near)}: give that folder as data_root." if near else f" {remedy}"
    return f"precomputed needs {' and '.join(absent)}, looked for in {base}.{elsewhere}"


def _repeated(array: RowFile, texts: list[str], stem: str, faults: Faults) -> bool:
    """Whether every picture stands five times. Cuts blank lines beyond the last caption off `texts`."""
    rows, files = len(array), f"{array.path} has {len(array):,} rows and {stem}_caps.txt {len(texts):,} lines"
    if not rows or not texts:
        raise BadInput(f"{files}: the {stem} split is empty. Put pictures and captions there.")
    while texts and not texts[-1] and len(texts) not in (rows, rows * USUAL):
        texts.pop()
        faults.tolerate("blank lines beyond the last caption", f"{stem}_caps.txt")
    if len(texts) == rows * USUAL:
        return False
    if len(texts) != rows or rows % USUAL:
        fit = f"{rows * USUAL:,} lines (each row a picture)" + (
            f" or {rows:,} lines (each picture in five rows)" if not rows % USUAL else ""
        )
        raise BadInput(f"{files}; five lines a picture are needed, so {fit} would fit. Copy both files again from one place.")
    for n in _spread(rows // USUAL):
        five = array[n * USUAL : (n + 1) * USUAL]
        if not all(np.array_equal(five[0], row, equal_nan=True) for row in five[1:]):
            raise BadInput(
                f"{files}, but rows {n * USUAL} to {n * USUAL + USUAL - 1} are not one picture five times. "
                "Save each picture once with five lines, or in five equal rows."
            )
    return True


def _look_for_nan(features: RowFile) -> None:
    sample = _spread(len(features))
    if bad := [n for n in sample if not np.isfinite(features[n]).all()]:
        raise BadInput(
            f"{features.path}: {len(bad)} of {len(sample)} pictures looked at hold NaN or infinity, the first is {bad[0]}. Extract again."
        )


def _spread(n: int) -> list[int]:
    """Up to SAMPLE numbers below n, evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, n - 1, min(n, SAMPLE)).astype(int)).tolist()


def _ids(file: Path, lengths: tuple[int, ...], faults: Faults) -> list[str]:
    """One id per item: one line each, or as many lines as captions, of which every fifth then counts; else '' for all."""
    ids = [line.strip() for line in read_lines(file, faults)] if file.exists() else []
    if ids and len(ids) in lengths:
        return ids[:: len(ids) // lengths[0]]
    faults.tolerate("lists of ids of another length, not read", f"{file.name}: {len(ids):,} lines", times=int(bool(ids)))
    return [""] * lengths[0]


def _plain(line: str, where: str, faults: Faults) -> str:
    """The caption of a line, which some files carry as Python writes bytes: b'A dog runs .'"""
    line = line.strip()
    if line[:2] in ("b'", 'b"') and len(line) > 2 and line[-1] == line[1]:
        try:
            raw = ast.literal_eval(line)
        except (ValueError, SyntaxError):
            return line
        faults.tolerate("captions written as Python bytes (b'…')", where)
        try:
            return raw.decode("utf-8").strip()
        except UnicodeDecodeError:
            return raw.decode("latin-1").strip()
    return line


def _protocol(base: Path, splits: list[_Split]) -> str:
    test = next((s for s in splits if s.name == "test"), None)
    if test is None:
        return ""
    said = f"{test.stem}: {len(test.features):,} pictures"
    if test.stem == "testall":
        said += ", the whole test split; COCO's 1K numbers are means over five folds of it"
        if _file(base, "test", "ims.npy").exists():
            said += ". The files named test are an unfair 1K subset: they are not read"
    return said
