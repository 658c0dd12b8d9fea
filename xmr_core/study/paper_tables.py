"""Numbers from the papers' own tables, with their place. Percent, as printed."""

import pandas as pd

from xmr_core.base.errors import unknown

_DIVE = "DivE (Kim et al., CVPR 2023), Table 4, Flickr30K"


def dive_alpha() -> pd.DataFrame:
    """RSUM of DivE over α: Flickr30K test 1K, region features, bi-GRU, one run each."""
    rsum = {1: 495.2, 2: 497.2, 4: 497.7, 8: 498.9, 16: 500.8, 32: 499.3, 64: 499.0}
    return pd.DataFrame({"alpha": [float(a) for a in rsum], "rsum": list(rsum.values()), "source": _DIVE})


def dive_similarity() -> pd.DataFrame:
    """RSUM and log circular variance of DivE's similarity and architecture ablation: Flickr30K, region features,
    bi-GRU.
    """
    rows = [
        ("MIL, slots", 491.7, None), ("MP, slots", 490.5, -5.27), ("Chamfer, slots", 499.6, None),
        ("smooth-Chamfer, PIE-Net", 483.3, -7.35), ("smooth-Chamfer, transformer", 496.1, -2.27),
        ("smooth-Chamfer, slots", 500.8, -2.13),
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["variant", "rsum", "log variance"]).assign(
        source=_DIVE.replace("Table 4", "Table 3")
    )


def dive_cardinality() -> pd.DataFrame:
    """RSUM of DivE over the number of set elements K: Flickr30K, region features, bi-GRU, one run each."""
    return _swept("slots", [492.6, 495.5, 497.4, 500.8, 498.4, 499.3])


def dive_iterations() -> pd.DataFrame:
    """RSUM of DivE over the number of rounds T: Flickr30K, region features, bi-GRU, one run each."""
    return _swept("iterations", [492.6, 497.8, 499.3, 500.8, 499.4, 499.1])


def _swept(name: str, rsum: list[float]) -> pd.DataFrame:
    return pd.DataFrame({name: range(1, len(rsum) + 1), "rsum": rsum, "source": _DIVE})


def dive_elements() -> pd.DataFrame:
    """RSUM of one trained DivE with single elements of one side: Table 5, Flickr30K. Which element is which differs
    from run to run.
    """
    rows = [("images", "only", e, r) for e, r in enumerate((491.1, 309.6, 484.9, 486.0))]
    rows += [
        ("images", "without", 1, 500.2),
        *(("captions", "only", e, r) for e, r in enumerate((481.9, 483.0, 481.7, 497.2))),
    ]
    table = pd.DataFrame([(side, f"{how} {e}", r) for side, how, e, r in rows], columns=["side", "kept", "rsum"])
    table.loc[len(table)] = ["both", "all", 500.8]
    return table.assign(source=_DIVE.replace("Table 4", "Table 5"))


def dive_slots() -> pd.DataFrame:
    """RSUM on COCO 5K without DivE's changes to slot attention, one at a time and all at once: Appendix B.3."""
    rows = [
        ("slots as in the paper", 430.7),
        ("sampled slots", 427.2),
        ("GRU update", 423.3),
        ("without global feature", 342.0),
        ("all three", 0.74),
    ]
    return pd.DataFrame(rows, columns=["variant", "rsum"]).assign(
        source="DivE (Kim et al., CVPR 2023), App. B.3, COCO 5K"
    )


def dive_cost() -> pd.DataFrame:
    """What scoring costs according to DivE: multiply–adds of a pair (§4.4; one multiply–add is one FLOP there), the
    same with that of VSE as 1,
    and milliseconds to score Flickr30K's validation split and find the nearest ten (App. B.1, which names no machine).
    None: not printed.
    """
    rows = [
        ("cosine", "VSE", None, 1, 159),
        ("smooth-Chamfer", "DivE", 16_400, 16, 168),
        ("SCAN t2i", "SCAN", 1_240_000, 1280, 198_121),
    ]
    table = pd.DataFrame(rows, columns=["similarity", "method", "multiply-adds", "relative cost", "milliseconds"])
    return table.assign(source="DivE (Kim et al., CVPR 2023), §4.4 and App. B.1")


def pcme_distances() -> pd.DataFrame:
    """R-Precision of PCME by test-time distance on CUB's unseen classes, percent: Tables 1 and E.1."""
    rows = [
        ("trained on μ only", 24.70, 25.64), ("mean only", 26.14, 26.67), ("KL (official)", 21.99, 20.92),
        ("JS (official)", 25.06, 25.55),
        ("ELK", 25.33, 25.87), ("Bhattacharyya", 24.93, 25.27), ("2-Wasserstein", 26.16, 26.69),
        ("average L2", 26.11, 26.64),
        ("match probability", 26.28, 26.77),
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["distance", "i2t R-P", "t2i R-P"]).assign(
        source="PCME (Chun et al., CVPR 2021), Table 1, CUB"
    )


def retrieval(corpus: str = "f30k") -> pd.DataFrame:
    """What the papers report for retrieval, percent: columns method, features, six recalls, rsum, source. corpus:
    'f30k' (test 1K) or
    'coco1k' (five folds). Captions through a bi-GRU. Their features, budgets and tuning differ, which the matched
    comparison removes.

    Raises: BadInput for another corpus.
    """
    if corpus not in _RETRIEVAL:
        raise unknown("corpus of published results", corpus, _RETRIEVAL)
    rows = _RETRIEVAL[corpus]
    names = [f"{d} R@{k}" for d in ("i2t", "t2i") for k in (1, 5, 10)]
    table = pd.DataFrame(
        [(method, features, *recalls, source) for method, features, recalls, source in rows],
        columns=["method", "features", *names, "source"],
    )
    table.insert(8, "rsum", table[names].sum(axis=1).round(1))
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
}  # fmt: skip
