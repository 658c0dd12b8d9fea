"""Numbers from the papers' own tables, with their place. Percent, as printed. A file for each paper."""

from xmr_core.base.lazy import catalogue

_DIVE = ("alpha", "similarity", "cardinality", "iterations", "elements", "eccv", "slots", "cost")
_PCME = ("cub", "distances", "head", "plausible", "regularisers", "spread")
_VSE_2AD = ("aggregators", "balance", "pretrained", "removals")
_SCAN, _SGRAF = ("aggregation", "configuration", "sum_max"), ("graph", "nodes", "training", "width")
_TABLES = {"dive": _DIVE, "pcme": _PCME, "vse_2ad": _VSE_2AD, "scan": _SCAN, "sgraf": _SGRAF}

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {"retrieval": "retrieval"} | {f"{paper}_{table}": paper for paper, tables in _TABLES.items() for table in tables},
)
