"""Where the elements of embedding sets lie: a map in two dimensions, and their nearest neighbours."""

import numpy as np
import pandas as pd
import torch

from xmr_core.base.errors import BadInput
from xmr_core.base.extras import require
from xmr_core.base.types import EmbeddingSet

_USUAL, _LEAST = 30.0, 12  # perplexity in the paper of t-SNE; fewest points that make a map


def element_map(
    images: EmbeddingSet, captions: EmbeddingSet, seed: int = 0, perplexity: float | None = None
) -> pd.DataFrame:
    """All elements of all items on one map by t-SNE, for visualisation.

    Columns x, y, modality ('images' or 'captions'), item (its position), element. The distance is that of the cosine,
    and the start is given by the first two principal components, so equal inputs and an equal seed give equal maps. In
    t-SNE distances between groups that lie far apart have no meaning.

    perplexity: None or 0 takes 30, or a quarter of the points where these are fewer.
    Raises: BadInput for fewer than 12 elements, or one vector per item.
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
    if len(points) < _LEAST:
        raise BadInput(f"a map needs at least {_LEAST} elements, got {len(points)}. Take more items.")
    perplexity = perplexity or min(_USUAL, len(points) / 4)
    # On unit vectors the Euclidean distance orders as the cosine does.
    points = points / np.linalg.norm(points, axis=1, keepdims=True).clip(1e-12)
    require("a map by t-SNE", "notebooks", "sklearn")
    from sklearn.manifold import TSNE

    xy = TSNE(perplexity=perplexity, init="pca", random_state=seed, n_jobs=1).fit_transform(points)
    return table.assign(x=xy[:, 0], y=xy[:, 1])


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
