"""Several indexes searched as one: each finds its best items, and their exact scores decide between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Representation
from xmr_core.evaluation.analysis.representations import joined
from xmr_core.search.answers import pixels_of
from xmr_core.search.elements import Elements, open_elements
from xmr_core.search.exact import best_of
from xmr_core.search.opened import Index, open_index
from xmr_core.search.query import Query, encode, nearest_of
from xmr_core.search.ranking import require_finite_scores
from xmr_core.search.shard_workers import Workers, best_of_one
from xmr_core.search.two_stage import Answers


@dataclass(frozen=True)
class Shards:
    """Indexes of one model, in order. elements: of the images of each, or None. workers: the processes that search
    them; None: this one. `with open_shards(...) as shards:` ends the processes."""

    indexes: Sequence[Index]
    elements: Sequence[Elements] | None = None
    workers: Workers | None = None

    def close(self) -> None:
        """End the worker processes, if there are any."""
        if self.workers is not None:
            self.workers.close()

    def __enter__(self) -> "Shards":
        return self

    def __exit__(self, *_) -> None:
        self.close()


def open_shards(
    folders: Sequence[Path | str], elements: bool = False, processes: bool = False, verify: bool | None = None
) -> Shards:
    """Open several index folders to be searched as one.

    Args: elements: open the elements of the images of each too, and search in two stages. processes: search each folder
        in a worker process of its own. verify: as of open_index.
    Raises: BadInput for no folder, one that is named twice, or one of another model than the first; and as open_index
        and open_elements, with the name of the folder.
    """
    paths = [Path(folder).expanduser() for folder in folders]
    if not paths or len({path.resolve() for path in paths}) < len(paths):
        raise BadInput(f"give one or more folders, each once, got {', '.join(map(str, paths)) or 'none'}.")
    indexes = [open_index(path, verify) for path in paths]
    for index in indexes[1:]:
        if index.about["model"] != indexes[0].about["model"]:
            ours, other = (i.about["model"].get("run") or i.about["model"]["label"] for i in (indexes[0], index))
            raise BadInput(
                f"{index.folder} was encoded by {other} and {indexes[0].folder} by {ours}, so their scores cannot be "
                f"compared. Index {index.folder} again with the model of {indexes[0].folder}."
            )
    opened = [open_elements(i.folder, i.images, i.digest("images"), verify) for i in indexes] if elements else None
    return Shards(indexes, opened, Workers(indexes, elements) if processes else None)


def search_shards(
    shards: Shards, text: str = "", image: Path | str | np.ndarray | None = None, k: int = 10, most: int | None = None
) -> pd.DataFrame:
    """The k best answers to a sentence or an image from all shards, as from one index of all their items.

    Images answer a sentence. Captions answer an image; where a shard has none, similar images answer it.
    most: as of two_stage, for shards with elements.
    Returns: columns rank (from 1), folder, item, text (of captions) and score. Equal scores are in the order of
        folders, then of items. table.attrs: 'unknown_words'; with elements also 'certified', 'bound' and 'reason', as
        in Answers.
    Raises: BadInput for no query or two, k below 1, or an image that the model cannot compare with images; ProcessLost
        where the process of a shard ended.
    """
    if bool(text.strip()) == (image is not None) or k < 1:
        raise BadInput(f"give a sentence or an image, and not both, and k of at least 1; got k = {k}.")
    first = shards.indexes[0]
    query = Query("text", text) if image is None else Query("upload", pixels=pixels_of(image))
    captions = image is not None and all(index.captions is not None for index in shards.indexes)
    target = "captions" if captions else "images"
    if image is not None and not captions and not first.method.similarity.symmetric:
        raise BadInput(f"{first.label} compares images with captions only; type a sentence.")
    encoded, modality = encode(first, query), "images" if captions else "captions"
    answers, folders, positions = best_of_shards(shards, encoded, target, k, modality, most)
    require_finite_scores(answers.scores[0][: len(positions)], first.label)
    table = pd.DataFrame({
        "rank": np.arange(1, len(positions) + 1),
        "folder": [str(shards.indexes[f].folder) for f in folders],
        "item": [shards.indexes[f].ids(target)[p] for f, p in zip(folders, positions, strict=True)],
        "score": answers.scores[0][: len(positions)],
    })  # fmt: skip
    if captions:
        table.insert(3, "text", [shards.indexes[f].texts[p] for f, p in zip(folders, positions, strict=True)])
    table.attrs["unknown_words"] = tuple(first.prepared.words_of(text)[1]) if image is None else ()
    table.attrs["nearest"] = nearest_of(first, text) if image is None else {}
    if shards.elements is not None and target == "images":
        bound, certified = float(answers.bounds[0]), bool(answers.certified[0])
        table.attrs |= {"certified": certified, "bound": bound, "reason": answers.reason}
    return table


def best_of_shards(
    shards: Shards, query: Representation, target: str, k: int, modality: str, most: int | None = None
) -> tuple[Answers, np.ndarray, np.ndarray]:
    """(answers over the items of all shards counted through, number of the shard of each, position in it) for one
    encoded query. The best k of each shard are compared again, together, by their exact scores: the k best of all are
    among them, and their order is that of one gallery.

    Raises: ProcessLost where the process of a shard ended.
    """
    similarity, task = shards.indexes[0].method.similarity, (query, target, k, modality, most)
    if shards.workers is not None:
        parts = shards.workers.ask(similarity, task)
    else:
        elements = shards.elements or [None] * len(shards.indexes)
        parts = [
            best_of_one(i.items(target), e, similarity, *task) for i, e in zip(shards.indexes, elements, strict=True)
        ]
    bound, reason = max(part.bounds[0] for part in parts), next((p.reason for p in parts if p.reason), "")
    # every shard gives its items in the order of its file, so that equal scores stand in file order
    own = [np.sort(part.positions[0][part.positions[0] >= 0]) for part in parts]
    folders = np.repeat(np.arange(len(own)), [len(positions) for positions in own])
    positions = np.concatenate(own)
    chosen = [
        index.items(target)[torch.from_numpy(rows)]
        for index, rows in zip(shards.indexes, own, strict=True) if len(rows)
    ]  # fmt: skip
    scores, best = np.full((1, k), -np.inf, np.float32), np.full((1, k), -1, np.int64)
    order = np.zeros(0, np.int64)
    if chosen:
        with torch.inference_mode():
            exact, order = best_of(similarity, query, joined(chosen), np.arange(len(positions)), k, modality)
        starts = np.cumsum([0, *(len(index.items(target)) for index in shards.indexes)])
        scores[0, : len(order)], best[0, : len(order)] = exact, starts[folders[order]] + positions[order]
    last = scores[0, len(order) - 1] if len(order) == k else -np.inf
    certified = all(part.certified[0] for part in parts) or bound < last
    answers = Answers(scores, best, np.array([bound]), np.array([certified]), "" if certified else reason)
    return answers, folders[order], positions[order]
