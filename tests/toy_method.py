"""A method outside the package, in one file: trained MaxSim with a variant and no publication."""

from dataclasses import dataclass

from xmr_core.heads.tokens import TokenHead
from xmr_core.methods.common import Inputs, MatchedOptions, matched_encoders, matched_objective
from xmr_core.methods.method import Method
from xmr_core.methods.registry import MethodSpec, option
from xmr_core.similarities.maxsim import SumMax


@dataclass(frozen=True)
class MaxSimOptions(MatchedOptions):
    """direction: who looks for a partner."""

    direction: str = option("t2i", "who looks for a partner: words ('t2i') or regions ('i2t')", choices=("t2i", "i2t"))


def matched(inputs: Inputs, o: MaxSimOptions) -> Method:
    """Every word counts its best region."""
    image, text = matched_encoders(inputs, o.d, o.dropout, local="states")
    heads = (TokenHead(o.d, o.d), TokenHead(text.local_width, o.d))
    return Method("toy-maxsim", image, text, *heads, SumMax(o.direction), matched_objective(o))


SPEC = MethodSpec(
    id="toy-maxsim",
    label="Toy MaxSim",
    summary="Each word counts its best region.",
    citation="Khattab & Zaharia, SIGIR 2020",
    options=MaxSimOptions,
    matched=matched,
    variants={"Toy MaxSim": {}, "Toy MaxSim i2t": {"direction": "i2t"}},
)
