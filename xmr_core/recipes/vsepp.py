"""VSE++: one vector per item."""

from functools import partial

from xmr_core.encoders.image import PooledEncoder
from xmr_core.heads.pooling import GlobalHead
from xmr_core.losses.objective import Objective
from xmr_core.losses.triplet import hinge_triplet
from xmr_core.method import Method
from xmr_core.recipe_parts import Inputs, gru, matched_encoders, matched_objective
from xmr_core.similarities.cosine import cosine


def vsepp(
    inputs: Inputs,
    form: str = "matched",
    d: int = 128,
    mining: str = "hardest",
    normalise_images: bool = True,
    objective: str = "infonce",
    margin: float = 0.2,
    warmup_epochs: int = 2,
    dropout: float = 0.1,
) -> Method:
    """VSE++: one vector per item, cosine, hardest negatives. Faghri et al., BMVC 2018.

    matched: mean-pooled image and bi-GRU caption vectors under the common objective: the single-vector baseline.
    published: d = 1024, summed hinge; mining='all' with normalise_images=False is VSE0 (X-61).
    """
    if form == "matched":
        encoders = matched_encoders(inputs, d, dropout, local="words")
        return Method("vse++", *encoders, GlobalHead(), GlobalHead(), cosine, matched_objective(objective, margin, {}, warmup_epochs))
    image = PooledEncoder(inputs.image_width, d, normalise_input=True, init="xavier")
    text = gru(inputs, d, summary="last", dropout=0.0, init="uniform")
    loss = Objective(partial(hinge_triplet, margin=margin, mining=mining, reduction="sum"))
    return Method("vse++", image, text, GlobalHead(normalise=normalise_images), GlobalHead(), cosine, loss)
