"""How the claims of each paper fare."""

import pandas as pd

from xmr_core.study.claims import DECIDED, NONE_YET, NOT_MEASURED

KINDS = ("confirmatory", "exploratory")


def verdicts_by_paper(table: pd.DataFrame) -> pd.DataFrame:
    """One line per paper, in the order of the table, and a last one for all: paper; for each verdict, how many are
    confirmatory and how many exploratory ('2 + 1'); how many lines have no verdict yet, because of too few seeds; and
    the number of claims that are not measured.

    table: of study.ledger, where a claim has a line for each of its corpora. The paper is what stands before the first
    comma of the source.

    >>> lines = [("DivE, Table 1", "held", "confirmatory"), ("DivE, Table 2", "held", "exploratory"),
    ...          ("DivE, §5", "not measured", "")]
    >>> table = verdicts_by_paper(pd.DataFrame(lines, columns=["source", "verdict", "kind"]))
    >>> table["held"].tolist(), table["contradicted"].tolist(), table["not measured"].tolist()
    (['1 + 1', '1 + 1'], ['0 + 0', '0 + 0'], [1, 1])
    """
    papers = table["source"].str.partition(",")[0]
    groups = [(paper, table[papers == paper]) for paper in papers.unique()]
    lines = []
    for paper, own in [*groups, ("all", table)]:
        cells = [
            " + ".join(str(((own["verdict"] == verdict) & (own["kind"] == kind)).sum()) for kind in KINDS)
            for verdict in DECIDED
        ]
        lines.append((paper, *cells, *(int((own["verdict"] == none).sum()) for none in (NONE_YET, NOT_MEASURED))))
    return pd.DataFrame(lines, columns=["paper", *DECIDED, NONE_YET, NOT_MEASURED])
