"""Analyses of single notebooks: what annotated pairs miss, gains of one method over another, ends of a scale of
uncertainty, single elements of sets, and where attention lies."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from xmr_core.base.errors import BadInput
from xmr_core.base.types import EmbeddingSet, Features, GaussianEmbedding, Pixels, Relevance, Representation, Tokens
from xmr_core.data.prepare import Prepared
from xmr_core.evaluation.analysis.corruption import erase_pixels, share_inside, share_of_common
from xmr_core.evaluation.analysis.representations import TRAINED
from xmr_core.evaluation.analysis.uncertainty import rank_correlation
from xmr_core.evaluation.metrics import first_rank
from xmr_core.evaluation.ranks import relevant_ranks
from xmr_core.evaluation.stats import image_draws, image_error, mean_error, seed_interval
from xmr_core.features.images import read_squares
from xmr_core.features.words import tokenise
from xmr_core.methods.method import Method

FIRST = "rsum_first"  # metric of rows: RSUM of the first k elements of both modalities, k in the column k


def false_negative_rate(
    scores: Float[np.ndarray, "i t"], annotated: Relevance, true: Relevance, ks: Sequence[int] = (1, 5, 10)
) -> pd.DataFrame:
    """How often R@K on annotated pairs counts an answer as wrong that is right.

    Args: annotated, true: captions as queries, images as gallery; every annotated pair should also be true.
    Returns: per direction and k, in percent: wrong (queries without an annotated item among the first k), of these
        right (of those queries, the ones with a true item among the first k), found (R@K by the true relevance set). A
        true item whose score ties with an irrelevant one counts as ranked after it.
    Raises: BadInput for relevances of other queries or galleries than the scores.

    >>> matrices = (np.array(m, bool) for m in ([[1, 0], [0, 1]], [[1, 1], [0, 1]]))
    >>> annotated, true = (Relevance.from_matrix(m, range(2), range(2)) for m in matrices)
    >>> false_negative_rate(np.array([[0.1, 0.2], [0.3, 0.4]]), annotated, true, ks=[1])["wrong"].tolist()
    [50.0, 50.0]
    """
    if scores.shape != (len(annotated.gallery_ids), len(annotated.query_ids)) or len(true) != len(annotated):
        raise BadInput(
            f"{scores.shape[0]} × {scores.shape[1]} scores do not fit relevances of "
            f"{len(annotated)} and {len(true)} captions."
        )
    rows = []
    directions = (("i2t", scores, annotated.transpose(), true.transpose()), ("t2i", scores.T, annotated, true))
    for direction, matrix, own, all_true in directions:
        queries, items = np.flatnonzero(own.counts), np.arange(matrix.shape[1])
        selected = np.ascontiguousarray(matrix[queries])
        first_own, first_true = (
            first_rank(relevant_ranks(selected, r.restrict(queries, items))) for r in (own, all_true)
        )
        for k in ks:
            missed = first_own > k
            right = float((first_true[missed] <= k).mean()) if missed.any() else 0.0
            rows.append((direction, k, 100 * missed.mean(), 100 * right, 100 * (first_true <= k).mean()))
    return pd.DataFrame(rows, columns=["direction", "k", "wrong", "of these right", "found"])


def random_share(annotated: Relevance, true: Relevance) -> dict[str, float]:
    """direction → percent of `of these right` in false_negative_rate at k = 1 for first answers drawn at random among
    the items that are not annotated: the mean over queries of (|true| − |annotated|) / (items − |annotated|).

    Args: as in false_negative_rate; every annotated pair should also be true. A query of which every item is annotated
        is left out; NaN where no query is left.

    >>> matrices = (np.array(m, bool) for m in ([[1, 0, 0], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]))
    >>> annotated, true = (Relevance.from_matrix(m, range(2), range(3)) for m in matrices)
    >>> random_share(annotated, true)["t2i"]
    25.0
    """
    out = {}
    for direction, own, every in (("i2t", annotated.transpose(), true.transpose()), ("t2i", annotated, true)):
        rest = len(own.gallery_ids) - own.counts
        valid = (own.counts > 0) & (rest > 0)
        out[direction] = float(100 * ((every.counts - own.counts)[valid] / rest[valid]).mean())
    return out


def agreement_of_benchmarks(values: pd.DataFrame, truth: str, benchmarks: Sequence[str]) -> pd.DataFrame:
    """Kendall's τ_b between columns that stand for the truth and the true column, over the rows of a table.

        τ_b = (P − Q) / √((P + Q + T_x)(P + Q + T_y))

    P and Q count the pairs of rows that both columns order alike and in opposite ways, T the pairs tied in one of them.
    1: a column orders all rows (methods, or queries) as the truth does; 0: no relation; NaN: a column is constant.

    Returns: columns benchmark, tau, mean (of the benchmark), largest τ_b first.

    >>> table = pd.DataFrame({"truth": [1, 2, 3], "good": [4, 5, 9], "bad": [3, 2, 1]})
    >>> agreement_of_benchmarks(table, "truth", ["bad", "good"])["benchmark"].tolist()
    ['good', 'bad']
    """
    rows = [(p, values[p].corr(values[truth], method="kendall"), float(values[p].mean())) for p in benchmarks]
    table = pd.DataFrame(rows, columns=["benchmark", "tau", "mean"])
    return table.sort_values("tau", ascending=False, kind="stable", ignore_index=True)


def per_query_values(per_query: pd.DataFrame, columns: Mapping[str, tuple[str, str]]) -> pd.DataFrame:
    """One row per (direction, query) with named values of several relevance sets; only queries that have all of them.

    columns: new name → (relevance, column of per_query).

    >>> table = pd.DataFrame({"relevance": ["a", "b"], "direction": "i2t", "query": 7, "R@1": [1.0, 0.0]})
    >>> per_query_values(table, {"annotated": ("a", "R@1"), "true": ("b", "R@1")}).columns.tolist()
    ['direction', 'query', 'annotated', 'true']
    """
    index = ["direction", "query"]
    parts = [
        per_query[per_query["relevance"] == kind].set_index(index)[column].rename(name)
        for name, (kind, column) in columns.items()
    ]
    return pd.concat(parts, axis=1, join="inner").reset_index()


def precision_gains(
    pairs: Sequence[tuple[str, str]],
    tables: Mapping[str, Sequence[pd.DataFrame]],
    relevance: str = "annotated",
    level: float = 0.95,
) -> pd.DataFrame:
    """Points of R-Precision, the mean of both directions, that a method has more than another, for every pair of names.

    The intervals hold together at `level`: each of m pairs has 1 − (1 − level)/m. With one run for each name they are
    over test images, with which queries are paired; with several they are over seeds, paired in order.

    Args: pairs: (method, than). tables: name → per_query of its run for each seed.
    Returns: columns method, than, gain, low, high, in percent, in the order of the pairs; pairs with a name that has no
        table are left out. Raises: ValueError for other numbers of runs in a pair.

    >>> def table(values):
    ...     lines = {"relevance": "annotated", "direction": ["i2t"] * 4 + ["t2i"] * 4, "query": [*range(4)] * 2}
    ...     return pd.DataFrame(lines | {"image": [*range(4)] * 2, "r_precision": values * 2})
    >>> tables = {"sets": [table([1.0, 1.0, 0.0, 1.0])], "one": [table([0.0, 1.0, 0.0, 1.0])]}
    >>> precision_gains([("sets", "one")], tables).round(1).values.tolist()
    [['sets', 'one', 25.0, -24.0, 74.0]]
    """
    pairs = [pair for pair in pairs if all(map(tables.get, pair))]
    part = 1 - (1 - level) / max(len(pairs), 1)
    rows = [(one, other, *_gain(tables[one], tables[other], relevance, part)) for one, other in pairs]
    return pd.DataFrame(rows, columns=["method", "than", "gain", "low", "high"])


def _gain(
    one: Sequence[pd.DataFrame], other: Sequence[pd.DataFrame], relevance: str, level: float
) -> tuple[float, float, float]:
    gains = [_difference(*pair, relevance) for pair in zip(one, other, strict=True)]
    means = [sum(float(values.mean()) for values, _ in parts) for parts in gains]
    if len(means) > 1:
        return seed_interval(means, level)
    from scipy.special import ndtri  # takes a tenth of the time of torch to import

    half = float(ndtri((1 + level) / 2)) * image_error(gains[0])
    return means[0], means[0] - half, means[0] + half


def _difference(better: pd.DataFrame, than: pd.DataFrame, relevance: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each direction half of what each query gains in percent, and its image: the sum of means is the gain."""
    own = (table[table["relevance"] == relevance] for table in (than, better))
    paired = pd.merge(*own, on=["direction", "query"], suffixes=("", " of better"), validate="one_to_one")
    gain = 50 * (paired["r_precision of better"] - paired["r_precision"])
    return [(gain[part.index].to_numpy(float), part["image"].to_numpy()) for _, part in paired.groupby("direction")]


