"""What several recipes are made of: the encoders, objectives, heads and similarities that they choose between."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from xmr_core.base.errors import BadInput, unknown
from xmr_core.encoders.image import GridEncoder, SmallCNN
from xmr_core.encoders.text import GRUEncoder
from xmr_core.encoders.text_backbone import StatesEncoder, TextBackbone
from xmr_core.encoders.vision_backbone import VisionBackbone
from xmr_core.heads.pie_net import PIENet
from xmr_core.heads.slots import SlotHead
from xmr_core.losses.infonce import InfoNCE
from xmr_core.losses.objective import Objective
from xmr_core.losses.triplet import hinge_triplet
from xmr_core.similarities.chamfer import chamfer, smooth_chamfer
from xmr_core.similarities.match_probability import MatchProbability
from xmr_core.similarities.mil import max_pairwise

OBJECTIVES = ("infonce", "triplet")


@dataclass(frozen=True)
class Inputs:
    """What the corpus and its features give a recipe.

    image_width: width of frozen local features, 0 for raw pixels. global_width: width of a frozen vector of the whole
    picture beside them, 0 for none. cells: local features per picture. resolution: of an image's side
    in pixels, for raw pixels. vocabulary: number of words. word_vectors: "vocabulary word_dim" or None. ordered_cells: False
    for detected regions, which have no fixed place. text_width: of frozen states of a text model, 0 for word numbers.
    image_network, text_network: configuration (JSON) of a pretrained model that learns here, '' for none.
    """

    image_width: int
    cells: int
    vocabulary: int
    word_dim: int = 64
    word_vectors: Tensor | None = None
    ordered_cells: bool = True
    resolution: int = 64
    global_width: int = 0
    text_width: int = 0
    image_network: str = ""
    text_network: str = ""


def matched_encoders(inputs: Inputs, d: int, dropout: float, local: str) -> tuple[nn.Module, nn.Module]:
    """The encoders that every matched method shares. local: what a GRU hands on, 'words' or 'states'; of a text model, its states."""
    if inputs.image_network:
        image = VisionBackbone(inputs.image_network, d, dropout=dropout)
    elif inputs.image_width:
        image = GridEncoder(inputs.image_width, d, inputs.cells if inputs.ordered_cells else 0, dropout, inputs.global_width)
    else:
        image = SmallCNN(d, inputs.resolution, dropout=dropout)
    if inputs.text_network:
        text = TextBackbone(inputs.text_network, d, dropout=dropout)
    elif inputs.text_width:
        text = StatesEncoder(inputs.text_width, d, dropout)
    else:
        text = gru(inputs, d, summary="concatenate-max", dropout=dropout, local=local)
    return image, text


def gru(inputs: Inputs, d: int, **options) -> GRUEncoder:
    """Raises: BadInput where the captions are not word numbers."""
    if inputs.text_width or inputs.text_network:
        raise BadInput("this recipe reads words through a GRU in its published form; use the matched form with a text model, or none.")
    return GRUEncoder(inputs.vocabulary, inputs.word_dim, d, vectors=inputs.word_vectors, **options)


def matched_objective(kind: str, margin: float, regularisers: dict, warmup_epochs: int) -> Objective:
    """The matched objective: InfoNCE with a learned temperature, or the hinge with all negatives before the hardest."""
    if kind == "infonce":
        return Objective(InfoNCE(), regularisers)
    if kind == "triplet":
        hardest = partial(hinge_triplet, margin=margin, mining="hardest", reduction="mean")
        everything = partial(hinge_triplet, margin=margin, mining="all", reduction="mean")
        return Objective(hardest, regularisers, warmup_loss=everything, warmup_epochs=warmup_epochs)
    raise unknown("objective", kind, OBJECTIVES)


def set_similarity(name: str, alpha: float, learned_mp: bool) -> Callable:
    choices = {
        "smooth_chamfer": lambda: partial(smooth_chamfer, alpha=alpha),
        "chamfer": lambda: chamfer,
        "mil": lambda: max_pairwise,
        "mp": lambda: MatchProbability(learned=learned_mp),
    }
    if name not in choices:
        raise unknown("similarity", name, choices)
    return choices[name]()


def set_head(name: str, d_local: int, d: int, positions: str, shape: dict) -> nn.Module:
    if name == "pie-net":
        return PIENet(d_local, d, shape["slots"], dropout=shape["dropout"])
    if name == "slots":
        return SlotHead(d_local, d, positions=positions, **shape)
    if name == "transformer":
        return SlotHead(d_local, d, positions=positions, softmax_over="inputs", **shape)
    raise unknown("head", name, ("slots", "transformer", "pie-net"))


def on_both(regulariser: Callable[[Tensor], Tensor]) -> Callable:
    """A diversity loss of one modality's residuals, summed over both modalities."""

    def both(images, captions):
        return regulariser(images.residual) + regulariser(captions.residual)

    return both
