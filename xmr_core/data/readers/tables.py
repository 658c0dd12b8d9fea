"""Tables of pictures and captions: what in them can be used, and who is relevant to whom."""

from collections.abc import Callable, Mapping
from functools import cache, partial

import numpy as np
import pandas as pd

from xmr_core.base.relevance import Relevance
from xmr_core.data.readers.faults import Faults
from xmr_core.data.text.tokenise import tokenise

USUAL = 5  # captions per picture in this field

Pairs = Callable[[str], list[tuple[str, str]]]


def usable_tables(
    name: str, images: pd.DataFrame, captions: pd.DataFrame, faults: Faults, usual: int = USUAL
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(images, captions) without what cannot be used, every caption with the split of its picture.

    Args: images: index image_id, column split ('' = in none). captions: index caption_id, columns image_id and text.
        usual: captions a picture should have, 0 for any number. A corpus without any caption is one to search, not a fault.
    Tolerated and counted: captions of a picture that is not there, captions without a word (both dropped), pictures with fewer
    captions than usual or none, pictures in no split. Refused: ids that repeat.
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
        ("pictures without a caption", used & (has == 0) & bool(len(captions))),
        (f"pictures with fewer than {usual} captions", used & (has > 0) & (has < usual)),
    ):
        faults.tolerate(kind, images.index[wrong][0] if wrong.any() else "", int(wrong.sum()))
    return images, captions


def annotated_judges(
    images: pd.DataFrame, captions: pd.DataFrame, more_relevant: Mapping[str, Pairs] | None = None
) -> dict[str, Callable[[str], Relevance]]:
    """kind → split → Relevance with captions as queries and images as gallery; 'annotated' (each caption and its own picture) first.

    more_relevant: kind → split → (caption_id, image_id) pairs that are right besides the annotated ones.
    """

    @cache
    def judge(kind: str, split: str) -> Relevance:
        mine = captions[captions["split"] == split]
        gallery = images.index[images["split"] == split]
        pairs = list(zip(mine.index, mine["image_id"], strict=True))
        if kind != "annotated":
            known_captions, known_images = set(mine.index), set(gallery)
            pairs += [(c, i) for c, i in more_relevant[kind](split) if c in known_captions and i in known_images]
        return Relevance.from_pairs(pairs, mine.index.to_numpy(), gallery.to_numpy())

    return {kind: partial(judge, kind) for kind in ("annotated", *(more_relevant or ()))}
