"""From lists of pictures and captions to a Corpus: what all readers of photograph collections share."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd

from xmr_core import paths
from xmr_core.data.faults import Faults
from xmr_core.data.fingerprint import files_content
from xmr_core.data.pictures import SIDE, SUFFIXES, picture_reader
from xmr_core.data.tokenise import tokenise
from xmr_core.errors import BadInput
from xmr_core.relevance import Relevance
from xmr_core.types import Corpus

SPLITS = ("train", "val", "test")
USUAL = 5  # captions per picture in this field

Pairs = Callable[[str], list[tuple[str, str]]]


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
    Tolerated and counted: captions of a picture that is not there, captions without a word (both dropped), pictures with fewer
    captions than usual or none, pictures in no split. Refused: ids that repeat, a picture of train, val or test that cannot be
    fingerprinted. Judges: 'annotated' first.
    """
    for what, table in (("picture", images), ("caption", captions)):
        if table.index.has_duplicates:
            twice = table.index[table.index.duplicated()]
            faults.refuse(f"{name}: {len(twice)} {what} ids repeat, the first is {twice[0]!r}. Give each id once.")
    images, captions = images[~images.index.duplicated()], captions[~captions.index.duplicated()]
    missing = ~captions["image_id"].isin(images.index)
    empty = ~missing & np.array([not tokenise(text) for text in captions["text"]], bool)
    for kind, wrong in (("captions of a missing picture", missing), ("captions without a word", empty)):
        faults.tolerate(kind, captions.index[wrong][0] if wrong.any() else "", int(wrong.sum()))
    captions = captions[~missing & ~empty].copy()
    captions["split"] = images["split"].reindex(captions["image_id"]).to_numpy()
    has = captions["image_id"].value_counts().reindex(images.index, fill_value=0).to_numpy()
    used = (images["split"] != "").to_numpy()
    for kind, wrong in (
        ("pictures in no split", ~used),
        ("pictures without a caption", used & (has == 0)),
        (f"pictures with fewer than {usual} captions", used & (has > 0) & (has < usual)),
    ):
        faults.tolerate(kind, images.index[wrong][0] if wrong.any() else "", int(wrong.sum()))

    @cache
    def judge(kind: str, split: str) -> Relevance:
        mine = captions[captions["split"] == split]
        gallery = images.index[images["split"] == split]
        pairs = list(zip(mine.index, mine["image_id"], strict=True))
        if kind != "annotated":
            known_captions, known_images = set(mine.index), set(gallery)
            pairs += [(c, i) for c, i in more_relevant[kind](split) if c in known_captions and i in known_images]
        return Relevance.from_pairs(pairs, mine.index.to_numpy(), gallery.to_numpy())

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
        judges={kind: partial(judge, kind) for kind in ("annotated", *(more_relevant or ()))} | dict(judges or {}),
        grades=dict(grades or {}),
        faults=dict(faults.counts),
        about={"side": SIDE, **(about or {})},
    )


def pictures_in(folder: Path, deep: bool = False) -> dict[str, str]:
    """name → path of every picture file in a folder; deep: with sub-folders, the name then being the path below it."""
    found: dict[str, str] = {}
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir() and deep and not entry.name.startswith("."):
                    waiting.append(Path(entry.path))
                elif entry.name.lower().endswith(SUFFIXES):
                    found[Path(entry.path).relative_to(folder).as_posix()] = entry.path
    return found


def read_lines(file: Path, faults: Faults) -> list[str]:
    """Lines of a text file, without line ends. UTF-8; lines that are not are read as Latin-1 and counted."""
    out = []
    for number, raw in enumerate(file.read_bytes().split(b"\n"), 1):
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