def node_cosines(method: Method, images: Features | Pixels, captions: Tokens | Features) -> Float[Tensor, "i t n"]:
    """How alike the node that graph reasoning reads in the end is to each node before reasoning: their cosine.

        s_n = cos(𝒩_0 after the last step, 𝒩_n before the first)

    A word whose raw similarity vector the result resembles has been reinforced. Node 0 is the two global vectors, node
    1 + q word q of what the caption encoder read; padding is 0.
    Raises: BadInput for a method that does not reason over words with a global node.
    Source: SGRAF, Figures 3 and 8 ("SGR α").
    """
    similarity = method.similarity
    reasoner = getattr(similarity, "reasoning", getattr(similarity, "reasoner", None))
    if similarity.direction != "t2i" or not hasattr(reasoner, "after_steps") or similarity.nodes.parts != "both":
        raise BadInput(f"{method.name} has no graph of words and a global node; take sgraf with reasoner='sgr'.")
    with torch.inference_mode():
        nodes, mask = similarity.nodes(method.encode_images(images), method.encode_captions(captions))
        last = reasoner.after_steps(nodes, mask)[-1][..., :1, :]
        return torch.where(mask, torch.cosine_similarity(last, nodes, dim=-1), 0.0)


def content_preference(
    weights: Float[Tensor, "n l"], words: Bool[Tensor, "n l"], content: Bool[Tensor, "n l"]
) -> Float[Tensor, " n"]:
    """How much more a word of content weighs than another word of the same caption, in weights of an average word:

        (mean over content words of β − mean over the other words of β) / mean over all words of β

    0: both kinds weigh alike. NaN: a caption that lacks one kind, or whose words have no weight.
    words: True for words, False for padding and marks. content: True for those of them that are words of content.
    Source: SGRAF, Figure 3, as a number. The mean over all words takes out what the global node takes.

    >>> words, content = torch.tensor([[True] * 3]), torch.tensor([[True, True, False]])
    >>> content_preference(torch.tensor([[0.5, 0.5, 0.2]]), words, content)
    tensor([0.7500])
    """
    own, other = words & content, words & ~content
    means = [torch.where(kind, weights, 0.0).sum(1) / kind.sum(1) for kind in (own, other, words)]
    return (means[0] - means[1]) / means[2]


