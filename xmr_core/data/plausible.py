"""Which objects an image shows, and which images could stand for one another: what PMRP is computed from."""

import pandas as pd

from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import Corpus
from xmr_core.data.readers.relevance import ZETAS
from xmr_core.data.scenes import scenes_plausible


def shown_objects(corpus: Corpus, split: str = "test") -> pd.Series:
    """image_id → the set of kinds of objects that the image shows, as a frozenset of names; empty without any label.

    The shapes of `scenes`; the instance categories of `coco`, of which there are 80.
    Raises: BadInput for a corpus that does not say which objects its images show.
    Source: Chun et al., CVPR 2021 (PCME), appendix C.1.

    >>> from xmr_core.data.scenes import load_scenes
    >>> [sorted(shown) for shown in shown_objects(load_scenes("tiny"))[:2]]
    [['cross', 'diamond', 'ring', 'triangle'], ['cross', 'triangle']]
    """
    column, joint = ("shapes", " ") if corpus.name == "scenes" else ("objects", "; ")
    if column not in corpus.images:
        reason = dict(corpus.about.get("relevance sets left out", {})).get("plausible", "")
        raise BadInput(
            f"{corpus.name} does not say which objects its images show{f' ({reason})' if reason else ''}; "
            "use scenes, or coco with instances_val2014.json."
        )
    texts = corpus.images[column].iloc[corpus.rows(split)[0]]
    return texts.map(lambda text: frozenset(filter(None, text.split(joint))))


def plausible_sets(corpus: Corpus, split: str = "test") -> dict[str, Relevance]:
    """'plausible ζ=0' to 'plausible ζ=2' → captions × images: relevant is an image whose kinds of objects differ in at
    most ζ from those of the caption's own image.

    Raises: as shown_objects. Source: Chun et al., CVPR 2021 (PCME), §4.1; docs/evaluation.md#evaluation-pmrp.

    >>> from xmr_core.data.scenes import load_scenes
    >>> sets = plausible_sets(load_scenes("tiny"))
    >>> [float(relevance.counts.mean()) for relevance in sets.values()]
    [1.625, 5.25, 12.5625]
    """
    shown_objects(corpus, split)
    names = [f"plausible ζ={zeta}" for zeta in ZETAS]
    if corpus.name == "scenes":
        return {name: scenes_plausible(corpus, split, zeta) for name, zeta in zip(names, ZETAS, strict=True)}
    return {name: corpus.relevance_sets[name](split) for name in names}
