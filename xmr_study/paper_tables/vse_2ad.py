"""What the paper of VSE+2AD prints about its own parts, on COCO 5K with regions and a bi-GRU."""

import pandas as pd

FULL = "VSE+2AD"


def vse_2ad_removals() -> pd.DataFrame:
    """Table 3: one part left out at a time, percent. Columns variant, six recalls, rsum, source.

    >>> vse_2ad_removals()["rsum"].tolist()
    [426.9, 420.1, 423.1, 419.1, 417.9]
    """
    rows = {  # t2i R@1, 5, 10, then i2t, as printed
        FULL: (41.4, 72.3, 83.8, 54.9, 83.0, 91.5, 426.9),
        f"{FULL}, no token level": (39.5, 71.3, 82.3, 53.5, 82.2, 91.3, 420.1),
        f"{FULL}, no embedding level": (40.1, 72.3, 83.2, 53.7, 82.5, 91.3, 423.1),
        f"{FULL}, mean pooling": (38.5, 72.4, 81.8, 53.3, 82.0, 91.1, 419.1),
        f"{FULL}, hardest triplet": (39.2, 71.1, 81.5, 53.4, 82.2, 90.5, 417.9),
    }
    names = [f"{d} R@{k}" for d in ("t2i", "i2t") for k in (1, 5, 10)]
    return _table(rows, names, "VSE+2AD, Table 3")


def vse_2ad_aggregators() -> pd.DataFrame:
    """Table 4: aggregators in the place of AdPool, percent. Columns variant, four recalls, rsum (of all six recalls,
    two of which are not printed), speed (items a second, in GCN's), source. Table A.1-1 repeats all but the last row.

    >>> vse_2ad_aggregators().set_index("variant")["rsum"].idxmax()
    'VSE+2AD'
    """
    rows = {
        f"{FULL}, LIP": (38.4, 69.3, 52.2, 81.1, 414.8),
        f"{FULL}, seq2seq": (38.2, 68.9, 52.1, 80.9, 415.7),
        f"{FULL}, GCN": (40.7, 71.3, 53.5, 81.5, 419.2),
        f"{FULL}, self-attention": (40.9, 71.3, 53.8, 82.2, 420.1),
        f"{FULL}, AdaPool": (40.2, 71.8, 52.8, 81.4, 418.3),
        f"{FULL}, SoftPool": (39.2, 69.8, 52.8, 81.4, 419.8),
        f"{FULL}, GPO": (41.2, 71.1, 55.6, 82.0, 422.9),
        f"{FULL}, manual pooling": (38.7, 71.6, 53.7, 82.1, 419.3),
        FULL: (41.4, 72.3, 54.9, 83.0, 426.9),
    }
    table = _table(rows, _FOUR, "VSE+2AD, Table 4")
    table.insert(6, "speed", [4.6, 1.8, 1.0, 1.6, 4.1, 5.1, 4.3, 5.6, 4.9])
    return table


def vse_2ad_balance() -> pd.DataFrame:
    """Table C-2: weights of the token and the embedding level, percent. Columns variant, four recalls, rsum, source.

    >>> vse_2ad_balance()["rsum"].tolist()
    [416.6, 418.2, 421.3, 413.9, 426.9]
    """
    rows = {
        f"{FULL}, ω=0.25": (39.8, 70.2, 51.9, 80.4, 416.6),
        f"{FULL}, ω=0.5": (40.1, 70.6, 52.8, 81.1, 418.2),
        f"{FULL}, ω=0.75": (40.6, 71.4, 54.1, 82.2, 421.3),
        f"{FULL}, random ω": (39.3, 69.4, 51.2, 80.1, 413.9),
        FULL: (41.4, 72.3, 54.9, 83.0, 426.9),
    }
    return _table(rows, _FOUR, "VSE+2AD, Table C-2")


def vse_2ad_pretrained() -> pd.DataFrame:
    """Table 2: models that were trained on far more images and texts, beside the ensemble of three with BERT. Columns
    variant, four recalls, rsum, speed (items a second, in ALIGN's; NaN where none is printed), source.

    >>> len(vse_2ad_pretrained())
    7
    """
    rows = {
        "ViLBERT": (38.6, 68.2, 53.5, 79.7, 406.9),
        "UNITER": (48.4, 76.7, 63.3, 87.0, 454.4),
        "OSCAR": (54.0, 80.8, 70.0, 91.1, 479.9),
        "ALIGN": (59.9, 83.3, 77.0, 93.5, 500.4),
        "CLIP": (58.7, 83.6, 76.8, 94.0, 500.9),
        "MVP": (60.1, 84.0, 77.3, 93.6, 502.6),
        "VSE+2AD, regions + grid + patches, BERT": (52.5, 80.2, 69.5, 91.2, 475.9),
    }
    table = _table(rows, _FOUR, "VSE+2AD, Table 2")
    table.insert(6, "speed", [float("nan"), 9.6, 4.3, 1.0, float("nan"), float("nan"), 45.3])
    return table


_FOUR = ["t2i R@1", "t2i R@5", "i2t R@1", "i2t R@5"]


def _table(rows: dict[str, tuple[float, ...]], names: list[str], source: str) -> pd.DataFrame:
    return pd.DataFrame([(v, *r, source) for v, r in rows.items()], columns=["variant", *names, "rsum", "source"])