def attention_entropy(shares: Float[Tensor, "n t k l"]) -> Float[Tensor, "n t"]:
    """How evenly the k slots share a cell, in nats, averaged over cells: −(1/l) Σ_l Σ_k A_kl ln A_kl.

    From 0 (every cell belongs to one slot) to ln k.

    shares: the softmax over slots, SlotHead.attention_maps()[0] averaged over heads.

    >>> round(attention_entropy(torch.full((1, 1, 4, 9), 0.25)).item(), 4)
    1.3863
    """
    return -torch.special.xlogy(shares, shares).sum(-2).mean(-1)


def object_overlap(shares: Float[Tensor, "n t k l"], masks: Float[Tensor, "n o l"]) -> Float[Tensor, "n t"]:
    """How well slots lie on the objects of an image: intersection over union, one slot for each object.

        J_ko = Σ_l min(A_kl, m_ol) / Σ_l max(A_kl, m_ol);   result = mean over the pairs of the assignment that
        maximises Σ J

    Each object gets at most one slot and each slot at most one object, so that slots which all lie on one object do not
    count as a division. There are min(k, objects) pairs.

    Args: shares: the softmax over slots. masks: how much of each cell each object covers, in [0, 1]; a mask of zeros is
        no object.
    Raises: BadInput where an image has no object.

    >>> halves = torch.tensor([[[[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]]])
    >>> object_overlap(halves, torch.tensor([[[0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]]])).item()
    0.75
    """
    from scipy.optimize import linear_sum_assignment  # takes as long to import as half of torch

    if not bool((masks.sum(-1) > 0).any(-1).all()):
        raise BadInput("masks must show an object in every image.")
    a, m = shares[:, :, :, None], masks[:, None, None]
    overlap = (torch.minimum(a, m).sum(-1) / torch.maximum(a, m).sum(-1)).double().numpy()  # n t k o
    present = (masks.sum(-1) > 0).numpy()
    out = np.zeros(overlap.shape[:2])
    for n, t in np.ndindex(*out.shape):
        table = overlap[n, t][:, present[n]]
        out[n, t] = table[linear_sum_assignment(table, maximize=True)].mean()
    return torch.from_numpy(out)


