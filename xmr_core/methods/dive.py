"""DivE: a set of slots, compared softly. Mathematics: docs/methods/dive.md."""

from dataclasses import dataclass
from functools import partial

from torch import nn

from xmr_core.encoders.image import RegionEncoder
from xmr_core.heads.slots import PIENet, Projected, SlotHead
from xmr_core.losses.regularisers import mmd, pairwise_diversity
from xmr_core.methods.common import VSE_DROPS, MatchedOptions, gru, hinge, matched_encoders, matched_objective, on_both
from xmr_core.methods.method import Inputs, Method
from xmr_core.methods.registry import MethodSpec, option
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.nested import Nested
from xmr_core.similarities.sets import Chamfer, MatchProbability, MaxPairwise, SmoothChamfer

_SIMILARITIES = ("smooth_chamfer", "chamfer", "mil", "mp")


@dataclass(frozen=True)
class DivEOptions(MatchedOptions):
    """Options of DivE. head: 'transformer' and 'pie-net' are those of Table 3. query 'sampled', update 'gru' and
    use_global=False are the variants of App. B.3. text_local: 'words' is the paper's, 'states' an option of the
    authors.
    """

    slots: int = option(4, "embeddings per item, K", least=1, most=1024)
    iterations: int = option(4, "rounds of slot attention, T", least=1, most=1000)
    alpha: float = option(16.0, "scale of smooth-Chamfer; DivE uses 16, and 1 to 64 is the usual range", above=0)
    similarity: str = option("smooth_chamfer", "the similarity of two sets", choices=_SIMILARITIES)
    head: str = option("slots", "what makes the sets", choices=("slots", "transformer", "pie-net"))
    query: str = option("learned", "where slots start", choices=("learned", "sampled"))
    update: str = option("residual", "how slots change in a round", choices=("residual", "gru"))
    use_global: bool = option(True, "add the global feature to every element")
    text_local: str = option("words", "what the slots of captions attend to", choices=("words", "states"))
    weight_sharing: bool = option(True, "use one block of weights in all rounds, as the paper does")
    diversity: float = option(0.01, "weight of the diversity loss", least=0)
    mmd_weight: float = option(0.01, "weight of the maximum mean discrepancy", least=0)
    dropout: float = option(0.1, "share of features dropped in training", least=0, most=0.99)
    nested: bool = option(False, "train the first 1, 2, 4, … elements to stand alone too", added=True)
    widen: float = option(1, "width of an element over d, by a linear layer", above=0, form="matched", added=True)
    slot_lr: float = option(0.1, "learning rate of images and of captions' slots, relative", above=0, form="published")


def _regularisers(o: DivEOptions) -> dict:
    return {"diversity": (o.diversity, partial(on_both, regulariser=pairwise_diversity)), "mmd": (o.mmd_weight, mmd)}


def _heads(o: DivEOptions, d_captions: int, **shape) -> tuple[nn.Module, nn.Module]:
    """What makes the sets: slots, a transformer (attention over inputs in place of slots) or PIE-Net."""
    widths = {"none": o.d, "sine1d": d_captions}  # by the code of positions of each modality
    if o.head == "pie-net":
        return tuple(PIENet(width, o.d, o.slots, dropout=o.dropout) for width in widths.values())
    shape |= {"slots": o.slots, "iterations": o.iterations, "heads": 4, "dropout": o.dropout, "query": o.query}
    shape |= {"update": o.update, "use_global": o.use_global, "weight_sharing": o.weight_sharing}
    shape["softmax_over"] = "slots" if o.head == "slots" else "inputs"
    return tuple(SlotHead(width, o.d, positions=positions, **shape) for positions, width in widths.items())


def _similarity(o: DivEOptions, learned_mp: bool) -> Similarity:
    learned = partial(MatchProbability, learned=learned_mp)
    makers = {"smooth_chamfer": partial(SmoothChamfer, o.alpha), "chamfer": Chamfer, "mil": MaxPairwise, "mp": learned}
    similarity = makers[o.similarity]()
    return Nested.doubling(similarity, o.slots) if o.nested else similarity


def matched(inputs: Inputs, o: DivEOptions) -> Method:
    """Slots on the common encoders with correct masks, four heads of d/4 and a feed-forward of 2d, under the common
    objective and the paper's two small regularisers. The matched grid encoder has already added positions."""
    image, text = matched_encoders(inputs, o.d, o.dropout, local=o.text_local)
    heads = _heads(o, text.local_width, head_width=o.d // 4, ff_mult=2)
    if o.widen != 1:
        heads = tuple(Projected(head, o.d, round(o.d * o.widen)) for head in heads)
    return Method("dive", image, text, *heads, _similarity(o, True), matched_objective(o, _regularisers(o)))


def published(inputs: Inputs, o: DivEOptions) -> Method:
    """As the authors trained it: four heads of 512, padding as in their code (docs/differences.md#x-43 and #x-44), the
    mean hinge, and slower slots (docs/differences.md#x-49)."""
    image = RegionEncoder(inputs.image_width, o.d, o.dropout)
    text = gru(inputs, o.d, summary="average", local=o.text_local, dropout=o.dropout)
    heads = _heads(o, text.local_width, head_width=512, padding="official")
    loss = hinge(o.margin, "mean", regularisers=_regularisers(o))
    scales = {"image_encoder": o.slot_lr, "image_head": o.slot_lr, "caption_head": o.slot_lr}
    return Method("dive", image, text, *heads, _similarity(o, False), loss, scales)


_SETTINGS = {
    "lr": 1e-3, "weight_decay": 1e-4, "clip": 1.0, "epochs": 80, "schedule": "cosine", "batch_images": 200,
    "captions_per_image": 5, "unit": "images", "positives": "annotated", **VSE_DROPS,
}  # fmt: skip

SPEC = MethodSpec(
    id="dive",
    label="DivE",
    summary="Slot attention makes the set, smooth-Chamfer compares sets.",
    citation="Kim, Kim & Kwak, CVPR 2023",
    options=DivEOptions,
    matched=matched,
    published=published,
    published_options={"d": 1024},
    settings={corpus: {**_SETTINGS, "slot_lr": slot_lr} for corpus, slot_lr in (("f30k", 0.05), ("coco", 0.1))},
    variants={"DivE": {}, "DivE on GRU states": {"text_local": "states"}},
)
