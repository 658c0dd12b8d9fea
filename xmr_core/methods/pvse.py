"""PVSE: a set of views by self-attention, the best pair counts."""

from functools import partial

from xmr_core.encoders.image import PooledEncoder
from xmr_core.heads.pie_net import PIENet
from xmr_core.losses.diversity import gram_diversity
from xmr_core.losses.mmd import mmd
from xmr_core.losses.objective import Objective
from xmr_core.losses.triplet import hinge_triplet
from xmr_core.methods.common import Inputs, gru, matched_encoders, matched_objective, on_both
from xmr_core.methods.method import Method
from xmr_core.similarities.mil import MaxPairwise


def pvse(
    inputs: Inputs,
    form: str = "matched",
    d: int = 128,
    slots: int = 4,
    objective: str = "infonce",
    margin: float = 0.1,
    diversity: float = 0.1,
    mmd_weight: float = 0.01,
    legacy_text: bool = True,
    warmup_epochs: int = 2,
    dropout: float = 0.1,
) -> Method:
    """PVSE: K embeddings per item by PIE-Net, the best pair counts (MIL). Song & Soleymani, CVPR 2019.

    published: d = 1024, K = 2, mean hinge; legacy_text is the caption summary of the released checkpoints (METHODS §3).
    """
    regularisers = {"diversity": (diversity, on_both(gram_diversity)), "mmd": (mmd_weight, mmd)} if slots > 1 else {}
    if form == "matched":
        image, text = matched_encoders(inputs, d, dropout, local="words")
        heads = (PIENet(d, d, slots, dropout=dropout), PIENet(text.local_width, d, slots, dropout=dropout))
        return Method("pvse", image, text, *heads, MaxPairwise(), matched_objective(objective, margin, regularisers, warmup_epochs))
    image = PooledEncoder(inputs.image_width, d)
    text = gru(inputs, d, summary="concatenate-last-token" if legacy_text else "concatenate", dropout=0.0)
    heads = (PIENet(inputs.image_width, d, slots), PIENet(inputs.word_dim, d, slots))
    loss = Objective(partial(hinge_triplet, margin=margin, reduction="batch_mean"), regularisers)
    return Method("pvse", image, text, *heads, MaxPairwise(), loss)
