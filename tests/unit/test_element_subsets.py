"""Element subsets at evaluation (DivE, Table 5): equal to scoring hand-cut sets, one loop at a time."""

import numpy as np
import pytest
import reference
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from xmr_core.base.types import EmbeddingSet, Relevance
from xmr_core.evaluation.analysis.elements import element_ablation, keep_elements
from xmr_core.evaluation.evaluate import evaluate
from xmr_core.similarities import smooth_chamfer


def sets(n: int, k: int, seed: int) -> EmbeddingSet:
    g = torch.Generator().manual_seed(seed)
    x = F.normalize(torch.randn(n, k, 6, generator=g, dtype=torch.float64), dim=-1)
    return EmbeddingSet(
        x, torch.ones(n, k, dtype=torch.bool), residual=x + 1, attention=torch.rand(n, k, 5, generator=g)
    )


OWN = Relevance.from_positions(np.arange(8), np.arange(8) // 2, range(8), range(4))


def test_kept_elements_score_as_hand_cut_sets_in_the_equation():
    images, captions = sets(3, 4, 0), sets(2, 3, 1)
    scores = smooth_chamfer(keep_elements(images, [2, 0]), captions, 16.0)
    for i, t in np.ndindex(3, 2):
        x, y = [images.x[i, e].numpy() for e in (2, 0)], list(captions.x[t].numpy())
        assert scores[i, t].item() == pytest.approx(reference.smooth_chamfer(x, y, 16.0), abs=1e-12)
    part = keep_elements(images, [3])
    assert_close(part.residual, images.residual[:, 3:]), assert_close(part.attention, images.attention[:, 3:])


def test_every_subset_of_either_side_is_evaluated():
    images, captions = sets(4, 3, 2), sets(8, 2, 3)
    table = element_ablation(smooth_chamfer, images, captions, {"annotated": OWN}).set_index(["side", "kept"])["rsum"]
    assert list(table.index) == [("both", "all")] + [
        (side, f"{word} {e}")
        for side, k in (("images", 3), ("captions", 2))
        for word in ("only", "without")
        for e in range(k)
    ]
    for side, kept, parts in (
        ("both", "all", (images, captions)),
        ("images", "without 1", (keep_elements(images, [0, 2]), captions)),
        ("captions", "only 1", (images, keep_elements(captions, [1]))),
    ):
        summary = evaluate(smooth_chamfer, *parts, {"annotated": OWN}).summary()
        assert table[side, kept] == pytest.approx(100 * summary.loc[summary["metric"] == "rsum", "value"].item())
    assert table.nunique() > 3, "the subsets must differ for the comparison to mean something"
