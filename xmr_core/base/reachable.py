"""What any model can reach on a split: a model sees texts and images alone, and gives equal ones equal scores."""

import unicodedata
from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Int

from xmr_core.base.types import Corpus, Relevance


def plain_text(text: str) -> str:
    """A caption without what no model tells apart: runs of white space, and the two ways to write a letter with marks
    (Unicode NFC). Case and punctuation stay.

    >>> plain_text(" Cafe\\u0301  noir.") == plain_text("Café noir.")
    True
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


def reachable(
    relevance: Relevance, texts: Sequence[str], contents: Sequence, ks: Sequence[int] = (1, 5, 10)
) -> dict[str, float]:
    """'i2t R@K' and 't2i R@K' for each K in [0, 1], which no model exceeds, and their sum 'RSUM'.

    Equal texts (`plain_text`) and equal contents are one class each, and all pairs of two classes have one score. Equal
    scores never help: a relevant item stands behind the irrelevant ones of its class. Each number is the most for
    itself. R@1 is exact. The others are reached too where every caption has one image and no image repeats, all of them
    by one and the same model; elsewhere they may be a little above what can be reached.

    Args: relevance: captions as queries, images as gallery. texts: of its captions. contents: of its images, a name or
        digest each, equal for equal images.
    Returns: NaN for a direction without a query that has a relevant item.

    >>> relevance = Relevance.from_positions([0, 1, 2], [0, 1, 2], range(3), range(3))
    >>> best = reachable(relevance, ["a dog", "a dog", "a cat"], "abc")
    >>> round(best["t2i R@1"], 3), round(best["i2t R@1"], 3), best["i2t R@5"]  # one "a dog" stands behind the other
    (0.667, 0.333, 1.0)
    """
    captions, images = (pd.factorize(np.array(own, object))[0] for own in ([*map(plain_text, texts)], [*contents]))
    directions = {"i2t": (relevance.transpose(), images, captions), "t2i": (relevance, captions, images)}
    out = {f"{name} R@{k}": _most(*parts, k) for name, parts in directions.items() for k in ks}
    return out | {"RSUM": sum(out.values())}


def reachable_in(corpus: Corpus, split: str, contents: Sequence) -> dict[str, float]:
    """`reachable` in a split of a corpus, by its annotated pairs. contents: of the images of the split, in file order.

    >>> from xmr_core.data.scenes import load_scenes
    >>> in_words(reachable_in(load_scenes("tiny"), "test", range(32)))  # no caption is there twice
    ''
    """
    texts = corpus.captions["text"].iloc[corpus.rows(split)[1]]
    return reachable(corpus.relevance_sets["annotated"](split), texts, contents)


def in_words(best: dict[str, float]) -> str:
    """The numbers of `reachable` in percent as a phrase, '' where a model can reach everything.

    >>> in_words({"i2t R@1": 1.0, "t2i R@1": 0.75, "RSUM": 1.75})
    'R@1 100.0 image to text and 75.0 text to image, RSUM 175.0 (equal texts and images get equal scores)'
    """
    if not best["RSUM"] < len(best) - 1 - 1e-9:
        return ""
    i2t, t2i, rsum = (100 * best[name] for name in ("i2t R@1", "t2i R@1", "RSUM"))
    numbers = f"R@1 {i2t:.1f} image to text and {t2i:.1f} text to image, RSUM {rsum:.1f}"
    return f"{numbers} (equal texts and images get equal scores)"


def _most(relevance: Relevance, queries: Int[np.ndarray, " q"], items: Int[np.ndarray, " g"], k: int) -> float:
    """The largest share of queries with a relevant item among the first k, over all rankings of the items' classes, one
    ranking for each class of queries. For k > 1 a bound.

    A class of items costs a query the place of its first relevant item, if that class is ranked first: n − r + 1 for r
    relevant ones of n. Classes ranked one after the other cost at least the sum. So for each class of queries: the most
    queries in k places, as in a knapsack, and no more than have an item that alone costs at most k.
    """
    own = pd.DataFrame({"query": relevance.queries, "item": items[relevance.indices]})
    pairs = own.value_counts(sort=False).rename("relevant").reset_index()
    pairs["cost"] = np.bincount(items, minlength=1)[pairs["item"]] - pairs["relevant"] + 1
    pairs = pairs[pairs["cost"] <= k].assign(group=lambda own: queries[own["query"]])
    alone = pairs.groupby("group")["query"].nunique()
    options = pairs.groupby(["group", "item"]).agg(hits=("query", "size"), cost=("cost", "min"))
    hits = options["hits"].groupby("group").max()  # by one class of items alone, which is enough for most
    for group in alone.index[hits < alone]:
        filled = np.zeros(k + 1)
        for gain, cost in options.loc[group].to_numpy():
            filled[cost:] = np.maximum(filled[cost:], filled[:-cost] + gain)
        hits[group] = min(alone[group], filled[-1])
    n = np.count_nonzero(relevance.counts)
    return float(hits.sum() / n) if n else float("nan")
