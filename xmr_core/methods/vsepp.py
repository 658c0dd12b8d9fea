"""VSE++: one vector per item."""

from functools import partial

from xmr_core.base.errors import unknown
from xmr_core.encoders.image import PooledEncoder
from xmr_core.heads.pooling import GlobalHead
from xmr_core.losses.objective import Objective
from xmr_core.losses.triplet import hinge_triplet
from xmr_core.methods.common import Inputs, gru, matched_encoders, matched_objective
from xmr_core.methods.method import Method
from xmr_core.similarities.cosine import Cosine
from xmr_core.similarities.order import Order

_MEASURES = {"cosine": Cosine, "order": Order}


def vsepp(
    inputs: Inputs,
    form: str = "matched",
    d: int = 128,
    mining: str = "hardest",
    normalise_images: bool = True,
    measure: str = "cosine",
    objective: str = "infonce",
    margin: float = 0.2,
    warmup_epochs: int = 2,
    dropout: float = 0.1,
) -> Method:
    """VSE++: one vector per item, cosine, hardest negatives. Faghri et al., BMVC 2018.

    matched: the encoders' global vectors (cells averaged, the maximum over bi-GRU states) under the common objective: the
    single-vector baseline. published: d = 1024, summed hinge; mining='all' with normalise_images=False is VSE0 (X-61).
    measure: 'cosine', or 'order': absolute values, compared by how far they violate an order (margin 0.05 in the paper).
    """
    if measure not in _MEASURES:
        raise unknown("measure", measure, _MEASURES)
    compare, absolute = _MEASURES[measure](), measure == "order"
    if form == "matched":
        encoders = matched_encoders(inputs, d, dropout, local="words")
        return Method(
            "vse++",
            *encoders,
            GlobalHead(absolute=absolute),
            GlobalHead(absolute=absolute),
            compare,
            matched_objective(objective, margin, {}, warmup_epochs),
        )
    image = PooledEncoder(inputs.image_width, d, normalise_input=True, init="xavier")
    text = gru(inputs, d, summary="last", dropout=0.0, init="uniform")
    loss = Objective(partial(hinge_triplet, margin=margin, mining=mining, reduction="sum"))
    return Method("vse++", image, text, GlobalHead(normalise_images, absolute), GlobalHead(absolute=absolute), compare, loss)
