"""Numbers from the papers' own tables, with their place. Percent, as printed. A file for each paper."""

from xmr_study.paper_tables.dive import (
    dive_alpha, dive_cardinality, dive_cost, dive_eccv, dive_elements, dive_iterations, dive_similarity, dive_slots,
)  # fmt: skip
from xmr_study.paper_tables.pcme import (
    pcme_cub, pcme_distances, pcme_head, pcme_plausible, pcme_regularisers, pcme_spread,
)  # fmt: skip
from xmr_study.paper_tables.retrieval import retrieval
from xmr_study.paper_tables.scan import scan_aggregation, scan_configuration, scan_sum_max
from xmr_study.paper_tables.sgraf import sgraf_graph, sgraf_nodes, sgraf_training, sgraf_width
from xmr_study.paper_tables.vse_2ad import vse_2ad_aggregators, vse_2ad_balance, vse_2ad_pretrained, vse_2ad_removals

__all__ = [
    "dive_alpha", "dive_cardinality", "dive_cost", "dive_eccv", "dive_elements", "dive_iterations",
    "dive_similarity", "dive_slots", "pcme_cub", "pcme_distances", "pcme_head", "pcme_plausible",
    "pcme_regularisers", "pcme_spread", "retrieval", "scan_aggregation", "scan_configuration", "scan_sum_max",
    "sgraf_graph", "sgraf_nodes", "sgraf_training", "sgraf_width", "vse_2ad_aggregators", "vse_2ad_balance",
    "vse_2ad_pretrained", "vse_2ad_removals",
]  # fmt: skip
