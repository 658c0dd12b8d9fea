"""How the claims of each paper fare."""

import pandas as pd

from xmr_core.study.claims import VERDICTS
from xmr_core.study.families import enough_seeds

KINDS = ("confirmatory", "exploratory")
FEW = "too few seeds"


def verdicts_by_paper(table: pd.DataFrame) -> pd.DataFrame:
    """One line per paper, in the order of the table, and a last one for all: paper; for each verdict, how many are
    confirmatory and how many exploratory ('2 + 1'); how many lines have too few seeds for a verdict; and the number of
    claims that are not measured.

    table: of study.ledger, where a claim has a line for each of its corpora. The paper is what stands before the first
    comma of the source.

    >>> lines = [("DivE, Table 1", "held", "confirmatory", 5), ("DivE, Table 2", "held", "exploratory", 5),
    ...          ("DivE, §5", "not measured", "", 0)]
    >>> table = pd.DataFrame(lines, columns=["source", "verdict", "kind", "seeds"]).assign(corpus="scenes (quick)")
    >>> table = verdicts_by_paper(table)
    >>> table["held"].tolist(), table["contradicted"].tolist(), table["not measured"].tolist()
    (['1 + 1', '1 + 1'], ['0 + 0', '0 + 0'], [1, 1])
    """
    enough = enough_seeds(table)
    papers = table["source"].str.partition(",")[0]
    groups = [(paper, table[papers == paper]) for paper in papers.unique()]
    lines = []
    for paper, own in [*groups, ("all", table)]:
        cells = [
            " + ".join(
                str(((own["verdict"] == verdict) & enough[own.index] & (own["kind"] == kind)).sum()) for kind in KINDS
            )
            for verdict in VERDICTS[:-1]
        ]
        absent = int((own["verdict"] == VERDICTS[-1]).sum())
        lines.append((paper, *cells, int((~enough[own.index]).sum()) - absent, absent))
    return pd.DataFrame(lines, columns=["paper", *VERDICTS[:-1], FEW, VERDICTS[-1]])
