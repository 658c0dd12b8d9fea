"""Any folder of images, with captions in one of the layouts that people use, or without captions."""

import csv
import hashlib
import io
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from numbers import Integral
from pathlib import Path, PurePosixPath
from unicodedata import normalize

import numpy as np
import pandas as pd
from PIL import Image

from xmr_core.base.errors import BadInput, DamagedFile, XmrError
from xmr_core.base.files import existing, existing_file
from xmr_core.base.fingerprint import file_content
from xmr_core.base.types import Corpus
from xmr_core.data.readers import assembly
from xmr_core.data.readers.assembly import FaultLog, image_table, photograph_corpus, read_lines
from xmr_core.features.images import SUFFIXES, ImageBytes, convert_to_rgb

# Captions as people write them down: tables (.csv, .tsv), lines of JSON (.jsonl), frames of pandas.


# Column of the result → names that it may have in a file, in any case, best first. The first two columns are needed;
# a name of a text may carry a number ("caption_0", "caption_1"), and then all of its columns are read.
COLUMNS = {
    "image": ("image", "file", "filename", "file_name", "image_name", "image_path", "img_path", "file_path", "img",
              "filepath", "image_id"),
    "text": ("caption", "text", "captions", "sentences", "sentence", "comment", "description", "raw"),
    "split": ("split",),
    "caption_id": ("caption_id",),
    "group": ("group", "person_id", "identity", "id"),
}  # fmt: skip
_OF_A_LINE = re.compile(rf"({'|'.join(map(re.escape, SUFFIXES))})#\d+$", re.I)  # image.jpg#0, as in Flickr's lists
_LARGEST_GROUP = 100  # images of one group; larger ones are classes
_LONGEST = 20  # lines of one quoted caption; after more than these, its quote was never closed
_BETWEEN, _DECODER = re.compile(r"[\s,]*"), json.JSONDecoder()
UNREADABLE = "caption lines that cannot be read"
MENDED = "caption lines with a stray quote or delimiter, mended"


def read_caption_file(file: Path, faults: FaultLog) -> pd.DataFrame:
    """A row for each caption, in the order of the file: columns image, text, split, caption_id and group, as written;
    '' where nothing is given.

    A .jsonl file has one object in each line, or objects and lists of them however they are laid out. Any other file
    has a header line, and fields that are separated by commas, semicolons, bars or tabs (the header tells which) and
    quoted where necessary. A file of two columns may lack the header: image, then caption. COLUMNS has the names of the
    columns. The result has no column split if the file has none. The caption may be a list, in .jsonl or written as one
    ("['a dog', 'a cat']"), and then caption_id may be one as well.
    Tolerated: unreadable lines, quotes that are not closed, delimiters in a last field without quotes, bytes that are
    not UTF-8. Refused: a file without any readable line, as where columns are missing.
    """
    read = _json_records if file.suffix == ".jsonl" else _table_records
    return caption_table(read(read_lines(file, faults), file, faults), str(file), faults)


def caption_table(records: Iterable[tuple[int, Mapping]], source: str, faults: FaultLog) -> pd.DataFrame:
    """The result of `read_caption_file` from records. records: (number, name of a column → value). source: what holds
    them, in messages. Tolerated: records without a name of an image or a text. Refused: no readable record."""
    rows, columns = [], {}
    for number, record in records:
        columns |= dict.fromkeys(map(str, record))
        values = {_column(name): record[name] for name in reversed(record)}
        fields = {column: [values[n] for n in names if n in values] for column, names in COLUMNS.items()}
        fields["image"].sort(key=lambda v: not _is_image(_name(v)))  # a name of a file before a number, say
        image, _, split, ids, group = (next((v for v in own[:1] if v is not None), "") for own in fields.values())
        folder = f"{values['filepath']}/" if {"filepath", "filename"} <= {*values} else ""  # Karpathy's
        where = faults, f"{Path(source).name} line {number}"
        image, texts = _OF_A_LINE.sub(r"\1", folder * bool(image) + _name(image)), _texts_of(values, *where)
        if not (image.strip() and texts is not None and all(isinstance(t, str) for t in texts)):
            faults.tolerate(UNREADABLE, f"{Path(source).name} line {number}: no name of an image, or no text")
            continue
        ids = _listed(ids, *where) or [ids]
        ids = [_name(own).strip() for own in ids] if len(ids) == len(texts) else [""] * len(texts)
        split = "" if str(split) in _ABSENT else str(split)
        rows += [(image, one_line(t), split, i, _name(group)) for t, i in zip(texts, ids, strict=True)]
    if not rows:
        names = " and ".join("/".join(COLUMNS[column]) for column in ("image", "text"))
        first = "".join(f" The first: {line}." for line in faults.examples.get(UNREADABLE, [])[:1])
        needed = f"needs the columns {names}; found: {[*columns][:12]}"
        faults.refuse(f"{source} holds no readable caption: {needed}.{first}")
    table = pd.DataFrame(rows, columns=[*COLUMNS], dtype=object)
    return table if any(_column(name) == "split" for name in columns) else table.drop(columns="split")


