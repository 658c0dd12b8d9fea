"""DivE: a set of slots, compared softly. Mathematics: docs/methods/dive.md."""

from dataclasses import dataclass
from functools import partial

from xmr_core.encoders.image import RegionEncoder
from xmr_core.losses.diversity import pairwise_diversity
from xmr_core.losses.mmd import mmd
from xmr_core.losses.objective import Objective
from xmr_core.losses.triplet import hinge_triplet
from xmr_core.methods.claim import VARIANCE, Claim
from xmr_core.methods.common import (
    SET_HEADS,
    SET_SIMILARITIES,
    Inputs,
    MatchedOptions,
    gru,
    matched_encoders,
    matched_objective,
    on_both,
    set_head,
    set_similarity,
)
from xmr_core.methods.method import Method
from xmr_core.methods.nested import nested_ablation, nested_claims
from xmr_core.methods.options import option
from xmr_core.methods.spec import MethodSpec
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.nested import Nested


@dataclass(frozen=True)
class DivEOptions(MatchedOptions):
    """Options of DivE. head: 'transformer' and 'pie-net' are those of Table 3. query 'sampled', update 'gru' and
    use_global=False are the variants of App. B.3. text_local: 'words' is the paper's, 'states' an option of the
    authors.
    """

    slots: int = option(4, "embeddings per item, K", least=1)
    iterations: int = option(4, "rounds of slot attention, T", least=1)
    alpha: float = option(16.0, "scale of smooth-Chamfer; DivE uses 16, and 1 to 64 is the usual range", above=0)
    similarity: str = option("smooth_chamfer", "the similarity of two sets", choices=SET_SIMILARITIES)
    head: str = option("slots", "what makes the sets", choices=SET_HEADS)
    query: str = option("learned", "where slots start", choices=("learned", "sampled"))
    update: str = option("residual", "how slots change in a round", choices=("residual", "gru"))
    use_global: bool = option(True, "add the global feature to every element")
    text_local: str = option("words", "what the slots of captions attend to", choices=("words", "states"))
    weight_sharing: bool = option(True, "use one block of weights in all rounds, as the paper does")
    diversity: float = option(0.01, "weight of the diversity loss", least=0)
    mmd_weight: float = option(0.01, "weight of the maximum mean discrepancy", least=0)
    nested: bool = option(False, "train the first 1, 2, 4, … elements to stand alone too", added=True)
    slot_lr: float = option(
        0.1, "factor on the learning rate of the image modality and the slots of captions", above=0, form="published"
    )


def _regularisers(o: DivEOptions) -> dict:
    return {"diversity": (o.diversity, on_both(pairwise_diversity)), "mmd": (o.mmd_weight, mmd)}


def _slots(o: DivEOptions) -> dict:
    shape = {"slots": o.slots, "iterations": o.iterations, "heads": 4, "dropout": o.dropout}
    variants = {"query": o.query, "update": o.update, "use_global": o.use_global, "weight_sharing": o.weight_sharing}
    return shape | variants


def _similarity(o: DivEOptions, learned_mp: bool) -> Similarity:
    similarity = set_similarity(o.similarity, o.alpha, learned_mp)
    return Nested.doubling(similarity, o.slots) if o.nested else similarity


