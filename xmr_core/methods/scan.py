"""SCAN: every word attends to all regions, or every region to all words. Mathematics: docs/methods/scan.md."""

from dataclasses import dataclass
from functools import partial

from xmr_core.encoders.regions import LinearRegions
from xmr_core.heads.tokens import TokenHead
from xmr_core.losses.objective import Objective
from xmr_core.losses.triplet import hinge_triplet
from xmr_core.methods.claim import Claim, Measure
from xmr_core.methods.common import Inputs, MatchedOptions, gru, matched_encoders, matched_objective
from xmr_core.methods.method import Method
from xmr_core.methods.options import option
from xmr_core.methods.spec import MethodSpec
from xmr_core.similarities.attend import NORMALISATIONS
from xmr_core.similarities.base import DIRECTIONS
from xmr_core.similarities.scan import AGGREGATIONS, Scan

_SHARPNESS, _LSE = {"t2i": 9.0, "i2t": 4.0}, {"t2i": 6.0, "i2t": 5.0}


@dataclass(frozen=True)
class SCANOptions(MatchedOptions):
    """Options of SCAN. The paper's λ₁ is 9 for t2i and 4 for i2t, its λ₂ is 6 for t2i and 5 for i2t (20 on COCO)."""

    direction: str = option("t2i", "who asks: words ('t2i') or regions ('i2t')", choices=DIRECTIONS)
    aggregate: str = option("mean", "how the queries of an item are joined", choices=AGGREGATIONS)
    normalise: str = option(
        "clipped_l2norm", "what is done to the products before the attention", choices=NORMALISATIONS
    )
    sharpness: float | None = option(None, "λ₁ of the attention; None takes the paper's for the direction", above=0)
    lse_scale: float | None = option(
        None, "λ₂ of the aggregation 'lse'; None takes the paper's for the direction", above=0
    )
    unit_regions: bool = option(True, "bring regions to unit length", added=True)


def _similarity(o: SCANOptions) -> Scan:
    return Scan(
        direction=o.direction,
        aggregate=o.aggregate,
        normalise=o.normalise,
        sharpness=o.sharpness or _SHARPNESS[o.direction],
        lse_scale=o.lse_scale or _LSE[o.direction],
    )


def matched(inputs: Inputs, o: SCANOptions) -> Method:
    """Cross attention over the tokens of the common encoders, under the common objective."""
    image, text = matched_encoders(inputs, o.d, o.dropout, local="states")
    heads = (TokenHead(o.d, o.d, o.unit_regions), TokenHead(text.local_width, o.d))
    return Method("scan", image, text, *heads, _similarity(o), matched_objective(o))


def published(inputs: Inputs, o: SCANOptions) -> Method:
    """As the authors trained it: no dropout, and the hinge summed over hardest negatives from the first step."""
    image = LinearRegions(inputs.image_width, o.d)
    text = gru(inputs, o.d, summary="average", local="states", dropout=0.0, init="uniform")
    loss = Objective(partial(hinge_triplet, margin=o.margin, reduction="sum"))
    heads = (TokenHead(o.d, o.d, o.unit_regions), TokenHead(text.local_width, o.d))
    return Method("scan", image, text, *heads, _similarity(o), loss)


_AGGREGATION = {  # Table 1
    "SCAN t-i LSE": ("scan", {"direction": "t2i", "aggregate": "lse"}),
    "SCAN t-i": ("scan", {"direction": "t2i"}),
    "SCAN i-t LSE": ("scan", {"direction": "i2t", "aggregate": "lse"}),
    "SCAN i-t": ("scan", {"direction": "i2t"}),
}
_HINGE = {"direction": "i2t", "objective": "triplet"}
_CONFIGURATION = {  # Table 4, under the loss that has hard negatives: they never come where the warm-up does not end
    "SCAN i-t, hinge": ("scan", _HINGE),
    "SCAN i-t, hinge, all negatives": ("scan", {**_HINGE, "warmup_epochs": 10_000}),
    "SCAN i-t, hinge, regions of any length": ("scan", {**_HINGE, "unit_regions": False}),
    "SCAN i-t, hinge, SUM": ("scan", {**_HINGE, "aggregate": "sum"}),
    "SCAN i-t, hinge, MAX": ("scan", {**_HINGE, "aggregate": "max"}),
}


def _claims() -> tuple[Claim, ...]:
    """The sum of best partners is MaxSim's. Over regions, of which every image has as many, it differs from their mean
    by a factor alone, which the learned temperature holds."""
    table1, table3, table4 = (f"SCAN, Table {n}" for n in (1, 3, 4))
    t2i, i2t, hinge = ("SCAN t-i",), ("SCAN i-t",), ("SCAN i-t, hinge",)
    sums = {"t2i": ("MaxSim sum, τ=0.5",), "i2t": ("MaxSim i-t",)}
    first = Measure("R@1 annotated, i2t", "annotated", "i2t", "recall", 1, 100)
    ensemble, either, one = ("SCAN t-i + SCAN i-t",), (*t2i, *i2t), ("VSE++",)
    poorer = tuple(f"SCAN i-t, hinge, {aggregate}" for aggregate in ("SUM", "MAX"))
    return (
        Claim("scan-ensemble", table1, "t-i and i-t averaged beat either.", ensemble, either),
        Claim("scan-vsepp", table1, "Cross attention beats one vector.", either, one),
        Claim(
            "scan-direction",
            f"{table1} (Flickr30K; Table 2, COCO, has the reverse)",
            "i-t beats t-i from image to text.",
            i2t,
            t2i,
            first,
        ),
        Claim("scan-sum-max-t2i", table3, "Attention beats the sum of best regions.", t2i, sums["t2i"]),
        Claim("scan-sum-max-i2t", table3, "Attention beats the sum of best words.", i2t, sums["i2t"]),
        Claim("scan-sum-max-vsepp", table3, "The sum of best partners beats one vector.", sum(sums.values(), ()), one),
        Claim("scan-hard", table4, "Hard negatives help.", hinge, ("SCAN i-t, hinge, all negatives",)),
        Claim("scan-mean", table4, "SUM and MAX are below AVG.", hinge, poorer),
    )


SPEC = MethodSpec(
    id="scan",
    label="SCAN",
    summary="Stacked cross attention over tokens.",
    citation="Lee et al., ECCV 2018",
    options=SCANOptions,
    matched=matched,
    pairwise=True,
    published=published,
    published_options={"d": 1024},
    settings={
        "f30k": {"lr": 2e-4, "epochs": 30, "decay_every": 15},
        "coco": {"lr": 5e-4, "epochs": 20, "decay_every": 10},
    },
    special=[("coco", {"direction": "i2t", "aggregate": "lse"}, {"lse_scale": 20.0})],  # λ₂
    variants={"SCAN t-i": {"direction": "t2i"}, "SCAN i-t": {"direction": "i2t"}},
    ablations={"aggregation": _AGGREGATION, "configuration": _CONFIGURATION},
    claims=_claims(),
)
