"""The papers' augmentations of training inputs, as functions of the inputs and a random generator."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from xmr_core.base.checks import require_fields
from xmr_core.base.errors import BadInput
from xmr_core.base.types import Features, Pixels, Tokens

SPECIAL, UNKNOWN_ID = (0, 1, 2), 3  # padding, <start>, <end>; <unk>: the same numbers in every Vocabulary
CELL_RULES = ("each", "grid")
WORD_RULES = ("unknown", "vse", "pcme")


@dataclass(frozen=True)
class Augmentation:
    """What is left out of training inputs, or changed in them. All probabilities lie in [0, 1).

    cell_drop, cell_rule: 'each' leaves each cell or region out with this probability. 'grid' draws r ~ U(0, 1) for
        each image and, if r > 0.2, leaves each of its cells out with probability cell_drop · r. An image never loses
        all its cells.
    word_drop, word_rule: `<start>` and `<end>` always stay. 'unknown': each word becomes `<unk>` with this
        probability. 'vse': each word is chosen with this probability, and then becomes mask_id (50 %), becomes any
        word (10 %) or is deleted (40 %). 'pcme': each word becomes `<unk>` with this probability, and then
        ⌊word_drop · n⌋ words of n are deleted. Frozen word states can only be left out: under every rule each is left
        out with this probability.
    erase: only for raw pixels. With this probability a rectangle becomes 0.5, about the mean of natural images. Its
        area is U(0.02, ⅓) of the image's, its aspect ratio e^U(log 0.3, log 3.3).
    words: size of the vocabulary, read by 'vse'. special: ids that are no words. unknown_id, mask_id: ids of `<unk>`
        and `<mask>` (that of `<unk>` if there is no mask). The defaults are those of a Vocabulary; the word pieces of a
        text model have others.

    Raises: BadInput for a probability outside [0, 1), an unknown rule, or word_drop without an id for a dropped word.
    Source: the table in docs/data.md#data-augmentation.

    >>> images = Features(torch.zeros(2, 4, 3), torch.ones(2, 4, dtype=torch.bool))
    >>> Augmentation(cell_drop=0.5).images(images, np.random.default_rng(0)).mask.sum(1)
    tensor([1, 4])
    """

    cell_drop: float = 0.0
    cell_rule: str = "each"
    word_drop: float = 0.0
    word_rule: str = "unknown"
    erase: float = 0.0
    words: int = 0
    special: tuple[int, ...] = SPECIAL
    unknown_id: int = UNKNOWN_ID
    mask_id: int = UNKNOWN_ID

    def __post_init__(self):
        chances = dict.fromkeys(("cell_drop", "word_drop", "erase"), (0, 1 - 1e-9))
        require_fields(self, chances, {"cell_rule": CELL_RULES, "word_rule": WORD_RULES})
        if self.word_drop and min(self.unknown_id, self.mask_id) < 0:
            raise BadInput("the tokenizer has no mask and no unknown word to replace a word with; set word_drop to 0.")

    def images(self, images: Features | Pixels, rng: np.random.Generator) -> Features | Pixels:
        """The images of a batch, with some cells masked or some pixels erased."""
        if isinstance(images, Pixels):
            return Pixels(_erased(images.x, self.erase, rng)) if self.erase else images
        if not self.cell_drop:
            return images
        drop = np.full((len(images), 1), self.cell_drop)
        if self.cell_rule == "grid":
            r = rng.random((len(images), 1))
            drop = np.where(r > 0.2, self.cell_drop * r, 0.0)
        return replace(images, mask=_masked(images.mask, rng.random(images.mask.shape) >= drop))

    def captions(self, captions: Tokens | Features, rng: np.random.Generator) -> Tokens | Features:
        """The captions of a batch, with some words changed or left out."""
        if not self.word_drop:
            return captions
        if isinstance(captions, Features):
            return replace(captions, mask=_masked(captions.mask, rng.random(captions.mask.shape) >= self.word_drop))
        ids, mask = captions.ids.numpy().copy(), captions.mask.numpy()
        word = mask & ~np.isin(ids, self.special)
        hit = (rng.random(ids.shape) < self.word_drop) & word
        keep = mask
        if self.word_rule == "vse":
            fate = rng.random(ids.shape)
            ids[hit & (fate < 0.5)] = self.mask_id
            swapped = hit & (fate >= 0.5) & (fate < 0.6)
            other = rng.integers(0, max(self.words, 1), ids.shape)
            ids[swapped] = np.where(np.isin(other, self.special), self.mask_id, other)[swapped]
            keep = mask & ~(hit & (fate >= 0.6))
        else:
            ids[hit] = self.unknown_id
        if self.word_rule == "pcme":
            lot = np.where(word, rng.random(ids.shape), 2.0)  # the words with the smallest lots are deleted
            keep = mask & ~(word & (lot.argsort(1).argsort(1) < np.floor(self.word_drop * word.sum(1, keepdims=True))))
        return _compacted(ids, keep)


def _masked(mask: torch.Tensor, keep: np.ndarray) -> torch.Tensor:
    """mask & keep; a row that would lose all its elements keeps the first."""
    keep = torch.from_numpy(keep) & mask
    keep[:, 0] |= ~keep.any(1) & mask[:, 0]
    return keep


def _compacted(ids: np.ndarray, keep: np.ndarray) -> Tokens:
    """Rows without the ids that go, moved together and padded with 0 to the longest row."""
    lengths = keep.sum(1)
    order = np.argsort(~keep, axis=1, kind="stable")[:, : lengths.max(initial=0)]
    mask = np.arange(order.shape[1])[None] < lengths[:, None]
    return Tokens(torch.from_numpy(np.where(mask, np.take_along_axis(ids, order, 1), 0)), torch.from_numpy(mask))


def _erased(x: torch.Tensor, probability: float, rng: np.random.Generator) -> torch.Tensor:
    """Some images with one grey rectangle; a rectangle that does not fit into its image is not drawn."""
    x = x.clone()
    _, _, height, width = x.shape
    for image in np.flatnonzero(rng.random(len(x)) < probability):
        area, aspect = rng.uniform(0.02, 1 / 3) * height * width, np.exp(rng.uniform(np.log(0.3), np.log(3.3)))
        h, w = round(np.sqrt(area * aspect)), round(np.sqrt(area / aspect))
        if 0 < h < height and 0 < w < width:
            top, left = rng.integers(0, height - h + 1), rng.integers(0, width - w + 1)
            x[image, :, top : top + h, left : left + w] = 0.5
    return x