def matched(inputs: Inputs, o: DivEOptions) -> Method:
    """Slots on the common encoders with correct masks, four heads of d/4 and a feed-forward of 2d, under the common
    objective and the paper's two small regularisers. The matched grid encoder has already added positions."""
    image, text = matched_encoders(inputs, o.d, o.dropout, local=o.text_local)
    shape = {**_slots(o), "head_width": o.d // 4, "ff_mult": 2}
    heads = (set_head(o.head, o.d, o.d, "none", shape), set_head(o.head, text.local_width, o.d, "sine1d", shape))
    return Method("dive", image, text, *heads, _similarity(o, True), matched_objective(o, _regularisers(o)))


def published(inputs: Inputs, o: DivEOptions) -> Method:
    """As the authors trained it: four heads of 512, padding as in their code (docs/differences.md#x-43 and #x-44), the
    mean hinge, and slower slots (docs/differences.md#x-49)."""
    image = RegionEncoder(inputs.image_width, o.d, o.dropout)
    text = gru(inputs, o.d, summary="average", local=o.text_local, dropout=o.dropout)
    shape = {**_slots(o), "head_width": 512, "padding": "official"}
    heads = (set_head(o.head, o.d, o.d, "none", shape), set_head(o.head, text.local_width, o.d, "sine1d", shape))
    loss = Objective(partial(hinge_triplet, margin=o.margin, mining="hardest", reduction="mean"), _regularisers(o))
    scales = {"image_encoder": o.slot_lr, "image_head": o.slot_lr, "caption_head": o.slot_lr}
    return Method("dive", image, text, *heads, _similarity(o, False), loss, scales)


_SETTINGS = {
    "lr": 1e-3, "weight_decay": 1e-4, "clip": 1.0, "epochs": 80, "schedule": "cosine", "batch_images": 200,
    "captions_per_image": 5, "unit": "images", "positives": "annotated", "cell_drop": 0.2, "word_drop": 0.2,
    "word_rule": "vse",
}  # fmt: skip
_SIMILARITY = {  # Table 3, with the single vector below it
    "single vector": ("vse++", {}),
    "MIL, slots": ("dive", {"similarity": "mil"}),
    "MP, slots": ("dive", {"similarity": "mp"}),
    "Chamfer, slots": ("dive", {"similarity": "chamfer"}),
    "smooth-Chamfer, PIE-Net": ("dive", {"head": "pie-net"}),
    "smooth-Chamfer, transformer": ("dive", {"head": "transformer"}),
    "smooth-Chamfer, slots": ("dive", {}),
}
_SLOT_ATTENTION = {  # App. B.3: what DivE changed in slot attention, taken back one by one
    "slots as in the paper": ("dive", {}),
    "sampled slots": ("dive", {"query": "sampled"}),
    "GRU update": ("dive", {"update": "gru"}),
    "without global feature": ("dive", {"use_global": False}),
}
_NESTED = nested_ablation("dive", "DivE")
_ALPHAS = (1, 2, 4, 8, 16, 32, 64)


def _claims() -> tuple[Claim, ...]:
    table3, table4, appendix = "DivE, Table 3", "DivE, Table 4", "DivE, App. B.3"
    sets, paper = ("smooth-Chamfer, slots",), ("slots as in the paper",)
    similarities, pie_net = ("MIL, slots", "MP, slots", "Chamfer, slots"), ("smooth-Chamfer, PIE-Net",)
    alphas = tuple(f"α={a}" for a in _ALPHAS)
    many, few = ("K=4", "K=5", "K=6"), ("K=1", "K=2", "K=3")
    ones = ("single vector",)

    def collapse(name: str, sentence: str, below: tuple[str, ...]) -> list[Claim]:
        source = f"{table3}, right"
        return [Claim(f"{name}-{m}", source, f"{sentence} ({m}).", sets, below, v) for m, v in VARIANCE.items()]

    return (
        Claim(
            "dive-sets",
            f"{table3} and B.1",
            "A set of embeddings beats a single vector under the same encoders.",
            sets,
            ones,
        ),
        Claim(
            "dive-similarity",
            table3,
            "Smooth-Chamfer beats MIL, MP and Chamfer under the same encoders.",
            sets,
            similarities,
        ),
        Claim("dive-smooth-mp", table3, "Smooth-Chamfer beats match probability.", sets, ("MP, slots",)),
        Claim("dive-smooth-mil", table3, "Smooth-Chamfer beats MIL.", sets, ("MIL, slots",)),
        Claim(
            "dive-slots",
            table3,
            "Slots beat PIE-Net and a transformer as makers of sets.",
            sets,
            (*pie_net, "smooth-Chamfer, transformer"),
        ),
        *collapse("dive-collapse-mp", "Match probability collapses the sets", ("MP, slots",)),
        *collapse("dive-collapse-pie-net", "PIE-Net's sets collapse", pie_net),
        Claim("dive-alpha-16", table4, "α = 16 is the best scale.", ("α=16",), tuple(a for a in alphas if a != "α=16")),
        Claim(
            "dive-alpha-large",
            table4,
            "Scales above 4 are all good: better than 1 to 4 on average.",
            alphas[3:],
            alphas[:3],
            rule="means",
        ),
        Claim("dive-k-4", table4, "Four elements are the best number.", ("K=4",), (*few, *many[1:])),
        Claim(
            "dive-k-large", table4, "More than three elements are better than one to three.", many, few, rule="means"
        ),
        Claim(
            "dive-t-large",
            table4,
            "More than two rounds are better than one or two.",
            ("T=3", "T=4", "T=5"),
            ("T=1", "T=2"),
            rule="means",
        ),
        Claim("dive-slots-learned", appendix, "Learned slots beat sampled ones.", paper, ("sampled slots",)),
        Claim("dive-slots-residual", appendix, "The residual update beats a GRU.", paper, ("GRU update",)),
        Claim("dive-slots-global", appendix, "Adding the global feature helps.", paper, ("without global feature",)),
        Claim("dive-vse-infty", "DivE, Table 1", "DivE beats VSE∞.", ("DivE",), ("VSE∞",)),
        Claim("dive-pvse", "DivE, Table 1", "DivE beats PVSE and PCME.", ("DivE",), ("PVSE", "PCME")),
    )


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
    ablations={"similarity": _SIMILARITY, "slot attention": _SLOT_ATTENTION, "nested": _NESTED},
    sweeps={"alpha": ("α", _ALPHAS), "slots": ("K", tuple(range(1, 7))), "iterations": ("T", tuple(range(1, 6)))},
    claims=(*_claims(), *nested_claims("dive", "DivE")),
    tiny={"iterations": 1},
)
