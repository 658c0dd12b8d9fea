"""One function per paper: the four choices that make a method. Signatures list what the paper varies.

Every recipe has two forms. 'published': what produced the paper's numbers, official quirks included. 'matched': the
study's common protocol, same encoders, width, objective and correct masks for all, so that only what the paper is
about differs. METHODS names the switches X-nn.
"""

import inspect
from collections.abc import Callable
from functools import partial

from xmr_core.encoders.image import PooledEncoder, RegionEncoder
from xmr_core.errors import BadInput, unknown
from xmr_core.heads.pie_net import PIENet
from xmr_core.heads.pooling import GlobalHead
from xmr_core.losses.diversity import gram_diversity, pairwise_diversity
from xmr_core.losses.mmd import mmd
from xmr_core.losses.objective import Objective
from xmr_core.losses.triplet import hinge_triplet
from xmr_core.method import Method
from xmr_core.recipe_parts import Inputs, gru, matched_encoders, matched_objective, on_both, set_head, set_similarity
from xmr_core.similarities.cosine import cosine
from xmr_core.similarities.mil import max_pairwise

FORMS = ("matched", "published")


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
        encoders = matched_encoders(inputs, d, dropout, local="words")
        return Method("vse++", *encoders, GlobalHead(), GlobalHead(), cosine, matched_objective(objective, margin, {}, warmup_epochs))
    image = PooledEncoder(inputs.image_width, d, normalise_input=True, init="xavier")
    text = gru(inputs, d, summary="last", dropout=0.0, init="uniform")
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
    regularisers = {"diversity": (diversity, on_both(gram_diversity)), "mmd": (mmd_weight, mmd)} if slots > 1 else {}
    if form == "matched":
        image, text = matched_encoders(inputs, d, dropout, local="words")
        heads = (PIENet(d, d, slots, dropout=dropout), PIENet(text.local_width, d, slots, dropout=dropout))
        return Method("pvse", image, text, *heads, max_pairwise, matched_objective(objective, margin, regularisers, warmup_epochs))
    image = PooledEncoder(inputs.image_width, d)
    text = gru(inputs, d, summary="concatenate-last-token" if legacy_text else "concatenate", dropout=0.0)
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
        "diversity": (diversity, on_both(pairwise_diversity)),
        "mmd": (mmd_weight, mmd),
    }
    compare = set_similarity(similarity, alpha, learned_mp=form == "matched")
    if form == "matched":
        image, text = matched_encoders(inputs, d, dropout, local="words")
        shape = {"slots": slots, "iterations": iterations, "heads": 4, "head_width": d // 4, "ff_mult": 2, "dropout": dropout}
        image_head = set_head(head, d, d, "none", shape)  # the matched grid encoder has already added place
        text_head = set_head(head, text.local_width, d, "sine1d", shape)
        loss = matched_objective(objective, margin, regularisers, warmup_epochs)
        return Method("dive", image, text, image_head, text_head, compare, loss)
    image = RegionEncoder(inputs.image_width, d, dropout)
    text = gru(inputs, d, summary="average", dropout=dropout)
    shape = {"slots": slots, "iterations": iterations, "heads": 4, "head_width": 512, "dropout": dropout, "padding": "official"}
    heads = (set_head(head, d, d, "none", shape), set_head(head, inputs.word_dim, d, "sine1d", shape))
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
