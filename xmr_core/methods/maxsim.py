"""MaxSim: late interaction, every token counts its best partner. Mathematics: docs/methods/maxsim.md."""

from dataclasses import dataclass

from xmr_core.heads.tokens import TokenHead
from xmr_core.methods.claim import Claim
from xmr_core.methods.common import Inputs, MatchedOptions, matched_encoders, matched_objective
from xmr_core.methods.method import Method
from xmr_core.methods.options import option
from xmr_core.methods.spec import MethodSpec
from xmr_core.similarities.sum_max import QUERIES, SUMS, SumMax


@dataclass(frozen=True)
class MaxSimOptions(MatchedOptions):
    """Options of MaxSim.

    A plain sum is as large as the query is long. Divided by a small temperature it saturates the loss from the first
    step, and it favours long captions when an image ranks them; so the default is the mean.
    """

    direction: str = option(
        "t2i", "whose elements look for partners: words ('t2i'), regions ('i2t') or 'both'", choices=QUERIES
    )
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
    pairwise=True,
    variants={"MaxSim t-i": _T2I, "MaxSim i-t": _I2T, "MaxSim both": _BOTH},
    ablations={
        "length": {
            "MaxSim mean": ("maxsim", {**_T2I, "aggregate": "mean"}),
            "MaxSim sum": ("maxsim", {**_T2I, "aggregate": "sum"}),
            # about ten words in a caption: the temperature in proportion tells the length of a caption from the scale
            "MaxSim sum, τ=0.5": ("maxsim", {**_T2I, "aggregate": "sum", "temperature": 0.5}),
        },
    },
    claims=(
        Claim(
            "maxsim-one-vector",
            "ours, after ColBERT",
            "Late interaction beats one vector.",
            ("MaxSim t-i",),
            ("VSE++", "VSE∞"),
            family="successors",
        ),
        Claim(
            "maxsim-both",
            "ours, after DivE's Chamfer similarity",
            "Both directions beat either.",
            ("MaxSim both",),
            ("MaxSim t-i", "MaxSim i-t"),
            family="successors",
        ),
        Claim(
            "maxsim-scan-t2i",
            "ours, after SCAN, Table 3, with means for sums",
            "Attention to all regions beats the best region.",
            ("SCAN t-i",),
            ("MaxSim t-i",),
            family="successors",
        ),
        Claim(
            "maxsim-scan-i2t",
            "ours, after SCAN, Table 3, with means for sums",
            "Attention to all words beats the best word.",
            ("SCAN i-t",),
            ("MaxSim i-t",),
            family="successors",
        ),
        Claim(
            "maxsim-length",
            "ours",
            "The mean over words beats the sum.",
            ("MaxSim mean",),
            ("MaxSim sum",),
            family="successors",
        ),
    ),
)
