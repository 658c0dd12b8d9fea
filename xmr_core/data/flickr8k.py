"""Flickr8k in its official layout, with the known faults of its files tolerated and counted."""

import os
from collections import Counter
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd

from xmr_core import paths
from xmr_core.data.pictures import read_pictures
from xmr_core.data.vocabulary import tokenise
from xmr_core.errors import BadInput
from xmr_core.relevance import Relevance
from xmr_core.types import Corpus

_IMAGE_FOLDERS = ("Flicker8k_Dataset", "Flickr8k_Dataset", "Images", "images")
_SPLIT_FILES = {"train": "trainImages", "val": "devImages", "test": "testImages"}
_SIDE = 224
HUMAN_THRESHOLD = 3.0  # mean expert rating (1–4) from which a pair counts as relevant


def load_flickr8k(data_root: Path | str) -> Corpus:
    """Corpus of 8,000-odd photographs with five captions each.

    data_root holds the image folder and `Flickr8k_text/` (or the text files themselves): Flickr8k.token.txt and
    Flickr_8k.{train,dev,test}Images.txt; ExpertAnnotations.txt if human judgments are wanted. Pictures in no split get
    split ''. faults counts what was tolerated: captions of a missing picture, a space where the tab belongs, captions
    without a word (dropped), pictures in no split, rating lines that are garbage.
    judges: 'annotated' (a caption and its own picture); 'human', where the rating file is there: also pairs whose mean
    expert rating is 3 or more.
    Raises: BadInput naming the file or folder that was looked for, a line that cannot be read, a listed picture that is missing.
    Source: Hodosh, Young & Hockenmaier, JAIR 2013.
    """
    base = paths.existing(data_root, "data_root of flickr8k")
    text = base / "Flickr8k_text" if (base / "Flickr8k_text").is_dir() else base
    folder = next((base / name for name in _IMAGE_FOLDERS if (base / name).is_dir()), None)
    if folder is None:
        raise BadInput(f"no picture folder in {base}: looked for {', '.join(_IMAGE_FOLDERS)}. Give the folder above it as data_root.")
    sizes = {entry.name: entry.stat().st_size for entry in os.scandir(folder) if entry.name.lower().endswith((".jpg", ".jpeg", ".png"))}
    faults: Counter = Counter()
    captions = _captions(_needed(text / "Flickr8k.token.txt"), sizes, faults)

    image_ids = sorted(sizes)
    split_of = dict.fromkeys(image_ids, "")
    for split, stem in _SPLIT_FILES.items():
        file = _needed(text / f"Flickr_8k.{stem}.txt")
        for name in file.read_text().split():
            if name not in split_of:
                raise BadInput(f"{file} lists {name!r}, which is not in {folder}. Complete the pictures or the list.")
            split_of[name] = split
    faults["pictures in no split"] = sum(split == "" for split in split_of.values())
    images = pd.DataFrame(
        {"split": [split_of[i] for i in image_ids], "path": [str(folder / i) for i in image_ids]},
        index=pd.Index(image_ids, name="image_id"),
    )
    captions["split"] = captions["image_id"].map(split_of)
    ratings = _ratings(text / "ExpertAnnotations.txt", faults)

    @cache
    def judge(kind: str, split: str) -> Relevance:
        mine = captions[captions["split"] == split]
        gallery = images.index[images["split"] == split]
        pairs = list(zip(mine.index, mine["image_id"], strict=True))
        if kind == "human":
            known_captions, known_images = set(mine.index), set(gallery)
            pairs += [(c, i) for i, c, r in ratings if r >= HUMAN_THRESHOLD and c in known_captions and i in known_images]
        return Relevance.from_pairs(pairs, mine.index.to_numpy(), gallery.to_numpy())

    files = images["path"].tolist()
    return Corpus(
        name="flickr8k",
        images=images,
        captions=captions,
        fingerprint=paths.content_hash(
            [sorted(sizes.items()), sorted(split_of.items()), captions.index.tolist(), captions["text"].tolist(), len(ratings)]
        ),
        read_pixels=lambda rows: read_pictures([files[row] for row in rows], _SIDE),
        judges={kind: partial(judge, kind) for kind in (("annotated", "human") if ratings else ("annotated",))},
        faults=dict(faults),
        about={"side": _SIDE},
    )


def _captions(file: Path, sizes: dict, faults: Counter) -> pd.DataFrame:
    """Rows caption_id → image_id, text. A line is 'picture.jpg#n<tab>caption'."""
    ids, owners, texts = [], [], []
    for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if not line.strip():
            continue
        caption_id, tab, text = line.partition("\t")
        if not tab:
            caption_id, _, text = line.partition(" ")
            faults["captions with a space for the tab"] += 1
        owner, mark, _ = caption_id.rpartition("#")
        if not mark:
            raise BadInput(f"{file} line {number} is not 'picture.jpg#n<tab>caption': {line[:60]!r}.")
        if owner not in sizes:
            faults["captions of a missing picture"] += 1
        elif not tokenise(text):
            faults["captions without a word"] += 1
        else:
            ids.append(caption_id), owners.append(owner), texts.append(text.strip())
    if not ids:
        raise BadInput(f"{file} holds no caption of any picture at hand. Check that pictures and captions belong together.")
    return pd.DataFrame({"image_id": owners, "text": texts}, index=pd.Index(ids, name="caption_id"))


def _ratings(file: Path, faults: Counter) -> list[tuple[str, str, float]]:
    """(image_id, caption_id, mean expert rating 1–4); empty when there is no such file."""
    if not file.exists():
        return []
    out = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split("\t")
        if len(words) == 5 and all(w in "1234" and len(w) == 1 for w in words[2:]):
            out.append((words[0], words[1], float(np.mean([int(w) for w in words[2:]]))))
        elif line.strip():
            faults["rating lines that cannot be read"] += 1
    return out


def read_crowd(file: Path | str) -> tuple[pd.DataFrame, int]:
    """CrowdFlowerAnnotations.txt: (rows image_id, caption_id, yes_share in [0, 1], yes, no; how many lines could not be read).

    The circulating copy holds a block of garbage bytes; its lines are skipped and counted.
    """
    rows, bad = [], 0
    for line in paths.existing(file, "crowd annotations").read_bytes().split(b"\n"):
        words = line.split(b"\t")
        try:
            image, caption = words[0].decode("ascii"), words[1].decode("ascii")
            share, yes, no = float(words[2]), int(words[3]), int(words[4])
            if len(words) != 5 or "#" not in caption or not 0 <= share <= 1:
                raise ValueError
        except (ValueError, IndexError):
            bad += bool(line.strip())
            continue
        rows.append((image, caption, share, yes, no))
    return pd.DataFrame(rows, columns=["image_id", "caption_id", "yes_share", "yes", "no"]), bad


def _needed(file: Path) -> Path:
    if not file.exists():
        raise BadInput(f"flickr8k needs {file.name}, looked for it in {file.parent}. Put it there or give the right data_root.")
    return file
