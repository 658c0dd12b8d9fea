"""Flickr8k in its official layout; the known faults of its files are tolerated and counted."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from xmr_core.base.files import existing
from xmr_core.base.types import Corpus
from xmr_core.data.readers.assembly import (
    FaultLog,
    find_path,
    image_table,
    list_images,
    photograph_corpus,
    read_bytes,
    read_lines,
)

_IMAGE_FOLDERS = ("Flicker8k_Dataset", "Flickr8k_Dataset", "Images", "images")
_SPLIT_FILES = {"train": "trainImages", "val": "devImages", "test": "testImages"}
_SETS = {"expert": "human", "crowd": "crowd"}  # grades → name of their relevance set
_RELEVANT = {"expert": lambda mean: mean >= 3.0, "crowd": lambda share: share > 0.5}


def load_flickr8k(data_root: Path | str, faults: FaultLog | None = None) -> Corpus:
    """Corpus of about 8,000 photographs with five captions each.

    The files in data_root are described in docs/data.md#data-flickr8k. Images in none of the three lists get split ''.
    Relevance sets: 'annotated'. 'human', if the expert ratings are there: also pairs whose mean rating is 3 or more.
    'crowd', if the crowd's answers are there: also pairs that more than half of the crowd called right.
    grades: 'expert', the mean of three ratings from 1 (unrelated) to 4 (describes the image without errors); 'crowd',
    the share of yes in [0, 1].
    Tolerated: as in photograph_corpus; a space in the place of the tab, lines that are no caption or no rating, bytes
    that are not UTF-8.
    Raises: BadInput for a missing file or folder, ids that repeat, a listed image that is missing.
    Source: Hodosh, Young & Hockenmaier, JAIR 2013.
    >>> load_flickr8k("/no/such/folder")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: data_root of flickr8k not found: /no/such/folder does not exist. Give the right path.
    """
    faults = faults or FaultLog()
    base = existing(data_root, "data_root of flickr8k")
    text = base / "Flickr8k_text" if (base / "Flickr8k_text").is_dir() else base
    folder = find_path(base, _IMAGE_FOLDERS, "flickr8k")
    files, split_of = list_images(folder, faults=faults), {}
    for split, stem in _SPLIT_FILES.items():
        file = find_path(text, [f"Flickr_8k.{stem}.txt"], "flickr8k")
        names = " ".join(read_lines(file, faults)).split()
        twice = dict.fromkeys(name for name in names if name in split_of)
        faults.refuse(f"{file} lists images that another split lists too", twice)
        split_of |= dict.fromkeys(names, split)
        faults.refuse(f"{file} lists images that are not in {folder}", [n for n in names if n not in files])
    captions = _captions(find_path(text, ["Flickr8k.token.txt"], "flickr8k"), faults)
    grades = {
        "expert": _ratings(text / "ExpertAnnotations.txt", _expert_grade, faults),
        "crowd": _ratings(text / "CrowdFlowerAnnotations.txt", _crowd_grade, faults),
    }
    grades = {kind: table for kind, table in grades.items() if len(table)}
    relevant = {kind: table[_RELEVANT[kind](table["grade"])] for kind, table in grades.items()}
    pairs = {_SETS[kind]: table[["caption_id", "image_id"]].itertuples(index=False) for kind, table in relevant.items()}
    return photograph_corpus("flickr8k", image_table(files, split_of), captions, faults, pairs, grades)


def _captions(file: Path, faults: FaultLog) -> pd.DataFrame:
    """Rows caption_id → image_id, text. A line is 'image.jpg#n<tab>caption'."""
    rows = []
    for number, line in enumerate(read_lines(file, faults), 1):
        if not line.strip():
            continue
        caption_id, _, text = line.partition("\t" if "\t" in line else " ")
        image_id, mark, _ = caption_id.rpartition("#")
        place = f"{file.name} line {number}"
        if not mark:
            faults.tolerate("lines that are no caption", f"{place}: {line[:60]!r}")
            continue
        faults.tolerate("captions with a space for the tab", [place] * ("\t" not in line))
        rows.append((caption_id, image_id, text.strip()))
    return pd.DataFrame(rows, columns=["caption_id", "image_id", "text"]).set_index("caption_id")


def _ratings(file: Path, grade: Callable[..., float], faults: FaultLog) -> pd.DataFrame:
    """Columns image_id, caption_id and grade; no rows when there is no such file. A line is 'image<tab>caption<tab>…'.

    Lines are decoded one by one, because the circulating copy of the crowd's answers holds a block of damaged bytes.
    """
    rows = []
    for number, line in enumerate(read_bytes(file).split(b"\n") if file.exists() else [], 1):
        try:
            image_id, caption_id, *fields = line.decode("ascii").rstrip("\r").split("\t")
            rows.append((image_id, caption_id, grade(*fields)))
        except (ValueError, TypeError):
            if line.strip():
                faults.tolerate("rating lines that cannot be read", f"{file.name} line {number}")
    return pd.DataFrame(rows, columns=["image_id", "caption_id", "grade"])


def _expert_grade(*ratings: str) -> float:
    """The mean of three ratings from 1 to 4."""
    if len(ratings) != 3 or not set(ratings) <= set("1234"):
        raise ValueError
    return sum(map(int, ratings)) / 3


def _crowd_grade(share: str, yes: str, no: str) -> float:
    """The share of yes, in [0, 1]; the numbers of answers follow it."""
    if not 0 <= float(share) <= 1 or min(int(yes), int(no)) < 0:
        raise ValueError
    return float(share)
