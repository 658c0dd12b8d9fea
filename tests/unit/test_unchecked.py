"""Without checks, no number of a tensor decides what similarities and losses compute: they can be compiled as one graph
and mapped, with the results that they have otherwise."""

from functools import partial

import pytest
import torch
import torch._dynamo
from test_similarities import EVERY, GRAPHS, InPrecision, example
from torch.testing import assert_close

from xmr_core.base.errors import BadInput
from xmr_core.base.tensors import as_features, unchecked
from xmr_core.base.types import Embedding, EmbeddingSet, GaussianEmbedding
from xmr_core.losses import (
    AdaptiveClustering,
    InfoNCE,
    PairwiseSigmoid,
    hinge_triplet,
    kl_to_normal,
    mean_kl_to_normal,
    mmd,
    pairwise_diversity,
    pseudo_positive_matching,
    soft_contrastive,
    uniformity,
)  # fmt: skip
from xmr_core.losses.regularisers import gram_diversity
from xmr_core.similarities import DISTANCES, DistanceLogit, GaussianDistance, MatchLogit, Nested, SmoothChamfer

DISTRIBUTIONS = {
    "match logit": MatchLogit(), **{f"logit {name}": DistanceLogit(distance=name) for name in ("CSD", "2-Wasserstein")},
    **{name: GaussianDistance(name) for name in DISTANCES},
}  # fmt: skip
SIMILARITIES = {**EVERY, "nested": Nested(SmoothChamfer(), (1, 2)), **DISTRIBUTIONS}
LOSSES = {
    **{f"hinge {m} {r}": partial(hinge_triplet, mining=m, reduction=r) for m in ("hardest", "all", "semi-hard")
       for r in ("sum", "mean")},
    "infonce": InfoNCE(), "infonce degrees": InfoNCE(), "siglip": PairwiseSigmoid(bias=-1.0),
    "siglip degrees": PairwiseSigmoid(bias=-1.0), "soft contrastive": soft_contrastive,
    "soft contrastive degrees": soft_contrastive, "pseudo-positives": pseudo_positive_matching,
    **{f"adopt {f} {m}": AdaptiveClustering(f, m) for f in ("official", "paper") for m in ("adaptive", "constant")},
}  # fmt: skip
REGULARISERS = {
    "kl": partial(kl_to_normal, form="exact"), "mean kl": partial(mean_kl_to_normal, most=1e4),
    "uniformity": partial(uniformity, form="exact"), "mmd": mmd,
    "gram diversity": lambda x, y: gram_diversity(x.x), "pairwise diversity": lambda x, y: pairwise_diversity(x.x),
}  # fmt: skip


def gaussians(n: int, seed: int) -> GaussianEmbedding:
    g = torch.Generator().manual_seed(seed)
    mean, log_std = (torch.randn(n, 4, generator=g, dtype=torch.float64) * 0.5 for _ in range(2))
    return GaussianEmbedding(mean, log_std, mean[:, None] + torch.randn(n, 3, 4, generator=g, dtype=torch.float64))


def items(name: str, seed: int) -> tuple:
    if name in DISTRIBUTIONS or name in ("kl", "mean kl", "uniformity"):
        return gaussians(3, seed), gaussians(5, seed + 1)
    return tuple(example(name, n, 4, seed + n) for n in (3, 5))


def tensors(*given) -> tuple[torch.Tensor, ...]:
    return tuple(value for one in given for value in vars(one).values() if value is not None)


def call(function, kinds: tuple, *values: torch.Tensor):
    """function of items of these kinds, put together of their tensors."""
    sizes = {Embedding: 1, EmbeddingSet: 2, GaussianEmbedding: 3}
    values = iter(values)
    return function(*(kind(*(next(values) for _ in range(sizes[kind]))) for kind in kinds))


def agree(function, first: tuple, second: tuple) -> None:
    """Compiled, and mapped over two examples, a function of tensors gives what it gives of each."""
    plain = [function(*given) for given in (first, second)]
    torch._dynamo.reset()
    with unchecked():
        assert_close(torch.compile(function, fullgraph=True, backend="eager")(*first), plain[0])
        together = torch.func.vmap(function)(*(torch.stack(pair) for pair in zip(first, second, strict=True)))
    assert_close(together, torch.stack(plain))


@pytest.mark.parametrize("name", SIMILARITIES)
def test_similarities_are_one_graph(name):
    similarity, given = SIMILARITIES[name], [items(name, seed) for seed in (0, 10)]
    module = similarity.module if isinstance(similarity, InPrecision) else similarity.double()
    agree(partial(call, module, tuple(map(type, given[0]))), *(tensors(*pair) for pair in given))


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_one_graph(name):
    loss, match = LOSSES[name], torch.eye(4, dtype=torch.bool).repeat_interleave(2, 1)
    match = match * 0.7 if name.endswith("degrees") else match
    scores = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 0.3
    if isinstance(loss, torch.nn.Module):
        loss = loss.double().eval()
    agree(loss, (scores[0], match), (scores[1], match.flip(1)))


@pytest.mark.parametrize("name", REGULARISERS)
def test_regularisers_are_one_graph(name):
    given = [items(name, seed) for seed in (0, 10)]
    agree(partial(call, REGULARISERS[name], tuple(map(type, given[0]))), *(tensors(*pair) for pair in given))


def test_checks_come_back():
    wrong = torch.full((1, 2, 3), torch.nan)
    with unchecked():
        as_features(wrong, width=3)
        with unchecked(checks=True), pytest.raises(BadInput, match="NaN"):
            as_features(wrong, width=3)
        as_features(wrong, width=3)
    with pytest.raises(BadInput, match="NaN"):
        as_features(wrong, width=3)
    assert set(GRAPHS) < set(SIMILARITIES)
