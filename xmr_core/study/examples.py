"""Queries to look at: where methods disagree, and what each of them puts first."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import UInt8

from xmr_core.base.checks import require_choice
from xmr_core.base.errors import BadInput
from xmr_core.base.types import Corpus
from xmr_core.evaluation.analysis.representations import encode_split
from xmr_core.evaluation.engine import Scoring, best
from xmr_core.training.runs import TrainedRun

COLUMNS = ["query", "rank", "item", "score", "mark"]


def disputed(runs: Mapping[str, TrainedRun], direction: str, n: int) -> list[int]:
    """Positions in the test split of the first n queries whose first answer is right for some methods and wrong for
    others, by the annotated pairs; where there are fewer, the first queries of all follow.

    runs: label → a run on the same corpus. direction: 'i2t' or 't2i'. Raises: BadInput for another direction or n < 1.
    """
    require_choice("direction", direction, ("i2t", "t2i"))
    if n < 1:
        raise BadInput(f"the number of queries must be at least 1, got {n}.")
    first = {}
    for label, run in runs.items():
        own = run.per_query[(run.per_query["relevance"] == "annotated") & (run.per_query["direction"] == direction)]
        first[label] = own["R@1"].to_numpy()
    table = pd.DataFrame(first)
    apart = np.flatnonzero(table.nunique(axis=1) > 1).tolist()
    return [*apart, *(q for q in range(len(table)) if q not in set(apart))][:n]


def top(run: TrainedRun, direction: str, queries: list[int], k: int = 5) -> pd.DataFrame:
    """The k best items of each query, best first: columns query and item (positions in the test split), rank, score,
    mark: 'annotated' for a pair of the corpus; 'true' for one that only the corpus's complete truth ('exhaustive')
    knows, where it has one; else 'wrong'.

    Raises: BadInput for k < 1 or another direction.
    """
    require_choice("direction", direction, ("i2t", "t2i"))
    method, prepared = run.method(), run.prepared()
    split = prepared.splits["test"]
    images, captions = encode_split(method, split)
    kinds = prepared.corpus.relevance_sets
    every = kinds["exhaustive"]("test") if "exhaustive" in kinds else split.relevance
    chosen = torch.tensor(queries)
    pair = (images[chosen], captions) if direction == "i2t" else (images, captions[chosen])
    values, items = best(Scoring(method.similarity, *pair), k, "images" if direction == "i2t" else "captions")
    lines = []
    for query, scores, answers in zip(queries, values, items, strict=True):
        for rank, (score, item) in enumerate(zip(scores.tolist(), answers.tolist(), strict=True), 1):
            image, caption = (query, item) if direction == "i2t" else (item, query)
            own, true = image in split.relevance[caption], image in every[caption]
            lines.append((query, rank, item, score, "annotated" if own else "true" if true else "wrong"))
    return pd.DataFrame(lines, columns=COLUMNS)


def first_errors(run: TrainedRun, direction: str, n: int) -> pd.DataFrame:
    """Of the first n queries of the test split whose first answer is wrong, by the complete truth where the corpus
    knows it: two lines each, the first answer and the best annotated one; columns as of `top`.

    Raises: BadInput for another direction.
    """
    require_choice("direction", direction, ("i2t", "t2i"))
    kinds = set(run.per_query["relevance"])
    kind = "exhaustive" if "exhaustive" in kinds else "annotated"
    own = run.per_query[(run.per_query["relevance"] == kind) & (run.per_query["direction"] == direction)]
    queries = np.flatnonzero(own["R@1"].to_numpy() == 0)[:n].tolist()
    if not queries:
        return pd.DataFrame(columns=COLUMNS)
    relevance = run.prepared().splits["test"].relevance
    every = top(run, direction, queries, len(relevance.query_ids if direction == "i2t" else relevance.gallery_ids))
    right = every[every["mark"] == "annotated"].groupby("query").head(1)
    return pd.concat([every[every["rank"] == 1], right]).sort_values(["query", "rank"], ignore_index=True)


def canvases(corpus: Corpus, rows: Sequence[int]) -> list[UInt8[np.ndarray, "h w 3"]]:
    """What looks at images can be drawn on: the pictures at `rows` of the corpus; for features without pictures, a
    white sheet as large as the boxes of the regions reach.

    Raises: BadInput for a corpus that has neither images nor boxes.

    >>> from xmr_core.data.arrays import from_arrays
    >>> canvases(from_arrays(np.zeros((10, 36, 4)), ["a dog", "two cats"] * 5), [0])
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: arrays has neither images nor boxes of its regions, so that...
    """
    if corpus.read_pixels is not None:
        return list(corpus.read_pixels(np.asarray(rows)))
    if corpus.boxes is None:
        raise BadInput(
            f"{corpus.name} has neither images nor boxes of its regions, so that attention cannot be drawn; "
            "add its boxes (docs/data.md#data-precomputed) or take another data set."
        )
    if corpus.about.get("boxes") == "relative":
        return [np.full((240, 320, 3), 255, np.uint8) for _ in rows]
    corners = [np.ceil(np.asarray(corpus.boxes[row])[:, 2:].max(0)).astype(int) for row in rows]
    return [np.full((height, width, 3), 255, np.uint8) for width, height in corners]
