"""Captions as people write them down: tables (.csv, .tsv), lines of JSON (.jsonl), frames of pandas."""

import ast
import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from xmr_core.data.images.files import SUFFIXES
from xmr_core.data.readers.fault_log import FaultLog
from xmr_core.data.readers.files import read_lines

# Column of the result → names that it may have in a file, in any case. The first two columns are needed.
COLUMNS = {
    "image": ("image", "file", "filename", "file_name"),
    "text": ("caption", "text", "captions"),
    "split": ("split",),
    "caption_id": ("caption_id",),
}
_NEEDED = " and ".join(f"{names[0]} (or {', '.join(names[1:])})" for names in (COLUMNS["image"], COLUMNS["text"]))
_DELIMITERS = ",;\t"
_LONGEST = 20  # lines of one quoted caption; after more than these, its quote was never closed
UNREADABLE = "caption lines that cannot be read"
MENDED = "caption lines with a stray quote or delimiter, mended"


def read_caption_file(file: Path, faults: FaultLog) -> pd.DataFrame:
    """Columns image, text, split and caption_id, as written and in the order of the file; '' where nothing is given.

    A .jsonl file has one object in each line. Any other file has a header line, and fields that are separated by
    commas, semicolons or tabs (the header tells which) and quoted where necessary. A .tsv file of two columns may lack
    the header: image, then caption. COLUMNS has the names of the columns. split and caption_id are optional, and the
    result has no column split if the file has none. The caption may be a list, in .jsonl or written as one ("['a dog',
    'a cat']"), and then caption_id may be one as well.
    Tolerated: unreadable lines, quotes that are not closed, delimiters in a last field without quotes, bytes that are
    not UTF-8. Refused: missing columns; a file without any readable line.
    """
    read = _json_records if file.suffix == ".jsonl" else _table_records
    return caption_table(read(read_lines(file, faults), file, faults), str(file), faults)


def caption_table(records: Iterable[tuple[int, dict]], source: str, faults: FaultLog) -> pd.DataFrame:
    """The result of `read_caption_file` from records. records: (number, name of a column → value). source: in messages.

    Tolerated: records without a name of an image or a text. Refused: missing columns; no readable record.
    """
    records, rows = list(records), []
    names = list(dict.fromkeys(name for _, record in records for name in record))
    has_split = "split" in _positions(names)
    for number, record in records if not records or _has_columns(names, source, faults) else ():
        values = list(record.values())
        values = {column: values[position] for column, position in _positions(list(record)).items()}
        image, texts, split, ids = (values.get(column) for column in COLUMNS)
        texts = _texts(texts) if isinstance(texts, str) else texts
        if not (isinstance(image, str) and isinstance(texts, list) and all(isinstance(t, str) for t in texts)):
            faults.tolerate(UNREADABLE, f"{Path(source).name} line {number}: no name of an image, or no text")
            continue
        ids = [ids] if isinstance(ids, (str, int)) else ids if isinstance(ids, list) else []
        ids = [str(i) for i in ids] if len(ids) == len(texts) else [""] * len(texts)
        common = {"image": image.strip(), **({"split": "" if split is None else str(split)} if has_split else {})}
        rows += [{**common, "text": " ".join(t.split()), "caption_id": i} for t, i in zip(texts, ids, strict=True)]
    if not rows:
        faults.refuse(f"{source} holds no caption that can be read. It needs the columns {_NEEDED}.")
    return pd.DataFrame(rows) if rows else pd.DataFrame({"image": [], "text": [], "caption_id": []}, dtype=object)


def frame_records(frame: pd.DataFrame) -> Iterator[tuple[int, dict[str, object]]]:
    """The rows of a frame as records for `caption_table`; what is missing (NaN) is None, and arrays are lists."""
    names = [str(name) for name in frame.columns]
    for number, row in enumerate(frame.itertuples(index=False, name=None), 1):
        yield number, dict(zip(names, map(_plain, row), strict=True))


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray | tuple | list):
        return [_plain(v) for v in value]
    if isinstance(value, Path):
        return str(value)
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and np.isnan(value)):
        return None
    return int(value) if isinstance(value, np.integer) else value


