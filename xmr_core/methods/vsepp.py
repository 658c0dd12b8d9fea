"""VSE++: one vector per item. Mathematics: docs/methods/vsepp.md."""

from dataclasses import dataclass

from xmr_core.encoders.image import PooledEncoder
from xmr_core.heads.pooling import GlobalHead
from xmr_core.losses.scores import MINING
from xmr_core.methods.common import MatchedOptions, gru, hinge, matched_encoders, matched_objective
from xmr_core.methods.method import Inputs, Method
from xmr_core.methods.registry import MethodSpec, option
from xmr_core.similarities.vectors import Cosine, Order

_MEASURES = {"cosine": Cosine, "order": Order}


@dataclass(frozen=True)
class VSEPPOptions(MatchedOptions):
    """Options of VSE++. mining='all' with normalise_images=False is VSE0 (docs/differences.md#x-61)."""

    mining: str = option("hardest", "negatives of the published hinge", choices=MINING, form="published")
    normalise_images: bool = option(True, "give image vectors unit length", form="published")
    measure: str = option("cosine", "'order' scores how far absolute values violate an order", choices=_MEASURES)


def matched(inputs: Inputs, o: VSEPPOptions) -> Method:
    """The single-vector baseline: the encoders' global vectors (cells averaged, the maximum over bi-GRU states)."""
    absolute = o.measure == "order"
    encoders = matched_encoders(inputs, o.d, o.dropout, local="words")
    heads = (GlobalHead(absolute=absolute), GlobalHead(absolute=absolute))
    return Method("vse++", *encoders, *heads, _MEASURES[o.measure](), matched_objective(o))


def published(inputs: Inputs, o: VSEPPOptions) -> Method:
    """As the authors trained it: the last GRU state, the hinge summed over hardest negatives from the start."""
    absolute = o.measure == "order"
    image = PooledEncoder(inputs.image_width, o.d, normalise_input=True, init="xavier")
    text = gru(inputs, o.d, summary="last", dropout=0.0, init="uniform")
    loss = hinge(o.margin, mining=o.mining)
    heads = (GlobalHead(o.normalise_images, absolute), GlobalHead(absolute=absolute))
    return Method("vse++", image, text, *heads, _MEASURES[o.measure](), loss)


SPEC = MethodSpec(
    id="vse++",
    label="VSE++",
    summary="One vector per item, cosine, hardest negatives.",
    citation="Faghri et al., BMVC 2018",
    options=VSEPPOptions,
    matched=matched,
    published=published,
    published_options={"d": 1024},
    settings={corpus: {"lr": 2e-4, "epochs": 30, "decay_every": 15} for corpus in ("f30k", "coco")},
    special=[("", {"measure": "order"}, {"lr": 1e-3, "margin": 0.05})],
)
