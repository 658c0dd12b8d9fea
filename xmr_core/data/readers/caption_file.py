"""Caption files as people write them: tables with a header line (.csv, .tsv) and lines of JSON (.jsonl)."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from xmr_core.data.readers.faults import Faults
from xmr_core.data.readers.photographs import read_lines

IMAGE, CAPTION = ("image", "file", "filename", "file_name"), ("caption", "text", "captions")
_SPLIT, _ID = ("split",), ("caption_id",)
_DELIMITERS = ",;\t"
_LONGEST = 20  # lines that one quoted caption may run over; beyond that its quote was never closed
BAD, STRAY = "caption lines that cannot be read", "caption lines with a stray quote or delimiter, mended"


def read_caption_file(file: Path, faults: Faults) -> pd.DataFrame:
    """Rows of image, text, split and caption_id, as written and in their order; '' where nothing is given.

    A .jsonl file has an object per line, any other a header line and fields between commas, semicolons or tabs (found out from the
    header), quoted where they need it. Names of the columns, in any case: image (or file, filename, file_name), caption (or text,
    captions; in .jsonl it may be a list), and, if wanted, split and caption_id. The column 'split' is left out of the result if
    the file has none.
    Tolerated and counted: lines that cannot be read, quotes that are not closed, delimiters in a last field that is not quoted,
    bytes that are not UTF-8. Refused: missing columns, naming those found; no line that can be read.
    """
    lines = read_lines(file, faults)
    table = pd.DataFrame(_json_rows(lines, file, faults) if file.suffix == ".jsonl" else _fields(lines, file, faults))
    if table.empty:
        faults.refuse(f"{file} holds no caption that can be read. It needs the columns {_wanted()}.")
        return pd.DataFrame({"image": [], "text": [], "caption_id": []}, dtype=object)
    return table


def _wanted() -> str:
    return f"image (or {', '.join(IMAGE[1:])}) and caption (or {', '.join(CAPTION[1:])})"


def _named(names: list[str], any_of: tuple[str, ...]) -> int | None:
    """Position of the first of these names among a file's columns."""
    plain = [name.strip().lower() for name in names]
    return next((plain.index(name) for name in any_of if name in plain), None)


def _lacking(names: list[str], file: Path, faults: Faults) -> bool:
    """Refuse, and say True, when there is no column for the picture or the caption."""
    if lacks := [all_names[0] for all_names in (IMAGE, CAPTION) if _named(names, all_names) is None]:
        found = ", ".join(map(repr, names[:12])) or "none"
        faults.refuse(f"{file} has no column {' and no column '.join(lacks)}; found: {found}. Name them {_wanted()}.")
    return bool(lacks)


def _fields(lines: list[str], file: Path, faults: Faults) -> list[dict[str, str]]:
    """Of a table with a header line."""
    start = next((n for n, line in enumerate(lines) if line.strip()), None)
    if start is None:
        return []

    def columns(delimiter: str) -> list[str]:
        return next(csv.reader([lines[start]], delimiter=delimiter))

    delimiter = max(_DELIMITERS, key=lambda d: (sum(_named(columns(d), names) is not None for names in (IMAGE, CAPTION)), len(columns(d))))
    names = columns(delimiter)
    if _lacking(names, file, faults):
        return []
    at = {what: _named(names, known) for what, known in (("image", IMAGE), ("text", CAPTION), ("split", _SPLIT), ("caption_id", _ID))}
    out = []
    for number, row, mended in _rows(lines, start + 1, delimiter):
        if len(row) > len(names) and at["text"] == len(names) - 1:
            row, mended = [*row[: at["text"]], delimiter.join(row[at["text"] :])], True
        if len(row) != len(names):
            faults.tolerate(BAD, f"{file.name} line {number}: {len(row)} fields, the header has {len(names)}")
            continue
        faults.tolerate(STRAY, f"{file.name} line {number}", times=int(mended))
        out.append({what: " ".join(row[n].split()) for what, n in at.items() if n is not None})
    return [{"caption_id": "", **row} for row in out]


def _rows(lines: list[str], at: int, delimiter: str) -> Iterator[tuple[int, list[str], bool]]:
    """(line number, fields, whether a stray quote was read as a letter) of each row; a quoted field may run over several lines."""
    while at < len(lines):
        reader, mended = csv.reader((f"{line}\n" for line in lines[at : at + _LONGEST]), delimiter=delimiter, strict=True), False
        try:
            row, used = next(reader), reader.line_num
        except csv.Error:
            row, used, mended = next(csv.reader([lines[at]], delimiter=delimiter, quoting=csv.QUOTE_NONE)), 1, True
            row = [field.strip().strip('"') for field in row]
        if any(field.strip() for field in row):
            yield at + 1, row, mended
        at += used


def _json_rows(lines: list[str], file: Path, faults: Faults) -> list[dict[str, str]]:
    """Of lines of JSON objects."""
    objects = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            objects.append((number, value))
        else:
            faults.tolerate(BAD, f"{file.name} line {number}: {line[:60]}")
    names = list(dict.fromkeys(name for _, value in objects for name in value))
    if not objects or _lacking(names, file, faults):
        return []
    split = {"split": ""} if _named(names, _SPLIT) is not None else {}
    out = []
    for number, value in objects:
        keys = list(value)

        def get(known: tuple[str, ...], keys=keys, value=value):
            at = _named(keys, known)
            return None if at is None else value[keys[at]]

        image, texts, part, ids = get(IMAGE), get(CAPTION), get(_SPLIT), get(_ID)
        texts = [texts] if isinstance(texts, str) else texts
        if not (isinstance(image, str) and isinstance(texts, list) and all(isinstance(t, str) for t in texts)):
            faults.tolerate(BAD, f"{file.name} line {number}: no picture's name, or no text")
            continue
        ids = [ids] if isinstance(ids, (str, int)) else ids if isinstance(ids, list) else []
        ids = [str(i) for i in ids] if len(ids) == len(texts) else [""] * len(texts)
        given = {**split, **({"split": str(part)} if split and part is not None else {})}
        out += [{"image": image.strip(), "text": " ".join(t.split()), "caption_id": i, **given} for t, i in zip(texts, ids, strict=True)]
    return out
