"""Caption files as people write them: tables with a header line (.csv, .tsv) and lines of JSON (.jsonl)."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from xmr_core.data.readers.fault_log import FaultLog
from xmr_core.data.readers.files import read_lines

# column of the result → names that it may have in a file, in any case; the first two are needed
COLUMNS = {
    "image": ("image", "file", "filename", "file_name"),
    "text": ("caption", "text", "captions"),
    "split": ("split",),
    "caption_id": ("caption_id",),
}
_DELIMITERS = ",;\t"
_LONGEST = 20  # lines of one quoted caption; after more than these, its quote was never closed
UNREADABLE = "caption lines that cannot be read"
MENDED = "caption lines with a stray quote or delimiter, mended"


def read_caption_file(file: Path, faults: FaultLog) -> pd.DataFrame:
    """Columns image, text, split and caption_id, as written and in the order of the file; '' where nothing is given.

    A .jsonl file has one object in each line. Any other file has a header line, and fields that are separated by commas,
    semicolons or tabs (the header tells which) and quoted where necessary. COLUMNS has the names of the columns; split
    and caption_id are optional, and the result has no column split if the file has none. In .jsonl the caption may be a
    list, and then caption_id may be one as well.
    Tolerated: unreadable lines, quotes that are not closed, delimiters in a last field without quotes, bytes that are
    not UTF-8. Refused: missing columns; a file without any readable line.
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "captions.csv").write_text("File;Caption\\na.jpg;A dog.\\n")
    ...     read_caption_file(Path(folder, "captions.csv"), FaultLog()).to_dict("records")
    [{'caption_id': '', 'image': 'a.jpg', 'text': 'A dog.'}]
    """
    lines = read_lines(file, faults)
    rows = _json_rows(lines, file, faults) if file.suffix == ".jsonl" else _table_rows(lines, file, faults)
    if not rows:
        faults.refuse(f"{file} holds no caption that can be read. It needs the columns {_needed_columns()}.")
    return pd.DataFrame(rows) if rows else pd.DataFrame({"image": [], "text": [], "caption_id": []}, dtype=object)


def _needed_columns() -> str:
    return " and ".join(f"{names[0]} (or {', '.join(names[1:])})" for names in list(COLUMNS.values())[:2])


def _positions(names: list[str]) -> dict[str, int]:
    """Column of the result → position of the first of its names among those of a file."""
    plain = [name.strip().lower() for name in names]
    found = {column: [plain.index(name) for name in accepted if name in plain] for column, accepted in COLUMNS.items()}
    return {column: positions[0] for column, positions in found.items() if positions}


def _lacks_columns(names: list[str], file: Path, faults: FaultLog) -> bool:
    """Refuse, and return True, when there is no column for the image or the caption."""
    positions = _positions(names)
    lacking = [COLUMNS[column][0] for column in ("image", "text") if column not in positions]
    if lacking:
        present = ", ".join(map(repr, names[:12])) or "none"
        faults.refuse(
            f"{file} has no column {' and no column '.join(lacking)}; found: {present}. Name them {_needed_columns()}."
        )
    return bool(lacking)


def _table_rows(lines: list[str], file: Path, faults: FaultLog) -> list[dict[str, str]]:
    """The rows of a table with a header line."""
    header = next((n for n, line in enumerate(lines) if line.strip()), None)
    if header is None:
        return []
    names_by = {delimiter: next(csv.reader([lines[header]], delimiter=delimiter)) for delimiter in _DELIMITERS}
    needed = {"image", "text"}
    delimiter = max(_DELIMITERS, key=lambda d: (len(needed & _positions(names_by[d]).keys()), len(names_by[d])))
    names = names_by[delimiter]
    if _lacks_columns(names, file, faults):
        return []
    positions, last, rows = _positions(names), len(names) - 1, []
    for number, row, mended in _split_rows(lines, header + 1, delimiter):
        if len(row) > len(names) and positions["text"] == last:
            row, mended = [*row[:last], delimiter.join(row[last:])], True
        if len(row) != len(names):
            faults.tolerate(UNREADABLE, f"{file.name} line {number}: {len(row)} fields, the header has {len(names)}")
            continue
        if mended:
            faults.tolerate(MENDED, f"{file.name} line {number}")
        rows.append({"caption_id": "", **{column: " ".join(row[n].split()) for column, n in positions.items()}})
    return rows


def _split_rows(lines: list[str], start: int, delimiter: str) -> Iterator[tuple[int, list[str], bool]]:
    """(line number, fields, whether a stray quote was read as a letter) of each row.

    A quoted field may extend over several lines.
    """
    while start < len(lines):
        several, mended = (f"{line}\n" for line in lines[start : start + _LONGEST]), False
        reader = csv.reader(several, delimiter=delimiter, strict=True)
        try:
            row, used = next(reader), reader.line_num
        except csv.Error:
            row = next(csv.reader([lines[start]], delimiter=delimiter, quoting=csv.QUOTE_NONE))
            row, used, mended = [field.strip().strip('"') for field in row], 1, True
        if any(field.strip() for field in row):
            yield start + 1, row, mended
        start += used


def _json_rows(lines: list[str], file: Path, faults: FaultLog) -> list[dict[str, str]]:
    """The rows of lines of JSON objects."""
    objects = []
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            objects.append((number, value))
        elif line.strip():
            faults.tolerate(UNREADABLE, f"{file.name} line {number}: {line[:60]}")
    names = list(dict.fromkeys(name for _, value in objects for name in value))
    if not objects or _lacks_columns(names, file, faults):
        return []
    has_splits, rows = "split" in _positions(names), []
    for number, value in objects:
        fields, values = _positions(list(value)), list(value.values())
        image, texts, split, ids = (values[fields[column]] if column in fields else None for column in COLUMNS)
        texts = [texts] if isinstance(texts, str) else texts
        if not (isinstance(image, str) and isinstance(texts, list) and all(isinstance(t, str) for t in texts)):
            faults.tolerate(UNREADABLE, f"{file.name} line {number}: no name of an image, or no text")
            continue
        ids = [ids] if isinstance(ids, (str, int)) else ids if isinstance(ids, list) else []
        ids = [str(i) for i in ids] if len(ids) == len(texts) else [""] * len(texts)
        common = {"image": image.strip(), **({"split": str("" if split is None else split)} if has_splits else {})}
        rows += [{**common, "text": " ".join(t.split()), "caption_id": i} for t, i in zip(texts, ids, strict=True)]
    return rows
