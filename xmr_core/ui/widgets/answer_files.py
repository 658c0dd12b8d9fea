"""The answers that are shown, as a table and as a figure."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from xmr_core.base.errors import BadInput
from xmr_core.evaluation.judgments import Judgments
from xmr_core.search.filters import query_key
from xmr_core.search.library import Library
from xmr_core.search.photographs import photograph
from xmr_core.search.query import Query
from xmr_core.search.ranking import Ranking
from xmr_core.ui import plots


def answer_table(
    titles: Sequence[str], rankings: Sequence[Ranking], query: Query | None, judgments: Judgments
) -> pd.DataFrame:
    """A row for each answer: query, method, rank, item, text (of captions), score, relevance sets, verdict and tags.

    Raises: BadInput before the first query.
    """
    if query is None:
        raise BadInput("nothing has been asked yet; type a sentence first.")
    key, tables = query_key(query), []
    for title, ranking in zip(titles, rankings, strict=True):
        items = [(query.target, str(item)) for item in ranking.table["item"]]
        table = ranking.table.assign(
            verdict=[judgments.verdict(key, item) for item in items],
            tags=[", ".join(judgments.tags.get(item, ())) for item in items],
        )
        table.insert(0, "query", query.item if query.kind in ("caption", "image") else query.text)
        table.insert(1, "method", title)
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def answer_figure(
    titles: Sequence[str], rankings: Sequence[Ranking], query: Query | None, libraries: Sequence[Library]
) -> Figure:
    """The answers as a figure, a row or a column for each method.

    Raises: BadInput before the first query, and for a corpus without images.
    """
    if query is None:
        raise BadInput("nothing has been asked yet; type a sentence first.")
    rows, images = {}, query.target == "images"
    for title, ranking, library in zip(titles, rankings, libraries, strict=True):
        kinds = [kind for kind in library.relevance_sets if kind in ranking.table]
        rows[title] = [[]]
        for row, position in zip(ranking.table.to_dict("records"), ranking.order.tolist(), strict=True):
            right = [kind for kind in kinds if row[kind]]
            mark = "unknown" if not kinds else "wrong" if not right else "annotated" if "annotated" in right else "true"
            shown = photograph(library, position) if images else row["text"]
            rows[title][0].append((shown, row["score"], mark))
    first = libraries[0]
    if images:
        known_text = query.kind == "text"
        text = query.text if known_text else str(first.texts[first.position("captions", query.item)])
        return plots.image_answers([text], rows)
    pixels = query.pixels if query.kind == "upload" else photograph(first, first.position("images", query.item))
    return plots.caption_answers([pixels], rows)
