"""What a trained method does beyond its recall: ambiguity, uncertainty, attention, and single elements of its sets."""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        "judgment_agreement": "agreement",
        **dict.fromkeys(("agreement_of_benchmarks", "per_query_values", "punished", "random_share"), "ambiguity"),
        **dict.fromkeys(("node_weights", "pointing", "slot_attention", "word_attention"), "attention"),
        **dict.fromkeys(("budget_table", "first_element_share", "first_rows"), "budgets"),
        **dict.fromkeys(("circular_variance", "log_circular_variance"), "circular_variance"),
        **dict.fromkeys(("blank_words", "corrupted_uncertainty", "erase_pixels"), "corruption"),
        **dict.fromkeys(
            ("distance_table", "numbers_stored", "samples_table", "sampling_gain", "with_samples"), "distances"
        ),
        **dict.fromkeys(("element_map", "nearest_partner", "neighbourhood"), "element_map"),
        **dict.fromkeys(("element_ablation", "keep_elements", "numbers_from_one"), "element_subsets"),
        **dict.fromkeys(("frequent_words", "word_uncertainty"), "frequent_words"),
        "precision_gains": "precision_gains",
        **dict.fromkeys(("set_algebra_rows", "share_inside", "share_of_common"), "set_algebra"),
        **dict.fromkeys(("end_rows", "ratio_of_ends"), "uncertain_ends"),
        **dict.fromkeys(("score_confidence", "selective_recall", "selective_table"), "selective"),
        **dict.fromkeys(("encode_split", "set_spread"), "representations"),
        **dict.fromkeys(
            (
                "in_bins",
                "query_uncertainty",
                "rank_correlation",
                "sorted_variances",
                "uncertainty",
                "uncertainty_rows",
            ),
            "uncertainty",
        ),
    },
)
