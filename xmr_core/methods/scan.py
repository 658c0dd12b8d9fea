"""SCAN: every word attends to all regions, or every region to all words. Mathematics: docs/methods/scan.md."""

from dataclasses import dataclass

from xmr_core.encoders.image import LinearRegions
from xmr_core.heads.tokens import TokenHead
from xmr_core.methods.common import MatchedOptions, gru, hinge, matched_encoders, matched_objective
from xmr_core.methods.method import Inputs, Method
from xmr_core.methods.registry import MethodSpec, option
from xmr_core.similarities.base import DIRECTIONS
from xmr_core.similarities.pairs import NORMALISATIONS
from xmr_core.similarities.scan import AGGREGATIONS, Scan

_SHARPNESS, _LSE = {"t2i": 9.0, "i2t": 4.0}, {"t2i": 6.0, "i2t": 5.0}


@dataclass(frozen=True)
class SCANOptions(MatchedOptions):
    """Options of SCAN. The paper's λ₁ is 9 for t2i and 4 for i2t, its λ₂ is 6 for t2i and 5 for i2t (20 on COCO)."""

    direction: str = option("t2i", "who asks: words ('t2i') or regions ('i2t')", choices=DIRECTIONS)
    aggregate: str = option("mean", "how the queries of an item are joined", choices=AGGREGATIONS)
    normalise: str = option("clipped_l2norm", "what products undergo before the attention", choices=NORMALISATIONS)
    sharpness: float | None = option(None, "λ₁ of the attention; None takes the paper's for the direction", above=0)
    lse_scale: float | None = option(None, "λ₂ of 'lse'; None takes the paper's for the direction", above=0)
    unit_regions: bool = option(True, "bring regions to unit length", added=True)


def _similarity(o: SCANOptions) -> Scan:
    sharpness, lse_scale = o.sharpness or _SHARPNESS[o.direction], o.lse_scale or _LSE[o.direction]
    return Scan(o.direction, sharpness, o.aggregate, lse_scale, o.normalise)


def matched(inputs: Inputs, o: SCANOptions) -> Method:
    """Cross attention over the tokens of the common encoders, under the common objective."""
    image, text = matched_encoders(inputs, o.d, o.dropout, local="states")
    heads = (TokenHead(o.d, o.d, o.unit_regions), TokenHead(text.local_width, o.d))
    return Method("scan", image, text, *heads, _similarity(o), matched_objective(o))


def published(inputs: Inputs, o: SCANOptions) -> Method:
    """As the authors trained it: no dropout, and the hinge summed over hardest negatives from the first step."""
    image = LinearRegions(inputs.image_width, o.d)
    text = gru(inputs, o.d, summary="average", local="states", dropout=0.0, init="uniform")
    heads = (TokenHead(o.d, o.d, o.unit_regions), TokenHead(text.local_width, o.d))
    return Method("scan", image, text, *heads, _similarity(o), hinge(o.margin))


SPEC = MethodSpec(
    id="scan",
    label="SCAN",
    summary="Stacked cross attention over tokens.",
    citation="Lee et al., ECCV 2018",
    options=SCANOptions,
    matched=matched,
    published=published,
    published_options={"d": 1024},
    settings={
        "f30k": {"lr": 2e-4, "epochs": 30, "decay_every": 15},
        "coco": {"lr": 5e-4, "epochs": 20, "decay_every": 10},
    },
    special=[("coco", {"direction": "i2t", "aggregate": "lse"}, {"lse_scale": 20.0})],  # λ₂
    variants={"SCAN t-i": {"direction": "t2i"}, "SCAN i-t": {"direction": "i2t"}},
)
