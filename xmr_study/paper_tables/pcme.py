"""What PCME (Chun et al., CVPR 2021) prints."""

import pandas as pd

from xmr_study.paper_tables.retrieval import printed


def pcme_distances() -> pd.DataFrame:
    """R-Precision of PCME by test-time distance on CUB's unseen classes, percent: Tables 1 and E.1."""
    return printed("pcme_distances")


def pcme_regularisers() -> pd.DataFrame:
    """Cross-validated mAP@R (percent) and mean log σ with and without either regulariser on CUB: Table D.1.

    >>> float(pcme_regularisers().set_index("variant").loc["PCME, KL", "images E[log σ]"])
    -3.84
    """
    return printed("pcme_regularisers")


def pcme_spread() -> pd.DataFrame:
    """R-Precision (percent) by the number of values that σ has, on CUB's unseen classes: Table D.2.

    >>> pcme_spread()["i2t R-P"].tolist()
    [26.3, 25.7, 24.7]
    """
    return printed("pcme_spread")


def pcme_head() -> pd.DataFrame:
    """R-Precision (percent) by the parts of the heads, on CUB's unseen classes: both blocks of Table D.3.

    >>> pcme_head().set_index("variant")["t2i R-P"].idxmax()
    'PCME'
    """
    return printed("pcme_head")


def pcme_cub(classes: str = "unseen") -> pd.DataFrame:
    """R-Precision and R@1 (percent) of PVSE by K and negatives, VSE0 and PCME on CUB: Tables E.2 and E.3.

    classes: 'unseen', the 50 test classes, or 'seen', held-out images of the 150 training classes.
    Raises: BadInput for other classes.

    >>> float(pcme_cub("seen").set_index("variant").loc["PCME", "i2t R@1"])
    43.1
    """
    return printed("pcme_cub", classes=classes)


def pcme_plausible(recall: bool = False) -> pd.DataFrame:
    """PMRP (percent) on COCO in the 1K and 5K protocols: Tables 3, E.4 and E.5.

    recall: also R@1, and VSE++, of which the paper has no PMRP. Where Table 3 rounds otherwise, the appendix is right.

    >>> float(pcme_plausible().set_index("variant").loc["PCME", "1K i2t"])
    45.1
    """
    table = printed("pcme_plausible")
    if recall:
        return table
    return table[[name for name in table if "R@1" not in name]].dropna(ignore_index=True)
