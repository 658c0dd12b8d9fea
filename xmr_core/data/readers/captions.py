"""Captions as people write them down: tables (.csv, .tsv), lines of JSON (.jsonl), frames of pandas."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from xmr_core.data.readers.assembly import FaultLog, literal, read_lines
from xmr_core.features.images import SUFFIXES

# Column of the result → names that it may have in a file, in any case. The first two columns are needed.
COLUMNS = {
    "image": ("image", "file", "filename", "file_name"),
    "text": ("caption", "text", "captions"),
    "split": ("split",),
    "caption_id": ("caption_id",),
}
_COLUMN_OF = {name: column for column in ("image", "text") for name in COLUMNS[column]}
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
    not UTF-8. Refused: a file without any readable line, as where columns are missing.
    """
    read = _json_records if file.suffix == ".jsonl" else _table_records
    return caption_table(read(read_lines(file, faults), file, faults), str(file), faults)


def caption_table(records: Iterable[tuple[int, Mapping]], source: str, faults: FaultLog) -> pd.DataFrame:
    """The result of `read_caption_file` from records. records: (number, name of a column → value). source: what holds
    them, in messages. Tolerated: records without a name of an image or a text. Refused: no readable record."""
    rows, found = [], {}
    for number, record in records:
        found |= dict.fromkeys(map(str, record))
        values = {str(name).strip().lower(): record[name] for name in reversed(record)}
        image, texts, split, ids = (
            next((values[name] for name in names if name in values), None) for names in COLUMNS.values()
        )
        texts = _texts(texts) if isinstance(texts, str) else texts
        if not (isinstance(image, str) and isinstance(texts, list) and all(isinstance(t, str) for t in texts)):
            faults.tolerate(UNREADABLE, f"{Path(source).name} line {number}: no name of an image, or no text")
            continue
        ids = [ids] if isinstance(ids, (str, int)) else ids
        ids = ids if isinstance(ids, list) and len(ids) == len(texts) else [""] * len(texts)
        rows += [(image.strip(), one_line(t), str(split or ""), str(i)) for t, i in zip(texts, ids, strict=True)]
    if not rows:
        names = " and ".join("/".join(COLUMNS[column]) for column in ("image", "text"))
        faults.refuse(f"{source} holds no caption that can be read: needs the columns {names}; found: {[*found][:12]}.")
    table = pd.DataFrame(rows, columns=["image", "text", "split", "caption_id"], dtype=object)
    return table if any(name.strip().lower() == "split" for name in found) else table.drop(columns="split")


def frame_records(frame: pd.DataFrame) -> Iterator[tuple[int, dict[str, object]]]:
    """The rows of a frame as records for `caption_table`; what is missing (NaN) is None, and arrays are lists."""
    for number, row in enumerate(frame.itertuples(index=False, name=None), 1):
        yield number, dict(zip(map(str, frame.columns), map(_plain, row), strict=True))


def one_line(text: str) -> str:
    """A text with single blanks in the place of all white space."""
    return " ".join(text.split())


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray | tuple | list):
        return [_plain(v) for v in value]
    if isinstance(value, Path):
        return str(value)
    if pd.isna(value):
        return None
    return int(value) if isinstance(value, np.integer) else value


def _texts(text: str) -> list[str]:
    """One caption, or those of a list that was written into one field."""
    value = literal(text) if text.startswith(("['", '["')) else None
    return value if isinstance(value, list) and all(isinstance(t, str) for t in value) else [text]


def _fields(lines: Iterable[str], delimiter: str, **how) -> tuple[list[str], int]:
    """(the fields of the first row, how many lines it takes); ([], 0) where csv cannot read it."""
    reader = csv.reader(lines, delimiter=delimiter, **how)
    try:
        return next(reader, []), reader.line_num
    except csv.Error:
        return [], 0


def _table_records(lines: list[str], file: Path, faults: FaultLog) -> Iterator[tuple[int, dict[str, str]]]:
    """(line number, name of a column → field) of each row of a table."""

    def needed(names: list[str]) -> list[str | None]:
        return [_COLUMN_OF.get(name.strip().lower()) for name in names]

    start = next((n for n, line in enumerate(lines) if line.strip()), len(lines))
    headers = {delimiter: _fields(lines[start : start + 1], delimiter)[0] for delimiter in _DELIMITERS}
    delimiter = max(_DELIMITERS, key=lambda d: (len({*needed(headers[d])} - {None}), len(headers[d])))
    names = headers[delimiter]
    if file.suffix == ".tsv" and len(names) == 2 and not any(needed(names)) and names[0].lower().endswith(SUFFIXES):
        names = ["image", "caption"]
    else:
        start += 1
    while start < len(lines):
        # a quoted field may extend over lines; where its quote is never closed, the quote is read as a letter
        row, used = _fields((f"{line}\n" for line in lines[start : start + _LONGEST]), delimiter, strict=True)
        if mended := not used:
            row = [f.strip().strip('"') for f in _fields([lines[start]], delimiter, quoting=csv.QUOTE_NONE)[0]]
        number, start = start + 1, start + max(used, 1)
        if used and not any(field.strip() for field in row):
            continue
        if len(row) > len(names) and needed(names)[-1] == "text":
            row, mended = [*row[: len(names) - 1], delimiter.join(row[len(names) - 1 :])], True
        if len(row) != len(names):
            faults.tolerate(UNREADABLE, f"{file.name} line {number}: {len(row)} fields, the header has {len(names)}")
            continue
        if mended:
            faults.tolerate(MENDED, f"{file.name} line {number}")
        yield number, {name: one_line(row[names.index(name)]) for name in names}


def _json_records(lines: list[str], file: Path, faults: FaultLog) -> Iterator[tuple[int, dict[str, object]]]:
    """(line number, object) of each line of JSON."""
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line or "null")
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            yield number, value
        elif line.strip():
            faults.tolerate(UNREADABLE, f"{file.name} line {number}: {line[:60]}")
