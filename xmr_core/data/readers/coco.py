"""COCO with Karpathy's splits and all its relevance sets."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import Corpus
from xmr_core.data.readers.assembly import USUAL, photograph_corpus
from xmr_core.data.readers.coco_relevance import coco_judgments, label_codes, read_instances
from xmr_core.data.readers.fault_log import FaultLog
from xmr_core.data.readers.karpathy import karpathy_tables
from xmr_core.data.readers.relevance import ZETAS, TwoWayRelevance, plausible_match

_PLACES = ("{0}", "images/{0}", "images", "images/trainval35k", "{0}/{0}")  # {0}: train2014 or val2014
_INSTANCES = ("", "annotations/", "annotations/annotations/", "annotations_trainval2014/annotations/")


def load_coco(data_root: Path | str, faults: FaultLog | None = None) -> Corpus:
    """Corpus of 123,287 photographs: 113,287 to train (restval among them), 5,000 val, 5,000 test; five captions each.

    The files in data_root are described in docs/data.md#data-coco. Only the first five sentences of an image are used,
    as in all papers; the others are counted. Images stay in the order of the file, so that contiguous fifths of test
    are the 1K folds. image_id and caption_id (Karpathy's sentid) are COCO's annotation ids, which are integers.
    Relevance sets: 'annotated'. 'eccv' and 'cxc', if eccv_caption is installed and judges the test captions: a
    TwoWayRelevance over the whole split, in which a query that was not judged has no relevant item. 'plausible ζ=0' to
    'plausible ζ=2', if instances_val2014.json is there; its ids leave out images without a label and their captions.
    The column `objects` of images then has the names of the categories that an image shows, joined by '; '.
    about: 'protocols' that fit the test split; 'relevance sets left out', which maps a missing relevance set to the
        reason.
    Tolerated, refused, raised: as in karpathy_tables and photograph_corpus. Refused also: an unusable instance file.
    Source: Lin et al., ECCV 2014; splits of Karpathy & Fei-Fei, CVPR 2015.
    >>> load_coco("/no/such/folder")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: data_root of coco not found: /no/such/folder does not exist. Give the right path.
    """
    faults = faults or FaultLog()
    images, captions = karpathy_tables(data_root, "coco", _PLACES, faults, id_field="cocoid", limit=USUAL)
    pairs, names = _instances(Path(data_root).expanduser(), faults)
    corpus = photograph_corpus("coco", images, captions, faults)
    sets: dict[str, Callable[[str], Relevance]] = {
        kind: cache(partial(_judgments, corpus, kind)) for kind in ("eccv", "cxc")
    }
    left_out = {}
    for kind, attempt in (*sets.items(), ("plausible", partial(_labels, corpus, pairs))):
        try:
            attempt("test")
        except BadInput as e:
            left_out[kind] = str(e)
    sets |= {f"plausible ζ={zeta}": partial(_plausible, corpus, pairs, zeta) for zeta in ZETAS}
    present = {name: relevance for name, relevance in sets.items() if name.split()[0] not in left_out}
    fitting = ["coco-5k", "coco-1k"] if len(corpus.rows("test")[0]) == 5000 else []
    return replace(
        corpus,
        images=corpus.images.assign(objects=_objects(corpus, pairs, names)) if len(pairs) else corpus.images,
        relevance_sets={**corpus.relevance_sets, **present},
        about={**corpus.about, "protocols": [*fitting, "full"], "relevance sets left out": left_out},
    )


def _ids(corpus: Corpus, split: str) -> tuple[np.ndarray, np.ndarray]:
    """(image ids, caption ids) of a split, in the order of the file."""
    i, t = corpus.rows(split)
    return corpus.images.index.to_numpy()[i], corpus.captions.index.to_numpy()[t]


def _judgments(corpus: Corpus, kind: str, split: str) -> TwoWayRelevance:
    """ECCV Caption or CxC over a whole split."""
    image_ids, caption_ids = _ids(corpus, split)

    def extended(direction: str, queries: np.ndarray, gallery: np.ndarray) -> Relevance:
        part = coco_judgments(kind, direction, image_ids, caption_ids)
        pairs = zip(part.query_ids[part.queries], part.gallery_ids[part.indices], strict=True)
        return Relevance.from_pairs(pairs, queries, gallery)

    return TwoWayRelevance.join(extended("t2i", caption_ids, image_ids), extended("i2t", image_ids, caption_ids))


def _instances(base: Path, faults: FaultLog) -> tuple[np.ndarray, dict[int, str]]:
    """(the labels of instances_val2014.json, the names of its categories); none of either without a usable file."""
    for file in (base / folder / "instances_val2014.json" for folder in _INSTANCES):
        with faults.noting():
            if file.exists():
                return read_instances(file, faults)
    return np.empty((0, 2), int), {}


def _objects(corpus: Corpus, pairs: np.ndarray, names: dict[int, str]) -> list[str]:
    """The names of the categories that each image of the corpus shows, joined by '; '."""
    shown: dict[int, list[str]] = {}
    for image, category in pairs.tolist():
        shown.setdefault(image, []).append(names.get(category, str(category)))
    return ["; ".join(sorted(shown.get(image, ()))) for image in corpus.images.index.tolist()]


def _labels(corpus: Corpus, pairs: np.ndarray, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Label codes of the images of a split, and which images have a label."""
    codes, labelled = label_codes(pairs, _ids(corpus, split)[0])
    if not labelled.any():
        raise BadInput(
            f"no image of {split!r} has a label in instances_val2014.json beside the data or in annotations."
        )
    return codes, labelled


def _plausible(corpus: Corpus, pairs: np.ndarray, zeta: int, split: str) -> Relevance:
    """Plausible matches of the labelled images of a split and their captions."""
    codes, labelled = _labels(corpus, pairs, split)
    image_of = corpus.relevance_sets["annotated"](split).indices
    image_ids, caption_ids = _ids(corpus, split)
    return plausible_match(codes, image_of, zeta, labelled, caption_ids, image_ids)
