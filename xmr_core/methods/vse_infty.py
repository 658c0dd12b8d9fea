"""VSE∞: one vector per item, pooled by a learned operator."""

from functools import partial

from xmr_core.encoders.regions import ResidualRegions
from xmr_core.heads.aggregators import aggregator
from xmr_core.losses.objective import Objective
from xmr_core.losses.triplet import hinge_triplet
from xmr_core.methods.common import Inputs, gru, matched_encoders, matched_objective
from xmr_core.methods.method import Method
from xmr_core.similarities.cosine import Cosine


def vse_infty(
    inputs: Inputs,
    form: str = "matched",
    d: int = 128,
    pooling: str = "gpo",
    objective: str = "infonce",
    margin: float = 0.2,
    warmup_epochs: int = 1,
    dropout: float = 0.1,
) -> Method:
    """VSE∞: generalised pooling operator on both sides, cosine. Chen et al., CVPR 2021.

    pooling: 'gpo', or another of heads.aggregators (VSE+2AD, Table 4).
    published: d = 1024, regions through a linear layer plus an MLP, one epoch of all negatives before the hardest, summed hinge.
    """
    if form == "matched":
        image, text = matched_encoders(inputs, d, dropout, local="states")
        loss = matched_objective(objective, margin, {}, warmup_epochs)
    else:
        image = ResidualRegions(inputs.image_width, d)
        text = gru(inputs, d, summary="average", local="states", dropout=0.0, init="uniform")
        hinge = partial(hinge_triplet, margin=margin, reduction="sum")
        loss = Objective(hinge, warmup_loss=partial(hinge, mining="all"), warmup_epochs=warmup_epochs)
    heads = (aggregator(pooling, d, d), aggregator(pooling, text.local_width, d))
    return Method("vse-infty", image, text, *heads, Cosine(), loss)
