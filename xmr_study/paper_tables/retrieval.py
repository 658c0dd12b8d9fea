"""What all papers print for retrieval, side by side."""

import pandas as pd

from xmr_core.base.errors import require_choice


def retrieval(corpus: str = "f30k", every: bool = False) -> pd.DataFrame:
    """What the papers report for retrieval, percent: columns method, features, text, six recalls, rsum, source. corpus:
    'f30k' (test 1K), 'coco1k' (five folds) or 'coco5k' (all test images, where fewer papers print fewer numbers: what
    is missing is NaN). Their features, budgets and tuning differ, which the matched comparison removes. rsum: the sum
    of the recalls, which a few papers print otherwise (docs/differences.md#x-63); NaN where one is not printed.

    every: also BERT, other features than the two that most papers have, ensembles of one method, and SCAN with LSE.
    Raises: BadInput for another corpus.

    >>> len(retrieval("f30k", every=True)) > len(retrieval("f30k"))
    True
    """
    require_choice("corpus of published results", corpus, _RETRIEVAL)
    rows = [
        (method, features, "GRU" if method == "VSE++" else "bi-GRU", recalls, source)
        for method, features, recalls, source in _RETRIEVAL[corpus]
    ]
    names = [f"{d} R@{k}" for d in ("i2t", "t2i") for k in (1, 5, 10)]
    table = pd.DataFrame(
        [(*about, *recalls, source) for *about, recalls, source in rows + (_MORE[corpus] if every else [])],
        columns=["method", "features", "text", *names, "source"],
    )
    table[names] = table[names].astype(float)
    table.insert(9, "rsum", table[names].sum(axis=1, min_count=len(names)).round(1))
    return table


_RESNET, _REGIONS = "ResNet-152", "36 regions"
_RETRIEVAL = {
    "f30k": [
        ("VSE++", _RESNET, (52.9, 80.5, 87.2, 39.6, 70.1, 79.5), "DivE, Table 2"),
        ("PVSE", _RESNET, (59.1, 84.5, 91.0, 43.4, 73.1, 81.5), "DivE, Table 2 (reproduced there)"),
        ("PCME", _RESNET, (58.5, 81.4, 89.3, 44.3, 72.7, 81.9), "DivE, Table 2 (reproduced there)"),
        ("DivE", _RESNET, (61.8, 85.5, 91.1, 46.1, 74.8, 83.3), "DivE, Table 2"),
        ("SCAN t-i", _REGIONS, (61.8, 87.5, 93.7, 45.8, 74.4, 83.0), "VSE+2AD, Table 1"),
        ("SCAN i-t", _REGIONS, (67.9, 89.0, 94.4, 43.9, 74.2, 82.8), "VSE+2AD, Table 1"),
        ("SCAN t-i + SCAN i-t", _REGIONS, (67.4, 90.3, 95.8, 48.6, 77.7, 85.2), "DivE, Table 2"),
        ("SAF", _REGIONS, (73.7, 93.3, 96.3, 56.1, 81.5, 88.0), "SGRAF, Table 1"),
        ("SGR", _REGIONS, (75.2, 93.3, 96.6, 56.2, 81.0, 86.5), "SGRAF, Table 1"),
        ("SAF + SGR", _REGIONS, (77.8, 94.1, 97.4, 58.5, 83.0, 88.8), "SGRAF, Table 1"),
        ("VSE∞", _REGIONS, (76.5, 94.2, 97.7, 56.4, 83.4, 89.9), "DivE, Table 2"),
        ("VSE+2AD", _REGIONS, (76.9, 94.4, 98.2, 58.0, 85.0, 91.2), "VSE+2AD, Table 1"),
        ("DivE", _REGIONS, (77.8, 94.0, 97.5, 57.5, 84.0, 90.0), "DivE, Table 2"),
    ],
    "coco1k": [
        ("VSE++", _RESNET, (64.6, 90.0, 95.7, 52.0, 84.3, 92.0), "DivE, Table 1"),
        ("PVSE", _RESNET, (69.2, 91.6, 96.6, 55.2, 86.5, 93.7), "DivE, Table 1"),
        ("PCME", _RESNET, (68.8, 91.6, 96.7, 54.6, 86.3, 93.8), "PCME, Table E.4"),
        ("DivE", _RESNET, (70.3, 91.5, 96.3, 56.0, 85.8, 93.3), "DivE, Table 1"),
        ("SCAN t-i", _REGIONS, (70.9, 94.5, 97.8, 56.4, 87.0, 93.9), "VSE+2AD, Table 1"),
        ("SCAN i-t", _REGIONS, (69.2, 93.2, 97.5, 54.4, 86.0, 93.6), "VSE+2AD, Table 1"),
        ("SCAN t-i + SCAN i-t", _REGIONS, (72.7, 94.8, 98.4, 58.8, 88.4, 94.8), "DivE, Table 1"),
        ("SAF", _REGIONS, (76.1, 95.4, 98.3, 61.8, 89.4, 95.3), "SGRAF, Table 1"),
        ("SGR", _REGIONS, (78.0, 95.8, 98.2, 61.4, 89.3, 95.4), "SGRAF, Table 1"),
        ("SAF + SGR", _REGIONS, (79.6, 96.2, 98.5, 63.2, 90.7, 96.1), "SGRAF, Table 1"),
        ("VSE∞", _REGIONS, (78.5, 96.0, 98.7, 61.7, 90.3, 95.6), "DivE, Table 1"),
        ("VSE+2AD", _REGIONS, (79.7, 97.3, 99.2, 63.5, 91.8, 96.3), "VSE+2AD, Table 1"),
        ("DivE", _REGIONS, (79.8, 96.2, 98.6, 63.6, 90.7, 95.7), "DivE, Table 1"),
    ],
    "coco5k": [
        ("VSE++", _RESNET, (41.3, 71.1, 81.2, 30.3, 59.4, 72.4), "DivE, Table 1"),
        ("PVSE", _RESNET, (45.2, 74.3, 84.5, 32.4, 63.0, 75.0), "DivE, Table 1"),
        ("PCME", _RESNET, (44.2, 73.8, 83.6, 31.9, 62.1, 74.5), "PCME, Table E.5"),
        ("DivE", _RESNET, (47.2, 74.8, 84.1, 33.8, 63.1, 74.7), "DivE, Table 1"),
        ("SCAN t-i + SCAN i-t", _REGIONS, (50.4, 82.2, 90.0, 38.6, 69.3, 80.4), "DivE, Table 1"),
        ("SAF", _REGIONS, (53.3, None, 90.1, 39.8, None, 80.2), "SGRAF, Table 2"),
        ("SGR", _REGIONS, (56.9, None, 90.5, 40.2, None, 79.8), "SGRAF, Table 2"),
        ("SAF + SGR", _REGIONS, (57.8, None, 91.6, 41.9, None, 81.3), "SGRAF, Table 2"),
        ("VSE∞", _REGIONS, (56.6, 83.6, 91.4, 39.3, 69.9, 81.1), "DivE, Table 1"),
        ("VSE+2AD", _REGIONS, (54.9, 83.0, 91.5, 41.4, 72.3, 83.8), "VSE+2AD, Table 3"),
        ("DivE", _REGIONS, (58.8, 84.9, 91.5, 41.1, 72.0, 82.4), "DivE, Table 1"),
    ],
}  # fmt: skip

