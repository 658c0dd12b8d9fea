"""SGRAF: a pair is a graph of similarity vectors; reason over it, or filter it."""

from functools import partial

from xmr_core.encoders.regions import LinearRegions
from xmr_core.heads.tokens import GlobalTokenHead
from xmr_core.losses.objective import Objective
from xmr_core.losses.triplet import hinge_triplet
from xmr_core.methods.common import Inputs, gru, matched_encoders, matched_objective
from xmr_core.methods.method import Method
from xmr_core.similarities.sgraf import Sgraf
from xmr_core.similarities.sgraf_joint import JointSgraf


def sgraf(
    inputs: Inputs,
    form: str = "matched",
    d: int = 128,
    reasoner: str = "sgr",
    m: int = 64,
    steps: int = 3,
    direction: str = "t2i",
    parts: str = "both",
    sharpness: float = 9.0,
    objective: str = "infonce",
    margin: float = 0.2,
    warmup_epochs: int = 2,
    dropout: float = 0.1,
) -> Method:
    """SGRAF: similarity graph reasoning ('sgr'), attention filtration ('saf'), both ('joint') or the plain mean. Diao et al., AAAI 2021.

    m: width of a similarity vector. parts: 'both', 'local' or 'global' nodes. The paper's SGRAF is the mean of the scores of
    an 'sgr' and a 'saf' trained apart. published: d = 1024, m = 256, dropout 0.4 in the encoders and self-attention, BatchNorm
    over region places (X-25), summed hinge on the hardest negatives from the first step.
    """
    if reasoner == "joint":
        compare = JointSgraf(d, m, steps, direction, parts, sharpness)
    else:
        compare = Sgraf(d, reasoner, m, steps, direction, parts, sharpness)
    if form == "matched":
        image, text = matched_encoders(inputs, d, dropout, local="states")
        heads = (GlobalTokenHead(d, d, dropout=dropout), GlobalTokenHead(text.local_width, d, dropout=dropout))
        loss = matched_objective(objective, margin, {}, warmup_epochs)
    else:
        image = LinearRegions(inputs.image_width, d)
        text = gru(inputs, d, summary="average", local="states", dropout=0.4, init="uniform")
        heads = (GlobalTokenHead(d, d, regions=inputs.cells), GlobalTokenHead(d, d))
        loss = Objective(partial(hinge_triplet, margin=margin, reduction="sum"))
    return Method("sgraf", image, text, *heads, compare, loss)
