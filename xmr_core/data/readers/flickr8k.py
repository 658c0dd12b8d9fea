"""Flickr8k in its official layout, with the known faults of its files tolerated and counted."""

from pathlib import Path

import pandas as pd

from xmr_core.base import paths
from xmr_core.base.types import Corpus
from xmr_core.data.readers.faults import Faults
from xmr_core.data.readers.photographs import needed, photograph_corpus, pictures_in, read_lines

_IMAGE_FOLDERS = ("Flicker8k_Dataset", "Flickr8k_Dataset", "Images", "images")
_SPLIT_FILES = {"train": "trainImages", "val": "devImages", "test": "testImages"}
HUMAN_THRESHOLD = 3.0  # mean expert rating (1–4) from which a pair counts as relevant
CROWD_THRESHOLD = 0.5  # share of yes answers above which a pair counts as relevant


def load_flickr8k(data_root: Path | str, faults: Faults | None = None) -> Corpus:
    """Corpus of 8,000-odd photographs with five captions each.

    data_root holds the image folder and `Flickr8k_text/` (or the text files themselves): Flickr8k.token.txt and
    Flickr_8k.{train,dev,test}Images.txt; ExpertAnnotations.txt and CrowdFlowerAnnotations.txt if human judgments are wanted.
    Pictures in no split get split ''. Tolerated and counted: captions of a missing picture, a space where the tab belongs, lines
    that are no caption, captions without a word, bytes that are not UTF-8, lines of ratings that are garbage.
    judges: 'annotated' (a caption and its own picture); where the rating files are there 'human', also pairs whose mean expert
    rating is 3 or more, and 'crowd', also pairs that more than half of the crowd called right.
    grades: 'expert', mean of three ratings 1 (unrelated) to 4 (describes it without errors); 'crowd', share of yes in [0, 1].
    Raises: BadInput naming the file or folder that was looked for, ids that repeat, a listed picture that is missing.
    Source: Hodosh, Young & Hockenmaier, JAIR 2013.
    """
    faults = faults or Faults()
    base = paths.existing(data_root, "data_root of flickr8k")
    text = base / "Flickr8k_text" if (base / "Flickr8k_text").is_dir() else base
    folder = needed(base, _IMAGE_FOLDERS, "flickr8k")
    files = pictures_in(folder)
    split_of = dict.fromkeys(sorted(files), "")
    for split, stem in _SPLIT_FILES.items():
        file = needed(text, [f"Flickr_8k.{stem}.txt"], "flickr8k")
        listed = " ".join(read_lines(file, faults)).split()
        split_of.update(dict.fromkeys(listed, split))
        if absent := [name for name in listed if name not in files]:
            faults.refuse(
                f"{file} lists {len(absent)} pictures that are not in {folder}, the first is {absent[0]!r}. Complete the pictures or the list."
            )
    images = pd.DataFrame(
        {"split": [split_of[i] for i in sorted(files)], "path": [files[i] for i in sorted(files)]},
        index=pd.Index(sorted(files), name="image_id"),
    )
    grades = {"expert": _expert(text / "ExpertAnnotations.txt", faults), "crowd": _crowd(text / "CrowdFlowerAnnotations.txt", faults)}
    grades = {kind: table for kind, table in grades.items() if len(table)}

    def pairs(kind: str, threshold: float):
        table = grades[kind]
        chosen = table[table["grade"] >= threshold] if kind == "expert" else table[table["grade"] > threshold]
        return lambda split: list(zip(chosen["caption_id"], chosen["image_id"], strict=True))

    more = {"expert": ("human", HUMAN_THRESHOLD), "crowd": ("crowd", CROWD_THRESHOLD)}
    return photograph_corpus(
        "flickr8k",
        images,
        _captions(needed(text, ["Flickr8k.token.txt"], "flickr8k"), faults),
        faults,
        more_relevant={name: pairs(kind, threshold) for kind, (name, threshold) in more.items() if kind in grades},
        grades=grades,
    )


def _captions(file: Path, faults: Faults) -> pd.DataFrame:
    """Rows caption_id → image_id, text. A line is 'picture.jpg#n<tab>caption'."""
    ids, owners, texts = [], [], []
    for number, line in enumerate(read_lines(file, faults), 1):
        if not line.strip():
            continue
        caption_id, tab, text = line.partition("\t")
        if not tab:
            caption_id, _, text = line.partition(" ")
        owner, mark, _ = caption_id.rpartition("#")
        if not mark:
            faults.tolerate("lines that are no caption", f"{file.name} line {number}: {line[:60]!r}")
            continue
        if not tab:
            faults.tolerate("captions with a space for the tab", f"{file.name} line {number}")
        ids.append(caption_id), owners.append(owner), texts.append(text.strip())
    return pd.DataFrame({"image_id": owners, "text": texts}, index=pd.Index(ids, name="caption_id"))


def _expert(file: Path, faults: Faults) -> pd.DataFrame:
    """Mean of three ratings 1–4; no rows when there is no such file."""
    rows = []
    for number, line in enumerate(read_lines(file, faults) if file.exists() else [], 1):
        words = line.split("\t")
        if len(words) == 5 and all(w in "1234" and len(w) == 1 for w in words[2:]):
            rows.append((words[0], words[1], sum(map(int, words[2:])) / 3))
        elif line.strip():
            faults.tolerate("rating lines that cannot be read", f"{file.name} line {number}")
    return pd.DataFrame(rows, columns=["image_id", "caption_id", "grade"])


def _crowd(file: Path, faults: Faults) -> pd.DataFrame:
    """Share of yes; bytes are split before they are decoded, because the circulating copy holds a block of garbage."""
    rows = []
    for number, line in enumerate(file.read_bytes().split(b"\n") if file.exists() else [], 1):
        words = line.split(b"\t")
        try:
            image, caption = words[0].decode("ascii"), words[1].decode("ascii")
            share, yes, no = float(words[2]), int(words[3]), int(words[4])
            if len(words) != 5 or "#" not in caption or not 0 <= share <= 1 or min(yes, no) < 0:
                raise ValueError
            rows.append((image, caption, share))
        except (ValueError, IndexError):
            if line.strip():
                faults.tolerate("rating lines that cannot be read", f"{file.name} line {number}")
    return pd.DataFrame(rows, columns=["image_id", "caption_id", "grade"])
