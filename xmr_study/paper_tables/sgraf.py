"""What SGRAF (Diao et al., AAAI 2021) prints of its parts. Percent; labels are those of the study's ablations."""

import pandas as pd

from xmr_study.paper_tables.retrieval import printed


def sgraf_graph() -> pd.DataFrame:
    """Table 3, Flickr30K: which nodes the graph has, and its steps. The marks of the table are restored from the text.

    >>> float(sgraf_graph().set_index("variant").loc["SGR", "t2i R@1"])
    56.2
    """
    return printed("sgraf_graph", "sum")


def sgraf_nodes() -> pd.DataFrame:
    """Table 4, Flickr30K: cosines or vectors, who asks, and how local nodes are put together. The mean of cosines is
    what SCAN does.

    >>> sgraf_nodes()["variant"].tolist()[:2]
    ['SCAN i-t', 'average, local nodes, i-t']
    """
    return printed("sgraf_nodes", "sum")


def sgraf_training(corpus: str = "f30k") -> pd.DataFrame:
    """Table 5: SAF and SGR alone, trained jointly, and trained apart and averaged. corpus: 'f30k' or 'coco1k'.

    >>> sgraf_training()["variant"].tolist()
    ['SAF', 'SGR', 'SGRAF, joint', 'SAF + SGR']
    """
    return printed("sgraf_training", "sum", corpus=corpus)


def sgraf_width() -> pd.DataFrame:
    """Table 7, Flickr30K: the width m of a node, with RSUM.

    >>> sgraf_width()["m"].tolist()
    [128, 256, 384]
    """
    return printed("sgraf_width", "rsum")
