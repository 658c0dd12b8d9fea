"""Who else is right on COCO's test images: judgments of COCO, CxC and ECCV Caption, and labels of instances."""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int

from xmr_core.base.checks import require_choice
from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.data.readers.fault_log import FaultLog
from xmr_core.data.readers.files import read_json

_FILES = {"annotated": "original", "cxc": "cxc", "eccv": "eccv"}
DIRECTIONS = {"i2t": "image_to_caption", "t2i": "caption_to_image"}


def coco_judgments(
    kind: str,
    direction: str,
    image_ids: Sequence[int],
    caption_ids: Sequence[int],
    folder: str | Path = "",
    absent: str = "drop",
) -> Relevance:
    """The judged queries of one direction, in the order of the ids; the gallery is every item of the other modality.

    Args: kind: 'annotated' (own captions), 'cxc' (24,972 captions and 5,000 images as queries) or 'eccv' (1,332
        captions and 1,261 images). direction: 'i2t' or 't2i'; ECCV Caption judged them separately, so one is not the
        transpose of the other. image_ids, caption_ids: COCO's annotation ids of the items in the corpus. folder: of the
        JSON files, '' for that of the package eccv_caption. absent: 'drop' leaves out relevant items that are not in
        the corpus; 'count' appends them to the gallery, to be scored −∞. The programs of eccv_caption count two
        captions (144675 and 467259) that are not among the 25,000, so that nobody reaches 100 %.
    Returns: a Relevance whose queries are judged, are in the corpus and have a relevant item there.
    Raises: BadInput for an unknown kind, direction or absent, a missing package or file, or ids of another corpus.
    Source: Chun et al., ECCV 2022 (ECCV Caption); Parekh et al., EACL 2021 (CxC); docs/evaluation.md#evaluation-eccv.
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("eccv_image_to_caption", "eccv_caption_to_image"):
    ...         _ = Path(folder, f"{name}.json").write_text('{"1": [11, 13], "2": [12]}')
    ...     coco_judgments("eccv", "i2t", [2, 1], [11, 12, 13], folder).counts
    array([1, 2])
    """
    require_choice("kind of COCO judgment", kind, _FILES)
    require_choice("direction", direction, DIRECTIONS)
    require_choice("absent", absent, ("drop", "count"))
    ids = (image_ids, caption_ids) if direction == "i2t" else (caption_ids, image_ids)
    queries, gallery = map(np.asarray, ids)
    relevant = json.loads((_folder(folder) / f"{_FILES[kind]}_{DIRECTIONS[direction]}.json").read_text())
    members = set(gallery.tolist())
    answered = [q for q in queries.tolist() if members.intersection(relevant.get(str(q), ()))]
    if not answered:
        raise BadInput(
            f"none of the {len(queries)} queries is judged in {kind!r}: these are no ids of COCO's test set."
        )
    pairs = [(q, g) for q in answered for g in relevant[str(q)] if absent == "count" or g in members]
    beyond = sorted({g for _, g in pairs} - members)
    return Relevance.from_pairs(pairs, answered, np.concatenate([gallery, np.array(beyond, gallery.dtype)]))


def coco_test_captions(folder: str | Path = "") -> Int[np.ndarray, "25000"]:
    """The caption ids of the 5K test images in the order whose contiguous fifths are the 1K folds."""
    return np.load(_folder(folder) / "coco_test_ids.npy")


def _folder(folder: str | Path) -> Path:
    """The folder of the JSON files: the given one, or that of the package."""
    spec = None if folder else find_spec("eccv_caption")
    place = Path(spec.origin).parent / "data" if spec and spec.origin else Path(folder or "eccv_caption")
    if not (place / "eccv_image_to_caption.json").exists():
        raise BadInput(
            f"{place} holds no judgments of COCO. pip install 'xmr-study[coco]', or give the folder of its JSON."
        )
    return place


def read_instances(file: Path | str, faults: FaultLog) -> tuple[Int[np.ndarray, "n 2"], dict[int, str]]:
    """(the different (image id, category id) pairs of instances_val2014.json, ascending; the names of the categories).
    Crowds count like any instance.

    Only two numbers of each of the 300,000 annotations are retained while reading, because the polygons would take
    gigabytes. Raises: BadInput for a file without instance annotations, DamagedFile for a truncated one.
    """
    file, pairs, names, unfit = Path(file), set(), {}, 0

    def collect(item: dict) -> dict | None:
        nonlocal unfit
        if "category_id" not in item:
            if "supercategory" in item and isinstance(item.get("id"), int):
                names[item["id"]] = str(item.get("name", item["id"]))
            return item if "annotations" in item else None
        try:
            pairs.add((int(item["image_id"]), int(item["category_id"])))
        except (KeyError, TypeError, ValueError):
            unfit += 1
        return None

    value = read_json(file, faults, collect)
    if not pairs or not isinstance(value, dict):
        raise BadInput(
            f"{file} holds no instance annotations (image_id, category_id). Give COCO's, or take the file out."
        )
    faults.tolerate("instance annotations without an image or category", file.name, unfit)
    return np.array(sorted(pairs)), names


def label_codes(
    pairs: Int[np.ndarray, "n 2"], image_ids: Int[np.ndarray, " i"]
) -> tuple[Int[np.ndarray, "i c"], Bool[np.ndarray, " i"]]:
    """(1 where an image shows a category, with one column for each category of the pairs; whether it shows any)."""
    row_of = {image: row for row, image in enumerate(np.asarray(image_ids).tolist())}
    categories, column = np.unique(pairs[:, 1], return_inverse=True)
    row = np.array([row_of.get(image, -1) for image in pairs[:, 0].tolist()], np.int64)
    codes = np.zeros((len(row_of), len(categories)), np.int8)
    codes[row[row >= 0], column[row >= 0]] = 1
    return codes, codes.any(1)