def _texts(text: str) -> list[str]:
    """One caption, or those of a list that was written into one field."""
    if text.startswith(("['", '["')) and text.endswith("]"):
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return [text]
        if isinstance(value, list) and all(isinstance(t, str) for t in value):
            return value
    return [text]


def _positions(names: list[str]) -> dict[str, int]:
    """Column of the result → position of the first of its names among those of a file."""
    plain = [name.strip().lower() for name in names]
    # of two accepted names that a file has, the earlier one is taken
    pairs = ((column, name) for column, accepted in COLUMNS.items() for name in reversed(accepted))
    return {column: plain.index(name) for column, name in pairs if name in plain}


def _has_columns(names: list[str], source: str, faults: FaultLog) -> bool:
    """Whether there are columns for images and captions. Refuses, when one of them is missing."""
    missing = [COLUMNS[column][0] for column in ("image", "text") if column not in _positions(names)]
    if missing:
        present = ", ".join(map(repr, names[:12])) or "none"
        fault = f"{source} has no column {' and no column '.join(missing)}; found: {present}"
        faults.refuse(f"{fault}. Name them {_NEEDED}.")
    return not missing


def _table_records(lines: list[str], file: Path, faults: FaultLog) -> Iterator[tuple[int, dict[str, str]]]:
    """(line number, name of a column → field) of each row of a table."""
    header = next((n for n, line in enumerate(lines) if line.strip()), None)
    if header is None:
        return
    try:
        names_by = {delimiter: next(csv.reader([lines[header]], delimiter=delimiter)) for delimiter in _DELIMITERS}
    except csv.Error as e:
        faults.refuse(f"{file} line {header + 1} is no header ({e}). It needs the columns {_NEEDED}.")
        return
    needed = {"image", "text"}
    delimiter = max(_DELIMITERS, key=lambda d: (len(needed & _positions(names_by[d]).keys()), len(names_by[d])))
    names, start = names_by[delimiter], header + 1
    if file.suffix == ".tsv" and len(names) == 2 and not _positions(names) and names[0].lower().endswith(SUFFIXES):
        names, start = ["image", "caption"], header
    last = len(names) - 1
    while start < len(lines):
        several = (f"{line}\n" for line in lines[start : start + _LONGEST])  # a quoted field may extend over lines
        reader = csv.reader(several, delimiter=delimiter, strict=True)
        try:
            row, used, mended = next(reader), reader.line_num, False
        except csv.Error:  # a stray quote, which is now read as a letter
            try:
                row = next(csv.reader([lines[start]], delimiter=delimiter, quoting=csv.QUOTE_NONE))
            except csv.Error as e:  # a field of more than 131,072 characters is no caption
                faults.tolerate(UNREADABLE, f"{file.name} line {start + 1}: {e}")
                start += 1
                continue
            row, used, mended = [field.strip().strip('"') for field in row], 1, True
        number, start = start + 1, start + used
        if not any(field.strip() for field in row):
            continue
        if len(row) > len(names) and _positions(names).get("text") == last:
            row, mended = [*row[:last], delimiter.join(row[last:])], True
        if len(row) != len(names):
            faults.tolerate(UNREADABLE, f"{file.name} line {number}: {len(row)} fields, the header has {len(names)}")
            continue
        if mended:
            faults.tolerate(MENDED, f"{file.name} line {number}")
        yield number, {name: " ".join(row[names.index(name)].split()) for name in names}


def _json_records(lines: list[str], file: Path, faults: FaultLog) -> Iterator[tuple[int, dict[str, object]]]:
    """(line number, object) of each line of JSON."""
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            yield number, value
        elif line.strip():
            faults.tolerate(UNREADABLE, f"{file.name} line {number}: {line[:60]}")
