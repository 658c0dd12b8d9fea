"""From tables of images and captions to a Corpus: what all readers share."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from xmr_core.base.errors import BadInput
from xmr_core.base.fingerprint import content_hash, files_content
from xmr_core.base.splits import SPLITS
from xmr_core.base.types import Corpus
from xmr_core.data.images.files import RESOLUTION, image_reader
from xmr_core.data.readers.fault_log import FaultLog
from xmr_core.data.readers.relevance import annotated_relevance
from xmr_core.data.text.tokenisers import tokenise

USUAL = 5  # captions of an image in most collections
_REMEDY = "A reader is shown in docs/howto/extend.md."


def require_corpus(value: object, name: str) -> Corpus:
    """What a reader returned. Raises: BadInput unless it is a Corpus."""
    if not isinstance(value, Corpus):
        raise BadInput(f"the reader of {name} must return a Corpus, got {type(value).__name__}. {_REMEDY}")
    return value


def usable_tables(
    name: str,
    images: pd.DataFrame,
    captions: pd.DataFrame,
    faults: FaultLog,
    usual: int = USUAL,
    splits: Sequence[str] = SPLITS,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(images, captions) without what cannot be used; every caption gets the split of its image.

    Args: images: index image_id, column split ('' = in no split). captions: index caption_id, columns image_id and
        text. usual: captions that an image should have, 0 for any number. A corpus without any caption can be searched,
        so that is no fault. splits: names that a split may have.
    Tolerated: captions of a missing image and captions without a word (both are dropped), images with fewer captions
    than usual or with none, images in no split. Refused: ids that repeat, captions whose text is no text (NaN, say),
    images in a split of another name than `splits`.
    Raises: BadInput for tables without these columns.
    """
    _require_columns(name, "images", images, ("split",))
    _require_columns(name, "captions", captions, ("image_id", "text"))
    for kind, table in (("image", images), ("caption", captions)):
        twice = table.index[table.index.duplicated()]
        faults.refuse_items(twice, f"{name}:", f"{kind} ids repeat", "Give each id once.")
    images, captions = images[~images.index.duplicated()], captions[~captions.index.duplicated()]
    written = np.array([isinstance(text, str) for text in captions["text"]], bool)
    fault, remedy = "captions whose text is no string (NaN, say)", "Give each its words, or '' where there are none."
    faults.refuse_items(captions.index[~written], f"{name}:", fault, remedy)
    captions = captions[written]
    missing = ~captions["image_id"].isin(images.index)
    empty = ~missing & np.array([not tokenise(text) for text in captions["text"]], bool)
    faults.tolerate("captions of a missing image", captions.index[missing])
    faults.tolerate("captions without a word", captions.index[empty])
    captions = captions[~missing & ~empty].copy()
    captions["split"] = images["split"].reindex(captions["image_id"]).to_numpy()
    counts = captions["image_id"].value_counts().reindex(images.index, fill_value=0).to_numpy()
    in_split = (images["split"] != "").to_numpy()
    other = images.index[~images["split"].isin([*splits, ""]).to_numpy()]
    names = f"in a split of another name ({', '.join(sorted(map(repr, images['split'][other].unique())))})"
    faults.refuse_items(other, f"{name}: images", names, f"Say {', '.join(splits)}, or '' for none.")
    faults.tolerate("images in no split", images.index[~in_split])
    if len(captions):
        faults.tolerate("images without a caption", images.index[in_split & (counts == 0)])
    few = in_split & (counts > 0) & (counts < usual)
    faults.tolerate(f"images with fewer than {usual} captions", images.index[few])
    return images, captions


def photograph_corpus(
    name: str,
    images: pd.DataFrame,
    captions: pd.DataFrame,
    faults: FaultLog,
    more_pairs: Mapping[str, Iterable[tuple]] | None = None,
    grades: Mapping[str, pd.DataFrame] | None = None,
    about: Mapping[str, object] | None = None,
    usual: int = USUAL,
    splits: Sequence[str] = SPLITS,
) -> Corpus:
    """A Corpus of image files: usable rows only, with fingerprints and relevance sets.

    Args: images: as for `usable_tables`, with a column path (of a file that exists) and any further columns. captions,
        faults, usual, splits: as for `usable_tables`, whose faults are counted here. more_pairs: as for
        `annotated_relevance`.
    Raises: BadInput for tables without these columns; DamagedFile, when a file cannot be read for its fingerprint.
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("RGB", (9, 9)).save(f"{folder}/dog.png")
    ...     images = pd.DataFrame({"split": ["test"], "path": [f"{folder}/dog.png"]}, index=["i1"])
    ...     captions = pd.DataFrame({"image_id": ["i1"], "text": ["A dog."]}, index=["c1"])
    ...     photograph_corpus("mine", images, captions, FaultLog()).faults
    {'images with fewer than 5 captions': 1}
    """
    _require_columns(name, "images", images, ("split", "path"))
    images, captions = usable_tables(name, images, captions, faults, usual, splits)
    grades, files = dict(grades or {}), images["path"].tolist()
    content = files_content(files)
    texts = [captions.index.tolist(), captions["image_id"].tolist(), captions["text"].tolist()]
    graded = [table.to_csv() for table in grades.values()]
    return Corpus(
        name=name,
        images=images,
        captions=captions,
        fingerprint=content_hash([content, images.drop(columns="path").to_csv(), texts, graded]),
        image_fingerprint=content_hash([content, images.index.tolist()]),
        read_pixels=image_reader(files),
        relevance_sets=annotated_relevance(images, captions, more_pairs),
        grades=grades,
        faults=dict(faults.counts),
        about={"resolution": RESOLUTION, **(about or {})},
    )


def _require_columns(name: str, kind: str, table: object, columns: Iterable[str]) -> None:
    if not isinstance(table, pd.DataFrame):
        raise BadInput(f"{name}: the {kind} must be a pandas DataFrame, got {type(table).__name__}. {_REMEDY}")
    if lacking := [column for column in columns if column not in table]:
        raise BadInput(f"{name}: the table of {kind} has no column {' and no column '.join(lacking)}. {_REMEDY}")
