"""Encoded items as a pandas frame, for viewers of embeddings and for tools of one's own."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from xmr_core.base.errors import BadInput, unknown
from xmr_core.base.types import EmbeddingSet, Representation
from xmr_core.search.library import Library, open_library
from xmr_core.search.model import Model
from xmr_core.search.opened import Index, open_index
from xmr_core.search.projections import PROJECTIONS, projected, vectors_of
from xmr_core.training.runs import TrainedRun, load
from xmr_core.training.runs.names import find_run

_COLUMNS = ("modality", "id", "image_id", "text", "split", "file", "element", "uncertainty", "embedding")


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
    project: also columns x and y, by a name of projections.projected: 'pca', 'tsne' (extra `notebooks`) or 'umap'.
    wide: columns e0, e1, … in place of the column embedding.

    Columns: modality ('image' or 'caption'), id, image_id (of a caption its first annotated image), text ('' for an
    image), split, file (of an image, '' where it has none), element (from 0), uncertainty (of the item; NaN where the
    method gives none), embedding (float32 arrays "d").
    Raises: BadInput for a source that is none of these, a method without vectors of items, an unknown project, or fewer
        than three rows to project; as open_library and open_index.

    >>> from xmr_core.search import example_library
    >>> frame = export_frame(example_library(), project="pca")
    >>> frame["modality"].tolist(), frame["embedding"][0].shape, frame.columns[-2:].tolist()
    (['image', 'image', 'image', 'caption', 'caption', 'caption'], (8,), ['x', 'y'])
    """
    if project and project not in PROJECTIONS:
        raise unknown("projection", project, PROJECTIONS)
    texts = [texts] if isinstance(texts, str) else texts
    items = _of_model(source, images, texts) if isinstance(source, Model) else _of_library(source, split)
    parts = [part for name, table in items.items() if (part := _rows(name, *table, elements)) is not None]
    frame = pd.concat(parts, ignore_index=True)[list(_COLUMNS)]
    points = np.stack(frame["embedding"])
    if wide:
        columns = pd.DataFrame(points, columns=[f"e{n}" for n in range(points.shape[1])])
        frame = pd.concat([frame.drop(columns="embedding"), columns], axis=1)
    if not project:
        return frame
    if len(points) < 3:
        raise BadInput(f"a projection needs at least three rows, got {len(points)}.")
    return frame.assign(**dict(zip("xy", projected(points, project).T, strict=True)))


Items = Mapping[str, tuple[pd.DataFrame, Representation | None]]


def _of_model(model: Model, images: Sequence, texts: Sequence[str]) -> Items:
    if not len(images) and not len(texts):
        raise BadInput("a model holds no items: give images=[…] or texts=[…], or a run, or an index.")
    out: dict = {}
    if len(images):
        files = [str(image) if isinstance(image, str | Path) else "" for image in images]
        ids = [name or str(n) for n, name in enumerate(files)]
        out["image"] = pd.DataFrame({"id": ids, "file": files}), model.encode_images(images)
    if len(texts):
        out["caption"] = pd.DataFrame({"id": range(len(texts)), "text": list(texts)}), model.encode_texts(texts)
    return out


def _of_library(source: TrainedRun | Library | Path | str, split: str) -> Items:
    library, files = _opened(source, split)
    images = pd.DataFrame({"id": library.image_ids, "image_id": library.image_ids, "file": files})
    captions = pd.DataFrame({"id": library.caption_ids, "text": library.texts})
    if "annotated" in library.relevance_sets:
        captions["image_id"] = np.append(library.image_ids.astype(object), "")[library.own_images()]  # −1: none
    if not isinstance(library, Index):
        name = "" if isinstance(source, Library) else split
    else:
        name = library.about["source"]["name"] if library.about["source"]["kind"] == "split" else ""
    out = {"image": (images, library.images), "caption": (captions, library.captions)}
    for modality, (table, _) in out.items():
        table["split"], values = name, library.uncertainty(f"{modality}s")
        table["uncertainty"] = np.nan if values is None else values
    return out


def _opened(source: TrainedRun | Library | Path | str, split: str) -> tuple[Library, Sequence[str] | str]:
    """(the library, the file of each image)."""
    if isinstance(source, str | Path):
        if Path(source).expanduser().is_dir():
            source = open_index(source)
        elif (run_id := find_run(str(source))) is not None:
            source = load(run_id)
        else:
            raise BadInput(f"{str(source)!r} is neither a folder of an index nor a run here.")
    if isinstance(source, TrainedRun):
        library, table = open_library(source, split=split), source.prepared().corpus.images
        return library, table.loc[library.image_ids, "path"].astype(str).tolist() if "path" in table else ""
    if isinstance(source, Index) and source.about["source"]["kind"] == "folder":
        return source, [str(Path(source.about["source"]["name"]) / name) for name in source.image_ids]
    if isinstance(source, Library):
        return source, ""
    raise BadInput(f"export_frame takes a run, a library, an index or a model, got {type(source).__name__}.")


def _rows(modality: str, table: pd.DataFrame, items: Representation | None, elements: bool) -> pd.DataFrame | None:
    """The rows of one modality; None where there are no items of it."""
    if items is None or not len(items):
        return None
    defaults = {"text": "", "split": "", "file": "", "image_id": "", "uncertainty": np.nan, "modality": modality}
    table = table.assign(**{name: value for name, value in defaults.items() if name not in table})
    if elements and isinstance(items, EmbeddingSet):
        item, element = (index.numpy() for index in items.mask.nonzero(as_tuple=True))
        vectors, table = items.x[items.mask].float().numpy(), table.iloc[item].assign(element=element)
    else:
        vectors, table = vectors_of(items), table.assign(element=0)
    return table.assign(embedding=list(vectors))
