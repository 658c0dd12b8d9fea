"""VSE∞: one vector per item, pooled by a learned operator. Mathematics: docs/methods/vse_infty.md."""

from dataclasses import dataclass

from xmr_core.encoders.image import ResidualRegions
from xmr_core.heads.pooling import AGGREGATORS, aggregator
from xmr_core.methods.common import VSE_DROPS, MatchedOptions, gru, hinge, matched_encoders, matched_objective
from xmr_core.methods.method import Inputs, Method
from xmr_core.methods.registry import MethodSpec, option
from xmr_core.similarities.vectors import Cosine


@dataclass(frozen=True)
class VSEInftyOptions(MatchedOptions):
    """Options of VSE∞. Other poolings are those of VSE+2AD's Table 4."""

    warmup_epochs: int = option(1, "epochs of all negatives before the hardest, for the hinge", least=0)
    pooling: str = option("gpo", "the operator that pools local features", choices=AGGREGATORS)
    widen: float = option(1, "width of the vector over d, by the pooling's layer", above=0, form="matched", added=True)


def matched(inputs: Inputs, o: VSEInftyOptions) -> Method:
    """The pooling operator on the common encoders, under the common objective."""
    image, text = matched_encoders(inputs, o.d, o.dropout, local="states")
    width = round(o.d * o.widen)
    heads = (aggregator(o.pooling, o.d, width), aggregator(o.pooling, text.local_width, width))
    return Method("vse-infty", image, text, *heads, Cosine(), matched_objective(o))


def published(inputs: Inputs, o: VSEInftyOptions) -> Method:
    """As the authors trained it: regions through a linear layer plus an MLP, one epoch of all negatives before the
    hardest.
    """
    image = ResidualRegions(inputs.image_width, o.d)
    text = gru(inputs, o.d, summary="average", local="states", dropout=0.0, init="uniform")
    loss = hinge(o.margin, warmup_epochs=o.warmup_epochs)
    heads = (aggregator(o.pooling, o.d, o.d), aggregator(o.pooling, text.local_width, o.d))
    return Method("vse-infty", image, text, *heads, Cosine(), loss)


_SETTINGS = {"lr": 5e-4, "weight_decay": 1e-2, "epochs": 25, "decay_every": 15, **VSE_DROPS}
SPEC = MethodSpec(
    id="vse-infty",
    label="VSE∞",
    summary="Generalised pooling operator in both modalities, cosine.",
    citation="Chen et al., CVPR 2021",
    options=VSEInftyOptions,
    matched=matched,
    published=published,
    published_options={"d": 1024},
    settings={corpus: _SETTINGS for corpus in ("f30k", "coco")},
)
