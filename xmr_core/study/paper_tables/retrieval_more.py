"""Printed rows of retrieval beside those of `retrieval`: other features and text encoders, ensembles, SCAN with LSE.

(method, features, text, recalls i2t then t2i at 1, 5, 10, source). 'DivE + DivE' are two seeds, averaged.
"""

_GRU, _BERT, _R = "bi-GRU", "BERT", "36 regions"
_RG, _RGP, _WSL = "regions + grid", "regions + grid + patches", "ResNeXt-101 grid"
_AD, _DE, _SC = "VSE+2AD, Table 1", "DivE, Table {}", "SCAN, Table {} (not checked against the print)"

MORE = {
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
