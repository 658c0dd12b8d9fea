"""The papers' augmentations of training inputs, as functions of the inputs and a random generator."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from xmr_core.base.errors import BadInput, unknown
from xmr_core.base.types import Features, Pixels, Tokens

SPECIAL, UNKNOWN_ID = (0, 1, 2), 3  # padding, <start>, <end> and <unk> of every vocabulary (data.vocabulary)
CELL_RULES = ("each", "grid")
WORD_RULES = ("unknown", "vse", "pcme")


@dataclass(frozen=True)
class Augmentation:
    """What is left out of or changed in training inputs. All probabilities lie in [0, 1).

    cell_drop: by cell_rule. 'each': each cell or region is left out with this probability (region drop). 'grid': a picture is
        left whole unless r ~ U(0, 1) exceeds 0.2; then each cell goes with probability cell_drop · r. Never all cells.
    word_drop: by word_rule, never <start> or <end>. 'unknown': each word becomes <unk> with this probability. 'vse': each word is
        hit with this probability, and then becomes mask_id (50 %), any word (10 %) or is deleted (40 %). 'pcme': each word
        becomes <unk> with this probability, and then ⌊word_drop · n⌋ words of n are deleted.
        Frozen states of words can only be left out: all rules then leave each one out with this probability.
    erase: of raw pictures: with this probability a rectangle of U(0.02, ⅓) of the area and aspect e^U(log 0.3, log 3.3) becomes 0.5,
        about the mean of natural pictures, which normalisation brings to about 0.
    words: how many words the vocabulary has, for 'vse'. special: its numbers that are no words. unknown_id: its <unk>; mask_id: its
        <mask>, <unk> where it has none. The defaults are those of data.vocabulary; a text model's word pieces have others.
    Source: METHODS §1.5 (region, token and grid drop), §4 b (erasing, caption drop).
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
        for name in ("cell_drop", "word_drop", "erase"):
            if not 0 <= getattr(self, name) < 1:
                raise BadInput(f"{name} is a probability in [0, 1), got {getattr(self, name)}.")
        for name, known in (("cell_rule", CELL_RULES), ("word_rule", WORD_RULES)):
            if getattr(self, name) not in known:
                raise unknown(name, getattr(self, name), known)
        if self.word_drop and min(self.unknown_id, self.mask_id) < 0:
            raise BadInput("this tokenizer has no mask and no unknown word to put in a word's place; set word_drop to 0.")

    def images(self, images: Features | Pixels, rng: np.random.Generator) -> Features | Pixels:
        """The pictures of a batch, some cells masked or some pixels erased."""
        if isinstance(images, Pixels):
            return Pixels(_erased(images.x, self.erase, rng)) if self.erase else images
        if not self.cell_drop:
            return images
        drop = np.full((len(images), 1), self.cell_drop)
        if self.cell_rule == "grid":
            r = rng.random((len(images), 1))
            drop = np.where(r > 0.2, self.cell_drop * r, 0.0)
        return replace(images, mask=_kept(images.mask, rng.random(images.mask.shape) >= drop))

    def captions(self, captions: Tokens | Features, rng: np.random.Generator) -> Tokens | Features:
        """The captions of a batch, some words changed or left out."""
        if not self.word_drop:
            return captions
        if isinstance(captions, Features):
            return replace(captions, mask=_kept(captions.mask, rng.random(captions.mask.shape) >= self.word_drop))
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
            lot = np.where(word, rng.random(ids.shape), 2.0)  # the smallest lots are deleted
            place = lot.argsort(1).argsort(1)
            keep = mask & ~(word & (place < np.floor(self.word_drop * word.sum(1, keepdims=True))))
        return _closed_up(ids, keep)


def _kept(mask: torch.Tensor, keep: np.ndarray) -> torch.Tensor:
    """mask without what is not kept; a row that would lose everything keeps its first element."""
    keep = torch.from_numpy(keep) & mask
    keep[:, 0] |= ~keep.any(1) & mask[:, 0]
    return keep


def _closed_up(ids: np.ndarray, keep: np.ndarray) -> Tokens:
    """Rows without the elements that are not kept, moved together, padded with 0 to the longest."""
    lengths = keep.sum(1)
    order = np.argsort(~keep, axis=1, kind="stable")[:, : lengths.max(initial=0)]
    mask = np.arange(order.shape[1])[None] < lengths[:, None]
    return Tokens(torch.from_numpy(np.where(mask, np.take_along_axis(ids, order, 1), 0)), torch.from_numpy(mask))


def _erased(x: torch.Tensor, probability: float, rng: np.random.Generator) -> torch.Tensor:
    """Some pictures with one rectangle made grey; one that would not fit into its picture is left out."""
    x = x.clone()
    _, _, height, width = x.shape
    for picture in np.flatnonzero(rng.random(len(x)) < probability):
        area, aspect = rng.uniform(0.02, 1 / 3) * height * width, np.exp(rng.uniform(np.log(0.3), np.log(3.3)))
        h, w = round(np.sqrt(area * aspect)), round(np.sqrt(area / aspect))
        if 0 < h < height and 0 < w < width:
            top, left = rng.integers(0, height - h + 1), rng.integers(0, width - w + 1)
            x[picture, :, top : top + h, left : left + w] = 0.5
    return x
