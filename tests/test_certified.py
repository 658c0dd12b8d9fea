"""A certified answer is that of exact search, and no item outside an answer scores above its bound."""

import json
import tempfile

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xmr_core.base.types import Embedding, EmbeddingSet, GaussianEmbedding
from xmr_core.search import Answers, Extent, Proposals, build_elements, open_elements, two_stage, upper_bound
from xmr_core.search.proposals import nearest_left_out
from xmr_core.similarities import (
    Chamfer,
    Cosine,
    DistanceLogit,
    MatchLogit,
    MaxPairwise,
    Nested,
    Scan,
    SmoothChamfer,
    SumMax,
)

pytest.importorskip("faiss", reason="two-stage search needs the extra `search` (faiss-cpu)")
OF_SETS = [
    SmoothChamfer(16.0), SmoothChamfer(2.0), Chamfer(), MaxPairwise(), Nested(SmoothChamfer(4.0)),
    *(SumMax(direction, how) for direction in ("t2i", "i2t", "both") for how in ("sum", "mean")),
]  # fmt: skip
OF_DISTRIBUTIONS = [DistanceLogit(distance=name) for name in DistanceLogit.distances]
QUICK = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def sets(draw, n: int, k: int, d: int, spread: float, ragged: bool, lengths: bool) -> EmbeddingSet:
    """Around 3 topics for a small spread; all elements of an item are equal for spread 0, where bounds are attained."""
    topics = F.normalize(torch.randn(3, d, generator=torch.Generator().manual_seed(7)), dim=-1)
    x = topics[torch.randint(3, (n,), generator=draw)][:, None] + spread * torch.randn(n, k, d, generator=draw)
    x = F.normalize(x, dim=-1)
    if lengths:
        x = x * (0.25 + 2 * torch.rand(n, k, 1, generator=draw))
    sizes = torch.randint(1, k + 1, (n, 1), generator=draw) if ragged else torch.full((n, 1), k)
    return EmbeddingSet(x, torch.arange(k)[None] < sizes)


def items_for(similarity, draw, n: int, k: int, d: int, spread: float, ragged: bool, lengths: bool):
    """Items of the kind that a similarity compares."""
    made = sets(draw, n, 1 if similarity.compares in ("vectors", "distributions") else k, d, spread, ragged, lengths)
    if similarity.compares == "vectors":
        return Embedding(made.x[:, 0])
    if similarity.compares == "distributions":
        return GaussianEmbedding(made.x[:, 0], 2 * torch.rand(n, d, generator=draw) - 3.0)
    return made


def double(r):
    return r._map(lambda t: t.double() if t.is_floating_point() else t)


def real(r):
    """The directions of all real elements, vectors or means."""
    x = r.x[r.mask] if isinstance(r, EmbeddingSet) else r.mean if isinstance(r, GaussianEmbedding) else r.x
    return F.normalize(x.double(), dim=-1)


def exact_scores(similarity, queries, gallery, modality: str) -> np.ndarray:
    """queries × gallery in float64, by the plain form."""
    pair = (gallery, queries) if modality == "captions" else (queries, gallery)
    with torch.no_grad():
        scores = similarity(*(double(r) for r in pair))
    return (scores.T if modality == "captions" else scores).numpy()


gallery_options = {
    "seed": st.integers(0, 10**6), "k": st.integers(1, 5), "l": st.integers(1, 4), "ragged": st.booleans(),
    "spread": st.sampled_from([0.0, 0.02, 0.3, 5.0]), "lengths": st.booleans(),
    "modality": st.sampled_from(["captions", "images"]),
}  # fmt: skip


@given(similarity=st.sampled_from([*OF_SETS, Cosine(), *OF_DISTRIBUTIONS]), **gallery_options)
@settings(QUICK, max_examples=300)
def test_no_score_is_above_its_bound(similarity, seed, k, l, ragged, spread, lengths, modality):
    """Of a group of items and the largest cosines that their elements have."""
    draw = torch.Generator().manual_seed(seed)
    gallery = items_for(similarity, draw, 9, k, 6, spread, ragged, lengths)
    query = items_for(similarity, draw, 1, l, 6, spread, ragged, lengths)
    cosines = (real(query) @ real(gallery).T).amax(1).numpy()
    bound, reason = upper_bound(similarity, query, cosines, Extent.from_items(gallery), modality)
    assert not reason and exact_scores(similarity, query, gallery, modality).max() <= bound


