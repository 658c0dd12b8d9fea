"""Encoded items as a pandas frame, for viewers of embeddings and for tools of one's own; vectors in two dimensions by
principal components, t-SNE and UMAP."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from xmr_core.base.errors import BadInput, require, require_choice
from xmr_core.base.types import EmbeddingSet, GaussianEmbedding, Representation
from xmr_core.models.model import Model
from xmr_core.retrieval.index import open_index
from xmr_core.retrieval.library import Library, open_library
from xmr_core.training.runs.folder import TrainedRun, load

PROJECTIONS = ("pca", "tsne", "umap")
COMPONENTS = 50  # to which vectors are reduced before neighbours are compared


def vectors_of(items: Representation) -> Float[np.ndarray, "n d"]:
    """One vector for each item, for tools that know nothing else: the mean of a set's elements, scaled to unit length,
    or the mean of a distribution.

    >>> vectors_of(EmbeddingSet(torch.eye(2)[None], torch.ones(1, 2, dtype=torch.bool))).round(3)
    array([[0.707, 0.707]], dtype=float32)
    """
    if isinstance(items, EmbeddingSet):
        sums = (items.x.float() * items.mask[..., None]).sum(1)
        return torch.nn.functional.normalize(sums, dim=-1).numpy()
    if isinstance(items, GaussianEmbedding):
        return items.mean.float().numpy()
    return items.x.float().numpy()


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
        try:
            from umap import UMAP
        except ImportError:
            raise BadInput("the layout umap needs another package: pip install umap-learn. Or take tsne.") from None
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


def export_frame(
    source: TrainedRun | Library | Model | Path | str,
    split: str = "test",
    images: Sequence = (),
    texts: Sequence[str] = (),
    elements: bool = False,
    project: str = "",
    wide: bool = False,
) -> pd.DataFrame:
    """A row for each encoded image and caption, as viewers of embeddings read them.

    source: a run or its id or short name, whose `split` is encoded ('train', 'val', 'test'); an index or its folder, or
        any Library, with the items that it holds; or a Model, with `images` and `texts` as it encodes them.
    elements: False gives one row for each item, with the vector of the item: the mean of a set's elements, scaled to
        unit length, or the mean of a distribution. True gives a row for each element of a set.
    project: also columns x and y, one of PROJECTIONS: 'pca', 'tsne' (extra `notebooks`) or 'umap'.
    wide: columns e0, e1, … in place of the column embedding.

    Columns: modality ('image' or 'caption'), id, image_id (of a caption its first annotated image), text ('' for an
    image), split, file (of an image, '' where it has none), element (from 0), uncertainty (of the item; NaN where the
    method gives none), embedding (float32 arrays "d").
    Raises: BadInput for a path or name that is none of these, a method without vectors of items, or an unknown project;
        as open_library and open_index.

    >>> from xmr_core.retrieval import example_library
    >>> frame = export_frame(example_library(), project="pca")
    >>> frame["modality"].tolist(), frame["embedding"][0].shape, frame.columns[-2:].tolist()
    (['image', 'image', 'image', 'caption', 'caption', 'caption'], (8,), ['x', 'y'])
    """
    if project:
        require_choice("projection", project, PROJECTIONS)
    if isinstance(source, str | Path):
        source = open_index(source) if Path(source).expanduser().is_dir() else load(str(source))
    if isinstance(source, TrainedRun):
        source = open_library(source, split=split)
    parts = _of_model(source, images, texts) if isinstance(source, Model) else _of_library(source)
    tables = [_rows(items, elements, columns) for items, columns in parts if items is not None and len(items)]
    frame = pd.concat(tables, ignore_index=True)
    points = np.stack(frame["embedding"])
    if wide:
        frame = frame.drop(columns="embedding").join(pd.DataFrame(points).add_prefix("e"))
    return frame.assign(**dict(zip("xy", projected(points, project).T, strict=True))) if project else frame


Part = tuple[Representation | None, dict]  # items, and columns of theirs by name


def _of_model(model: Model, images: Sequence, texts: Sequence[str]) -> list[Part]:
    texts = [texts] if isinstance(texts, str) else list(texts)
    names, parts = [str(image) if isinstance(image, str | Path) else "" for image in images], []
    if names:
        ids = [name or str(n) for n, name in enumerate(names)]
        parts.append((model.encode_images(images), {"modality": "image", "id": ids, "file": names}))
    if texts:
        parts.append((model.encode_texts(texts), {"modality": "caption", "id": range(len(texts)), "text": texts}))
    return parts


def _of_library(library: Library) -> list[Part]:
    if library.source.get("kind") == "folder":  # its images need not be there any more
        names = [str(Path(library.source["name"]) / name) for name in library.image_ids]
    else:
        names = "" if library.folder else [library.paths(n) for n in range(len(library.image_ids))]
    images = {"modality": "image", "id": library.image_ids, "image_id": library.image_ids, "file": names}
    captions = {"modality": "caption", "id": library.caption_ids, "text": library.texts}
    captions["image_id"] = np.append(library.image_ids.astype(object), "")[library.own_images()]  # −1: none
    for columns in (images, captions):
        modality = f"{columns['modality']}s"
        columns["split"], values = library.split_of_each(modality), library.uncertainty(modality)
        columns["uncertainty"] = np.nan if values is None else values
    return [(library.images, images), (library.captions, captions)]


def _rows(items: Representation, elements: bool, columns: dict) -> pd.DataFrame:
    defaults = dict.fromkeys(("modality", "id", "image_id", "text", "split", "file"), "")
    table = pd.DataFrame({**defaults, "element": 0, "uncertainty": np.nan, **columns}, index=range(len(items)))
    if not (elements and isinstance(items, EmbeddingSet)):
        return table.assign(embedding=list(vectors_of(items)))
    item, element = (index.numpy() for index in items.mask.nonzero(as_tuple=True))
    return table.iloc[item].assign(element=element, embedding=list(items.x[items.mask].float().numpy()))
