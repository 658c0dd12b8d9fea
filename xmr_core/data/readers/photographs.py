"""From lists of pictures and captions to a Corpus: what all readers of photograph collections share."""

import codecs
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from xmr_core.base import paths
from xmr_core.base.errors import BadInput
from xmr_core.base.fingerprint import files_content
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import Corpus
from xmr_core.data.images.files import SIDE, SUFFIXES, picture_reader
from xmr_core.data.readers.faults import Faults
from xmr_core.data.readers.tables import USUAL, Pairs, annotated_judges, usable_tables

SPLITS = ("train", "val", "test")


def photograph_corpus(
    name: str,
    images: pd.DataFrame,
    captions: pd.DataFrame,
    faults: Faults,
    more_relevant: Mapping[str, Pairs] | None = None,
    judges: Mapping[str, Callable[[str], Relevance]] | None = None,
    grades: Mapping[str, pd.DataFrame] | None = None,
    about: Mapping[str, object] | None = None,
    usual: int = USUAL,
) -> Corpus:
    """Check, drop what cannot be used, fingerprint and attach who is relevant to whom.

    Args: images: index image_id, columns split ('' = in none) and path (of a file that exists), and what the reader adds.
        captions: index caption_id, columns image_id and text. faults: the reader's own; more is counted here.
        more_relevant: kind → split → (caption_id, image_id) pairs that are right besides the annotated ones.
        judges: kind → split → whole Relevance, captions as queries. usual: captions a picture should have, 0 for any number.
    Tolerated, counted and refused: see data.tables; refused also: a picture that cannot be read to be fingerprinted.
    Judges: 'annotated' first.
    """
    images, captions = usable_tables(name, images, captions, faults, usual)
    pictures = files_content(images["path"].tolist())
    texts = [captions.index.tolist(), captions["image_id"].tolist(), captions["text"].tolist()]
    told = [table.to_csv() for table in (grades or {}).values()]
    return Corpus(
        name=name,
        images=images,
        captions=captions,
        fingerprint=paths.content_hash([pictures, images.drop(columns="path").to_csv(), texts, told]),
        picture_fingerprint=paths.content_hash([pictures, images.index.tolist()]),
        read_pixels=picture_reader(images["path"].tolist()),
        judges=annotated_judges(images, captions, more_relevant) | dict(judges or {}),
        grades=dict(grades or {}),
        faults=dict(faults.counts),
        about={"resolution": SIDE, **(about or {})},
    )


def pictures_in(folder: Path, deep: bool = False) -> dict[str, str]:
    """name → path of every picture file in a folder; deep: with sub-folders, the name then being the path below it. Hidden ones are not seen."""
    found: dict[str, str] = {}
    waiting, entered = [folder], set()
    while waiting:
        inside = waiting.pop()
        place = os.stat(inside)
        if (place.st_dev, place.st_ino) in entered:
            continue  # a link back to a folder that was read
        entered.add((place.st_dev, place.st_ino))
        with os.scandir(inside) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue  # also "._a.jpg", which some systems write beside a.jpg
                if entry.is_dir():
                    waiting += [Path(entry.path)] if deep else []
                elif entry.name.lower().endswith(SUFFIXES):
                    found[Path(entry.path).relative_to(folder).as_posix()] = entry.path
    return found


def read_lines(file: Path, faults: Faults) -> list[str]:
    """Lines of a text file, without line ends and byte-order mark. UTF-8; lines that are not are read as Latin-1 and counted."""
    out, content = [], file.read_bytes()
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise BadInput(f"{file} is written in UTF-16. Save it as UTF-8.")
    for number, raw in enumerate(content.removeprefix(codecs.BOM_UTF8).split(b"\n"), 1):
        try:
            out.append(raw.decode("utf-8").rstrip("\r"))
        except UnicodeDecodeError:
            faults.tolerate("lines that are not UTF-8, read as Latin-1", f"{file.name} line {number}")
            out.append(raw.decode("latin-1").rstrip("\r"))
    return out if out and out[-1] else out[:-1]


def needed(folder: Path, names: Sequence[str], of: str) -> Path:
    """The first of these files or folders that exists. Raises BadInput naming all that were looked for."""
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise BadInput(f"{of} needs {' or '.join(names)}, looked for in {folder}. Put it there or give the right data_root.")
