"""MaxSim: late interaction, every token counts its best partner. Mathematics: docs/methods/maxsim.md."""

from dataclasses import dataclass

from xmr_core.heads.tokens import TokenHead
from xmr_core.methods.common import MatchedOptions, matched_encoders, matched_objective
from xmr_core.methods.method import Inputs, Method
from xmr_core.methods.registry import MethodSpec, option
from xmr_core.similarities.maxsim import QUERIES, SUMS, SumMax


@dataclass(frozen=True)
class MaxSimOptions(MatchedOptions):
    """Options of MaxSim.

    A plain sum is as large as the query is long. Divided by a small temperature it saturates the loss from the first
    step, and it favours long captions when an image ranks them; so the default is the mean.
    """

    direction: str = option("t2i", "who looks for partners: words ('t2i'), regions ('i2t'), both", choices=QUERIES)
    aggregate: str = option("mean", "how the query elements are joined", choices=SUMS)


def matched(inputs: Inputs, o: MaxSimOptions) -> Method:
    """Late interaction over the tokens of the common encoders, under the common objective."""
    image, text = matched_encoders(inputs, o.d, o.dropout, local="states")
    heads = (TokenHead(o.d, o.d), TokenHead(text.local_width, o.d))
    return Method("maxsim", image, text, *heads, SumMax(o.direction, o.aggregate), matched_objective(o))


_T2I, _I2T, _BOTH = ({"direction": direction} for direction in ("t2i", "i2t", "both"))

SPEC = MethodSpec(
    id="maxsim",
    label="MaxSim",
    summary="Late interaction: every word counts its best region, every region its best word, or both.",
    citation="Khattab & Zaharia, SIGIR 2020 (ColBERT)",
    options=MaxSimOptions,
    matched=matched,
    variants={"MaxSim t-i": _T2I, "MaxSim i-t": _I2T, "MaxSim both": _BOTH},
)
