"""SCAN: every word looks at all regions, or every region at all words."""

from functools import partial

from xmr_core.encoders.regions import LinearRegions
from xmr_core.heads.tokens import TokenHead
from xmr_core.losses.objective import Objective
from xmr_core.losses.triplet import hinge_triplet
from xmr_core.methods.common import Inputs, gru, matched_encoders, matched_objective
from xmr_core.methods.method import Method
from xmr_core.similarities.scan import Scan

_SHARPNESS, _LSE = {"t2i": 9.0, "i2t": 4.0}, {"t2i": 6.0, "i2t": 5.0}  # 20 for i2t on COCO


def scan(
    inputs: Inputs,
    form: str = "matched",
    d: int = 128,
    direction: str = "t2i",
    aggregate: str = "mean",
    normalise: str = "clipped_l2norm",
    sharpness: float = 0.0,
    lse_scale: float = 0.0,
    objective: str = "infonce",
    margin: float = 0.2,
    warmup_epochs: int = 2,
    dropout: float = 0.1,
) -> Method:
    """SCAN: stacked cross attention over tokens. Lee et al., ECCV 2018.

    direction: 't2i' or 'i2t'; aggregate: 'lse', 'mean', 'sum', 'max'. sharpness (λ₁) and lse_scale (λ₂): 0 takes the paper's
    value for the direction. published: d = 1024, summed hinge on the hardest negatives from the first step, no dropout.
    """
    compare = Scan(
        direction=direction,
        aggregate=aggregate,
        normalise=normalise,
        sharpness=sharpness or _SHARPNESS.get(direction, 9.0),
        lse_scale=lse_scale or _LSE.get(direction, 6.0),
    )
    if form == "matched":
        image, text = matched_encoders(inputs, d, dropout, local="states")
        loss = matched_objective(objective, margin, {}, warmup_epochs)
    else:
        image = LinearRegions(inputs.image_width, d)
        text = gru(inputs, d, summary="average", local="states", dropout=0.0, init="uniform")
        loss = Objective(partial(hinge_triplet, margin=margin, reduction="sum"))
    return Method("scan", image, text, TokenHead(d, d), TokenHead(text.local_width, d), compare, loss)
