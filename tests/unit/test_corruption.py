"""Erasing pixels and blanking words: as much as asked, nested, and nothing else."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from xmr_core.base.types import Tokens
from xmr_core.evaluation.analysis.corruption import GREY, blank_words, erase_pixels


def pictures(n=3, resolution=32):
    return np.random.default_rng(0).integers(0, 100, (n, resolution, resolution, 3), np.uint8)  # never grey


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_a_square_of_the_asked_area_turns_grey(share):
    before = pictures()
    after = erase_pixels(before, share, seed=1)
    grey = (after == GREY).all(-1)
    assert np.allclose(grey.mean((1, 2)), round(32 * share**0.5) ** 2 / 32**2)
    assert np.array_equal(after[~grey], before[~grey]) and (before != GREY).all()
    for picture in grey:
        rows, columns = picture.any(1), picture.any(0)
        assert rows.sum() * columns.sum() == picture.sum(), "one square"


def captions(lengths):
    mask = torch.arange(max(lengths) + 2)[None] < torch.tensor(lengths)[:, None] + 2
    ids = torch.zeros(mask.shape, dtype=torch.long)
    for row, n in enumerate(lengths):
        ids[row, : n + 2] = torch.tensor([1, *range(10, 10 + n), 2])
    return Tokens(ids, mask)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=5), st.floats(0, 1), st.integers(0, 9))
def test_so_many_words_become_unknown_and_nothing_else_changes(lengths, share, seed):
    given_ = captions(lengths)
    after = blank_words(given_, share, seed)
    assert torch.equal(after.mask, given_.mask)
    changed = after.ids != given_.ids
    assert (after.ids[changed] == 3).all() and (given_.ids[changed] >= 10).all()
    assert changed.sum(1).tolist() == [int(share * n + 0.5) for n in lengths]
    more = blank_words(given_, min(1.0, share + 0.2), seed).ids != given_.ids
    assert (more | ~changed).all(), "a larger share blanks the same words and more"