def test_bounds_are_attained():
    """One direction everywhere: both logarithms count in full."""
    x, query = torch.zeros(1, 4, 2), torch.zeros(1, 3, 2)
    x[..., 0] = query[..., 0] = 1.0
    gallery, query = (EmbeddingSet(s, torch.ones(s.shape[:2], dtype=torch.bool)) for s in (x, query))
    for similarity, value in (
        (SmoothChamfer(16.0), 1 + (np.log(4) + np.log(3)) / 32), (Chamfer(), 1.0), (SumMax("i2t"), 4.0),
        (SumMax("t2i"), 3.0), (SumMax("both"), 7.0), (MaxPairwise(), 1.0),
    ):  # fmt: skip
        bound, _ = upper_bound(similarity, query, np.ones(3), Extent.from_items(gallery))
        assert bound == pytest.approx(value, abs=1e-8)
        assert exact_scores(similarity, query, gallery, "captions").item() == pytest.approx(bound, abs=1e-8)


@given(
    similarity=st.sampled_from([*OF_SETS, Cosine(), *OF_DISTRIBUTIONS]), codes=st.sampled_from(["uint8", "float32"]),
    probes=st.sampled_from([1, 3, None]), per_element=st.sampled_from([3, 20]), most=st.sampled_from([None, 60, 10**6]),
    **gallery_options,
)  # fmt: skip
@QUICK
def test_a_certified_answer_is_exact_search(
    similarity, codes, probes, per_element, most, seed, k, l, ragged, spread, lengths, modality
):
    draw = torch.Generator().manual_seed(seed)
    gallery = items_for(similarity, draw, 400, k, 6, spread, ragged, lengths)
    queries = items_for(similarity, draw, 4, l, 6, spread, ragged, lengths)
    with tempfile.TemporaryDirectory() as folder:
        build_elements(gallery, folder, "digest", lists=6, codes=codes)
        index = open_elements(folder, gallery, "digest")
        answers = two_stage(index, queries, similarity, 5, per_element, probes, modality, most)
    exact = exact_scores(similarity, queries, gallery, modality)
    order = np.argsort(-exact, axis=1, kind="stable")[:, :5]
    if most == 10**6:
        assert answers.certified.all(), "everything is proposed in the end"
    for q in range(4):
        if answers.certified[q]:
            right = np.take_along_axis(exact[q], order[q], 0)
            assert np.allclose(answers.scores[q], right, atol=1e-5 * max(1, np.abs(right).max()))
            groups = np.abs(np.diff(np.sort(exact[q])))
            if groups.min() > 1e-9:  # equal scores have an order of their own, in another test
                assert answers.positions[q].tolist() == order[q].tolist()
        left = np.setdiff1d(np.arange(400), answers.positions[q])
        if not answers.certified[q] and (answers.positions[q] >= 0).all():
            last = answers.scores[q, -1]
            assert (exact[q, left] <= max(answers.bounds[q], last + 1e-5 * max(1, abs(last)))).all()


