"""VSE+2AD: one vector per item, adaptive pooling and an adaptive objective. Mathematics: docs/methods/vse_2ad.md."""

from dataclasses import dataclass

from torch import nn

from xmr_core.base.errors import BadInput
from xmr_core.encoders.image import ResidualRegions
from xmr_core.heads.pooling import AGGREGATORS, LEVELS, TOKEN_WEIGHTS, AdaptivePoolHead, aggregator
from xmr_core.losses.adaptive_clustering import FORMS as ADOPT_FORMS
from xmr_core.losses.adaptive_clustering import MODES, AdaptiveClustering
from xmr_core.losses.objective import Objective
from xmr_core.methods.common import OBJECTIVES, MatchedOptions, gru, hinge, matched_encoders, matched_objective
from xmr_core.methods.method import Inputs, Method
from xmr_core.methods.registry import MethodSpec, option
from xmr_core.methods.vse_infty import SPEC as VSE_INFTY
from xmr_core.similarities.vectors import Cosine

_POOLINGS = ("adpool", "manual", *AGGREGATORS)
BALANCES = ("learned", "fixed", "random")


@dataclass(frozen=True)
class VSE2ADOptions(MatchedOptions):
    """Options of VSE+2AD. levels: Table 3. objective: the others are the paper's "−AdOpt". adopt: 'paper' takes the
    paper's equations where its code differs (docs/differences.md#x-33 to #x-36). pooling: Table 4, where 'manual' is
    the 5 largest values of each channel for images and the mean for captions. balance: Table C-2."""

    levels: str = option("both", "where pooling weights are adapted", choices=LEVELS)
    token_weights: str = option("matrix", "weights of tokens: per dimension, or one each", choices=TOKEN_WEIGHTS)
    objective: str = option("adopt", "loss on the scores", choices=("adopt", *OBJECTIVES))
    temperature: float = option(0.05, "temperature of AdOpt, and of InfoNCE or SigLIP at the start", least=0.01)
    mode: str = option("adaptive", "number of negatives", choices=MODES)
    adopt: str = option("official", "AdOpt as in the authors' code, or as in their paper", choices=ADOPT_FORMS)
    warmup_epochs: int = option(1, "epochs of all negatives before the hardest, for the hinge", least=0, form="matched")
    pooling: str = option("adpool", "the operator that pools local features", choices=_POOLINGS, added=True)
    balance: str = option("learned", "weight of AdPool's token level; random: drawn once", choices=BALANCES, added=True)
    token_share: float = option(0.5, "that weight where it is fixed", least=0, most=1, added=True)
    widen: float = option(1, "width of the vector over d, by the pooling's layer", above=0, form="matched", added=True)


def matched(inputs: Inputs, o: VSE2ADOptions) -> Method:
    """AdPool on the common encoders with correct masks; AdOpt without a positive among its own negatives."""
    image, text = matched_encoders(inputs, o.d, o.dropout, local="states")
    loss = _adopt(o, own_negatives=False) if o.objective == "adopt" else matched_objective(o)
    return _method(o, image, text, loss, padding="masked")


def published(inputs: Inputs, o: VSE2ADOptions) -> Method:
    """As the authors trained it: padding and negatives as in their code (docs/differences.md#x-30,
    docs/differences.md#x-32). Raises: BadInput for an objective that the authors did not have.
    """
    if o.objective not in ("adopt", "triplet"):
        raise BadInput(f"the published form of vse+2ad has objective 'adopt' or 'triplet', got {o.objective!r}.")
    image = ResidualRegions(inputs.image_width, o.d)
    text = gru(inputs, o.d, summary="average", local="states", dropout=0.0, init="uniform")
    loss = _adopt(o, own_negatives=True) if o.objective == "adopt" else hinge(o.margin)
    return _method(o, image, text, loss, padding="official")


def _adopt(o: VSE2ADOptions, own_negatives: bool) -> Objective:
    numbers = {"temperature": o.temperature, "margin": o.margin}
    return Objective(AdaptiveClustering(o.adopt, o.mode, own_negatives=own_negatives, **numbers))


def _method(o: VSE2ADOptions, image, text, loss: Objective, padding: str) -> Method:
    heads = _head(o, o.d, padding, "k-max"), _head(o, text.local_width, padding, "mean")
    return Method("vse+2ad", image, text, *heads, Cosine(), loss)


def _head(o: VSE2ADOptions, d_local: int, padding: str, manual: str) -> nn.Module:
    width = round(o.d * o.widen)
    if o.pooling != "adpool":
        return aggregator(manual if o.pooling == "manual" else o.pooling, d_local, width)
    balance = {"learned": None, "fixed": o.token_share, "random": "random"}[o.balance]
    shape = {"levels": o.levels, "token_weights": o.token_weights, "padding": padding}
    return AdaptivePoolHead(d_local, width, balance=balance, **shape)


SPEC = MethodSpec(
    id="vse+2ad",
    label="VSE+2AD",
    summary="Adaptive pooling (AdPool) and an adaptive objective (AdOpt) on VSE∞'s encoders.",
    citation="Zhang, Shu et al., EACL 2023",
    options=VSE2ADOptions,
    matched=matched,
    published=published,
    published_options={"d": 1024},
    settings=VSE_INFTY.settings,
)
