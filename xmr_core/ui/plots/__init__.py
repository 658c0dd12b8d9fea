"""DataFrame in, Figure out: every figure of the study in one style, so that they can be laid side by side."""

from xmr_core.ui.plots.claims import ledger
from xmr_core.ui.plots.cost import counted_and_timed, scaling
from xmr_core.ui.plots.maps import element_maps
from xmr_core.ui.plots.pictures import answers, cells, gallery, meeting, slot_attention, word_attention
from xmr_core.ui.plots.sweeps import ablation, elements, learning_curves, spread_over_training, variants
from xmr_core.ui.plots.uncertainty import against_truth, agreement, ambiguity, corruption, distances, recall_by_bin

__all__ = [
    "ablation", "against_truth", "agreement", "ambiguity", "answers", "cells", "corruption", "counted_and_timed", "distances", "element_maps", "elements", "gallery", "learning_curves", "ledger", "meeting",
    "recall_by_bin", "scaling", "slot_attention", "spread_over_training", "variants", "word_attention",
]  # fmt: skip
