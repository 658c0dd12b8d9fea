"""What several methods are made of: encoders, objectives, heads and similarities to choose between."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from xmr_core.base.errors import BadInput
from xmr_core.base.types import EmbeddingSet
from xmr_core.encoders.image import GridEncoder, SmallCNN
from xmr_core.encoders.pretrained import DualTower, StatesEncoder, TextBackbone, VisionBackbone
from xmr_core.encoders.text import GRUEncoder
from xmr_core.losses.objective import Objective
from xmr_core.losses.regularisers import of_sets
from xmr_core.losses.scores import InfoNCE, PairwiseSigmoid, hinge_triplet
from xmr_core.methods.method import Inputs
from xmr_core.methods.registry import Options, option

OBJECTIVES = ("infonce", "siglip", "triplet")
VSE_DROPS = {"cell_drop": 0.2, "word_drop": 0.2, "word_rule": "vse"}  # of VSE∞ and those that came after it


def matched_encoders(inputs: Inputs, d: int, dropout: float, local: str) -> tuple[nn.Module, nn.Module]:
    """The encoders of images and captions that every matched method shares.

    local: the local features of a GRU, 'words' (word vectors) or 'states'; those of a text model are its states.

    >>> image, text = matched_encoders(Inputs(image_width=8, cells=4, vocabulary=20), 16, 0.1, local="states")
    >>> type(image).__name__, type(text).__name__
    ('GridEncoder', 'GRUEncoder')
    """
    if inputs.dual:
        return tuple(DualTower(network, d, dropout) for network in (inputs.image_network, inputs.text_network))
    if inputs.image_network:
        image = VisionBackbone(inputs.image_network, d, dropout=dropout)
    elif inputs.image_width:
        places = inputs.cells if inputs.ordered_cells else 0
        image = GridEncoder(inputs.image_width, d, places, dropout, inputs.global_width)
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
    """A GRU over word vectors. Raises: BadInput where the captions are not word numbers."""
    if inputs.text_width or inputs.text_network:
        raise BadInput("the published form reads words through a GRU; take the matched form with a text model.")
    return GRUEncoder(inputs.vocabulary, inputs.word_dim, d, vectors=inputs.word_vectors, **options)


@dataclass(frozen=True)
class MatchedOptions(Options):
    """The options that matched methods share. A method repeats a field to give it another default.

    >>> MatchedOptions(d=64).margin
    0.2
    """

    d: int = option(128, "width of the joint space", least=1)
    objective: str = option("infonce", "loss on the scores", choices=OBJECTIVES, form="matched")
    margin: float = option(0.2, "margin of the hinge", above=0)
    temperature: float = option(0.05, "of InfoNCE or SigLIP at the start; it is learned", least=0.01, form="matched")
    warmup_epochs: int = option(2, "epochs of all negatives before the hardest, for the hinge", least=0, form="matched")
    dropout: float = option(0.1, "share of features dropped in training", least=0, most=0.99, form="matched")


def matched_objective(options: Options, regularisers: dict | None = None, mining: str = "hardest") -> Objective:
    """The matched objective: InfoNCE or SigLIP with a learned temperature, or the hinge with all negatives before the
    hardest. options: with objective and what it reads. mining: of the hinge; others than the hardest need no warm-up.

    >>> type(matched_objective(MatchedOptions(objective="triplet")).warmup_loss).__name__
    'partial'
    """
    if options.objective == "triplet":
        epochs = options.warmup_epochs if mining == "hardest" else 0
        return hinge(options.margin, "mean", mining, epochs, regularisers)
    loss = {"infonce": InfoNCE, "siglip": PairwiseSigmoid}[options.objective]
    return Objective(loss(options.temperature), regularisers)


def hinge(
    margin: float,
    reduction: str = "sum",
    mining: str = "hardest",
    warmup_epochs: int = 0,
    regularisers: dict | None = None,
) -> Objective:
    """The hinge over mined negatives, after `warmup_epochs` over all of them. Arguments: as hinge_triplet has them."""
    loss = partial(hinge_triplet, margin=margin, reduction=reduction)
    return Objective(partial(loss, mining=mining), regularisers, partial(loss, mining="all"), warmup_epochs)


@of_sets
def on_both(images: EmbeddingSet, captions: EmbeddingSet, regulariser: Callable[[Tensor], Tensor]) -> Tensor:
    """A diversity loss of one modality's residuals, summed over both modalities."""
    return regulariser(images.residual) + regulariser(captions.residual)
