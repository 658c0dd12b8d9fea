"""Where the elements of sets lie: two dimensions by t-SNE."""

import numpy as np
import pandas as pd
import torch
from sklearn.manifold import TSNE

from xmr_core.base.errors import BadInput
from xmr_core.base.types import EmbeddingSet

_USUAL, _LEAST = 30.0, 12  # perplexity of the paper that introduced t-SNE; points below which there is no map to speak of


def element_map(images: EmbeddingSet, captions: EmbeddingSet, seed: int = 0, perplexity: float = 0.0) -> pd.DataFrame:
    """Columns x, y, side ('image' or 'caption'), item (position on its side), element: all elements of all items on one map.

    Cosine distance, started from the first two principal components, so that equal inputs and seed give equal maps.
    perplexity: 0 takes 30, or a quarter of the points where there are few. Distances between far groups mean nothing in t-SNE.
    Raises: BadInput for fewer than 12 elements, a perplexity that is not below their number, or one vector per item.
    Source: van der Maaten & Hinton, JMLR 2008; DivE, Figure A1.
    """
    sides = {"image": images, "caption": captions}
    if not all(isinstance(s, EmbeddingSet) for s in sides.values()):
        raise BadInput("a map of set elements needs a method with sets: dive, pvse, scan or sgraf.")
    parts = []
    for side, sets in sides.items():
        item, element = (index.numpy() for index in sets.mask.nonzero(as_tuple=True))
        parts.append(pd.DataFrame({"side": side, "item": item, "element": element}))
    table = pd.concat(parts, ignore_index=True)
    points = np.concatenate([sets.x[sets.mask].float().numpy() for sets in sides.values()])
    if len(points) < _LEAST:
        raise BadInput(f"a map needs at least {_LEAST} elements, got {len(points)}. Take more items.")
    perplexity = perplexity or min(_USUAL, len(points) / 4)
    if not 0 < perplexity < len(points):
        raise BadInput(f"perplexity must lie above 0 and below the number of elements ({len(points)}), got {perplexity}.")
    points = points / np.linalg.norm(points, axis=1, keepdims=True).clip(1e-12)  # then Euclidean distance orders as the cosine
    xy = TSNE(perplexity=perplexity, init="pca", random_state=seed, n_jobs=1).fit_transform(points)
    return table.assign(x=xy[:, 0], y=xy[:, 1])


def neighbourhood(images: EmbeddingSet, captions: EmbeddingSet) -> dict[str, float]:
    """What the map shows, as numbers from the space itself: share of elements (%) whose nearest other element by cosine …

    'same element': … has the same number in its set; 'same side': … is of the same side, image or caption; 'same item': … is of its own
    set, which says that the set has collapsed. Of random elements the first is 100/K.
    """
    index = [s.mask.nonzero() for s in (images, captions)]
    side = torch.cat([torch.full((len(at),), n) for n, at in enumerate(index)])
    item, element = torch.cat(index).T
    x = torch.cat([s.x[s.mask] for s in (images, captions)])
    x = x / x.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    nearest = (x @ x.T).fill_diagonal_(-2.0).argmax(1)
    same_side = side == side[nearest]
    shares = {"same element": element == element[nearest], "same side": same_side, "same item": same_side & (item == item[nearest])}
    return {name: 100 * float(share.float().mean()) for name, share in shares.items()}


def nearest_partner(images: EmbeddingSet, captions: EmbeddingSet) -> pd.DataFrame:
    """For each element of each image the caption that holds its nearest element: columns image, element, caption, cosine.

    Source: DivE, Figure 4 ("the nearest caption of each element").
    """
    x, y = (s.x.float() / s.x.float().norm(dim=-1, keepdim=True).clamp(min=1e-12) for s in (images, captions))
    rows = []
    for i in range(len(images)):
        cosines = (y @ x[i].T).masked_fill(~captions.mask[..., None], -2.0).amax(1)  # caption × element of the image
        best = cosines.max(0)
        rows += [
            (i, k, int(best.indices[k]), float(best.values[k])) for k in range(x.shape[1]) if images.mask[i, k]
        ]  # fmt: skip
    return pd.DataFrame(rows, columns=["image", "element", "caption", "cosine"])
