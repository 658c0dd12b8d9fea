"""What is in the images, or in the features, of a corpus that a check reads in full."""

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from xmr_core.base.types import Corpus
from xmr_core.data.images.inspection import inspect_images

_ROWS = 500  # images of a corpus of features that are examined


def decode_images(corpus: Corpus, progress: Callable | None) -> dict[str, object]:
    """Which images cannot be decoded, and which are unusual."""
    unreadable: dict[str, list[str]] = defaultdict(list)
    unusual: dict[str, list[str]] = defaultdict(list)
    inspections = inspect_images(corpus.images["path"].tolist(), progress)
    for image_id, (reason, kinds) in zip(corpus.images.index, inspections, strict=True):
        for table, key in [(unreadable, reason)] * bool(reason) + [(unusual, kind) for kind in kinds]:
            table[key].append(str(image_id))
    counted = [{key: (len(ids), tuple(ids)) for key, ids in table.items()} for table in (unreadable, unusual)]
    failed = sum(len(ids) for ids in unreadable.values())
    return {"decoded": len(corpus.images) - failed, "unreadable": counted[0], "unusual": counted[1]}


def examine_features(corpus: Corpus, deep: bool = True) -> dict[str, object]:
    """Shape, type and size of the features, and whether a sample of them is finite."""
    features = corpus.features
    shape = " × ".join(f"{n:,}" for n in features.shape)
    out: dict[str, object] = {"features": f"{shape} (images, elements, width), {np.dtype(features.dtype)}"}
    if files := [part.path for part in getattr(features, "parts", (features,)) if hasattr(part, "path")]:
        size = sum(file.stat().st_size for file in files) / 1e9
        out["on disk"] = f"{size:.2f} GB in {', '.join(file.name for file in files)}"
    if not deep:
        return out
    rows = np.unique(np.linspace(0, len(features) - 1, min(len(features), _ROWS)).astype(int)).tolist()
    bad = tuple(str(corpus.images.index[row]) for row in rows if not np.isfinite(features[row]).all())
    zeros = sum(not features[row].any() for row in rows)
    return out | {"examined": len(rows), "of these all zero": zeros, "not finite": bad}
