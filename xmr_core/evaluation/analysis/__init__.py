"""What a trained method does beyond its recall: ambiguity, uncertainty, attention, and single elements of its sets."""

from xmr_core.evaluation.analysis.agreement import (
    agreement_of_benchmarks, judgment_agreement, per_query_values, precision_gains, punished, random_share,
)  # fmt: skip
from xmr_core.evaluation.analysis.attention import node_weights, pointing, slot_attention, word_attention
from xmr_core.evaluation.analysis.corruption import (
    blank_words, corrupted_uncertainty, erase_pixels, set_algebra_rows, share_inside, share_of_common,
)  # fmt: skip
from xmr_core.evaluation.analysis.distances import (
    distance_table, numbers_stored, samples_table, sampling_gain, with_samples,
)  # fmt: skip
from xmr_core.evaluation.analysis.elements import (
    budget_table, element_ablation, element_map, first_element_share, first_rows, keep_elements, nearest_partner,
    neighbourhood, numbers_from_one,
)  # fmt: skip
from xmr_core.evaluation.analysis.representations import (
    circular_variance, encode_split, log_circular_variance, set_spread,
)  # fmt: skip
from xmr_core.evaluation.analysis.uncertainty import (
    end_rows, frequent_words, in_bins, query_uncertainty, rank_correlation, ratio_of_ends, score_confidence,
    selective_recall, selective_table, sorted_variances, uncertainty, uncertainty_rows, word_uncertainty,
)  # fmt: skip

__all__ = [
    "agreement_of_benchmarks", "blank_words", "budget_table", "circular_variance", "corrupted_uncertainty",
    "distance_table", "element_ablation", "element_map", "encode_split", "end_rows", "erase_pixels",
    "first_element_share", "first_rows", "frequent_words", "in_bins", "judgment_agreement", "keep_elements",
    "log_circular_variance", "nearest_partner", "neighbourhood", "node_weights", "numbers_from_one",
    "numbers_stored", "per_query_values", "pointing", "precision_gains", "punished", "query_uncertainty",
    "random_share", "rank_correlation", "ratio_of_ends", "samples_table", "sampling_gain", "score_confidence",
    "selective_recall", "selective_table", "set_algebra_rows", "set_spread", "share_inside", "share_of_common",
    "slot_attention", "sorted_variances", "uncertainty", "uncertainty_rows", "with_samples", "word_attention",
    "word_uncertainty",
]  # fmt: skip
