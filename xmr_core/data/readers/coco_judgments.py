"""Who else is right on the COCO test images: the judgments of COCO, CxC and ECCV Caption, from the files of the eccv_caption package."""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from xmr_core.base.errors import BadInput, unknown
from xmr_core.base.relevance import Relevance

_FILES = {"annotated": "original", "cxc": "cxc", "eccv": "eccv"}
DIRECTIONS = {"i2t": "image_to_caption", "t2i": "caption_to_image"}


def coco_judgments(
    kind: str, direction: str, image_ids: Sequence[int], caption_ids: Sequence[int], folder: str | Path = "", absent: str = "drop"
) -> Relevance:
    """The judged queries of one direction, in the order of the ids given; the gallery is all of the other side.

    Args: kind: 'annotated' (own captions), 'cxc' (24,972 captions, 5,000 images), 'eccv' (1,332 captions, 1,261 images).
        direction: 'i2t' or 't2i'; for ECCV Caption the one is not the transpose of the other, each was judged for itself.
        image_ids, caption_ids: COCO annotation ids of what is at hand. folder: of the JSON files, '' for the package's own.
        absent: 'drop' leaves judged items out that are not at hand. 'count' appends them to the gallery, to be scored −∞:
        the package counts two correct captions (144675, 467259) that are not among the 25,000, so nobody reaches 100 %.
    Returns: Relevance whose query_ids are those judged queries that are at hand and keep a relevant item.
    Raises: BadInput for an unknown kind, direction or absent, a missing package or file, or ids of another corpus.
    Source: Chun et al., ECCV 2022 (ECCV Caption); Parekh et al., EACL 2021 (CxC); METHODS §10.1–10.2.
    """
    if kind not in _FILES:
        raise unknown("kind of COCO judgment", kind, _FILES)
    if direction not in DIRECTIONS:
        raise unknown("direction", direction, DIRECTIONS)
    if absent not in ("drop", "count"):
        raise unknown("absent", absent, ("drop", "count"))
    queries, gallery = (np.asarray(ids) for ids in ((image_ids, caption_ids) if direction == "i2t" else (caption_ids, image_ids)))
    judged = json.loads((_folder(folder) / f"{_FILES[kind]}_{DIRECTIONS[direction]}.json").read_text())
    known = set(gallery.tolist())
    asked = [q for q in queries.tolist() if known.intersection(judged.get(str(q), ()))]
    if not asked:
        raise BadInput(
            f"none of the {len(queries)} queries is judged in {kind!r}; these ids are not COCO annotation ids of the test images."
        )
    pairs = [(q, g) for q in asked for g in judged[str(q)] if absent == "count" or g in known]
    beyond = sorted({g for _, g in pairs} - known)
    return Relevance.from_pairs(pairs, asked, np.concatenate([gallery, np.array(beyond, gallery.dtype)]))


def coco_test_captions(folder: str | Path = "") -> np.ndarray:
    """The 25,000 caption ids of the 5K test images in the field's order, whose contiguous fifths are the 1K folds."""
    return np.load(_folder(folder) / "coco_test_ids.npy")


def _folder(folder: str | Path) -> Path:
    if folder:
        path = Path(folder)
    else:
        spec = find_spec("eccv_caption")
        if spec is None or not spec.origin:
            raise BadInput(
                "the judgments of COCO come with the package eccv_caption; install it (pip install 'xmr-study[coco]') or give a folder."
            )
        path = Path(spec.origin).parent / "data"
    if not (path / "eccv_image_to_caption.json").exists():
        raise BadInput(f"{path} holds no eccv_image_to_caption.json; give the folder of the eccv_caption package's JSON files.")
    return path
