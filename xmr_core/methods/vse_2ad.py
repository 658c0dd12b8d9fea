"""VSE+2AD: one vector per item, adaptive pooling and an adaptive objective."""

from functools import partial

from xmr_core.base.errors import unknown
from xmr_core.encoders.regions import ResidualRegions
from xmr_core.heads.adpool import AdaptivePoolHead
from xmr_core.losses.adaptive_clustering import AdaptiveClustering
from xmr_core.losses.objective import Objective
from xmr_core.losses.triplet import hinge_triplet
from xmr_core.methods.common import OBJECTIVES, Inputs, gru, matched_encoders, matched_objective
from xmr_core.methods.method import Method
from xmr_core.similarities.cosine import Cosine


def vse_2ad(
    inputs: Inputs,
    form: str = "matched",
    d: int = 128,
    levels: str = "both",
    token_weights: str = "matrix",
    objective: str = "adopt",
    margin: float = 0.2,
    temperature: float = 0.05,
    mode: str = "adaptive",
    adopt: str = "official",
    dropout: float = 0.1,
) -> Method:
    """VSE+2AD: AdPool and AdOpt on VSE∞'s encoders. Zhang, Shu et al., EACL 2023.

    levels: 'both', 'token' or 'embedding' (Table 3). objective: 'adopt', 'infonce' or 'triplet' ("−AdOpt"). mode: 'adaptive',
    'constant' or 'random' number of negatives. adopt: 'official', or 'paper' (X-33 … X-36). matched: the common encoders, correct masks, no positive among its own
    negatives. published: d = 1024, padding and negatives as the authors' code (X-30, X-32).
    """
    if objective not in ("adopt", *OBJECTIVES):
        raise unknown("objective", objective, ("adopt", *OBJECTIVES))
    matched = form == "matched"
    shape = {"levels": levels, "token_weights": token_weights, "padding": "masked" if matched else "official"}
    if matched:
        image, text = matched_encoders(inputs, d, dropout, local="states")
    else:
        image = ResidualRegions(inputs.image_width, d)
        text = gru(inputs, d, summary="average", local="states", dropout=0.0, init="uniform")
    if objective == "adopt":
        loss = Objective(AdaptiveClustering(adopt, mode, temperature=temperature, margin=margin, own_negatives=not matched))
    elif matched:
        loss = matched_objective(objective, margin, {}, warmup_epochs=1)
    else:
        loss = Objective(partial(hinge_triplet, margin=margin, reduction="sum"))
    return Method("vse+2ad", image, text, AdaptivePoolHead(d, d, **shape), AdaptivePoolHead(text.local_width, d, **shape), Cosine(), loss)
