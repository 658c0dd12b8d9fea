"""Maps of set elements and nearest partners."""

import numpy as np
import pytest
import torch

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Embedding, EmbeddingSet
from xmr_core.evaluation.analysis.elements import element_map, nearest_partner


def sets(n, k, seed, d=6):
    g = torch.Generator().manual_seed(seed)
    x = torch.nn.functional.normalize(torch.randn(n, k, d, generator=g), dim=-1)
    return EmbeddingSet(x, torch.ones(n, k, dtype=torch.bool))


def test_a_map_has_every_real_element_once_and_comes_out_again():
    images, captions = sets(6, 2, 0), sets(8, 3, 1)
    captions.mask[0, 2] = False
    table = element_map(images, captions, seed=3)
    assert len(table) == 12 + 23 and not table.duplicated(["modality", "item", "element"]).any()
    assert not ((table["modality"] == "captions") & (table["item"] == 0) & (table["element"] == 2)).any()
    assert np.isfinite(table[["x", "y"]].to_numpy()).all()
    assert table.equals(element_map(images, captions, seed=3))
    with pytest.raises(BadInput, match="embedding sets"):
        element_map(Embedding(torch.ones(20, 3)), captions)


def test_the_nearest_partner_of_each_element_by_a_loop():
    images, captions = sets(4, 2, 0), sets(5, 3, 1)
    captions.x[2, 1] = images.x[0, 0]
    captions.mask[2, 1] = False  # the best of all, but it is padding
    captions = EmbeddingSet(3 * captions.x, captions.mask)
    table = nearest_partner(images, captions)
    for row in table.itertuples():
        best = max(
            (float(images.x[row.image, row.element].double() @ captions.x[t, e].double()) / 3, t)
            for t in range(5) for e in range(3) if captions.mask[t, e]
        )  # fmt: skip
        assert row.cosine == pytest.approx(best[0], abs=1e-5) and row.caption == best[1]
    assert len(table) == 8
