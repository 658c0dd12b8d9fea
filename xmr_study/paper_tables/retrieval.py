"""What all papers print for retrieval, side by side; the numbers are in retrieval.csv."""

from pathlib import Path

import pandas as pd

from xmr_core.base.errors import require_choice


def retrieval(corpus: str = "f30k", every: bool = False) -> pd.DataFrame:
    """What the papers report for retrieval, percent: columns method, features, text, six recalls, rsum, source. corpus:
    'f30k' (test 1K), 'coco1k' (five folds) or 'coco5k' (all test images, where fewer papers print fewer numbers: what
    is missing is NaN). Their features, budgets and tuning differ, which the matched comparison removes. rsum: the sum
    of the recalls, which a few papers print otherwise (docs/differences.md#x-63); NaN where one is not printed.

    every: also BERT, other features than the two that most papers have, ensembles of one method ('DivE + DivE' are two
        seeds, averaged), and SCAN with LSE.
    Raises: BadInput for another corpus.

    >>> len(retrieval("f30k", every=True)) > len(retrieval("f30k"))
    True
    """
    table = pd.read_csv(Path(__file__).with_suffix(".csv"))
    require_choice("corpus of published results", corpus, table["corpus"].unique())
    chosen = (table["corpus"] == corpus) & (table["every"] <= every)
    table = table[chosen].drop(columns=["corpus", "every"]).reset_index(drop=True)
    names = [name for name in table if "R@" in name]
    table.insert(9, "rsum", table[names].sum(axis=1, min_count=len(names)).round(1))
    return table