@lru_cache(1000)
def _column(name: object) -> str:
    return re.sub("[ -]", "_", str(name).strip().lower())


def _name(value: object) -> str:
    """A name or an id as people write it, numbers included; '' for anything else."""
    # pandas makes 7.0 of a 7 where a column has gaps
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    return str(value) if isinstance(value, str | Path | Integral) and not isinstance(value, bool) else ""


def _texts_of(values: Mapping[str, object], faults: FaultLog, place: str) -> list | None:
    """The captions of a record: of the first column that has a name of a text, and of all its numbered ones. Tolerated:
    members of a list that are none, or left out of it."""
    names = _text_columns(tuple(values))
    cells = [values[name] for name in names]
    if len(names) > 1:  # an image with fewer captions than others leaves some blank
        cells = [cell for cell in cells if cell is not None and (not isinstance(cell, str) or cell.strip())]
    lists = [_texts(cell) if isinstance(cell, str) else _listed(cell, faults, place) for cell in cells]
    if not lists or any(own is None for own in lists):
        return None
    texts = [text for own in lists for text in own]
    present = [text for text in texts if not ((text.strip() in _ABSENT) if isinstance(text, str) else pd.isna(text))]
    if len(present) < len(texts):
        faults.tolerate("captions that a list lacks (nan, None, …)", place)
    return present or None


@lru_cache(100)
def _text_columns(names: tuple[str, ...]) -> list[str]:
    for name in COLUMNS["text"]:
        numbered = {int(m[1]): own for own in names if (m := re.fullmatch(rf"{name}_?(\d+)", own))}
        if numbered or name in names:
            return [name] * (name in names) + [numbered[n] for n in sorted(numbered)]
    return []


def one_line(text: str) -> str:
    """A text with single blanks in the place of all white space, and '?' in that of half a character."""
    return " ".join(text.encode(errors="replace").decode().split())


def _listed(value: object, faults: FaultLog, place: str) -> list | None:
    """The entries of a list; of sentences with their tokens, as Karpathy's, what was written."""
    if not isinstance(value, np.ndarray | tuple | list):
        return None
    parts = (_texts_of(v, faults, place) or [None] if isinstance(v, dict) else [v] for v in value)
    return [own for part in parts for own in part]


# Captions of a list as Python, JSON, numpy and pandas print it, with or without commas, and what stands for no caption.
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_ABSENT = ("nan", "NaN", "None", "none", "null", "NULL", "<NA>", "NA", "N/A", "n/a", "#N/A")
_MEMBER = rf"(?:np\.\w+\(|b)?(?:{_QUOTED})\)?|\.\.\.|{'|'.join(map(re.escape, _ABSENT))}"
_HEAD, _END = r"(?:\w+\(|<\w+>)?\s*", r"[\s,]*[\])}]+(?:, *\w+=[^()]*\)|\s*Length: .*)?"
_LIST = re.compile(rf"{_HEAD}[\[({{]+\s*((?:{_MEMBER})(?:[\s,]+(?:{_MEMBER}))*){_END}", re.S)
_BROKEN_LIST = re.compile(rf"""{_HEAD}[\[{{]+\s*(?:np\.\w+\(|b)?['"‘“]""")


def _texts(text: str) -> list[str] | None:
    """One caption, or those of a list that was written into one field; None for such a list that cannot be read, and
    for a word of tables that means no text (nan)."""
    text = text.strip()
    if (listed_texts := _LIST.fullmatch(text)) is None:
        return None if text in _ABSENT or _BROKEN_LIST.match(text) else [text]
    members = (re.search(_QUOTED, member, re.S) for member in re.findall(_MEMBER, listed_texts[1], re.S))
    return [_unquoted(quoted[0]) if quoted else "nan" for quoted in members]


def _unquoted(literal: str) -> str:
    """The text of a literal. JSON writes other escapes than Python."""
    with suppress(ValueError):
        return json.loads(literal)
    return assembly.literal(literal)


def _fields(lines: Iterable[str], delimiter: str, **how) -> tuple[list[str], int]:
    """(the fields of the first row, how many lines it takes); ([], 0) where csv cannot read it."""
    reader = csv.reader(lines, delimiter=delimiter, **how)
    try:
        return next(reader, []), reader.line_num
    except csv.Error:
        return [], 0


