"""What SCAN (Lee et al., ECCV 2018) prints of its variants. Percent; labels are those of the study's ablations.

The rows of AVG and of the ensembles are repeated by later papers. The others stand in this paper alone and were typed
from memory of it, so an error of a digit is possible.
"""

import pandas as pd

from xmr_study.paper_tables.retrieval import printed


def scan_aggregation(corpus: str = "f30k") -> pd.DataFrame:
    """Tables 1 and 2: both directions with LSE and AVG, and the ensemble. corpus: 'f30k' or 'coco1k'.

    The paper's ensemble on Flickr30K is of t-i AVG and i-t LSE, on COCO 1K of t-i LSE and i-t AVG; the study averages
    the two AVG models.

    Raises: BadInput for another corpus.

    >>> float(scan_aggregation().set_index("variant").loc["SCAN i-t", "rsum"])
    452.2
    """
    return printed("scan_aggregation", "rsum", corpus=corpus)


def scan_configuration() -> pd.DataFrame:
    """Table 4, Flickr30K: i-t AVG, and what happens when one thing is changed.

    >>> scan_configuration()["rsum"].idxmax()
    0
    """
    return printed("scan_configuration", "rsum")


def scan_sum_max() -> pd.DataFrame:
    """Table 3, Flickr30K: the sum of best partners, without attention, beside SCAN and one vector (VSE++ on a fixed
    ResNet, of which R@5 is not printed).

    >>> scan_sum_max()["variant"].tolist()
    ['VSE++', 'MaxSim sum, τ=0.5', 'SCAN t-i', 'MaxSim i-t', 'SCAN i-t']
    """
    return printed("scan_sum_max", "rsum")
