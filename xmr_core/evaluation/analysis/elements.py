"""Single elements of sets: where they lie, what they attend to, and retrieval with some of them, without training
again."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.errors import BadInput, require
from xmr_core.base.tensors import ANY_LENGTH, Comparable, as_sets
from xmr_core.base.types import EmbeddingSet, Features, Pixels, Relevance, Tokens
from xmr_core.evaluation.evaluate import evaluate
from xmr_core.methods.method import Method
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.nested import Truncated, doubled

_USUAL = 30.0  # perplexity in the paper of t-SNE


def element_map(
    images: EmbeddingSet, captions: EmbeddingSet, seed: int = 0, perplexity: float | None = None
) -> pd.DataFrame:
    """All elements of all items on one map by t-SNE, for visualisation.

    Columns x, y, modality ('images' or 'captions'), item (its position), element. The distance is that of the cosine,
    and the start is given by the first two principal components, so equal inputs and an equal seed give equal maps. In
    t-SNE distances between groups that lie far apart have no meaning.

    perplexity: None or 0 takes 30, or a quarter of the points where these are fewer.
    Raises: BadInput for one vector per item.
    Source: van der Maaten & Hinton, JMLR 2008; DivE, Figure A1.

    >>> sets = EmbeddingSet(torch.randn(4, 2, 3, generator=torch.Generator()), torch.ones(4, 2, dtype=torch.bool))
    >>> element_map(sets, sets).columns.tolist()
    ['modality', 'item', 'element', 'x', 'y']
    """
    modalities, parts = {"images": images, "captions": captions}, []
    if not (isinstance(images, EmbeddingSet) and isinstance(captions, EmbeddingSet)):
        raise BadInput("a map of set elements needs a method with embedding sets: dive, pvse, scan or sgraf.")
    for modality, sets in modalities.items():
        item, element = (index.numpy() for index in sets.mask.nonzero(as_tuple=True))
        parts.append(pd.DataFrame({"modality": modality, "item": item, "element": element}))
    table = pd.concat(parts, ignore_index=True)
    points = np.concatenate([sets.x[sets.mask].float().numpy() for sets in modalities.values()])
    perplexity = perplexity or min(_USUAL, len(points) / 4)
    # On unit vectors the Euclidean distance orders as the cosine does.
    points = points / np.linalg.norm(points, axis=1, keepdims=True).clip(1e-12)
    require("a map by t-SNE", "notebooks", "sklearn")
    from sklearn.manifold import TSNE

    xy = TSNE(perplexity=perplexity, init="pca", random_state=seed, n_jobs=1).fit_transform(points)
    return table.assign(x=xy[:, 0], y=xy[:, 1])


def nearest_partner(images: EmbeddingSet, captions: EmbeddingSet) -> pd.DataFrame:
    """For each element of each image the caption that holds its nearest element: columns image, element, caption,
    cosine.

    Source: DivE, Figure 4 ("the nearest caption of each element").

    >>> sets = EmbeddingSet(torch.eye(4).reshape(2, 2, 4), torch.ones(2, 2, dtype=torch.bool))
    >>> nearest_partner(sets, sets)["caption"].tolist()
    [0, 0, 1, 1]
    """
    x, y = (s.x.float() / s.x.float().norm(dim=-1, keepdim=True).clamp(min=1e-12) for s in (images, captions))
    rows = []
    for i in range(len(images)):
        cosines = (y @ x[i].T).masked_fill(~captions.mask[..., None], -2.0).amax(1)  # caption × element of the image
        best = cosines.max(0)
        for k in images.mask[i].nonzero()[:, 0].tolist():
            rows.append((i, k, int(best.indices[k]), float(best.values[k])))
    return pd.DataFrame(rows, columns=["image", "element", "caption", "cosine"])


def keep_elements(sets: EmbeddingSet, numbers: Sequence[int]) -> EmbeddingSet:
    """The elements with these numbers only, in this order; means then run over the remaining ones.

    Shapes: "n k d" → "n len(numbers) d"; residual and attention follow. Raises: BadInput for no number, a repeated or a
    negative one.

    >>> sets = EmbeddingSet(torch.zeros(5, 4, 8), torch.ones(5, 4, dtype=torch.bool))
    >>> keep_elements(sets, [2, 0]).x.shape
    torch.Size([5, 2, 8])
    """
    if not numbers or len(set(numbers)) != len(numbers) or min(numbers) < 0:
        raise BadInput(f"elements are numbered from 0, each at most once and at least one; got {list(numbers)}.")
    index = torch.as_tensor(list(numbers), device=sets.x.device)
    fields = {name: getattr(sets, name) for name in ("x", "mask", "residual", "attention")}
    return replace(sets, **{name: None if tensor is None else tensor[:, index] for name, tensor in fields.items()})


def element_ablation(
    similarity: Callable, images: EmbeddingSet, captions: EmbeddingSet, relevances: Mapping[str, Relevance]
) -> pd.DataFrame:
    """RSUM with one element alone and with one left out, of one modality at a time.

    Returns: columns side ('both', 'images', 'captions'), kept ('all', 'only 0', 'without 0', …), relevance, rsum in
        percent (0 … 600). The first rows are those of all elements. A modality with one element has no rows of its own.
    Raises: BadInput for representations without several elements; as evaluate.
    Source: DivE (Kim et al., CVPR 2023), Table 5.

    >>> from xmr_core.similarities import chamfer
    >>> sets = EmbeddingSet(torch.eye(4).reshape(2, 2, 4), torch.ones(2, 2, dtype=torch.bool))
    >>> own = Relevance.from_positions([0, 1], [0, 1], range(2), range(2))
    >>> element_ablation(chamfer, sets, sets, {"annotated": own})["rsum"].tolist()[0]
    600.0
    """
    modalities = {"images": images, "captions": captions}
    sizes = [s.x.shape[1] if isinstance(s, EmbeddingSet) else 0 for s in (images, captions)]
    if not min(sizes) or max(sizes) < 2:
        raise BadInput("one element per item leaves none to leave out; train dive or pvse with slots ≥ 2.")
    cases = [("both", "all", None)]
    for modality, sets in modalities.items():
        k = sets.x.shape[1] if sets.x.shape[1] > 1 else 0
        choices = {f"only {e}": [e] for e in range(k)}
        choices |= {f"without {e}": [f for f in range(k) if f != e] for e in range(k)}
        cases += [(modality, name, numbers) for name, numbers in choices.items()]
    rows = []
    for modality, name, numbers in cases:
        parts = modalities | ({} if numbers is None else {modality: keep_elements(modalities[modality], numbers)})
        summary = evaluate(similarity, *parts.values(), relevances).summary()
        for line in summary[summary["metric"] == "rsum"].itertuples():
            rows.append({"side": modality, "kept": name, "relevance": line.relevance, "rsum": 100 * line.value})
    return pd.DataFrame(rows)


def budget_table(
    similarity: Similarity,
    images: Comparable,
    captions: Comparable,
    relevances: Mapping[str, Relevance],
    budgets: Iterable[tuple[int, int]] | None = None,
) -> pd.DataFrame:
    """RSUM at budgets: the first elements of image sets and of caption sets, without training again.

    Args: similarity: of sets; its scores at all elements are those of the model. images, captions: sets "n k d", or
        vectors "n d". budgets: pairs (elements of images, elements of captions); None for all pairs of 1, 2, 4, … and
        the size of the sets.
    Returns: columns images, captions (the budget), size (k, the larger of both modalities), products (of elements, that
        a pair costs: images × captions), relevance, rsum in percent (0 … 600).
    Raises: BadInput for a budget below 1 or above the size of the sets; as evaluate.

    >>> import torch
    >>> from xmr_core.similarities import Chamfer
    >>> own = Relevance.from_positions([0, 1], [0, 1], range(2), range(2))
    >>> sets = torch.eye(4).reshape(2, 2, 4)
    >>> budget_table(Chamfer(), sets, sets, {"annotated": own})[["images", "captions", "products"]].values.tolist()
    [[1, 1, 1], [1, 2, 2], [2, 1, 2], [2, 2, 4]]
    """
    images, captions = as_sets(images, captions, normalise=False if similarity.of_units else ANY_LENGTH)
    sizes = images.x.shape[1], captions.x.shape[1]
    if budgets is None:
        budgets = [(r, q) for r in doubled(sizes[0]) for q in doubled(sizes[1])]
    rows = []
    for r, q in budgets:
        summary = evaluate(Truncated(similarity, r, q), images, captions, relevances).summary()
        cost = {"images": r, "captions": q, "size": max(sizes), "products": r * q}
        for line in summary[summary["metric"] == "rsum"].itertuples():
            rows.append({**cost, "relevance": line.relevance, "rsum": 100 * line.value})
    return pd.DataFrame(rows)


def slot_attention(method: Method, images: Features | Pixels) -> Float[Tensor, "n t k l"]:
    """How each of the k set elements attends to the l cells of an image in each of t rounds, averaged over heads; rows
    sum to 1.

    A head without rounds (PIE-Net) has t = 1. The method should be in eval mode.
    Raises: BadInput for a head without attention per element.
    Source: DivE, Figures 2, 4, A2 and A3.
    """
    with torch.inference_mode():
        features, head = method.image_encoder(images), method.image_head
        if hasattr(head, "iterations"):
            return head.attention_maps(features)[1].mean(2)
        attention = getattr(head(features), "attention", None)
    if attention is None:
        raise BadInput(f"{method.name} does not attend to the cells of images; take dive or pvse, or word_attention.")
    return attention[:, None]


def word_attention(method: Method, images: Features | Pixels, captions: Tokens | Features) -> Float[Tensor, "i t q l"]:
    """Which of the l cells of image i each element q of caption t attended to, at the method's own sharpness; rows sum
    to 1.

    q counts what the caption encoder read, <start> and <end> included. Only for attention of words over cells (t2i).
    Raises: BadInput for a method without it. Source: SCAN, Figure 4; SGRAF, §3.2.
    """
    _require_words(method)
    with torch.inference_mode():
        return method.similarity.attention(method.encode_images(images), method.encode_captions(captions))


def node_weights(
    method: Method, images: Features | Pixels, captions: Tokens | Features
) -> dict[str, Float[Tensor, "i t n"]]:
    """How much each node of a pair counts for its score, by part: 'SAF' (its β) and 'SGR' (how much the node that is
    read attends to each node in the last step). Node 0 is the two global vectors, node 1 + q word q of what the caption
    encoder read; rows sum to 1, padding is 0.

    Raises: BadInput for a method without such nodes, or whose nodes are not words with a global node before them.
    Source: Diao et al., AAAI 2021 (SGRAF), eq. 6–9.
    """
    _require_words(method)
    with torch.inference_mode():
        return method.similarity.element_weights(method.encode_images(images), method.encode_captions(captions))


def _require_words(method: Method) -> None:
    if method.similarity.direction != "t2i":
        raise BadInput(f"{method.name} has no attention of words over cells; take scan or sgraf with direction='t2i'.")