def test_what_certification_costs_is_what_was_needed(tmp_path):
    """Near neighbours are certified at once, chance is not; and only more proposals certify more."""
    draw = torch.Generator().manual_seed(0)
    topics = F.normalize(torch.randn(60, 64, generator=draw), dim=-1)
    x = F.normalize(topics.repeat_interleave(20, 0)[:, None] + 0.02 * torch.randn(1200, 4, 64, generator=draw), dim=-1)
    gallery = EmbeddingSet(x, torch.ones(1200, 4, dtype=torch.bool))
    build_elements(gallery, tmp_path, "digest")
    index = open_elements(tmp_path, gallery, "digest")
    once = two_stage(index, gallery[:40], SmoothChamfer(), 5, per_element=100, probes=None)
    assert once.certified.all() and (once.bounds < once.scores[:, -1]).all() and not once.reason
    few = two_stage(index, gallery[:40], SmoothChamfer(), 5, per_element=8, probes=1)
    assert not few.certified.all() and np.isfinite(few.bounds).all()
    more = two_stage(index, gallery[:40], SmoothChamfer(), 5, per_element=8, probes=1, most=10**6)
    assert more.certified.all() and np.array_equal(more.positions, once.positions)
    scores, positions = more  # an answer unpacks
    assert isinstance(more, Answers) and scores.shape == positions.shape == (40, 5)


def test_what_cannot_be_certified_says_why(tmp_path):
    draw = torch.Generator().manual_seed(0)
    gallery = sets(draw, 400, 4, 8, 0.3, True, False)
    build_elements(gallery, tmp_path, "digest", lists=6)
    index = open_elements(tmp_path, gallery, "digest")
    scan = two_stage(index, gallery[:2], Scan(), 5, 10, 2, most=40)
    assert scan.reason == "there is no bound for Scan" and not scan.certified.any() and np.isinf(scan.bounds).all()
    everything = two_stage(index, gallery[:2], Scan(), 5, 10**6, None)
    assert everything.certified.all() and not everything.reason, "all items were compared"
    query = GaussianEmbedding(torch.eye(2)[:1], torch.zeros(1, 2), torch.zeros(1, 3, 2))
    assert upper_bound(MatchLogit(), query, np.ones(1), Extent(1.0, 1.0))[1] == "there is no bound for MatchLogit"
    far = DistanceLogit()
    far.a.data.fill_(-1.0)
    assert "prefers what is far" in upper_bound(far, query, np.ones(1), Extent(1.0, 1.0))[1]


def test_an_index_of_an_earlier_version_opens_and_is_not_certified(tmp_path):
    """Format 1 without extents and caps, as the last version wrote it."""
    from xmr_core.search.files import write_manifest

    gallery = sets(torch.Generator().manual_seed(0), 400, 4, 8, 0.3, True, False)
    build_elements(gallery, tmp_path, "digest", lists=6)
    new = two_stage(open_elements(tmp_path, gallery, "digest"), gallery[:3], Chamfer(), 5, 40, 3)
    about = json.loads((tmp_path / "elements.json").read_text())
    for name in ("seal", "extent", "coding"):
        about.pop(name)
    (tmp_path / "elements.caps.safetensors").unlink()
    about["files"].pop("elements.caps.safetensors")
    write_manifest(tmp_path / "elements.json", about)
    old = two_stage(open_elements(tmp_path, gallery, "digest"), gallery[:3], Chamfer(), 5, 40, 3, most=400)
    assert np.array_equal(old.positions, new.positions) and not old.certified.any()
    assert "index them again" in old.reason


def test_a_proposer_of_ones_own_needs_three_things():
    """A third engine: plain numpy."""

    class Plain:
        def __init__(self, gallery):
            self.gallery, self.about = (
                gallery,
                {"width": 8, "elements": len(gallery), "extent": vars(Extent.from_items(gallery))},
            )

        def propose(self, elements, per_element, probes=None):
            cosines = elements @ F.normalize(self.gallery.x, dim=-1).numpy().T
            items = np.argsort(-cosines, 1)[:, :per_element]
            cosines = np.take_along_axis(cosines, items, 1)
            return Proposals(items, nearest_left_out(cosines, items, 8, per_element >= len(self.gallery)))

    gallery = Embedding(torch.randn(50, 8, generator=torch.Generator().manual_seed(0)))
    answers = two_stage(Plain(gallery), gallery[:5], Cosine(), 1, 10)
    exact = (gallery.x[:5] @ gallery.x.T).argmax(1)
    right = [n for n in range(5) if answers.certified[n]]
    assert right and answers.positions[right, 0].tolist() == exact[right].tolist()
