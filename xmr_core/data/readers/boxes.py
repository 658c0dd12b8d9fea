"""Boxes of detected regions, beside their features: where a region lies in its image."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xmr_core.base.errors import BadInput, XmrError
from xmr_core.base.row_file import JoinedRows, RowFile
from xmr_core.data.readers.fault_log import FaultLog

SAMPLE = 64  # images of a split whose boxes are examined
RELATIVE, PIXELS = "relative", "pixels"


def optional_boxes(
    files: Sequence[Path], features: Sequence[RowFile], every: Sequence[int], faults: FaultLog
) -> tuple[JoinedRows | None, str]:
    """As `read_boxes`, or (None, '') without any file of boxes. Refused: unusable boxes, or those of some splits."""
    missing = [file.name for file in files if not file.exists()]
    if len(missing) == len(files):
        return None, ""
    try:
        if missing:
            raise BadInput(
                f"{files[0].parent} holds boxes of some splits only; {', '.join(missing)} is missing. Give all or none."
            )
        return read_boxes(files, features, every)
    except XmrError as e:
        if not faults.collect:
            raise
        faults.refuse(str(e))
        return None, ""


def read_boxes(files: Sequence[Path], features: Sequence[RowFile], every: Sequence[int]) -> tuple[JoinedRows, str]:
    """(boxes "images regions 4" as x1 y1 x2 y2, read row by row; their unit).

    Args: files: one for each split. features: of each split, "n regions width", one row for each image. every: how many
        equal rows an image has in the file of features (1 or 5); the boxes may have as many, or one.
    The unit is 'relative' (0 to 1, of width and height) where no sampled number exceeds 1, and otherwise 'pixels' of
    the image as the detector read it.
    Raises: BadInput for another shape than the features need, and for boxes in the sample that are not finite, are
        negative, end before they start, or have another unit than those of other splits; DamagedFile as RowFile.
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.save(folder / "train_ims.npy", np.ones((2, 1, 8), np.float32))
    >>> np.save(folder / "train_boxes.npy", np.array([[[0, 0, 9, 9]], [[2, 3, 8, 5]]], np.float32))
    >>> boxes, unit = read_boxes([folder / "train_boxes.npy"], [RowFile(folder / "train_ims.npy")], [1])
    >>> boxes[1].tolist(), unit
    ([[2.0, 3.0, 8.0, 5.0]], 'pixels')
    """
    parts, units = [], {}
    for file, own, times in zip(files, features, every, strict=True):
        boxes, needed = RowFile(file), (len(own), own.shape[1], 4)
        if len(boxes) == len(own) * times:
            boxes = RowFile(file, slice(None, None, times))
        if boxes.shape != needed:
            raise BadInput(f"{file} has shape {boxes.shape}; its features need {needed}: x1 y1 x2 y2 of each region.")
        sample = np.unique(np.linspace(0, len(own) - 1, min(len(own), SAMPLE)).astype(int))
        values = boxes[sample].astype(float)
        wrong = ~np.isfinite(values).all(-1) | (values < 0).any(-1) | (values[..., 2:] < values[..., :2]).any(-1)
        if wrong.any():
            first, region = np.argwhere(wrong)[0]
            corners = " ".join(f"{value:g}" for value in values[first, region])
            raise BadInput(
                f"{file}: {int(wrong.sum())} of {wrong.size} sampled boxes are no x1 y1 x2 y2 with 0 ≤ x1 ≤ x2 and "
                f"0 ≤ y1 ≤ y2, the first is {corners}, region {region} of image {sample[first]}."
            )
        units[file.name] = RELATIVE if values.max(initial=0) <= 1 else PIXELS
        parts.append(boxes)
    if len(set(units.values())) > 1:
        listed = ", ".join(f"{name} {unit}" for name, unit in units.items())
        raise BadInput(f"the boxes of all splits need one unit, got {listed}. Save all in pixels or all in 0 to 1.")
    return JoinedRows(parts), next(iter(units.values()))
