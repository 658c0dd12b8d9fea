"""Making inputs less informative on purpose: pixels erased, words replaced."""

import numpy as np
import torch
from jaxtyping import UInt8

from xmr_core.data.augment import SPECIAL, UNKNOWN_ID
from xmr_core.errors import BadInput
from xmr_core.types import Tokens

GREY = 128


def erase_pixels(pictures: UInt8[np.ndarray, "n h w 3"], share: float, seed: int = 0) -> UInt8[np.ndarray, "n h w 3"]:
    """A copy in which a square of `share` of each picture, at a random place, is grey.

    Places come from the seed alone, and a larger share erases around the same relative place. Raises: BadInput for a share outside
    [0, 1]. Source: PCME, Figure 7 (one erased region of growing size); the shape and grey are ours.
    """
    _check(share)
    out = pictures.copy()
    height, width = pictures.shape[1:3]
    h, w = round(height * share**0.5), round(width * share**0.5)
    for picture, (down, across) in zip(out, np.random.default_rng(seed).random((len(out), 2)), strict=True):
        top, left = round(down * (height - h)), round(across * (width - w))
        picture[top : top + h, left : left + w] = GREY
    return out


def blank_words(captions: Tokens, share: float, seed: int = 0, special: tuple[int, ...] = SPECIAL, unknown_id: int = UNKNOWN_ID) -> Tokens:
    """A copy in which ⌊share · n + ½⌋ of the n words of each caption, drawn at random, are <unk>.

    One order of words per caption comes from the seed, so a larger share blanks the same words and more. special: numbers that are no
    words. Raises: BadInput for a share outside [0, 1]. Source: PCME, Figure 7.
    """
    _check(share)
    ids = captions.ids.numpy()
    word = captions.mask.numpy() & ~np.isin(ids, special)
    lot = np.where(word, np.random.default_rng(seed).random(ids.shape), 2.0)
    blank = word & (lot.argsort(1).argsort(1) < np.floor(share * word.sum(1, keepdims=True) + 0.5))
    return Tokens(torch.from_numpy(np.where(blank, unknown_id, ids)), captions.mask)


def _check(share: float) -> None:
    if not 0 <= share <= 1:
        raise BadInput(f"the share to be corrupted must lie in [0, 1], got {share}.")
