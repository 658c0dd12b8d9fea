"""DivE: a set of slots, compared softly."""

from functools import partial

from xmr_core.encoders.image import RegionEncoder
from xmr_core.losses.diversity import pairwise_diversity
from xmr_core.losses.mmd import mmd
from xmr_core.losses.objective import Objective
from xmr_core.losses.triplet import hinge_triplet
from xmr_core.methods.common import Inputs, gru, matched_encoders, matched_objective, on_both, set_head, set_similarity
from xmr_core.methods.method import Method


def dive(
    inputs: Inputs,
    form: str = "matched",
    d: int = 128,
    slots: int = 4,
    iterations: int = 4,
    alpha: float = 16.0,
    similarity: str = "smooth_chamfer",
    head: str = "slots",
    query: str = "learned",
    update: str = "residual",
    use_global: bool = True,
    text_local: str = "words",
    objective: str = "infonce",
    margin: float = 0.2,
    diversity: float = 0.01,
    mmd_weight: float = 0.01,
    warmup_epochs: int = 2,
    dropout: float = 0.1,
    slot_lr: float = 0.1,
) -> Method:
    """DivE: slot attention makes the set, smooth-Chamfer compares sets. Kim, Kim & Kwak, CVPR 2023.

    similarity: 'smooth_chamfer', 'chamfer', 'mil', 'mp'. head: 'slots', 'transformer' (softmax over inputs, Table 3 right)
    or 'pie-net' (Table 3 left). query 'sampled', update 'gru', use_global=False: variants of the slots (App. B.3).
    text_local: what caption slots look at, 'words' (word vectors, the paper) or 'states' of the GRU (an option of the authors).
    matched: correct masks, 4 heads of d/4, feed-forward of 2d, the common objective plus the paper's two small
    regularisers. published: 4 heads × 512, padding as the authors' code (X-43, X-44), mean hinge, image side and text
    slots at slot_lr times the learning rate (X-49), which only this form reads.
    """
    regularisers = {
        "diversity": (diversity, on_both(pairwise_diversity)),
        "mmd": (mmd_weight, mmd),
    }
    of_slots = {"query": query, "update": update, "use_global": use_global}
    compare = set_similarity(similarity, alpha, learned_mp=form == "matched")
    if form == "matched":
        image, text = matched_encoders(inputs, d, dropout, local=text_local)
        shape = {"slots": slots, "iterations": iterations, "heads": 4, "head_width": d // 4, "ff_mult": 2, "dropout": dropout}
        shape |= of_slots
        image_head = set_head(head, d, d, "none", shape)  # the matched grid encoder has already added place
        text_head = set_head(head, text.local_width, d, "sine1d", shape)
        loss = matched_objective(objective, margin, regularisers, warmup_epochs)
        return Method("dive", image, text, image_head, text_head, compare, loss)
    image = RegionEncoder(inputs.image_width, d, dropout)
    text = gru(inputs, d, summary="average", local=text_local, dropout=dropout)
    shape = {"slots": slots, "iterations": iterations, "heads": 4, "head_width": 512, "dropout": dropout, "padding": "official"}
    shape |= of_slots
    heads = (set_head(head, d, d, "none", shape), set_head(head, text.local_width, d, "sine1d", shape))
    loss = Objective(partial(hinge_triplet, margin=margin, mining="hardest", reduction="mean"), regularisers)
    scales = {"image_encoder": slot_lr, "image_head": slot_lr, "caption_head": slot_lr}
    return Method("dive", image, text, *heads, compare, loss, scales)
