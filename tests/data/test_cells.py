"""The frozen cell descriptor looks at the right place, at colour and at shape."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from xmr_core.base.errors import BadInput
from xmr_core.features.cells import CellDescriptor


def picture(background=(128, 128, 128), patches=()):
    x = np.full((1, 64, 64, 3), background, np.uint8)
    for rows, columns, colour in patches:
        x[0, rows, columns] = colour
    return x


def describe(x):
    return CellDescriptor()(x).astype(float)[0].reshape(8, 8, 23, 4)  # kind of number, then quarter of the window


def test_a_plain_picture_has_no_edges_and_one_colour_everywhere():
    d = describe(picture((255, 0, 0)))
    assert_allclose(d[:, :, 15:], 0, atol=1e-6)
    assert_allclose(d - d[:1, :1], 0, atol=1e-3)
    assert d[0, 0, 0].min() > 1 and np.abs(d[0, 0, 1:12]).max() < 1e-6  # all mass in the red hue


def test_what_happens_in_a_corner_is_seen_in_that_corner_only():
    changed = np.abs(describe(picture(patches=[(slice(0, 6), slice(58, 64), (0, 0, 255))])) - describe(picture())).max(
        (2, 3)
    )
    assert changed[0, 7] > 0.5 and changed[2:].max() == 0 and changed[:, :6].max() == 0


def test_direction_of_an_edge():
    upright = describe(picture(patches=[(slice(0, 64), slice(0, 32), (0, 0, 0))]))[:, 3:5, 15:].sum((0, 1, 3))
    level = describe(picture(patches=[(slice(0, 32), slice(0, 64), (0, 0, 0))]))[3:5, :, 15:].sum((0, 1, 3))
    assert (
        upright.argmax() == 0 and level.argmax() == 4
    )  # gradient along x: bin 0; along y: bin 4 of 8 over half a turn


def test_hue_bins_go_round():
    reds = [describe(picture(c))[0, 0, :12].sum(1).argmax() for c in ((255, 10, 0), (255, 0, 10))]
    assert set(reds) <= {0, 11, 1}


def test_identity_and_shape():
    d = CellDescriptor()
    assert d(picture()).shape == (1, *d.shape) and d(picture()).dtype == d.dtype
    assert CellDescriptor(128).identity != d.identity


def test_bad_input():
    with pytest.raises(BadInput, match="multiple of 8"):
        CellDescriptor(60)
    with pytest.raises(BadInput, match="expected images of 64×64×3, got 32×32×3"):
        CellDescriptor()(np.zeros((1, 32, 32, 3), np.uint8))