def pointing(
    weights: Float[Tensor, "n l"], masks: Float[Tensor, "n l"]
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"], Float[Tensor, " n"]]:
    """(hit, share, overlap) of looks at objects. hit: 1 where the cell with the most attention is one of the object's
    (the pointing game), which a random look has with probability share, the object's share of all cells. overlap:
    intersection over union of the object's cells with as many cells of most attention.

    A cell is the object's if that covers a quarter of it, or as much as of any other cell.
    Args: weights: of one look each. masks: how much of each cell the object covers, in [0, 1].
    Raises: BadInput for a mask without an object.
    Source: Zhang et al., ECCV 2016 (the pointing game).

    >>> [x.tolist() for x in pointing(torch.tensor([[0.1, 0.6, 0.2, 0.1]]), torch.tensor([[0.0, 1.0, 0.0, 0.9]]))]
    [[1.0], [0.5], [0.3333333432674408]]
    """
    if not bool((masks.amax(-1) > 0).all()):
        raise BadInput("every look needs a mask with an object.")
    own = masks >= masks.amax(-1, keepdim=True).clamp(max=0.25)
    order = weights.argsort(dim=-1, descending=True, stable=True)
    ranks = torch.empty_like(order).scatter_(-1, order, torch.arange(order.shape[-1]).expand_as(order))
    seen = ranks < own.sum(-1, keepdim=True)
    hit = own.gather(-1, order[..., :1])[..., 0]
    return hit.float(), own.float().mean(-1), (own & seen).sum(-1) / (own | seen).sum(-1)


def sorted_variances(items: Representation) -> Float[np.ndarray, " d"]:
    """The variance of each dimension, a mean over the items, largest first: mean_n σ²_nd. One σ gives equal numbers.

    Raises: BadInput for anything but distributions with a width.
    Source: Chun et al., CVPR 2021 (PCME), Figure D.1.

    >>> import torch
    >>> sorted_variances(GaussianEmbedding(torch.zeros(1, 2), torch.tensor([[0.0, 1.0]]))).round(2).tolist()
    [7.39, 1.0]
    """
    if not isinstance(items, GaussianEmbedding) or not bool(items.log_std.isfinite().all()):
        raise BadInput("only distributions with a σ have variances; take pcme or pcme++, and not its means alone.")
    return np.sort((2 * items.log_std.double()).exp().mean(0).numpy())[::-1]


def end_rows(uncertain: Float[np.ndarray, " q"], share: float = 0.1) -> dict[str, Int[np.ndarray, " n"]]:
    """'certain' and 'uncertain' → positions of the most certain and of the most uncertain share of the queries, at
    least one of them; equal ones in file order.

    Raises: BadInput for no query, or a share outside (0, ½].

    >>> {end: rows.tolist() for end, rows in end_rows(np.array([0.3, 0.1, 0.2]), 0.4).items()}
    {'certain': [1], 'uncertain': [0]}
    """
    if not len(uncertain) or not 0 < share <= 0.5:
        raise BadInput(f"ends need queries and a share in (0, 0.5]; got {len(uncertain)} queries and {share}.")
    order, n = np.argsort(uncertain, kind="stable"), max(int(share * len(uncertain)), 1)
    return {"certain": order[:n], "uncertain": order[-n:]}


def ratio_of_ends(
    uncertain: Float[np.ndarray, " q"],
    right: Float[np.ndarray, " q"],
    images: Int[np.ndarray, " q"],
    share: float = 0.1,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float, float]:
    """(ratio, low, high): how many times as many right answers the most uncertain queries have as the most certain
    ones, with its 95 % interval by resampling images. Which queries are at an end is not drawn anew.

    Args: right: right answers of each query, more than 0. images: position of the image of each.
    Raises: as end_rows.

    >>> ratio_of_ends(np.arange(20.0), np.r_[np.full(10, 4.0), np.ones(10)], np.arange(20))
    (0.25, 0.25, 0.25)
    """
    ids, draws = image_draws(np.asarray(images), resamples, seed)
    cluster, means, drawn = np.searchsorted(ids, images), {}, {}
    for end, rows in end_rows(uncertain, share).items():
        totals = np.bincount(cluster[rows], weights=right[rows], minlength=len(ids))
        counts = np.bincount(cluster[rows], minlength=len(ids))
        means[end] = float(np.mean(right[rows]))
        with np.errstate(invalid="ignore"):
            drawn[end] = (draws @ totals) / (draws @ counts)
    low, high = np.nanquantile(drawn["uncertain"] / drawn["certain"], [0.025, 0.975])
    return means["uncertain"] / means["certain"], float(low), float(high)


def frequent_words(texts: Sequence[str], order: Sequence[float], bins: int = 10, top: int = 8) -> pd.DataFrame:
    """The words with the largest score in each bin of (almost) equal size along `order`; a column per bin, from 1.

        score of word i = (1 + ln n_i) · ln(N / n_i)

    N: captions in the bin; n_i: those of them that contain word i. Words of equal score stand in alphabetical order.
    Source: PCME, App. F.2 and Figure F.2.

    >>> frequent_words(["a cat", "a dog", "a dog sat", "two birds"], [1, 2, 3, 4], bins=2, top=1).loc[1].tolist()
    ['cat', 'a']
    """
    order = np.asarray(order, float)
    columns = {}
    for number, members in enumerate(np.array_split(np.argsort(order, kind="stable"), bins), 1):
        counts = Counter(word for m in members for word in set(tokenise(texts[m])))
        scores = {word: (1 + math.log(n)) * math.log(len(members) / n) for word, n in counts.items()}
        best = sorted(scores, key=lambda word: (-scores[word], word))[:top]
        columns[number] = pd.Series(best, index=range(1, len(best) + 1), dtype=object)
    return pd.DataFrame(columns).rename_axis("rank").fillna("")


def word_uncertainty(texts: Sequence[str], values: Sequence[float], least: int = 20) -> pd.DataFrame:
    """Mean of `values` over the captions that contain a word, largest first: columns word, captions, value.

    least: words in fewer captions are left out.

    >>> word_uncertainty(["red cat", "cat", "dog"], [3.0, 1.0, 0.0], least=1)["word"].tolist()
    ['red', 'cat', 'dog']
    """
    by_word: dict[str, list[float]] = {}
    for text, value in zip(texts, values, strict=True):
        for word in set(tokenise(text)):
            by_word.setdefault(word, []).append(float(value))
    rows = [(word, len(own), float(np.mean(own))) for word, own in by_word.items() if len(own) >= least]
    table = pd.DataFrame(rows, columns=["word", "captions", "value"])
    return table.sort_values(["value", "word"], ascending=[False, True], ignore_index=True)


def neighbourhood(images: EmbeddingSet, captions: EmbeddingSet) -> dict[str, float]:
    """What the map shows, measured in the space itself: shares of elements by their nearest other element (cosine).

    In percent. 'same element': the neighbour has the same number in its set (of random elements 100/K).
    'same modality': both are of images, or of captions. 'same item': it is of the same set, which says that the set
    has collapsed.

    >>> sets = EmbeddingSet(torch.eye(4).reshape(2, 2, 4), torch.ones(2, 2, dtype=torch.bool))
    >>> neighbourhood(sets, sets)
    {'same element': 100.0, 'same modality': 0.0, 'same item': 0.0}
    """
    index = [s.mask.nonzero() for s in (images, captions)]
    modality = torch.cat([torch.full((len(pairs),), n) for n, pairs in enumerate(index)])
    item, element = torch.cat(index).T
    x = torch.cat([s.x[s.mask] for s in (images, captions)])
    x = x / x.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    nearest = (x @ x.T).fill_diagonal_(-2.0).argmax(1)
    same = modality == modality[nearest]
    shares = {"same element": element == element[nearest], "same modality": same}
    shares["same item"] = same & (item == item[nearest])
    return {name: 100 * float(share.float().mean()) for name, share in shares.items()}


def numbers_from_one(names: pd.Series) -> pd.Series:
    """Names of element_ablation with elements counted from 1, as figures and texts count them.

    >>> numbers_from_one(pd.Series(["all", "only 0", "without 11"])).tolist()
    ['all', 'only 1', 'without 12']
    """
    return names.str.replace(r"\d+", lambda number: str(int(number[0]) + 1), regex=True)


def weakest_elements(table: pd.DataFrame) -> pd.DataFrame:
    """For each modality and relevance the element that retrieves worst alone, and what is lost without it.

    table: of element_ablation. Returns: columns side, relevance, element, alone (its own RSUM), gain (RSUM of all minus
    that of all but it; positive where the set is better with it).
    Source: DivE, Table 5, whose second image element is nearly useless alone and not in company.

    >>> lines = [("both", "all", 500.8), ("images", "only 0", 491.1), ("images", "only 1", 309.6)]
    >>> lines += [("images", "without 0", 309.6), ("images", "without 1", 491.1)]
    >>> table = pd.DataFrame(lines, columns=["side", "kept", "rsum"]).assign(relevance="annotated")
    >>> weakest_elements(table)[["element", "alone", "gain"]].round(1).to_dict("records")
    [{'element': 1, 'alone': 309.6, 'gain': 9.7}]
    """
    lines = []
    for relevance, part in table.groupby("relevance", sort=False):
        rsum = part.set_index(["side", "kept"])["rsum"]
        for modality in dict.fromkeys(part.loc[part["side"] != "both", "side"]):
            alone = rsum[modality][[name for name in rsum[modality].index if name.startswith("only ")]]
            element = int(alone.idxmin().removeprefix("only "))
            gain = rsum["both", "all"] - rsum[modality, f"without {element}"]
            lines.append((modality, relevance, element, alone.min(), gain))
    return pd.DataFrame(lines, columns=["side", "relevance", "element", "alone", "gain"])


def first_rows(table: pd.DataFrame, n_queries: int = 0) -> pd.DataFrame:
    """Rows for the metrics of a run (Evaluated.with_metrics) from a budget_table: 'rsum_first' at each equal budget k.

    n_queries: of both directions together, for the column of that name.

    >>> table = pd.DataFrame({"images": [1, 1], "captions": [1, 2], "relevance": "annotated", "rsum": [90.0, 120.0]})
    >>> first_rows(table)[["metric", "k", "value"]].values.tolist()
    [['rsum_first', 1, 0.9]]
    """
    equal = table[table["images"] == table["captions"]]
    columns = {"direction": "both", "metric": FIRST, "k": equal["images"], "value": equal["rsum"] / 100}
    rows = pd.DataFrame({"relevance": equal["relevance"], **columns, "n_queries": n_queries})
    return rows.reset_index(drop=True)


def mix_halves(images: UInt8[np.ndarray, "n h w 3"]) -> UInt8[np.ndarray, "n h w 3"]:
    """Image n with its right half taken from image n + 1 (from the first for the last): CutMix with one half.

    >>> mix_halves(np.stack([np.zeros((1, 2, 3), np.uint8), np.ones((1, 2, 3), np.uint8)]))[:, 0, :, 0].tolist()
    [[0, 1], [1, 0]]
    """
    out = images.copy()
    half = images.shape[2] // 2
    out[:, :, half:] = np.roll(images, -1, axis=0)[:, :, half:]
    return out


def set_algebra(
    method: Method, prepared: Prepared, share: float = 0.25, images: int = 200, level: float = 0.5, seed: int = 0
) -> pd.DataFrame:
    """Inclusion by erasing and intersection by mixing, for the first test images: a row per image n.

    Columns: in_erased, share of the image's region in that of the image with `share` of its pixels erased; erased_in,
    the converse; in_next, share of the image's region in that of image n + 1; in_mixed, share of what images n and
    n + 1 have in common in the region of their mixture (`mix_halves`); in_other, the same in the region of another
    pair's mixture; first_in_mixed and second_in_mixed, share of the entire region of image n, and of image n + 1, in
    that of their mixture, which is near 1 where the mixture is taken for that image. The last four are NaN where the
    two images have nothing in common.
    Raises: BadInput for a corpus without pixels, or distributions that are not in the plane.
    Source: PCME, Figure 8; the rectangle, the halves and the level are our choice.
    """
    rows = prepared.splits["test"].first(images).image_rows
    if prepared.corpus.read_pixels is None:
        raise BadInput(f"{prepared.corpus.name} brings features and no images to be erased or mixed.")
    pixels = read_squares(prepared.corpus, rows, prepared.inputs.resolution, fit=prepared.fit)

    def encode(changed: np.ndarray) -> GaussianEmbedding:
        with torch.inference_mode():
            return method.encode_images(prepared.new_images(changed).to(method.device)).to("cpu")

    own, erased, mixed = encode(pixels), encode(erase_pixels(pixels, share, seed)), encode(mix_halves(pixels))
    order = torch.arange(len(rows))
    following, elsewhere = own[order.roll(-1)], mixed[order.roll(-(len(rows) // 2))]
    columns = {
        "in_erased": share_inside(own, erased, level),
        "erased_in": share_inside(erased, own, level),
        "in_next": share_inside(own, following, level),
        "in_mixed": share_of_common(own, following, mixed, level),
        "in_other": share_of_common(own, following, elsewhere, level),
        "first_in_mixed": share_inside(own, mixed, level),
        "second_in_mixed": share_inside(following, mixed, level),
    }
    table = pd.DataFrame({name: values.numpy() for name, values in columns.items()})
    common = table["in_mixed"].notna()
    return table.assign(**{name: table[name].where(common) for name in ("first_in_mixed", "second_in_mixed")})


def set_algebra_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Rows for Evaluated.with_metrics: 'inclusion_by_erasing', mean of in_erased − erased_in, and
    'intersection_by_mixing', mean of in_mixed − in_other (0 where no two images have anything in common), with standard
    errors.

    >>> table = pd.DataFrame({"in_erased": [1.0, 0.8], "erased_in": 0.5, "in_mixed": [0.5, np.nan], "in_other": 0.25})
    >>> set_algebra_rows(table)["value"].round(2).tolist()
    [0.4, 0.1, 0.25, 0.0]
    """
    rows = []
    for metric, this, that in (
        ("inclusion_by_erasing", "in_erased", "erased_in"),
        ("intersection_by_mixing", "in_mixed", "in_other"),
    ):
        gain = (table[this] - table[that]).dropna()
        error = mean_error(gain.to_numpy()) if len(gain) > 1 else 0.0
        rows += [(metric, float(gain.mean()) if len(gain) else 0.0, len(gain)), (f"{metric}_error", error, len(gain))]
    out = pd.DataFrame(rows, columns=["metric", "value", "n_queries"])
    return out.assign(relevance="", direction="images", k=0)


def sampling_gain(table: pd.DataFrame, n_queries: Mapping[str, int]) -> pd.DataFrame:
    """Rows for Evaluated.with_metrics: R-Precision of match probability minus that of the means alone, as a fraction.

    table: of distance_table. n_queries: by direction. One row per direction.

    >>> table = pd.DataFrame({"distance": [TRAINED, "mean only"], "i2t R-P": [50.0, 40.0], "t2i R-P": [30.0, 30.0]})
    >>> sampling_gain(table, {"i2t": 100, "t2i": 500})["value"].tolist()
    [0.1, 0.0]
    """
    value = table.set_index("distance")
    gains = {d: (value.loc[TRAINED, f"{d} R-P"] - value.loc["mean only", f"{d} R-P"]) / 100 for d in ("i2t", "t2i")}
    lines = [{"direction": d, "value": gain, "n_queries": n_queries[d]} for d, gain in gains.items()]
    return pd.DataFrame(lines).assign(relevance="annotated", metric="r_precision_gain_of_sampling", k=0)


def uncertainty_rows(per_query: pd.DataFrame, uncertain: pd.DataFrame) -> pd.DataFrame:
    """Spearman's ρ of the queries' uncertainty with their results, one row per relevance, direction and metric.

    Metrics: 'spearman_uncertainty_r1' (with R@1, which is 0 or 1), and 'spearman_uncertainty_answers' (with the number
    of relevant items, where it differs between queries). low, high: 95 %. Rows fit Evaluated.with_metrics.
    Args: per_query: of an evaluation or a run. uncertain: of query_uncertainty.
    """
    table = per_query.astype({"query": str}).merge(uncertain.astype({"query": str}), on=["direction", "query"])
    rows = []
    for (kind, direction), part in table.groupby(["relevance", "direction"], sort=False):
        results = {"spearman_uncertainty_r1": part["R@1"]}
        if part["n_relevant"].nunique() > 1:
            results["spearman_uncertainty_answers"] = part["n_relevant"]
        for metric, values in results.items():
            x, y, images = part["uncertainty"].to_numpy(), values.to_numpy(float), part["image"].to_numpy()
            value, *interval = rank_correlation(x, y, images)
            rows.append((kind, direction, metric, 0, value, len(part), *interval))
    return pd.DataFrame(rows, columns=["relevance", "direction", "metric", "k", "value", "n_queries", "low", "high"])
