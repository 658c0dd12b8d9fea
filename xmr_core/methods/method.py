"""A method: two encoders, two heads, a similarity and an objective. All of the field fits in this one class."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Batch, Brief, Features, Pixels, Representation, Rows, Tokens, joined
from xmr_core.losses.scores import LEFT_OUT
from xmr_core.similarities.base import Similarity, as_similarity


@dataclass(frozen=True)
class Inputs(Brief):
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

    @property
    def dual(self) -> bool:
        """Whether both networks are towers of one dual encoder, with their own projections."""
        return '"dual": ' in self.image_network and '"dual": ' in self.text_network


class Method(nn.Module):
    """What is trained and what retrieves.

    images → image_encoder → Features → image_head ┐
                                                    ├ similarity → scores[image, caption] → objective(scores, match)
    captions → caption_encoder → Features → caption_head ┘

    Args:
        name: id of the method, for tables; its `address` is what the registry finds it by. similarity: a Similarity, or
            a function of two representations. One that trains several score matrices (`scorings`) has the objective of
            each; their sum, times the similarity's `scoring_weight`, is the loss.
        objective: (scores, match, images, captions, epoch) → (loss, its terms by name).
        lr_scales: factors on the learning rate by prefix of the parameter's name; the first prefix that fits counts.
        mix: what changes a batch before it is encoded, in training only (methods.pcmepp.MixedSamples).
    Raises: BadInput for an objective that does not take these five.

    >>> from xmr_core.methods import Inputs, build
    >>> method = build("scan", Inputs(image_width=8, cells=4, vocabulary=20), d=16)
    >>> method.name, method.device.type
    ('scan', 'cpu')
    """

    def __init__(
        self,
        name: str,
        image_encoder: nn.Module,
        caption_encoder: nn.Module,
        image_head: nn.Module,
        caption_head: nn.Module,
        similarity: Similarity | Callable[[Representation, Representation], Tensor],
        objective: nn.Module,
        lr_scales: dict[str, float] | None = None,
        mix: Callable[[Batch], Batch] | None = None,
    ):
        super().__init__()
        self.name = self.address = name
        self.image_encoder, self.caption_encoder = image_encoder, caption_encoder
        self.image_head, self.caption_head = image_head, caption_head
        _require_objective(objective, name)
        self.similarity = as_similarity(similarity)
        self.objective = objective
        self.lr_scales, self.mix, self.rows_at_once = lr_scales or {}, mix, 0

    def encode_images(self, images: Features | Pixels) -> Representation:
        """Representations of images, one per row."""
        return self._encoded(self.image_encoder, self.image_head, images, "image_head")

    def encode_captions(self, captions: Tokens) -> Representation:
        """Representations of captions, one per row."""
        return self._encoded(self.caption_encoder, self.caption_head, captions, "caption_head")

    def _encoded(self, encoder: nn.Module, head: nn.Module, items: Rows, what: str) -> Representation:
        """What encoder and head make of items. In training with `rows_at_once`, so many rows at a time, of which only
        the representations are kept: the gradients of the others' computation are made when it is done again, part by
        part, and are those of the whole (Gao et al., RepL4NLP 2021, with torch's own checkpoint)."""

        def encode(_: Tensor, part: Rows) -> Representation:
            return self._represented(head(encoder(part)), len(part), what)

        first = getattr(items, fields(items)[0].name)  # by which checkpoint knows whose random numbers to keep
        if not (self.training and torch.is_grad_enabled() and 0 < self.rows_at_once < len(items)):
            return encode(first, items)
        parts = [items[n : n + self.rows_at_once] for n in range(0, len(items), self.rows_at_once)]
        return joined([checkpoint(encode, first, part, use_reentrant=False) for part in parts], "residual")

    def loss(self, batch: Batch, epoch: int = 0) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """(loss, its terms by name, scores "i t") of one batch; the scores are means over the scorings.

        epoch: 0-based, read by warm-ups. Every scoring meets the complete objective, so a regulariser, which does not
        depend on scores, counts number of scorings × `scoring_weight` times: once for nested sets.
        """
        batch = self.mixed(batch)
        images, captions = self.encode_images(batch.images), self.encode_captions(batch.captions)
        return self.loss_of(images, captions, batch.match, epoch)

    def mixed(self, batch: Batch) -> Batch:
        """The batch as it is encoded: in training some images may be mixed with others. Raises: BadInput for a batch
        that leaves pairs out, which have no degree to mix."""
        if self.mix and self.training and batch.match.dtype == torch.int8:
            raise BadInput(f"{self.address} mixes images, whose pairs match by degrees: none can be left out.")
        return self.mix(batch) if self.mix and self.training else batch

    def loss_of(
        self, images: Representation, captions: Representation, match: Tensor, epoch: int = 0
    ) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """`loss` of representations, with match "i t" (of a Batch). Raises: BadInput for scores of another shape, or a
        loss that is not one number."""
        scorings = self.similarity.scorings(images, captions)
        for scores in scorings:
            if scores.shape != match.shape:
                gave = f"{self.similarity.name} of {self.address} gave scores {tuple(scores.shape)}"
                raise BadInput(f"{gave}; they must be scores[image, caption], {tuple(match.shape)}.")
        masked = scorings
        if match.dtype == torch.int8:
            if getattr(getattr(self.objective, "score_loss", None), "reads_all", False):
                raise BadInput(f"the objective of {self.address} reads the scores of all pairs: none can be left out.")
            masked, match = [scores.masked_fill(match < 0, LEFT_OUT) for scores in scorings], match > 0
        results = [self.objective(scores, match, images, captions, epoch) for scores in masked]
        for result in results:
            self._require_loss(result)
        totals, terms = zip(*results, strict=True)
        loss, sums = sum(totals), {name: sum(t[name] for t in terms) for name in terms[0]}
        if (weight := self.similarity.scoring_weight) != 1.0:  # a plain sum keeps every bit
            loss, sums = weight * loss, {name: weight * value for name, value in sums.items()}
        return loss, sums, sum(scorings) / len(scorings)

    def _represented(self, made: object, n: int, what: str) -> Representation:
        """What a head made. Raises: BadInput unless it is a representation of n items."""
        if isinstance(made, Rows) and len(made) == n:
            return made
        needed = f"an Embedding, EmbeddingSet or GaussianEmbedding of {n} items"
        raise BadInput(f"the {what} of {self.address} must return {needed}, got {_shown(made)}; give Embedding(x).")

    def _require_loss(self, result: object) -> None:
        """Raise BadInput unless an objective gave (loss, its terms by name), the loss one number."""
        if not isinstance(result, tuple | list) or len(result) != 2 or not isinstance(result[1], Mapping):
            raise BadInput(f"the objective of {self.address} must return (loss, terms by name), got {_shown(result)}.")
        if not isinstance(result[0], Tensor) or result[0].ndim:
            raise BadInput(f"the loss of {self.address} must be a tensor with one number, got {_shown(result[0])}.")

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device

    def n_parameters(self) -> int:
        """How many numbers are trained, word vectors included."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


def _require_objective(objective: object, name: str) -> None:
    """Raise BadInput for what cannot be called with the five arguments of an objective, as a plain loss of scores."""
    try:
        if not callable(objective) or isinstance(objective, type):
            raise TypeError
        signature = inspect.signature(objective.forward if isinstance(objective, nn.Module) else objective)
        signature.bind(*range(5))
    except ValueError:  # compiled functions have no signature
        return
    except TypeError:
        needed = "a function of (scores, match, images, captions, epoch), such as Objective(loss)"
        raise BadInput(f"the objective of {name} must be {needed}, got {_shown(objective)}.") from None


def _shown(value: object) -> str:
    """What was given in place of something else, by its shape or the name of its class."""
    if isinstance(value, Tensor | Rows):
        return f"Tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"{len(value)} items"
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