def _table_records(lines: list[str], file: Path, faults: FaultLog) -> Iterator[tuple[int, dict[str, str]]]:
    """(line number, name of a column → field) of each row of a table."""

    def is_named(column: str, names: list[str]) -> bool:
        return any(_column(name) in COLUMNS[column] for name in names)

    start = next((n for n, line in enumerate(lines) if line.strip()), len(lines))
    headers = {d: _fields(lines[start : start + 1], d, skipinitialspace=True)[0] for d in ",;\t|"}
    named = {d: is_named("image", names) + is_named("text", names) for d, names in headers.items()}
    delimiter = max(headers, key=lambda d: (named[d], len(headers[d])))
    names, bare = headers[delimiter], [d for d, own in headers.items() if len(own) == 2 and _is_image(own[0])]
    if bare and not named[delimiter]:
        delimiter, names = bare[-1], ["image", "caption"]
    else:
        start += 1
    spaced = re.compile(rf'{re.escape(delimiter)} +"')

    def fields(**how) -> tuple[list[str], int]:
        return _fields((f"{line}\n" for line in lines[start : start + _LONGEST]), delimiter, strict=True, **how)

    rows: list[tuple[int, list[str], bool]] = []  # line number, fields, whether they were mended
    while start < len(lines):
        # a quoted field may extend over lines; where its quote is never closed, the quote is read as a letter
        row, used = fields(skipinitialspace=True) if spaced.search(lines[start]) else fields()
        if len(row) != len(names):
            row, used = fields()
        if mended := not used:
            row = [f.strip().strip('"') for f in _fields([lines[start]], delimiter, quoting=csv.QUOTE_NONE)[0]]
        number, start = start + 1, start + max(used, 1)
        if not used or any(field.strip() for field in row):
            rows.append((number, row, mended))
    if rows and all(len(row) > len(names) for _, row, _ in rows):  # R names the rows in a column without a header
        image = next((n for n, name in enumerate(names, 1) if is_named("image", [name])), 0)
        counted = len(rows) > 1 and [row[0] for _, row, _ in rows] == [*map(str, range(1, len(rows) + 1))]
        names = [""] * (counted or all(_is_image(row[image]) for _, row, _ in rows)) + names
    for number, row, mended in rows:
        if len(row) > len(names) and is_named("text", names[-1:]):
            row, mended = [*row[: len(names) - 1], delimiter.join(row[len(names) - 1 :])], True
        if len(row) != len(names):
            faults.tolerate(UNREADABLE, f"{file.name} line {number}: {len(row)} fields, the header has {len(names)}")
            continue
        if mended:
            faults.tolerate(MENDED, f"{file.name} line {number}")
        yield number, {name: row[names.index(name)] for name in names}


def _is_image(name: str) -> bool:
    return _OF_A_LINE.sub(r"\1", name).lower().endswith(SUFFIXES)


def _json_records(lines: list[str], file: Path, faults: FaultLog) -> Iterator[tuple[int, dict[str, object]]]:
    """(line number, object) of objects and lists of objects, one after the other, in any number of lines."""
    text, position, number = "\n".join(lines), 0, 1
    while (start := _BETWEEN.match(text, position).end()) < len(text):
        number, position = number + text.count("\n", position, start), start
        try:
            value, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            value, end = None, position
        if not isinstance(value, dict | list):
            end = len(text) if (end := text.find("\n", position)) < 0 else end
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                yield number, item
            else:
                cut = one_line(text[position : min(end, position + 60)])
                faults.tolerate(UNREADABLE, f"{file.name} line {number}: {cut}")
        number, position = number + text.count("\n", position, end), end


# Splits: written beside the captions, named by files and sub-folders, or by a hash.


