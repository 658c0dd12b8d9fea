"""CHAN: every word takes its best region and nothing else. Mathematics: docs/methods/chan.md."""

from dataclasses import dataclass

from xmr_core.encoders.image import LinearRegions, SelfAttentionRegions
from xmr_core.heads.tokens import TokenHead
from xmr_core.methods.common import VSE_DROPS, MatchedOptions, gru, hinge, matched_encoders, matched_objective
from xmr_core.methods.method import Inputs, Method
from xmr_core.methods.registry import MethodSpec, option
from xmr_core.similarities.chan import CODINGS, POOLINGS, Chan


@dataclass(frozen=True)
class CHANOptions(MatchedOptions):
    """Options of CHAN. LSE is divided in the matched form, so that a temperature there means what it means for other
    methods, and undivided in the published one, as in the authors' code (docs/differences.md#x-85).
    """

    coding: str = option("vha", "vha: words take regions, tha: regions words, vsa: attended words", choices=CODINGS)
    pooling: str = option("lse", "how the queries of an item are joined", choices=POOLINGS)
    alpha: float = option(0.1, "temperature of the soft assignment, for 'vsa'", above=0)
    beta: float = option(0.1, "temperature of the poolings 'lse' and 'softmax'", above=0)
    divide: bool = option(True, "LSE times β, on the scale of cosines; False leaves it as the authors compute it")
    warmup_epochs: int = option(1, "epochs of all negatives before the hardest, for the hinge", least=0)
    self_attention: bool = option(True, "between regions, as the authors' bi-GRU models; not BERT's", form="published")


def _similarity(o: CHANOptions) -> Chan:
    return Chan(o.coding, o.pooling, o.alpha, o.beta, o.divide)


def matched(inputs: Inputs, o: CHANOptions) -> Method:
    """Hard assignment over the tokens of the common encoders, under the common objective."""
    image, text = matched_encoders(inputs, o.d, o.dropout, local="states")
    heads = (TokenHead(o.d, o.d), TokenHead(text.local_width, o.d))
    return Method("chan", image, text, *heads, _similarity(o), matched_objective(o))


def published(inputs: Inputs, o: CHANOptions) -> Method:
    """The bi-GRU form as the authors trained it: self-attention between regions, and the summed hinge with one epoch of
    all negatives before the hardest. The attention is masked here (docs/differences.md#x-88).
    """
    image = (SelfAttentionRegions if o.self_attention else LinearRegions)(inputs.image_width, o.d)
    text = gru(inputs, o.d, summary="average", local="states", dropout=0.0)
    loss = hinge(o.margin, warmup_epochs=o.warmup_epochs)
    return Method("chan", image, text, TokenHead(o.d, o.d), TokenHead(text.local_width, o.d), _similarity(o), loss)


_SETTINGS = {"lr": 5e-4, "weight_decay": 1e-2, "epochs": 25, "decay_every": 15, "batch_images": 384, **VSE_DROPS}
SPEC = MethodSpec(
    id="chan",
    label="CHAN",
    summary="Hard assignment: every word takes its best region, and a soft maximum over words is the score.",
    citation="Pan et al., CVPR 2023",
    options=CHANOptions,
    matched=matched,
    published=published,
    published_options={"d": 1024, "margin": 0.05, "divide": False},
    settings={corpus: _SETTINGS for corpus in ("f30k", "coco")},
)
