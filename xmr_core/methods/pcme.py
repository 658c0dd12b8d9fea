"""PCME: every item a normal distribution."""

from xmr_core.encoders.image import PooledEncoder
from xmr_core.heads.gaussian import GaussianHead
from xmr_core.losses.gaussian import kl_to_normal, uniformity
from xmr_core.losses.objective import Objective
from xmr_core.losses.soft_contrastive import soft_contrastive
from xmr_core.methods.common import Inputs, gru, matched_encoders
from xmr_core.methods.method import Method
from xmr_core.similarities.match_logit import MatchLogit


def pcme(
    inputs: Inputs,
    form: str = "matched",
    d: int = 128,
    samples: int = 7,
    spread: str = "per dimension",
    squash: bool = False,
    scale: float = 5.0,
    shift: float = 5.0,
    log_std_start: float = -3.0,
    kl: float = 1e-5,
    uniform: float = 0.0,
    dropout: float = 0.1,
) -> Method:
    """PCME: a mean and a σ per dimension, match probability over samples. Chun et al., CVPR 2021.

    spread: 'per dimension', 'isotropic', or 'none' (μ only). scale, shift: a and b at the start (15 on COCO, 5 on CUB).
    log_std_start: log σ at the start; from the authors' 0 the few epochs of a matched run go into shrinking σ.
    matched: the common encoders; its own loss, which asks every pair, is what the paper is about and stays. published: d =
    1024, σ of captions from a second bi-GRU, both regularisers in the official form (X-13, X-14).
    """
    shape = {"samples": samples, "spread": spread, "squash": squash, "log_std_start": log_std_start}
    similarity = MatchLogit(scale, shift)
    if form == "matched":
        image, text = matched_encoders(inputs, d, dropout, local="words")
        heads = (GaussianHead(d, d, "global", seed=1, **shape), GaussianHead(text.local_width, d, "global", seed=2, **shape))
        regularisers = {"kl": (kl, _exactly(kl_to_normal)), "uniformity": (uniform, _exactly(uniformity))}
    else:
        image = PooledEncoder(inputs.image_width, d)
        text = gru(inputs, d, summary="concatenate-last-token", dropout=0.0)
        heads = (GaussianHead(inputs.image_width, d, "pooled", seed=1, **shape), GaussianHead(inputs.word_dim, d, "gru", seed=2, **shape))
        regularisers = {"kl": (kl, kl_to_normal), "uniformity": (uniform, uniformity)}
    if spread == "none":
        regularisers = {}  # there is no σ to keep from collapsing
    return Method("pcme", image, text, *heads, similarity, Objective(soft_contrastive, regularisers))


def _exactly(regulariser):
    return lambda images, captions: regulariser(images, captions, "exact")
