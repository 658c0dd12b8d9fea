"""One function per paper: the four choices that make a method. Signatures list what the paper varies.

Every recipe has two forms. 'published': what produced the paper's numbers, official quirks included. 'matched': the
study's common protocol, same encoders, width, objective and correct masks for all, so that only what the paper is
about differs. METHODS names the switches X-nn.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from xmr_core.encoders.cnn import SmallCNN
from xmr_core.encoders.image import GridEncoder, PooledEncoder, RegionEncoder
from xmr_core.encoders.text import GRUEncoder
from xmr_core.errors import BadInput, unknown
from xmr_core.heads.pie_net import PIENet
from xmr_core.heads.pooling import GlobalHead
from xmr_core.heads.slots import SlotHead
from xmr_core.losses.diversity import gram_diversity, pairwise_diversity
from xmr_core.losses.infonce import InfoNCE
from xmr_core.losses.mmd import mmd
from xmr_core.losses.objective import Objective
from xmr_core.losses.triplet import hinge_triplet
from xmr_core.method import Method
from xmr_core.similarities.chamfer import chamfer, smooth_chamfer
from xmr_core.similarities.cosine import cosine
from xmr_core.similarities.match_probability import MatchProbability
from xmr_core.similarities.mil import max_pairwise

FORMS = ("matched", "published")
OBJECTIVES = ("infonce", "triplet")


@dataclass(frozen=True)
class Inputs:
    """What the corpus and its features give a recipe.

    image_width: width of frozen local features, 0 for raw pixels. cells: local features per picture. side: of a picture in
    pixels, for raw pixels. vocabulary: number of words. word_vectors: "vocabulary word_dim" or None. ordered_cells: False
    for detected regions, which have no fixed place.
    """

    image_width: int
    cells: int
    vocabulary: int
    word_dim: int = 64
    word_vectors: Tensor | None = None
    ordered_cells: bool = True
    side: int = 64


def vsepp(
    inputs: Inputs,
    form: str = "matched",
    d: int = 128,
    mining: str = "hardest",
    normalise_images: bool = True,
    objective: str = "infonce",
    margin: float = 0.2,
    warmup_epochs: int = 2,
    dropout: float = 0.1,
) -> Method:
    """VSE++: one vector per item, cosine, hardest negatives. Faghri et al., BMVC 2018.

    matched: mean-pooled image and bi-GRU caption vectors under the common objective: the single-vector baseline.
    published: d = 1024, summed hinge; mining='all' with normalise_images=False is VSE0 (X-61).
    """
    if form == "matched":
        encoders = _matched_encoders(inputs, d, dropout, local="words")
        return Method("vse++", *encoders, GlobalHead(), GlobalHead(), cosine, _objective(objective, margin, {}, warmup_epochs))
    image = PooledEncoder(inputs.image_width, d, normalise_input=True, init="xavier")
    text = _gru(inputs, d, summary="last", dropout=0.0, init="uniform")
    loss = Objective(partial(hinge_triplet, margin=margin, mining=mining, reduction="sum"))
    return Method("vse++", image, text, GlobalHead(normalise=normalise_images), GlobalHead(), cosine, loss)


def pvse(
    inputs: Inputs,
    form: str = "matched",
    d: int = 128,
    slots: int = 4,
    objective: str = "infonce",
    margin: float = 0.1,
    diversity: float = 0.1,
    mmd_weight: float = 0.01,
    legacy_text: bool = True,
    warmup_epochs: int = 2,
    dropout: float = 0.1,
) -> Method:
    """PVSE: K embeddings per item by PIE-Net, the best pair counts (MIL). Song & Soleymani, CVPR 2019.

    published: d = 1024, K = 2, mean hinge; legacy_text is the caption summary of the released checkpoints (METHODS §3).
    """
    regularisers = {"diversity": (diversity, _on_both(gram_diversity)), "mmd": (mmd_weight, mmd)} if slots > 1 else {}
    if form == "matched":
        image, text = _matched_encoders(inputs, d, dropout, local="words")
        heads = (PIENet(d, d, slots, dropout=dropout), PIENet(text.local_width, d, slots, dropout=dropout))
        return Method("pvse", image, text, *heads, max_pairwise, _objective(objective, margin, regularisers, warmup_epochs))
    image = PooledEncoder(inputs.image_width, d)
    text = _gru(inputs, d, summary="concatenate-last-token" if legacy_text else "concatenate", dropout=0.0)
    heads = (PIENet(inputs.image_width, d, slots), PIENet(inputs.word_dim, d, slots))
    loss = Objective(partial(hinge_triplet, margin=margin, reduction="batch_mean"), regularisers)
    return Method("pvse", image, text, *heads, max_pairwise, loss)


def dive(
    inputs: Inputs,
    form: str = "matched",
    d: int = 128,
    slots: int = 4,
    iterations: int = 4,
    alpha: float = 16.0,
    similarity: str = "smooth_chamfer",
    head: str = "slots",
    objective: str = "infonce",
    margin: float = 0.2,
    diversity: float = 0.01,
    mmd_weight: float = 0.01,
    warmup_epochs: int = 2,
    dropout: float = 0.1,
) -> Method:
    """DivE: slot attention makes the set, smooth-Chamfer compares sets. Kim, Kim & Kwak, CVPR 2023.

    similarity: 'smooth_chamfer', 'chamfer', 'mil', 'mp'. head: 'slots', 'transformer' (softmax over inputs, Table 3 right)
    or 'pie-net' (Table 3 left). matched: correct masks, 4 heads of d/4, feed-forward of 2d, the common objective plus the paper's two small
    regularisers. published: 4 heads × 512, padding as the authors' code (X-43, X-44), mean hinge, image side and text
    slots at a tenth of the learning rate (X-49).
    """
    regularisers = {
        "diversity": (diversity, _on_both(pairwise_diversity)),
        "mmd": (mmd_weight, mmd),
    }
    compare = _set_similarity(similarity, alpha, learned_mp=form == "matched")
    if form == "matched":
        image, text = _matched_encoders(inputs, d, dropout, local="words")
        shape = {"slots": slots, "iterations": iterations, "heads": 4, "head_width": d // 4, "ff_mult": 2, "dropout": dropout}
        image_head = _set_head(head, d, d, "none", shape)  # the matched grid encoder has already added place
        text_head = _set_head(head, text.local_width, d, "sine1d", shape)
        loss = _objective(objective, margin, regularisers, warmup_epochs)
        return Method("dive", image, text, image_head, text_head, compare, loss)
    image = RegionEncoder(inputs.image_width, d, dropout)
    text = _gru(inputs, d, summary="average", dropout=dropout)
    shape = {"slots": slots, "iterations": iterations, "heads": 4, "head_width": 512, "dropout": dropout, "padding": "official"}
    heads = (_set_head(head, d, d, "none", shape), _set_head(head, inputs.word_dim, d, "sine1d", shape))
    loss = Objective(partial(hinge_triplet, margin=margin, mining="hardest", reduction="mean"), regularisers)
    scales = {"image_encoder": 0.1, "image_head": 0.1, "caption_head": 0.1}
    return Method("dive", image, text, *heads, compare, loss, scales)


RECIPES: dict[str, Callable[..., Method]] = {"vse++": vsepp, "pvse": pvse, "dive": dive}

# What the papers set differently from the matched defaults above (METHODS (b) of each method).
PUBLISHED = {
    "vse++": {"d": 1024},
    "pvse": {"d": 1024, "slots": 2},
    "dive": {"d": 1024},
}


def build(method: str, inputs: Inputs, form: str = "matched", **options) -> Method:
    """The Method of a recipe by name.

    Raises: BadInput for an unknown method, form or option, or an option out of range.
    """
    if form not in FORMS:
        raise unknown("form", form, FORMS)
    check_options(method, options)
    return RECIPES[method](inputs, form, **options_in_full(method, form, options))


def options_of(method: str, preset_or_form: str = "matched") -> tuple[str, ...]:
    """Names of the options a recipe has; the published form has no choice of objective. Raises BadInput for an unknown method."""
    if method not in RECIPES:
        raise unknown("method", method, RECIPES)
    names = [name for name in inspect.signature(RECIPES[method]).parameters if name not in ("inputs", "form")]
    return tuple(n for n in names if not (preset_or_form == "published" and n in ("objective", "warmup_epochs")))


def options_in_full(method: str, form: str, options: dict) -> dict:
    """The options with every default filled in, so that a default said aloud and one left unsaid are the same run."""
    defaults = {n: p.default for n, p in inspect.signature(RECIPES[method]).parameters.items() if n in options_of(method)}
    return {**defaults, **(PUBLISHED[method] if form == "published" else {}), **options}


def check_options(method: str, options: dict) -> None:
    """Raise BadInput, naming the nearest known option, unless every option is one that the recipe has, in range."""
    known = options_of(method)
    for name in options:
        if name not in known:
            raise unknown(f"option of {method}", name, known)
    for name in ("alpha",):
        if name in options and not 0 < options[name] < float("inf"):
            raise BadInput(f"alpha must be a positive, finite number, got {options[name]}. DivE uses 16; 1 to 64 is the usual range.")
    for name in ("slots", "iterations", "d"):
        if name in options and options[name] < 1:
            raise BadInput(f"{name} must be at least 1, got {options[name]}.")


def _matched_encoders(inputs: Inputs, d: int, dropout: float, local: str) -> tuple[nn.Module, GRUEncoder]:
    """The encoders that every matched method shares."""
    if inputs.image_width:
        image = GridEncoder(inputs.image_width, d, inputs.cells if inputs.ordered_cells else 0, dropout)
    else:
        image = SmallCNN(d, inputs.side, dropout=dropout)
    return image, _gru(inputs, d, summary="concatenate", dropout=dropout, local=local)


def _gru(inputs: Inputs, d: int, **options) -> GRUEncoder:
    return GRUEncoder(inputs.vocabulary, inputs.word_dim, d, vectors=inputs.word_vectors, **options)


def _objective(kind: str, margin: float, regularisers: dict, warmup_epochs: int) -> Objective:
    """The matched objective: InfoNCE with a learned temperature, or the hinge with all negatives before the hardest."""
    if kind == "infonce":
        return Objective(InfoNCE(), regularisers)
    if kind == "triplet":
        hardest = partial(hinge_triplet, margin=margin, mining="hardest", reduction="mean")
        everything = partial(hinge_triplet, margin=margin, mining="all", reduction="mean")
        return Objective(hardest, regularisers, warmup_loss=everything, warmup_epochs=warmup_epochs)
    raise unknown("objective", kind, OBJECTIVES)


def _set_similarity(name: str, alpha: float, learned_mp: bool) -> Callable:
    choices = {
        "smooth_chamfer": lambda: partial(smooth_chamfer, alpha=alpha),
        "chamfer": lambda: chamfer,
        "mil": lambda: max_pairwise,
        "mp": lambda: MatchProbability(learned=learned_mp),
    }
    if name not in choices:
        raise unknown("similarity", name, choices)
    return choices[name]()


def _set_head(name: str, d_local: int, d: int, positions: str, shape: dict) -> nn.Module:
    if name == "pie-net":
        return PIENet(d_local, d, shape["slots"], dropout=shape["dropout"])
    if name == "slots":
        return SlotHead(d_local, d, positions=positions, **shape)
    if name == "transformer":
        return SlotHead(d_local, d, positions=positions, softmax_over="inputs", **shape)
    raise unknown("head", name, ("slots", "transformer", "pie-net"))


def _on_both(regulariser: Callable[[Tensor], Tensor]) -> Callable:
    """A diversity loss of one modality's residuals, summed over both modalities."""

    def both(images, captions):
        return regulariser(images.residual) + regulariser(captions.residual)

    return both
