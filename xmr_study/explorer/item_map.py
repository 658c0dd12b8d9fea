"""A map: all images and captions of a library in two dimensions, with what a map can be coloured by."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float

from xmr_core.base import files, fingerprint, paths
from xmr_core.base.errors import require
from xmr_core.retrieval.export import COMPONENTS, components, projected, vectors_of
from xmr_core.retrieval.library import Library

CLUSTERS = 10
_VERSION = 2  # of the coordinates: raise it when the same vectors get other ones


def map_frame(library: Library, layout: str = "pca") -> pd.DataFrame:
    """A row for each image and caption of a library, images first: where it stands on the map, and facts of it.

    The vectors are those of `vectors_of`. The mean of the images is subtracted from images and that of the captions
    from captions, because the two means differ much in most methods, and a map would show little else. layout: 'pca',
    the first two principal components, at once; 'tsne', which keeps neighbours together and takes minutes on 30,000
    items; 'umap', the same much faster where umap-learn is installed. Coordinates are cached on disk by the content of
    the vectors.

    Columns: modality ('images' or 'captions'), item (the id), text (a caption, or the name of an image), split,
    position, x, y, and cluster (from 0, by k-means on the first 50 components).
    Raises: BadInput for another layout, a package that is not installed, or items without vectors.

    >>> from xmr_core.retrieval import example_library
    >>> map_frame(example_library())[["modality", "item"]].values.tolist()[2:4]
    [['images', '2.png'], ['captions', '0.txt']]
    """
    parts = [_facts(library, modality) for modality in ("images", "captions") if len(library.ids(modality))]
    vectors = np.concatenate([_centred(library, table["modality"].iloc[0]) for table in parts])
    x, y = coordinates(vectors, layout).T
    cluster = _cached(vectors, "clusters", _clusters).astype(int)
    return pd.concat(parts, ignore_index=True).assign(x=x, y=y, cluster=cluster)


def cluster_names(frame: pd.DataFrame, n: int = 3) -> dict[int, str]:
    """Number of a cluster → the n words that its captions have more often than those of other clusters (the largest
    TF-IDF); a cluster without captions has none. frame: of `map_frame`.

    >>> rows = [("captions", "a red ring", 0), ("captions", "a blue ring", 1)]
    >>> cluster_names(pd.DataFrame(rows, columns=["modality", "text", "cluster"]), n=1)
    {0: 'red', 1: 'blue'}
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = frame[frame["modality"] == "captions"].groupby("cluster")["text"].apply(lambda own: " ".join(map(str, own)))
    if texts.empty:
        return {}
    reader = TfidfVectorizer(stop_words="english", sublinear_tf=True)
    weights, words = reader.fit_transform(texts).toarray(), reader.get_feature_names_out()
    return {
        int(c): ", ".join(words[np.argsort(-row, kind="stable")[:n]])
        for c, row in zip(texts.index, weights, strict=True)
    }


def coordinates(vectors: Float[np.ndarray, "n d"], layout: str = "pca") -> Float[np.ndarray, "n 2"]:
    """Vectors in two dimensions, cached on disk."""
    return _cached(vectors, layout, lambda own: projected(own, layout))


def _clusters(vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """The number of the cluster of each vector."""
    require("clusters", "notebooks", "sklearn")
    from sklearn.cluster import MiniBatchKMeans

    means = MiniBatchKMeans(min(CLUSTERS, len(vectors)), random_state=0, n_init=3)
    return means.fit_predict(components(vectors, COMPONENTS)).astype(float)


def _facts(library: Library, modality: str) -> pd.DataFrame:
    ids = library.ids(modality)
    about = {"item": ids, "text": library.image_ids if modality == "images" else library.texts}
    about |= {"split": library.split_of_each(modality), "position": np.arange(len(ids))}
    return pd.DataFrame({"modality": modality, **about})


def _centred(library: Library, modality: str) -> Float[np.ndarray, "n d"]:
    vectors = vectors_of(library.items(modality))
    return vectors - vectors.mean(0)


def _cached(vectors: np.ndarray, name: str, make: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    key = fingerprint.bytes_hash(np.ascontiguousarray(vectors).tobytes())
    path = Path(paths.folder("cache")) / "maps" / f"{name}-{_VERSION}-{key}.npy"
    if path.exists():
        try:
            stored = np.load(path, allow_pickle=False)
            if len(stored) == len(vectors):
                return stored
        except (OSError, ValueError):  # damaged: make it again
            pass
    out = np.asarray(make(vectors), np.float32)
    with files.atomic(path) as temporary, open(temporary, "wb") as file:
        np.save(file, out)
    return out
