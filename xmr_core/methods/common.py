"""What several methods are made of: encoders, objectives, heads and similarities to choose between."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from xmr_core.base.errors import BadInput
from xmr_core.base.types import EmbeddingSet
from xmr_core.encoders.image import GridEncoder, SmallCNN
from xmr_core.encoders.pretrained import StatesEncoder, TextBackbone, VisionBackbone
from xmr_core.encoders.text import GRUEncoder
from xmr_core.heads.slots import PIENet, SlotHead
from xmr_core.losses.objective import Objective
from xmr_core.losses.regularisers import of_sets
from xmr_core.losses.scores import InfoNCE, PairwiseSigmoid, hinge_triplet
from xmr_core.methods.options import Options, option
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.sets import Chamfer, MatchProbability, MaxPairwise, SmoothChamfer

OBJECTIVES = ("infonce", "siglip", "triplet")
SET_SIMILARITIES = ("smooth_chamfer", "chamfer", "mil", "mp")
VSE_DROPS = {"cell_drop": 0.2, "word_drop": 0.2, "word_rule": "vse"}  # of VSE∞ and those that came after it
SET_HEADS = ("slots", "transformer", "pie-net")


@dataclass(frozen=True)
class Inputs:
    """What the corpus and its features give a method: the sizes of its inputs.

    >>> Inputs(image_width=8, cells=4, vocabulary=20).word_dim
    64

    image_width: width of frozen local features, 0 for raw pixels. global_width: width of a frozen global feature beside
    them, 0 for none. cells: local features per image. resolution: pixels of an image's side, for raw pixels.
    vocabulary: number of words. word_vectors: "vocabulary word_dim" or None. ordered_cells: False for detected regions,
    which have no fixed place. text_width: width of frozen states of a text model, 0 for word numbers.
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
    """The encoders of images and captions that every matched method shares.

    local: the local features of a GRU, 'words' (word vectors) or 'states'; those of a text model are its states.

    >>> image, text = matched_encoders(Inputs(image_width=8, cells=4, vocabulary=20), 16, 0.1, local="states")
    >>> type(image).__name__, type(text).__name__
    ('GridEncoder', 'GRUEncoder')
    """
    if inputs.image_network:
        image = VisionBackbone(inputs.image_network, d, dropout=dropout)
    elif inputs.image_width:
        image = GridEncoder(
            inputs.image_width, d, inputs.cells if inputs.ordered_cells else 0, dropout, inputs.global_width
        )
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
    temperature: float = option(
        0.05, "temperature of InfoNCE or SigLIP at the start; it is learned", least=0.01, form="matched"
    )
    warmup_epochs: int = option(2, "epochs of all negatives before the hardest, for the hinge", least=0, form="matched")
    dropout: float = option(0.1, "share of features dropped in training", least=0, most=0.99, form="matched")


def matched_objective(options: Options, regularisers: dict | None = None) -> Objective:
    """The matched objective: InfoNCE or SigLIP with a learned temperature, or the hinge with all negatives before the
    hardest. options: with objective and what it reads.

    >>> type(matched_objective(MatchedOptions(objective="triplet")).warmup_loss).__name__
    'partial'
    """
    if options.objective == "infonce":
        return Objective(InfoNCE(options.temperature), regularisers)
    if options.objective == "siglip":
        return Objective(PairwiseSigmoid(options.temperature), regularisers)
    hardest = partial(hinge_triplet, margin=options.margin, mining="hardest", reduction="mean")
    warmup = partial(hinge_triplet, margin=options.margin, mining="all", reduction="mean")
    return Objective(hardest, regularisers, warmup_loss=warmup, warmup_epochs=options.warmup_epochs)


def set_similarity(name: str, alpha: float, learned_mp: bool) -> Similarity:
    """The similarity of sets that an option names: smooth_chamfer, chamfer, mil (nearest pair) or mp (match
    probability).

    alpha: scale of smooth-Chamfer. learned_mp: whether the scale and shift of the match probability are trained.

    >>> set_similarity("smooth_chamfer", alpha=16, learned_mp=True).options
    {'alpha': 16.0}
    """
    if name == "smooth_chamfer":
        return SmoothChamfer(alpha)
    if name == "mp":
        return MatchProbability(learned=learned_mp)
    return {"chamfer": Chamfer, "mil": MaxPairwise}[name]()


def set_head(name: str, d_local: int, d: int, positions: str, shape: dict) -> nn.Module:
    """The maker of sets that an option names: slots, transformer (attention over inputs in place of slots) or pie-net.

    d_local, d: width of the local features and of the set's elements. positions: code of positions, as in SlotHead.
    shape: what SlotHead takes besides; of it, PIE-Net reads slots (how many elements) and dropout.
    """
    if name == "pie-net":
        return PIENet(d_local, d, shape["slots"], dropout=shape["dropout"])
    return SlotHead(
        d_local, d, positions=positions, softmax_over={"slots": "slots", "transformer": "inputs"}[name], **shape
    )


@of_sets
def on_both(images: EmbeddingSet, captions: EmbeddingSet, regulariser: Callable[[Tensor], Tensor]) -> Tensor:
    """A diversity loss of one modality's residuals, summed over both modalities."""
    return regulariser(images.residual) + regulariser(captions.residual)
