"""What a trained method does beyond its recall: uncertainty, attention, corruption, and elements of its sets."""

from xmr_core.evaluation.analysis.corruption import (
    blank_words, corrupted_uncertainty, erase_pixels, share_inside, share_of_common,
)  # fmt: skip
from xmr_core.evaluation.analysis.elements import (
    budget_table, element_ablation, element_map, keep_elements, nearest_partner, node_weights, slot_attention,
    word_attention,
)  # fmt: skip
from xmr_core.evaluation.analysis.representations import (
    circular_variance, distance_table, encode_split, log_circular_variance, numbers_stored, samples_table, set_spread,
    with_samples,
)  # fmt: skip
from xmr_core.evaluation.analysis.uncertainty import (
    in_bins, query_uncertainty, rank_correlation, score_confidence, selective_recall, uncertainty,
)  # fmt: skip

__all__ = [
    "blank_words", "budget_table", "circular_variance", "corrupted_uncertainty", "distance_table",
    "element_ablation", "element_map", "encode_split", "erase_pixels", "in_bins", "keep_elements",
    "log_circular_variance", "nearest_partner", "node_weights", "numbers_stored", "query_uncertainty",
    "rank_correlation", "samples_table", "score_confidence", "selective_recall", "set_spread", "share_inside",
    "share_of_common", "slot_attention", "uncertainty", "with_samples", "word_attention",
]  # fmt: skip
