"""Vectors of items, and vectors in two dimensions: principal components, t-SNE and UMAP."""

from importlib.util import find_spec

import numpy as np
import torch
from jaxtyping import Float

from xmr_core.base.checks import require_choice
from xmr_core.base.errors import BadInput
from xmr_core.base.extras import require
from xmr_core.base.types import Embedding, EmbeddingSet, GaussianEmbedding, Representation

PROJECTIONS = ("pca", "tsne", "umap")
COMPONENTS = 50  # to which vectors are reduced before neighbours are compared


def vectors_of(items: Representation) -> Float[np.ndarray, "n d"]:
    """One vector for each item, for tools that know nothing else: the mean of a set's elements, scaled to unit length,
    or the mean of a distribution.

    Raises: BadInput for items of another kind.

    >>> vectors_of(EmbeddingSet(torch.eye(2)[None], torch.ones(1, 2, dtype=torch.bool))).round(3)
    array([[0.707, 0.707]], dtype=float32)
    """
    if isinstance(items, EmbeddingSet):
        sums = (items.x.float() * items.mask[..., None]).sum(1)
        return torch.nn.functional.normalize(sums, dim=-1).numpy()
    if isinstance(items, GaussianEmbedding):
        return items.mean.float().numpy()
    if isinstance(items, Embedding):
        return items.x.float().numpy()
    raise BadInput(f"items of the kind {type(items).__name__} have no vectors that stand alone.")


def projected(vectors: Float[np.ndarray, "n d"], name: str = "pca") -> Float[np.ndarray, "n 2"]:
    """Vectors in two dimensions.

    name: 'pca', the first two principal components; 'tsne', which keeps neighbours together; 'umap', the same and
    faster, where umap-learn is installed. The last two compare the first COMPONENTS principal components.
    Raises: BadInput for another name, or a package that is not installed.

    >>> projected(np.eye(4)).shape
    (4, 2)
    """
    require_choice("projection", name, PROJECTIONS)
    if name == "pca":
        xy = components(vectors, 2)
        return np.pad(xy, ((0, 0), (0, 2 - xy.shape[1])))  # a single item has no second component
    reduced = components(vectors, COMPONENTS)
    if name == "umap":
        if find_spec("umap") is None:
            raise BadInput("the layout umap needs another package: pip install umap-learn. Or take tsne.")
        from umap import UMAP

        return UMAP(random_state=0, n_jobs=1).fit_transform(reduced)
    require("a map by t-SNE", "notebooks", "sklearn")
    from sklearn.manifold import TSNE

    perplexity = max(1.0, min(30.0, (len(vectors) - 1) / 3))
    return TSNE(perplexity=perplexity, init="pca", random_state=0, n_jobs=-1).fit_transform(reduced)


def components(vectors: Float[np.ndarray, "n d"], most: int) -> Float[np.ndarray, "n c"]:
    """The first principal components, at most so many: exact, and the same for the same vectors, because the largest
    number of a component is positive.

    >>> components(np.array([[0.0, 0.0], [2.0, 0.0]]), 1).round(3).ravel().tolist()
    [1.0, -1.0]
    """
    centred = (vectors - vectors.mean(0)).astype(np.float64)
    n, d = centred.shape
    most = min(most, n, d)
    wide = d > n  # the smaller of the two matrices of products has the same directions
    values, directions = np.linalg.eigh(centred @ centred.T if wide else centred.T @ centred)
    directions = directions[:, ::-1][:, :most]
    out = directions * np.sqrt(np.maximum(values[::-1][:most], 0)) if wide else centred @ directions
    signs = np.sign(out[np.abs(out).argmax(0), np.arange(most)])
    return (out * np.where(signs == 0, 1, signs)).astype(np.float32)


def placed(
    others: Float[np.ndarray, "k d"], vectors: Float[np.ndarray, "n d"], xy: Float[np.ndarray, "n 2"]
) -> Float[np.ndarray, "k 2"]:
    """Where other vectors stand among vectors whose first two principal components are xy: on the same two axes.

    >>> vectors = np.random.default_rng(0).normal(size=(9, 4))
    >>> np.allclose(placed(vectors[:2], vectors, projected(vectors)), projected(vectors)[:2], atol=1e-4)
    True
    """
    mean, xy = vectors.mean(0), xy.astype(np.float64)
    axes = (vectors - mean).T @ xy / np.maximum((xy**2).sum(0), 1e-12)  # of length 1, as xy are products with them
    return ((others - mean) @ axes).astype(np.float32)
