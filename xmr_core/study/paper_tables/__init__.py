"""Numbers from the papers' own tables, with their place. Percent, as printed. A file for each paper."""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        "dive_alpha": "dive",
        "dive_similarity": "dive",
        "dive_cardinality": "dive",
        "dive_iterations": "dive",
        "dive_elements": "dive",
        "dive_eccv": "dive",
        "dive_slots": "dive",
        "dive_cost": "dive",
        "pcme_cub": "pcme",
        "pcme_distances": "pcme",
        "pcme_head": "pcme",
        "pcme_plausible": "pcme",
        "pcme_regularisers": "pcme",
        "pcme_spread": "pcme",
        "retrieval": "retrieval",
        "vse_2ad_aggregators": "vse_2ad",
        "vse_2ad_balance": "vse_2ad",
        "vse_2ad_pretrained": "vse_2ad",
        "vse_2ad_removals": "vse_2ad",
        **dict.fromkeys(("scan_aggregation", "scan_configuration", "scan_sum_max"), "scan"),
        **dict.fromkeys(("sgraf_graph", "sgraf_nodes", "sgraf_training", "sgraf_width"), "sgraf"),
    },
)