# other features and text encoders, ensembles ('DivE + DivE' are two seeds, averaged), SCAN with LSE
_GRU, _BERT, _R = "bi-GRU", "BERT", "36 regions"
_RG, _RGP, _WSL = "regions + grid", "regions + grid + patches", "ResNeXt-101 grid"
_AD, _DE, _SC = "VSE+2AD, Table 1", "DivE, Table {}", "SCAN, Table {} (not checked against the print)"

_MORE = {
    "f30k": [
        ("VSE++", _R, _GRU, (62.2, 86.6, 92.3, 45.7, 73.6, 81.9), _AD),
        ("SCAN t-i LSE", _R, _GRU, (61.1, 85.4, 91.5, 43.3, 71.9, 80.9), _SC.format(1)),
        ("SCAN i-t LSE", _R, _GRU, (67.7, 88.9, 94.0, 44.0, 74.2, 82.6), _SC.format(1)),
        ("DivE + DivE", _R, _GRU, (80.9, 94.7, 97.6, 59.4, 85.6, 91.1), _DE.format(2)),
        ("VSE∞", _RG, _GRU, (80.7, 96.4, 98.3, 60.8, 86.3, 92.3), _AD),
        ("VSE+2AD", _RG, _GRU, (82.2, 97.1, 98.8, 62.2, 86.8, 93.1), _AD),
        ("VSE+2AD", _RGP, _GRU, (83.1, 97.7, 99.1, 63.5, 87.6, 93.4), _AD),
        ("VSE++", _R, _BERT, (63.4, 87.2, 92.7, 45.6, 76.4, 84.4), _AD),
        ("VSE∞", _R, _BERT, (81.7, 95.4, 97.6, 61.4, 85.9, 91.5), _AD),
        ("VSE+2AD", _R, _BERT, (81.8, 96.1, 98.4, 59.1, 90.3, 93.5), f"{_AD} (prints a sum of 524.7)"),
        ("VSE∞", _RG, _BERT, (85.3, 97.2, 98.9, 66.7, 89.9, 94.0), _AD),
        ("VSE+2AD", _RG, _BERT, (87.1, 97.9, 99.3, 69.2, 91.3, 95.6), _AD),
        ("VSE+2AD", _RGP, _BERT, (88.2, 98.4, 99.5, 71.4, 92.0, 95.8), _AD),
        ("VSE∞", _WSL, _BERT, (88.4, 98.3, 99.5, 74.2, 93.7, 96.8), _DE.format(2)),
        ("VSE∞ + VSE∞", _WSL, _BERT, (88.7, 98.9, 99.8, 76.1, 94.5, 97.1), _DE.format(2)),
        ("DivE", _WSL, _BERT, (88.8, 98.5, 99.6, 74.3, 94.0, 96.7), _DE.format(2)),
        ("DivE + DivE", _WSL, _BERT, (90.6, 99.0, 99.6, 75.9, 94.7, 97.3), _DE.format(2)),
    ],
    "coco1k": [
        ("VSE++", _R, _GRU, (68.5, 92.6, 97.1, 54.0, 85.6, 92.7), _AD),
        ("SCAN t-i LSE", _R, _GRU, (67.5, 92.9, 97.6, 53.0, 85.4, 92.9), _SC.format(2)),
        ("SCAN i-t LSE", _R, _GRU, (68.4, 93.9, 98.0, 54.8, 86.1, 93.3), _SC.format(2)),
        ("DivE + DivE", _R, _GRU, (80.6, 96.3, 98.8, 64.7, 91.4, 96.2), _DE.format(1)),
        ("VSE∞", _RG, _GRU, (80.0, 97.0, 99.0, 64.8, 91.6, 96.5), _AD),
        ("VSE+2AD", _RG, _GRU, (82.1, 97.9, 99.4, 65.7, 92.3, 97.0), _AD),
        ("VSE+2AD", _RGP, _GRU, (83.8, 98.1, 99.4, 67.1, 93.0, 97.7), _AD),
        ("VSE++", _R, _BERT, (67.9, 91.9, 97.0, 54.0, 85.6, 92.5), _AD),
        ("VSE∞", _R, _BERT, (79.7, 96.4, 98.9, 64.8, 91.4, 96.3), _AD),
        ("VSE+2AD", _R, _BERT, (81.3, 96.7, 99.2, 67.5, 93.6, 97.7), _AD),
        ("VSE∞", _RG, _BERT, (82.2, 97.5, 99.5, 68.1, 92.9, 97.2), _AD),
        ("VSE+2AD", _RG, _BERT, (84.2, 98.5, 99.4, 71.9, 94.3, 98.3), _AD),
        ("VSE+2AD", _RGP, _BERT, (85.4, 98.9, 99.2, 72.5, 94.8, 98.7), _AD),
        ("VSE∞", _WSL, _BERT, (84.5, 98.1, 99.4, 72.0, 93.9, 97.5), _DE.format(1)),
        ("VSE∞ + VSE∞", _WSL, _BERT, (85.6, 98.0, 99.4, 73.1, 94.3, 97.7), _DE.format(1)),
        ("DivE", _WSL, _BERT, (86.3, 97.8, 99.4, 72.4, 94.0, 97.6), _DE.format(1)),
        ("DivE + DivE", _WSL, _BERT, (86.6, 98.2, 99.4, 73.4, 94.5, 97.8), _DE.format(1)),
    ],
    "coco5k": [
        ("SCAN i-t LSE", _R, _GRU, (46.4, 77.4, 87.2, 34.4, 63.7, 75.7), _SC.format(2)),
        ("DivE + DivE", _R, _GRU, (60.4, 86.2, 92.4, 42.6, 73.1, 83.1), _DE.format(1)),
        ("VSE+2AD", _RGP, _BERT, (69.5, 91.2, None, 52.5, 80.2, None), "VSE+2AD, Table 2"),
        ("VSE∞", _WSL, _BERT, (66.4, 89.3, 94.6, 51.6, 79.3, 87.6), _DE.format(1)),
        ("VSE∞ + VSE∞", _WSL, _BERT, (68.1, 90.2, 95.2, 52.7, 80.2, 88.3), _DE.format(1)),
        ("DivE", _WSL, _BERT, (69.1, 90.7, 95.6, 52.1, 79.6, 87.8), _DE.format(1)),
        ("DivE + DivE", _WSL, _BERT, (71.0, 91.8, 96.3, 53.4, 80.9, 88.6), _DE.format(1)),
    ],
}  # fmt: skip
