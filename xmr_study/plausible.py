"""Plausible matches: which images could stand for one another, PMRP of a run, and examples."""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import pandas as pd

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Corpus, Relevance
from xmr_core.data.readers.assembly import ZETAS
from xmr_core.data.scenes.corpus import scenes_plausible
from xmr_core.evaluation.evaluate import evaluate_scores
from xmr_core.evaluation.metrics import get_protocol
from xmr_core.training.runs.ensemble import scores_of
from xmr_core.training.runs.folder import TrainedRun


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


# Right answers that nobody annotated: PMRP of a run by ζ and protocol, and examples of such answers.


_MOST = 20_000_000  # pairs of captions that a search for a group looks at before it gives what it has: seconds


def plausible_precision(run: TrainedRun) -> pd.DataFrame:
    """Percent of a run by each protocol of its corpus: columns protocol, direction, R@1 (annotated), one R-Precision
    for each ζ ('ζ=0' …), and PMRP, their mean.

    On COCO with its 5,000 test images the protocols are coco-1k (five folds) and coco-5k, elsewhere 'full'.
    Raises: BadInput for a corpus that does not say which objects its images show.
    Source: Chun et al., CVPR 2021 (PCME), Tables 3, E.4 and E.5, Figure E.3; docs/evaluation.md#evaluation-pmrp.
    """
    corpus = run.prepared().corpus
    relevances = {"annotated": corpus.relevance_sets["annotated"]("test"), **plausible_sets(corpus)}
    names = [name for name in corpus.about.get("protocols", ()) if name != "full"] or ["full"]
    scores, rows = scores_of(run), []
    for name in sorted(names):
        summary = evaluate_scores(scores, relevances, get_protocol(name)).summary()
        values = summary.set_index(["relevance", "direction", "metric", "k"])["value"].mul(100)
        for direction in ("i2t", "t2i"):
            precision = {f"ζ={z}": values[f"plausible ζ={z}", direction, "r_precision", 0] for z in ZETAS}
            own = {"R@1": values["annotated", direction, "recall", 1], **precision}
            rows.append((name, direction, *own.values(), float(np.mean(list(precision.values())))))
    return pd.DataFrame(rows, columns=["protocol", "direction", *own, "PMRP"])


def nearest_by_objects(corpus: Corpus, image: str | int, each: int = 2, split: str = "test") -> pd.DataFrame:
    """Images whose kinds of objects differ from those of one image in exactly 0, 1 and 2: columns ζ, image_id, objects;
    the image itself comes first, without a ζ (−1). At most `each` for every ζ, in file order.

    Raises: as shown_objects; KeyError for an image that is not in the split.
    Source: Chun et al., CVPR 2021 (PCME), Figure C.2.

    >>> from xmr_core.data.scenes import load_scenes
    >>> corpus = load_scenes("tiny")
    >>> nearest_by_objects(corpus, shown_objects(corpus).index[1], each=1)["ζ"].tolist()
    [-1, 0, 1, 2]
    """
    shown = shown_objects(corpus, split)
    others = shown[(shown.index != image) & (shown.map(len) > 0)]
    differing = others.map(lambda names: len(names ^ shown[image]))
    chosen = [(z, name) for z in ZETAS for name in differing.index[differing == z][:each]]
    rows = [(z, name, ", ".join(sorted(shown[name]))) for z, name in [(-1, image), *chosen]]
    return pd.DataFrame(rows, columns=["ζ", "image_id", "objects"])


def interchangeable(truth: Relevance, own: Relevance, n: int = 4) -> list[tuple[object, object]]:
    """(caption id, id of its own image) of n captions of n images such that every caption is right for every image.

    truth: which images are relevant to a caption. own: the annotated pairs, one image for each caption. The first such
    group in file order; a smaller one, with the most members found, where there is none of n, or none was found
    among twenty million pairs. A caption is compared with those that share an image with it, not with all others.
    Raises: BadInput for n < 1, or no caption at all.
    Source: Chun et al., CVPR 2021 (PCME), Figure 4, whose four pairs come from COCO.

    >>> own = Relevance.from_pairs([("a", 1), ("b", 2), ("c", 3)], ["a", "b", "c"], [1, 2, 3])
    >>> truth = Relevance.from_pairs([("a", 1), ("a", 2), ("b", 1), ("b", 2), ("c", 3)], ["a", "b", "c"], [1, 2, 3])
    >>> interchangeable(truth, own, 2)
    [('a', 1), ('b', 2)]
    """
    images = own.gallery_ids.tolist()
    image_of = {caption: images[own[t][0]] for t, caption in enumerate(own.query_ids.tolist()) if len(own[t])}
    right = {caption: set(truth.gallery_ids[truth[t]].tolist()) for t, caption in enumerate(truth.query_ids.tolist())}
    right = {caption: fitting for caption, fitting in right.items() if image_of.get(caption) in fitting}
    if n < 1 or not right:
        raise BadInput(f"a group needs captions, and n of at least 1; got {len(right)} captions and n = {n}.")
    captions, fitted, best = list(right), defaultdict(set), []  # of an image: the places of captions it is right for
    for place, caption in enumerate(captions):
        for image in right[caption]:
            fitted[image].add(place)
    partners = {}

    def partners_of(place: int) -> set[int]:
        """Places of the captions that fit this one both ways, kept because a caption is asked many times."""
        if place not in partners:
            own_image, fitting = image_of[captions[place]], right[captions[place]]
            near = (other for other in fitted[own_image] if image_of[captions[other]] in fitting)
            partners[place] = {other for other in near if image_of[captions[other]] != own_image}
        return partners[place]

    def extend(group: list[int], rest: Iterable[int]) -> None:
        nonlocal best, left
        best = max(best, group, key=len)
        for place in rest:
            if len(best) == n or left < 0:
                return
            near = partners_of(place)
            left -= 1 + len(near)
            fit = sorted(other for other in (near.intersection(rest) if group else near) if other > place)
            if len(group) + 1 + len(fit) > len(best):
                extend([*group, place], fit)

    left = _MOST
    extend([], range(len(captions)))
    return [(captions[place], image_of[captions[place]]) for place in best[:n]]
