"""What DivE (Kim, Kim and Kwak, CVPR 2023) prints."""

import pandas as pd

from xmr_study.paper_tables.retrieval import printed


def dive_alpha() -> pd.DataFrame:
    """RSUM of DivE over α: Flickr30K test 1K, region features, bi-GRU, one run each."""
    return printed("dive_alpha")


def dive_similarity() -> pd.DataFrame:
    """RSUM and log circular variance of DivE's similarity and architecture ablation: Flickr30K, region features,
    bi-GRU.
    """
    return printed("dive_similarity")


def dive_cardinality() -> pd.DataFrame:
    """RSUM of DivE over the number of set elements K: Flickr30K, region features, bi-GRU, one run each."""
    return printed("dive_cardinality")


def dive_iterations() -> pd.DataFrame:
    """RSUM of DivE over the number of rounds T: Flickr30K, region features, bi-GRU, one run each."""
    return printed("dive_iterations")


def dive_elements() -> pd.DataFrame:
    """RSUM of one trained DivE with single elements of one side: Table 5, Flickr30K. Which element is which differs
    from run to run.
    """
    return printed("dive_elements")


def dive_eccv() -> pd.DataFrame:
    """Percent on COCO by the judgments of ECCV Caption (mAP@R, R-Precision, R@1) and CxC (R@1): Table A1.

    >>> float(dive_eccv().set_index("variant").loc["DivE", "t2i eccv mAP@R"])
    51.0
    """
    return printed("dive_eccv")


def dive_slots() -> pd.DataFrame:
    """RSUM on COCO 5K without DivE's changes to slot attention, one at a time and all at once: Appendix B.3."""
    return printed("dive_slots")


def dive_cost() -> pd.DataFrame:
    """What scoring costs according to DivE: multiply–adds of a pair (§4.4; one multiply–add is one FLOP there), the
    same with that of VSE as 1,
    and milliseconds to score Flickr30K's validation split and find the nearest ten (App. B.1, which names no machine).
    None: not printed.
    """
    return printed("dive_cost")