_WORDS = {
    "train": ("train", "training", "restval"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_SPLIT_OF = {word: split for split, words in _WORDS.items() for word in words}
_HASHED = {8: "val", 9: "test"}


def hash_split(image_id: str) -> str:
    """'train' for 8 of 10 names, 'val' and 'test' for one each; the same on every machine.

    >>> [hash_split(f"{n}.jpg") for n in range(4)]
    ['train', 'train', 'train', 'val']
    """
    return _HASHED.get(_tenth(image_id), "train")


def _tenth(image_id: str) -> int:
    name = normalize("NFC", image_id)  # as all systems but macOS write it
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") % 10


def completed(split_of: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Splits of which val or test may be missing, with a tenth of train in each one that is; and what was done.

    The tenth is that of `hash_split`. Without train, nothing is done.
    """
    present = set(split_of.values())
    drawn = {tenth: split for tenth, split in _HASHED.items() if split not in present and "train" in present}
    out = {i: drawn.get(_tenth(i), split) if split == "train" else split for i, split in split_of.items()}
    how = f"; {' and '.join(drawn.values())} by a hash of each image's name, a tenth of train each" if drawn else ""
    return out, how


def _word_split(words: Iterable[str]) -> str:
    """The split that the first word that names one means, or ''."""
    return next((_SPLIT_OF[word] for word in words if word in _SPLIT_OF), "")


def _folder_split(image_id: str) -> str:
    """The split that one of its sub-folders names, such as train2017, or ''."""
    return _word_split(part.lower().rstrip("0123456789") for part in PurePosixPath(image_id).parts[:-1])


def _written_splits(table: pd.DataFrame, source: str, faults: FaultLog) -> dict[str, str]:
    """image_id → our name of the split that the rows of a table give (columns image_id, split).

    Refused: unknown splits, an image in two of them.
    """
    written = table["split"].str.strip().str.lower()
    unknown = sorted({*written} - {*_SPLIT_OF, ""})
    faults.refuse(f"{source}: unknown split (known: {', '.join(_SPLIT_OF)}, or blank)", unknown)
    pairs = table.assign(split=written.map(_SPLIT_OF))[["image_id", "split"]].dropna().drop_duplicates()
    several = sorted(set(pairs["image_id"][pairs["image_id"].duplicated()]))
    faults.refuse(f"{source} puts images in more than one split", several)
    return dict(zip(pairs["image_id"], pairs["split"], strict=True))


# Which files of a folder hold its captions.


FILES = ("captions.csv", "captions.tsv", "captions.jsonl", "captions.txt")
METADATA = ("metadata.csv", "metadata.jsonl")  # as the library datasets reads folders of images
COCO = ("*captions*.json", "annotations/*captions*.json")
FLICKR = ("results.csv", "results*.token", "*.token.txt")  # as Flickr30K and Flickr8k are handed out
ANY_JSON = ("*.json", "annotations/*.json")  # lists of records and Karpathy's files have any name
LISTED = ("train.txt", "val.txt", "test.txt")  # beside COCO's JSON: names of the images of a split, one a line
_TEXTS = (".csv", ".tsv", ".json", ".jsonl", ".txt", ".parquet")  # what may hold captions, if only by another name
_NO_CAPTIONS = ("instances_", "person_keypoints_", "panoptic_", "stuff_")  # COCO's other files, half a gigabyte each
# of images and annotations; they fill the memory
_UNUSED = ("tokens", "processed_tokens", "segmentation", "bbox", "license", "coco_url", "flickr_url", "date_captured")


@dataclass(frozen=True)
class WrittenCaptions:
    """Captions as they are written beside images.

    table: columns image, text, caption_id and, where one is written, split. source: what holds them. collection: laid
    out as published collections are, so that sub-folders may name splits, and a caption given twice for an image counts
    twice, as in the official numbers. listed: name of an image → split, from lists of names.
    """

    table: pd.DataFrame
    source: str
    collection: bool = False
    listed: Mapping[str, str] = field(default_factory=dict)


def read_captions(base: Path, images: Iterable[str], faults: FaultLog) -> WrittenCaptions | None:
    """The captions of a folder, or None: from one of FILES, else of METADATA, COCO, FLICKR or ANY_JSON, else from a
    text beside each image (dog.jpg, dog.txt), a caption a line, or its JSON with a caption.

    METADATA may lie in base or in its sub-folders, and names images from its own folder. Several files of JSON are one
    corpus, and the name of each may say its split; ANY_JSON is several only where every name says another split.
    images: paths below base of the images that exist.
    Refused: two files that mean the same; what read_caption_file and _read_json_captions refuse.
    """
    layouts = FILES, [f"{depth}{name}" for depth in ("", "*/", "*/*/") for name in METADATA], COCO, FLICKR
    files = next(filter(None, (_visible(base, patterns) for patterns in layouts)), [])
    if not files and not (files := _with_captions(base, images, faults)):
        return _beside(base, images, faults)
    is_coco, composed, tables = files[0].suffix == ".json", {_composed(image) for image in images}, []
    names, count = [file.relative_to(base).as_posix() for file in files], Counter(file.parent for file in files)
    said = {_word_split(re.findall("[a-z]+", file.stem.lower())) for file in files}
    one_corpus = is_coco and ("captions" in files[0].name or len(said - {""}) == len(files))
    if max(count.values()) > 1 and not one_corpus:
        faults.refuse(f"{base} holds {' and '.join(names)}. Keep the one that is meant.")
    named: set[tuple[str, str]] = set()  # (split, image) of the files before
    for file in files:
        stem = file.stem.lower()
        table = _read_json_captions(file, faults) if is_coco else read_caption_file(file, faults)
        place = base / stem.removeprefix("captions_") if is_coco else file.parent
        prefix = place.relative_to(base).as_posix()
        below = {name: name if prefix == "." else f"{prefix}/{name}" for name in table["image"]}
        table = table.replace({"image": {name: path for name, path in below.items() if _composed(path) in composed}})
        split = _word_split(re.findall("[a-z]+", stem)) if is_coco else ""
        if split and "split" not in table:
            table = table.assign(split=split)
        own = {(split, image) for image in table["image"]} if is_coco else set()
        if own & named:
            faults.refuse(f"{base}: {' and '.join(names)} caption the same images. Keep the one that is meant.")
        named |= own
        tables.append(table)
    table = pd.concat(tables, ignore_index=True)
    if "split" in table:  # of some files only: the others leave it blank
        table["split"] = table["split"].fillna(table["image"].map(_folder_split))
    listed = _listed_splits([*dict.fromkeys((*count, base))], faults) if is_coco or "split" not in table else {}
    return WrittenCaptions(table, ", ".join(names), files[0].name not in FILES, listed)


def _visible(base: Path, patterns: Iterable[str]) -> list[Path]:
    """The files that fit and are not hidden, each once, in alphabetical order."""
    files = {file for pattern in patterns for file in base.glob(pattern) if file.is_file()}
    hidden = {f for f in files if any(part.startswith(".") for part in f.relative_to(base).parts)}
    others = {f for f in files if ".lemma." in f.name or f.name.startswith(_NO_CAPTIONS)}  # lemmas have no endings
    others |= {f for f in files if f.match("*results.json")}  # what a model said
    others |= {f for f in files if f.name == "results.csv" and b"comment" not in assembly.read_bytes(f)[:200]}
    return sorted(files - hidden - others)


def _listed_splits(folders: Iterable[Path], faults: FaultLog) -> dict[str, str]:
    """Name of an image, as written → split, from the lists LISTED in the first of the folders that has one.

    Refused: an image in two lists.
    """
    for folder in folders:
        files = [folder / name for name in LISTED if (folder / name).is_file()]
        pairs = [(line, file.stem) for file in files for line in read_lines(file, faults) if line.strip()]
        if split_of := dict(pairs):
            several = sorted({name for name, split in pairs if split_of[name] != split})
            faults.refuse(f"the lists in {folder} put images in more than one split", several)
            return split_of
    return {}


def _read_json_captions(file: Path, faults: FaultLog) -> pd.DataFrame:
    """The table of `read_caption_file` from JSON: of COCO, or anything that `_records` knows.

    COCO's holds images (id, file_name and, if wanted, split) and annotations (image_id, caption), as
    captions_train2017.json does; the result is in the order of the annotations, and caption_id is '', as two files may
    give one number twice.
    Tolerated: annotations without a caption, or of an image that the file does not list. Refused: no JSON, another
    layout, no caption, image ids that repeat.
    """
    value: object = None
    with faults.noting():
        value = _read_json(file, faults)
    if records := _records(value):
        return caption_table(enumerate(records, 1), str(file), faults)
    lists = [value.get(name) if isinstance(value, dict) else None for name in ("images", "annotations")]
    if not all(isinstance(part, list) and all(isinstance(item, dict) for item in part) for part in lists):
        faults.refuse(f"{file} is not of COCO: an object with the lists 'images' and 'annotations'.")
        lists = [[], []]
    sound = [image for image in lists[0] if isinstance(image.get("file_name"), str) and "id" in image]
    faults.tolerate("images without an id or a file_name", file.name, len(lists[0]) - len(sound))
    by_id = {str(image["id"]): image for image in sound}
    if len(by_id) < len(sound):
        faults.refuse(f"{file}: {len(sound) - len(by_id):,} image ids repeat. Give each image one.")
    splits, records = any("split" in image for image in sound), []
    for number, annotation in enumerate(lists[1]):
        image = by_id.get(str(annotation.get("image_id")), {})
        if not image and isinstance(annotation.get("caption"), str):
            faults.tolerate("captions of an image that their file does not list", f"{file.name} annotation {number}")
            continue
        record = {"image": image.get("file_name"), "caption": annotation.get("caption")}
        records.append((number, record | ({"split": image.get("split")} if splits else {})))
    return caption_table(records, str(file), faults)


def _read_json(file: Path, faults: FaultLog) -> object:
    """The value of a JSON file; those of several values in one, such as lines of JSON, as a list."""
    try:
        return assembly.read_json(file, faults, _used)
    except DamagedFile:
        lines, tried = read_lines(file, faults), FaultLog()
        values = [item for _, item in _json_records(lines, file, tried)]
        if not values or tried.counts:
            raise
        return values


def _records(value: object) -> list[dict] | None:
    """The records of a JSON value: of a list, of the only list in an object, as Karpathy's "images", of a list for each
    split, or of captions under the name of each image; None for anything else."""
    if isinstance(value, dict) and value:
        lists = {name: own for name, own in value.items() if isinstance(own, list)}
        if all(map(_is_image, value)):
            value = [{"image": name, "caption": own} for name, own in value.items()]
        elif all(name in _SPLIT_OF for name in lists):
            value = [{"split": name, **item} for name, own in lists.items() for item in own if isinstance(item, dict)]
        elif len(lists) == 1:
            value = next(iter(lists.values()))
    records = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    named = (item for item in records if item.keys() & set(COLUMNS["image"]))
    return records if any(_texts_of(item, FaultLog(), "") for item in named) else None


def _used(item: dict) -> dict:
    return {name: own for name, own in item.items() if name not in _UNUSED}


def _with_captions(base: Path, images: Iterable[str], faults: FaultLog) -> list[Path]:
    """The files of ANY_JSON that hold records of captions; those of single images are none."""
    beside, out = {base / PurePosixPath(image).with_suffix(".json") for image in images}, []
    for file in [file for file in _visible(base, ANY_JSON) if file not in beside]:
        try:
            out += [file] * bool(_records(_read_json(file, FaultLog())))
        except XmrError as e:
            faults.tolerate("JSON files that cannot be read", str(e))
    return out


def _beside(base: Path, images: Iterable[str], faults: FaultLog) -> WrittenCaptions | None:
    """Captions in a file beside each image; None where there is none. Lines without a letter, as lists of boxes have
    them, are no captions."""
    records = []
    for image in sorted(images):  # not in the order in which the disk lists them
        text, described = ((base / image).with_suffix(suffix) for suffix in (".txt", ".json"))
        if text.is_file():
            texts = [line for line in read_lines(text, faults) if any(map(str.isalpha, line)) and not _is_label(line)]
        else:
            value = _read_json(described, faults) if described.is_file() else None
            texts = _texts_of(value, faults, described.name) if isinstance(value, dict) else None
        records += [{"image": image, "caption": texts}] * bool(texts)
    source = "texts beside the images (dog.jpg, dog.txt)"
    return WrittenCaptions(caption_table(enumerate(records, 1), source, faults), source, True) if records else None


def _is_label(line: str) -> bool:
    """Whether it is a box of an object, as YOLO and KITTI write it: numbers, with one name at most."""
    numbers = re.findall(r"(?<!\S)[-+]?\d*\.?\d+(?:e[-+]?\d+)?(?!\S)", line)
    return len(numbers) >= max(4, len(line.split()) - 1)


# The corpus of a folder.


def load_folder(data_root: Path | str, faults: FaultLog | None = None) -> Corpus:
    """Corpus of the images in a folder and its sub-folders. image_id: the path below the folder ('holiday/beach.jpg').

    Captions, any number for an image, stand in files that `read_captions` finds: a table, lines of JSON, metadata of
    the library datasets, or COCO's JSON. A line names its image by this path, by a longer path that ends in it, or by
    an end of it that only one image has. Without such a file the corpus can be searched: every image is in test, and
    there are no captions.
    Splits come from lists of names beside COCO's JSON (LISTED), else from a column split; a blank means none.
    Without these they come, for metadata and COCO's JSON, from names of files and sub-folders, where a missing val
    or test is a tenth of train; otherwise an image with captions gets a split by a hash of its image_id, 80 %
    train, 10 % val and 10 % test, so that adding images moves no other; an image without captions gets none.
    about['captions'] says which file was read, about['splits'] which way was taken.
    Tolerated: as in read_caption_file and photograph_corpus; captions given twice in a table (in metadata and COCO's
    JSON they count twice, as in published collections), names that fit several images.
    Raises: BadInput for a folder without images, two caption files, captions of which none names an image in the
        folder, unknown splits, an image in two splits.
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("RGB", (9, 9)).save(f"{folder}/dog.png")
    ...     load_folder(folder).images["split"].to_dict()
    {'dog.png': 'test'}
    """
    faults = faults or FaultLog()
    base, files = _images_of(data_root, faults)
    written = read_captions(base, files, faults)
    if written is None:
        texts = sorted(path.name for path in base.iterdir() if path.suffix.lower() in _TEXTS)
        sought = ", ".join((*FILES, *METADATA, *FLICKR, "*.json"))
        faults.tolerate(f"text files that are not read (captions are looked for in {sought})", texts)
    return _corpus("folder", base, files, written, faults)


def from_frame(frame, images: Path | str | None = None, name: str = "frame") -> Corpus:
    """A Corpus of captions in a pandas frame and images in a folder or in memory, on which every method can be trained.

    frame: a row for each caption, or for each image with a list of captions; columns as in a caption file: image (or
    file, filename, file_name), caption (or text, captions) and, if wanted, split and caption_id. Also a `Dataset` of
    Hugging Face, or anything else with `to_pandas`; a list
    of rows, a mapping from column to values; or a mapping from split to such tables.
    images: the folder; names of images and splits are understood as by `load_folder`. None: the column image holds the
    images themselves, as PIL images, arrays, bytes of a file, paths, or {'bytes': …, 'path': …}. They are named by a
    column image_id, else by their path below the common folder, else by their content, so that equal images are one.
    name: of the corpus, for tables and names of runs.
    Train on it with `train_or_load(base_config("dive").replace(data=config_for(corpus)))`.
    Raises: BadInput for a frame without rows or without a column that is needed, for a name that is no word, an image
        that is none, and as `load_folder`.
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("RGB", (9, 9)).save(f"{folder}/dog.png")
    ...     frame = pd.DataFrame({"image": ["dog.png"], "caption": [["A dog.", "A pet."]], "split": ["train"]})
    ...     from_frame(frame, folder).captions["text"].to_dict()
    {'dog.png#0': 'A dog.', 'dog.png#1': 'A pet.'}
    """
    assembly.require_name(name)
    if isinstance(frame, Mapping) and not _text_columns(tuple(map(_column, frame))):
        tables = {split: _table(part) for split, part in frame.items()}
        frame = pd.concat([t if "split" in t else t.assign(split=split) for split, t in tables.items()])
    frame, faults = _table(frame), FaultLog()
    if images is None:
        base, (frame, files) = Path(), _images_in(frame)
    else:
        base, files = _images_of(images, faults)
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    written = WrittenCaptions(caption_table(enumerate(rows, 1), "the frame", faults), "the frame")
    corpus = _corpus(name, base, files, written, faults)
    return replace(corpus, images=corpus.images.drop(columns="path")) if images is None else corpus


def _table(frame) -> pd.DataFrame:
    if isinstance(frame, str | Path | type(None)):
        raise BadInput(f"a frame or a list of rows is needed, got {frame!r:.60}; load_folder reads files.")
    return pd.DataFrame(frame.to_pandas() if hasattr(frame, "to_pandas") else frame)


def _images_in(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Path | ImageBytes]]:
    """(the frame with names in the place of images, image_id → file)."""
    column = next((c for c in frame if str(c).strip().lower() in COLUMNS["image"]), None)
    if column is None:
        raise BadInput(f"the frame has no column image; found: {[*map(str, frame)][:12]}.")
    files = [*map(_file_of, frame[column])]
    contents = [*map(cache(file_content), files)]  # a path that stands in several rows is read once
    names, placed = [*map(str, frame.get("image_id", contents))], [getattr(file, "path", file) for file in files]
    if "image_id" not in frame and files and all(placed):
        common = os.path.commonpath(map(os.path.dirname, placed)) or None
        below = [PurePosixPath(os.path.relpath(path, common)).as_posix() for path in placed]
        names = below if len({*below}) == len({*zip(below, contents, strict=True)}) else names
    if len({*names}) != len({*zip(names, contents, strict=True)}):
        raise BadInput("the frame gives one image_id to different images.")
    return frame.assign(**{str(column): names}), dict(zip(names, files, strict=True))


def _file_of(image) -> Path | ImageBytes:
    """The file, on disk or in memory, of an image in any form. Raises: BadInput for what is none."""
    path = str(getattr(image, "filename", ""))  # of a PIL image that was opened
    if isinstance(image, Mapping):
        path = image.get("path") or ""
        image = image.get("bytes") or path or None
    if isinstance(image, str | Path):
        return existing_file(image, "image")
    if isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.shape[2:] == (3,):
        image = Image.fromarray(image)
    if isinstance(image, Image.Image):  # as a BMP, whose bytes are the pixels, and name them
        convert_to_rgb(image).save(stream := io.BytesIO(), "BMP")
        image = stream.getvalue()
    if not isinstance(image, bytes):
        raise BadInput(f"an image is a file, bytes, a PIL image or uint8 of height × width × 3; got {image!r:.60}.")
    file = ImageBytes(image)
    file.path = path
    return file


def _images_of(folder: Path | str, faults: FaultLog) -> tuple[Path, dict[str, str]]:
    """(the folder, image_id → path of each image in it)."""
    base = existing(folder, "data_root of folder")
    files = assembly.list_images(base, deep=True, faults=faults) if base.is_dir() else {}
    if not files:
        formats = f"({', '.join(SUFFIXES)} are looked for, in sub-folders too)"
        raise BadInput(f"folder: no image in {base} {formats}. Give the right data_root.")
    return base, files


def _corpus(
    name: str, base: Path, files: Mapping[str, object], written: WrittenCaptions | None, faults: FaultLog
) -> Corpus:
    empty, more_pairs = dict.fromkeys(("image_id", "text", "group"), ()), None
    captions = pd.DataFrame(empty, index=pd.Index([], name="caption_id"), dtype=object)
    split_of, origin = dict.fromkeys(files, "test"), "no captions: every image in test, to be searched"
    if written:
        captions, split_of, origin = _captions(written, base, files, faults)
    about = {"splits": origin, **({"captions": written.source} if written else {})}
    images = image_table(files, split_of)
    grouped = captions[captions["group"] != ""].reset_index()  # by person, say: each caption fits all images of one
    of_image = grouped.groupby("image_id")["group"].agg(["size", "nunique"])
    most = of_image["size"].max()
    if most > 1 and of_image["nunique"].eq(of_image["size"]).all() and grouped["group"].nunique() <= most:
        grouped = grouped[:0]  # they number the captions of each image
    members = grouped[["group", "image_id"]].drop_duplicates()
    if 1 < members["group"].value_counts().max() <= min(_LARGEST_GROUP, len(images) - 1):
        images["group"] = members.groupby("image_id")["group"].agg(", ".join).reindex(images.index, fill_value="")
        pairs = grouped[["caption_id", "group"]].merge(members)
        more_pairs = {"group": pairs[["caption_id", "image_id"]].itertuples(index=False)}
    captions = captions.drop(columns="group")
    return photograph_corpus(name, images, captions, faults, more_pairs, usual=0, about=about)


def _captions(
    written: WrittenCaptions, base: Path, files: Mapping[str, str], faults: FaultLog
) -> tuple[pd.DataFrame, dict[str, str], str]:
    """(captions, image_id → split, how the splits came about)."""
    table, match = written.table, _matcher(files)
    matches = {name: match(name) for name in table["image"].unique()}
    several = {name: f"{name}: {', '.join(ids[:3])}" for name, ids in matches.items() if len(ids) > 1}
    faults.tolerate("names that fit several images, their captions dropped", several.values())
    table = table[~table["image"].isin(several)]
    owners = [(matches[name] or [name])[0] for name in table["image"]]
    table = table.assign(image_id=pd.Series(owners, table.index, dtype=object))
    exists = table["image_id"].isin(files)
    if len(table) and not exists.any():
        named = f"The first names {table['image'].iloc[0]!r}, and the images in {base} are called like {min(files)!r}"
        faults.refuse(f"{written.source}: none of the {len(table):,} captions names an image of the folder. {named}.")
    split_of, origin = _splits(written, table[exists], match, faults)
    if not written.collection:
        twice = table.duplicated(["image_id", "text"])
        faults.tolerate("captions given twice for an image", table["image"][twice])
        table = table[~twice]
    default_ids = table["image_id"] + "#" + table.groupby("image_id").cumcount().astype(str)
    ids = table["caption_id"].where(table["caption_id"] != "", default_ids)
    return table.set_index(pd.Index(ids.tolist(), name="caption_id"))[["image_id", "text", "group"]], split_of, origin


def _splits(
    written: WrittenCaptions, table: pd.DataFrame, match: Callable[[str], list[str]], faults: FaultLog
) -> tuple[dict[str, str], str]:
    """(image_id → split of the images with captions, where it comes from). match: of _matcher."""
    ids, source = table["image_id"].unique().tolist(), written.source
    if written.listed:
        ids_of = {name: match(name) for name in written.listed}
        faults.refuse("lists of splits name images that are not in the folder", [n for n in ids_of if not ids_of[n]])
        split_of = {ids_of[n][0]: split for n, split in written.listed.items() if len(ids_of[n]) == 1}
        return {i: split_of[i] for i in ids if i in split_of}, "lists of names, train.txt and so on"
    by_folder = {i: split for i in ids if (split := _folder_split(i))}
    if "split" in table:
        split_of = _written_splits(table, source, faults)
        origin = f"{'names or images' if source.endswith('.json') else 'column split'} of {source}"
    elif by_folder and (written.collection or len(by_folder) == len(ids)):
        split_of, origin = by_folder, "names of sub-folders"
    else:
        rule = "by a hash of each image's name, 80 % train, 10 % val, 10 % test"
        return {i: hash_split(i) for i in ids}, f"{rule}, because {source} has no column split"
    split_of, how = completed(split_of) if written.collection or split_of is by_folder else (split_of, "")
    return split_of, f"{origin}{how}"


def _matcher(files: Iterable[str]) -> Callable[[str], list[str]]:
    """Name of an image as somebody wrote it → the image_ids that it can mean: that of the name itself, else of the
    longest name that ends it, else of all names that it ends; a name may lack its suffix.

    é as one character and as e with an accent are the same, because macOS writes the second; so are .JPG and .jpg.
    """
    images, named, ended = dict.fromkeys(files), defaultdict(list), defaultdict(list)
    for image_id in images:
        name = _composed(image_id)
        for own in (name, f"{PurePosixPath(name).with_suffix('')}/"):  # the second lacks its suffix
            named[own].append(image_id)
            for end in _ends(own)[1:]:
                ended[end].append(image_id)

    def match(written: str) -> list[str]:
        plain = _composed(written)
        # blanks around a name are part of it where a file is called so
        names = plain, plain.strip(), f"{plain.strip()}/"
        meant = (next((named[end] for end in _ends(name) if end in named), ended.get(name)) for name in names)
        return [written] if written in images else next(filter(None, meant), [])

    return match


def _ends(name: str) -> list[str]:
    """A path and its ends, the longest first."""
    return [name[start.start() :] for start in re.finditer(r"(?<![^/])[^/]", name)]


def _composed(name: str) -> str:
    plain = str(PurePosixPath(normalize("NFC", name.replace("\\", "/"))))
    return re.sub(r"\.\w+$", lambda suffix: suffix[0].lower(), plain)
