"""SGRAF: a pair is a graph of similarity vectors; reason over it, or filter it. Mathematics: docs/methods/sgraf.md."""

from dataclasses import dataclass

from xmr_core.encoders.image import LinearRegions
from xmr_core.heads.tokens import GlobalTokenHead
from xmr_core.methods.common import MatchedOptions, gru, hinge, matched_encoders, matched_objective
from xmr_core.methods.method import Inputs, Method
from xmr_core.methods.registry import MethodSpec, option
from xmr_core.similarities.sgraf import PARTS, REASONERS, JointSgraf, Sgraf


@dataclass(frozen=True)
class SGRAFOptions(MatchedOptions):
    """Options of SGRAF. What the paper calls SGRAF is the mean of the scores of an 'sgr' and a 'saf' trained apart."""

    reasoner: str = option("sgr", "graph reasoning, filtration, a plain mean, or both", choices=(*REASONERS, "joint"))
    m: int = option(64, "width of a similarity vector", least=1)
    steps: int = option(3, "steps of graph reasoning", least=1, most=1000)
    direction: str = option("t2i", "who asks: words ('t2i') or regions ('i2t')", choices=("t2i", "i2t"))
    parts: str = option("both", "nodes: of the local features, of the global ones, or both", choices=PARTS)
    sharpness: float = option(9.0, "λ of the attention", above=0)


def _similarity(o: SGRAFOptions) -> Sgraf | JointSgraf:
    if o.reasoner == "joint":
        return JointSgraf(o.d, o.m, o.steps, o.direction, o.parts, o.sharpness)
    return Sgraf(o.d, o.reasoner, o.m, o.steps, o.direction, o.parts, o.sharpness)


def matched(inputs: Inputs, o: SGRAFOptions) -> Method:
    """Similarity nodes over the tokens of the common encoders, under the common objective."""
    similarity = _similarity(o)
    image, text = matched_encoders(inputs, o.d, o.dropout, local="states")
    heads = (GlobalTokenHead(o.d, o.d, dropout=o.dropout), GlobalTokenHead(text.local_width, o.d, dropout=o.dropout))
    return Method("sgraf", image, text, *heads, similarity, matched_objective(o))


def published(inputs: Inputs, o: SGRAFOptions) -> Method:
    """As the authors trained it: dropout 0.4 in encoder and self-attention, BatchNorm over region places
    (docs/differences.md#x-25), and the hinge summed over hardest negatives from the first step."""
    similarity = _similarity(o)
    image = LinearRegions(inputs.image_width, o.d)
    text = gru(inputs, o.d, summary="average", local="states", dropout=0.4, init="uniform")
    heads = (GlobalTokenHead(o.d, o.d, regions=inputs.cells), GlobalTokenHead(o.d, o.d))
    return Method("sgraf", image, text, *heads, similarity, hinge(o.margin))


SPEC = MethodSpec(
    id="sgraf",
    label="SGRAF",
    summary="Similarity graph reasoning ('sgr'), attention filtration ('saf'), both ('joint') or the plain mean.",
    citation="Diao et al., AAAI 2021",
    options=SGRAFOptions,
    matched=matched,
    published=published,
    published_options={"d": 1024, "m": 256},
    settings={
        "f30k": {"lr": 2e-4, "epochs": 40, "decay_every": 30},
        "coco": {"lr": 2e-4, "epochs": 20, "decay_every": 10},
    },
    special=[("f30k", {"reasoner": "saf"}, {"epochs": 30, "decay_every": 20})],
    variants={"SAF": {"reasoner": "saf"}, "SGR": {"reasoner": "sgr"}, "SGRAF, joint": {"reasoner": "joint"}},
)
