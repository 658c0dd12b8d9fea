"""Which kinds of object a COCO picture shows, from COCO's instance annotations."""

from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int

from xmr_core.base.errors import BadInput
from xmr_core.data.readers.faults import Faults
from xmr_core.data.readers.karpathy import read_json_text


def read_instances(file: Path | str, faults: Faults) -> Int[np.ndarray, "n 2"]:
    """Distinct (image id, category id) pairs of instances_val2014.json, ascending; crowds of objects count as any other.

    Of the 300,000 annotations only these two numbers are kept while reading: the polygons would take gigabytes.
    Raises: BadInput when the file holds no instance annotations, DamagedFile when it is truncated.
    """
    file, pairs, unfit = Path(file), set(), 0

    def keep(found: dict) -> dict | None:
        nonlocal unfit
        if "category_id" not in found:
            return found if "annotations" in found else None
        try:
            pairs.add((int(found["image_id"]), int(found["category_id"])))
        except (KeyError, TypeError, ValueError):
            unfit += 1
        return None

    value = read_json_text(file, faults, keep)
    if not pairs or not isinstance(value, dict):
        raise BadInput(
            f"{file} holds no instance annotations: expected an object whose 'annotations' have image_id and category_id. "
            "Give instances_val2014.json of COCO's annotations_trainval2014.zip, or take the file out."
        )
    faults.tolerate("instance annotations without a picture or category", file.name, unfit)
    return np.array(sorted(pairs))


def label_codes(pairs: Int[np.ndarray, "n 2"], image_ids: Int[np.ndarray, " i"]) -> tuple[Int[np.ndarray, "i c"], Bool[np.ndarray, " i"]]:
    """For each picture: 1 where it shows a category (one column for each that occurs in pairs), and whether it shows any."""
    at = {image: row for row, image in enumerate(np.asarray(image_ids).tolist())}
    categories, column = np.unique(pairs[:, 1], return_inverse=True)
    row = np.array([at.get(image, -1) for image in pairs[:, 0].tolist()], np.int64)
    codes = np.zeros((len(at), len(categories)), np.int8)
    codes[row[row >= 0], column[row >= 0]] = 1
    return codes, codes.any(1)
