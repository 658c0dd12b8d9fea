"""How the claims of each paper fare, in a table and in a sentence."""

import pandas as pd

from xmr_core.study.claims import DECIDED, NONE_YET, NOT_MEASURED, counts, has_verdict

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


def ledger_sentence(table: pd.DataFrame, earlier: int = 0) -> str:
    """How many verdicts a ledger holds, of which word and kind. earlier: how many further claims have rows only from
    before the protocol.

    Lines of too few seeds hold no verdict; the claims of papers and of this study are counted apart.

    >>> line = {"claim": ["c"], "source": "DivE", "verdict": ["held"], "kind": ["exploratory"]}
    >>> ledger_sentence(pd.DataFrame(line), 3).partition(": ")[2]
    '1 held (0 confirmatory, 1 exploratory). 3 more have rows from before the protocol only.'
    >>> ledger_sentence(pd.DataFrame(line | {"source": "ours"})).partition(": ")[2]
    'none decided; on 1 of 1 of our own: 1 held (0 confirmatory, 1 exploratory).'
    """
    every, own = table[has_verdict(table)], table["source"].str.startswith("ours")
    words = f"On {_verdicts(table[~own], ' claims of papers')}"
    words += f"; on {_verdicts(table[own], ' of our own')}" if own.any() else ""
    kinds = ", ".join(f"{int((every['kind'] == kind).sum())} {kind}" for kind in ("confirmatory", "exploratory"))
    few = int((table["verdict"] == NONE_YET).sum())
    kinds += f"; {few} comparisons wait for more seeds" if few else ""
    more = f" {earlier} more have rows from before the protocol only." if earlier else ""
    return f"{len(every)} verdicts, corrected within papers. {words} ({kinds}).{more}"


def _verdicts(table: pd.DataFrame, whose: str) -> str:
    shown = table[has_verdict(table)]
    words = ", ".join(f"{n} {word}" for word, n in counts(shown).items()) or "none decided"
    return f"{shown['claim'].nunique()} of {table['claim'].nunique()}{whose}: {words}"
