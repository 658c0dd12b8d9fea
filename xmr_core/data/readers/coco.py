"""COCO with Karpathy's splits, and who else than the annotators judged its test pictures."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from xmr_core.base.errors import BadInput, XmrError
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import Corpus
from xmr_core.data.readers.both_ways import BothWays
from xmr_core.data.readers.coco_instances import label_codes, read_instances
from xmr_core.data.readers.coco_judgments import coco_judgments
from xmr_core.data.readers.faults import Faults
from xmr_core.data.readers.karpathy import karpathy_tables
from xmr_core.data.readers.photographs import USUAL, photograph_corpus
from xmr_core.data.readers.plausible_match import ZETAS, plausible_match

_PLACES = ("{0}", "images/{0}", "images", "images/trainval35k", "{0}/{0}")  # {0}: train2014 or val2014
_INSTANCES = ("", "annotations/", "annotations/annotations/", "annotations_trainval2014/annotations/")
JUDGED = ("eccv", "cxc")


def load_coco(data_root: Path | str, faults: Faults | None = None) -> Corpus:
    """Corpus of 123,287 photographs with five captions each: 113,287 to train (restval among them), 5,000 val, 5,000 test.

    data_root holds the folders train2014 and val2014 (or `images` with them, or with the pictures themselves) and dataset_coco.json
    (or a folder `annotations`, `karpathy`, `caption_datasets` or `splits` with it). Only the first five sentences of a picture are
    used, as the field does; the others are counted. image_id: COCO's image id, caption_id: COCO's annotation id, which is what
    Karpathy's sentid is; both are integers. Pictures stay in the file's order, so that contiguous fifths of test are the 1K folds.
    judges: 'annotated'; if the test captions are judged, and eccv_caption is installed, 'eccv' and 'cxc', as BothWays over all
        captions and pictures of the split: who was not asked has nothing relevant, and the transpose is image-to-caption as it was
        judged. If instances_val2014.json is in data_root or its folder annotations, 'plausible ζ=0', '… ζ=1', '… ζ=2', the mean of
        whose R-Precisions is PMRP; pictures without a label and their captions are neither among its queries nor in its gallery, so
        its ids are fewer than the split's.
    about: 'protocols', names of the protocols that fit the test split; 'judges left out', name → why.
    Tolerated, counted, refused and raised: as karpathy_tables and photograph_corpus say; an instance file that cannot be used is
    refused.
    Source: Lin et al., ECCV 2014; splits of Karpathy & Fei-Fei, CVPR 2015; judges as coco_judgments and plausible_match say.
    """
    faults = faults or Faults()
    images, captions = karpathy_tables(data_root, "coco", _PLACES, faults, id_field="cocoid", at_most=USUAL)
    pairs, left_out = _instances(Path(data_root).expanduser(), faults)
    corpus = photograph_corpus("coco", images, captions, faults)
    judges: dict[str, Callable[[str], Relevance]] = {kind: cache(partial(_judged, corpus, kind)) for kind in JUDGED}
    if pairs is not None:
        judges |= {f"plausible ζ={zeta}": partial(_plausible, corpus, pairs, zeta) for zeta in ZETAS}
    for kind, ask in (*((kind, judges[kind]) for kind in JUDGED), ("plausible", partial(_labels, corpus, pairs))):
        try:
            ask("test")
        except BadInput as e:
            left_out.setdefault(kind, str(e))
    fitting = ["coco-5k", "coco-1k"] if len(corpus.rows("test")[0]) == 5000 else []
    return replace(
        corpus,
        judges={**corpus.judges, **{name: judge for name, judge in judges.items() if name.split()[0] not in left_out}},
        about={**corpus.about, "protocols": [*fitting, "full"], "judges left out": left_out},
    )


def _ids(corpus: Corpus, split: str) -> tuple[np.ndarray, np.ndarray]:
    """(image ids, caption ids) of a split, in file order."""
    i, t = corpus.rows(split)
    return corpus.images.index.to_numpy()[i], corpus.captions.index.to_numpy()[t]


def _judged(corpus: Corpus, kind: str, split: str) -> BothWays:
    """ECCV Caption or CxC over a whole split, both directions as they were judged."""
    image_ids, caption_ids = _ids(corpus, split)

    def whole(direction: str, queries: np.ndarray, gallery: np.ndarray) -> Relevance:
        found = coco_judgments(kind, direction, image_ids, caption_ids)
        return Relevance.from_pairs(zip(found.query_ids[found.queries], found.gallery_ids[found.indices], strict=True), queries, gallery)

    return BothWays.of(whole("t2i", caption_ids, image_ids), whole("i2t", image_ids, caption_ids))


def _instances(base: Path, faults: Faults) -> tuple[np.ndarray | None, dict[str, str]]:
    """The labels of instances_val2014.json, or None and why there are none."""
    file = next((f for folder in _INSTANCES if (f := base / folder / "instances_val2014.json").exists()), None)
    if file is None:
        return None, {"plausible": f"no instances_val2014.json in {base} or its folder annotations"}
    try:
        return read_instances(file, faults), {}
    except XmrError as e:
        faults.refuse(str(e))
        return None, {"plausible": str(e)}


def _labels(corpus: Corpus, pairs: np.ndarray | None, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Label codes of a split's pictures and which have any."""
    codes, labelled = label_codes(np.empty((0, 2), int) if pairs is None else pairs, _ids(corpus, split)[0])
    if not labelled.any():
        raise BadInput(f"none of the {len(labelled)} pictures of {split!r} is labelled in instances_val2014.json; it labels val and test.")
    return codes, labelled


def _plausible(corpus: Corpus, pairs: np.ndarray, zeta: int, split: str) -> Relevance:
    """Plausible matches of the labelled pictures of a split and their captions."""
    codes, labelled = _labels(corpus, pairs, split)
    image_ids, caption_ids = _ids(corpus, split)
    at = {image: row for row, image in enumerate(image_ids.tolist())}
    image_of = np.array([at[image] for image in corpus.captions["image_id"].to_numpy()[corpus.rows(split)[1]].tolist()], np.int64)
    return plausible_match(codes, image_of, zeta, labelled, caption_ids, image_ids)
