"""What the paper of VSE+2AD prints about its own parts, on COCO 5K with regions and a bi-GRU."""

import pandas as pd

from xmr_study.paper_tables.retrieval import printed


def vse_2ad_removals() -> pd.DataFrame:
    """Table 3: one part left out at a time, percent. Columns variant, six recalls, rsum, source.

    >>> vse_2ad_removals()["rsum"].tolist()
    [426.9, 420.1, 423.1, 419.1, 417.9]
    """
    return printed("vse_2ad_removals")


def vse_2ad_aggregators() -> pd.DataFrame:
    """Table 4: aggregators in the place of AdPool, percent. Columns variant, four recalls, rsum (of all six recalls,
    two of which are not printed), speed (items a second, in GCN's), source. Table A.1-1 repeats all but the last row.

    >>> vse_2ad_aggregators().set_index("variant")["rsum"].idxmax()
    'VSE+2AD'
    """
    return printed("vse_2ad_aggregators")


def vse_2ad_balance() -> pd.DataFrame:
    """Table C-2: weights of the token and the embedding level, percent. Columns variant, four recalls, rsum, source.

    >>> vse_2ad_balance()["rsum"].tolist()
    [416.6, 418.2, 421.3, 413.9, 426.9]
    """
    return printed("vse_2ad_balance")


def vse_2ad_pretrained() -> pd.DataFrame:
    """Table 2: models that were trained on far more images and texts, beside the ensemble of three with BERT. Columns
    variant, four recalls, rsum, speed (items a second, in ALIGN's; NaN where none is printed), source.

    >>> len(vse_2ad_pretrained())
    7
    """
    return printed("vse_2ad_pretrained")
