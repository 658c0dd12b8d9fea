"""What all papers print for retrieval, side by side. The numbers of each table are in a CSV file of its name."""

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
    table = printed("retrieval", "rsum", corpus=corpus)
    return table[table["every"] <= every].drop(columns="every").reset_index(drop=True)


def printed(name: str, total: str = "", **chosen: str) -> pd.DataFrame:
    """The numbers in NAME.csv, as printed. total: the name of a column for the sum of the recalls, if there is to be
    one. chosen: column → the value of the rows that are wanted. Raises: BadInput for a value that no row has."""
    table = pd.read_csv(Path(__file__).with_name(f"{name}.csv"))
    for column, value in chosen.items():
        require_choice(f"{column} of published results", value, table[column].unique())
        table = table[table[column] == value].drop(columns=column).reset_index(drop=True)
    if total:
        recalls = [column for column in table if "R@" in column]
        sums = table[recalls].sum(axis=1, min_count=len(recalls)).round(1)
        table.insert(table.columns.get_loc("source"), total, sums)
    return table
