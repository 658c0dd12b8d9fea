"""A similarity whose scores are not those of the pairs alone is refused: it would be ranked by how blocks were cut."""

import pytest
import torch

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Embedding, Relevance
from xmr_core.evaluation.evaluate import evaluate_scores
from xmr_core.evaluation.ranks import Scoring
from xmr_core.similarities import Cosine, Similarity

N = 60
X, Y = (Embedding(torch.randn(N, 8, generator=torch.Generator().manual_seed(seed))) for seed in (0, 1))


class Counts(Similarity):
    """Sinks with every call."""

    calls = 0

    def forward(self, images, captions):
        self.calls += 1
        return images.x @ captions.x.T - self.calls


class OtherScore(Similarity):
    """Ranked by another function than it is trained by."""

    def forward(self, images, captions):
        return images.x @ captions.x.T

    def _fast_scores(self, images, captions):
        return (images.x @ captions.x.T).square()


BROKEN = {
    "softmax over the captions": (lambda a, b: (a.x @ b.x.T).softmax(1), "pairs beside it"),
    "centred over the images": (lambda a, b: (s := a.x @ b.x.T) - s.mean(0), "pairs beside it"),
    "noise": (lambda a, b: a.x @ b.x.T + 0.01 * torch.randn(len(a), len(b)), "call"),
    "a count of calls": (Counts(), "call"),
    "two functions": (OtherScore(), "forward"),
    "a vector": (lambda a, b: (a.x @ b.x.T).sum(1), "shape"),
    "captions first": (lambda a, b: b.x[:7] @ a.x.T, "shape"),
    "an array": (lambda a, b: (a.x @ b.x.T).numpy(), "tensor"),
}


def ranked(similarity) -> float:
    """RSUM, of six."""
    relevance = Relevance.from_pairs(zip(range(N), range(N), strict=True), range(N), range(N))
    rows = evaluate_scores(Scoring(similarity, X, Y), {"annotated": relevance}).summary()
    return rows.set_index("metric").loc["rsum", "value"]


@pytest.mark.parametrize("name", BROKEN)
def test_scores_that_are_not_of_the_pair_alone_are_refused(name):
    similarity, message = BROKEN[name]
    with pytest.raises(BadInput, match=message):
        ranked(similarity)


@pytest.mark.parametrize(
    "make", [Cosine, lambda: lambda a, b: (a.x @ b.x.T).float(), lambda: lambda a, b: a.x @ b.x.T * 0]
)
def test_scores_of_the_pair_alone_are_ranked(make):
    assert 0 <= ranked(make()) < 3
