"""PVSE: a set of views by self-attention, the best pair counts. Mathematics: docs/methods/pvse.md."""

from dataclasses import dataclass
from functools import partial

from xmr_core.encoders.image import PooledEncoder
from xmr_core.encoders.text import LOCALS
from xmr_core.heads.slots import PIENet
from xmr_core.losses.regularisers import gram_diversity, mmd
from xmr_core.losses.scores import MINING
from xmr_core.methods.common import MatchedOptions, gru, hinge, matched_encoders, matched_objective, on_both
from xmr_core.methods.method import Inputs, Method
from xmr_core.methods.registry import MethodSpec, option
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.nested import Nested
from xmr_core.similarities.sets import MaxPairwise


@dataclass(frozen=True)
class PVSEOptions(MatchedOptions):
    """Options of PVSE."""

    margin: float = option(0.1, "margin of the hinge", above=0)
    slots: int = option(4, "embeddings per item, K", least=1, most=1024)
    diversity: float = option(0.1, "weight of the diversity loss", least=0)
    mmd_weight: float = option(0.01, "weight of the maximum mean discrepancy", least=0)
    mining: str = option("hardest", "negatives of the hinge", choices=MINING, added=True)
    nested: bool = option(False, "train the first 1, 2, 4, … elements to stand alone too", added=True)
    text_local: str = option("words", "what the head of captions reads", choices=LOCALS, form="matched", added=True)
    legacy_text: bool = option(True, "caption summary of the released checkpoints", form="published")


def _regularisers(o: PVSEOptions) -> dict:
    """Both regularisers; a single embedding has nothing to keep apart."""
    diversity = partial(on_both, regulariser=gram_diversity)
    return {"diversity": (o.diversity, diversity), "mmd": (o.mmd_weight, mmd)} if o.slots > 1 else {}


def _similarity(o: PVSEOptions) -> Similarity:
    return Nested.doubling(MaxPairwise(), o.slots) if o.nested else MaxPairwise()


def matched(inputs: Inputs, o: PVSEOptions) -> Method:
    """PIE-Net on the common encoders, under the common objective and the paper's two regularisers."""
    image, text = matched_encoders(inputs, o.d, o.dropout, local=o.text_local)
    heads = (PIENet(o.d, o.d, o.slots, dropout=o.dropout), PIENet(text.local_width, o.d, o.slots, dropout=o.dropout))
    return Method("pvse", image, text, *heads, _similarity(o), matched_objective(o, _regularisers(o), o.mining))


def published(inputs: Inputs, o: PVSEOptions) -> Method:
    """As the authors trained it: two embeddings of width 1,024 and the mean hinge."""
    image = PooledEncoder(inputs.image_width, o.d)
    text = gru(inputs, o.d, summary="concatenate-last-token" if o.legacy_text else "concatenate", dropout=0.0)
    heads = (PIENet(inputs.image_width, o.d, o.slots), PIENet(inputs.word_dim, o.d, o.slots))
    reduction = "mean" if o.mining == "semi-hard" else "batch_mean"  # the authors' mean has no semi-hard form
    loss = hinge(o.margin, reduction, o.mining, regularisers=_regularisers(o))
    return Method("pvse", image, text, *heads, _similarity(o), loss)


SPEC = MethodSpec(
    id="pvse",
    label="PVSE",
    summary="K embeddings per item by PIE-Net; the best pair counts (MIL).",
    citation="Song & Soleymani, CVPR 2019",
    options=PVSEOptions,
    matched=matched,
    published=published,
    published_options={"d": 1024, "slots": 2},
    settings={"coco": {"lr": 2e-4, "epochs": 30, "schedule": "constant", "batch_images": 256, "slots": 2}},
    # its summary reads the backward state at the last token, which has seen one word and no state before it
    untrained=("caption_encoder.rnn.weight_hh_l0_reverse",),
)
