"""MaxSim and its losses (contrastive, ColPali, nested sets) from this package's `SumMax`, against the authors' own
outputs. Each query token counts its best document token; queries are rows. Documents stand where images stand."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from golden import ATOL, RTOL, Case, cases, close_gradient, diagonal, full_set, lengths_mask
from torch.testing import assert_close

from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities import SumMax, Truncated

close = partial(assert_close, rtol=RTOL, atol=ATOL)


def maxsim(queries: EmbeddingSet, documents: EmbeddingSet, **options) -> torch.Tensor:
    return SumMax(**options)(documents, queries).T


def query_rows(scores: torch.Tensor, temperature: float) -> torch.Tensor:
    """Cross-entropy over documents; query q's positive is document q. InfoNCE here would add that over queries."""
    return F.cross_entropy(scores / temperature, torch.arange(len(scores)))


def zero_padded(x: torch.Tensor, mask: torch.Tensor) -> EmbeddingSet:
    """The authors multiply the similarities of padding by 0, as if it were a real token that is the zero vector."""
    return full_set(x * mask[..., None])


@pytest.mark.parametrize("name", cases("maxsim", "masked"))
def test_maxsim_with_and_without_padding(name):
    case = Case(name)
    q, d = case["in.queries"].requires_grad_(), case["in.documents"].requires_grad_()
    queries = EmbeddingSet(q, lengths_mask(case["in.query_lengths"], q.shape[1]))
    documents = EmbeddingSet(d, lengths_mask(case["in.document_lengths"], d.shape[1]))
    close(maxsim(queries, documents), case["out.scores_alone"])
    close(maxsim(queries, documents, direction="i2t"), case["out.scores_reverse_alone"])
    both = case["out.scores_alone"] + case["out.scores_reverse_alone"]
    close(maxsim(queries, documents, direction="both"), both)
    scores = maxsim(queries, zero_padded(d, documents.mask))
    close(scores, case["out.scores"])
    scores.square().sum().backward()
    close_gradient(q.grad, case["out.grad_queries_of_sumsq"])
    close_gradient(d.grad, case["out.grad_documents_of_sumsq"])


def test_maxsim_of_pairs_and_of_groups():
    case = Case("maxsim/pairwise_and_groups_Q4N3")
    queries, n = full_set(case["in.queries"]), case.cfg["N"]
    close(maxsim(queries, full_set(case["in.documents"])).diagonal(), case["out.pairwise"])
    groups = zero_padded(case["in.document_groups"].flatten(0, 1), case["in.document_groups_mask"].flatten(0, 1))
    scores = maxsim(queries, groups)
    close(scores, case["out.grouped"])
    own = torch.stack([row[q * n : (q + 1) * n] for q, row in enumerate(scores)])
    close(own, case["out.kd"])


def test_contrastive_loss_on_maxsim():
    case = Case("maxsim/contrastive_T1_B5N1")
    q, d = case["in.query_embeddings"].requires_grad_(), case["in.documents"].requires_grad_()
    queries = EmbeddingSet(F.normalize(q, dim=-1), case["in.query_mask"])
    documents = zero_padded(F.normalize(d, dim=-1).flatten(0, 1), case["in.document_mask"].flatten(0, 1))
    loss = query_rows(maxsim(queries, documents), case.cfg["temperature"])
    close(loss, case["out.loss"])
    loss.backward()
    close_gradient(q.grad, case["out.grad_query_embeddings"])
    close_gradient(d.grad, case["out.grad_documents"])


def test_colpali_loss():
    case = Case("maxsim/colpali_loss_norm_T0.02")
    q, d = case["in.queries"].requires_grad_(), case["in.documents"].requires_grad_()
    queries = EmbeddingSet(q, q.detach().abs().sum(-1) > 0)  # padding is zero vectors there
    loss = query_rows(maxsim(queries, full_set(d), aggregate="mean"), case.cfg["temperature"])
    close(loss, case["out.loss"])
    loss.backward()
    stored = case["out.grad_queries"]
    close_gradient(q.grad[queries.mask], stored[queries.mask])  # zero rows: a tie of all document tokens
    close_gradient(d.grad, case["out.grad_documents"])


@pytest.mark.parametrize("name", cases("maxsim", "nested"))
def test_nested_losses(name):
    case = Case(name)
    leaves = {role: case[f"in.{role}"].requires_grad_() for role in ("queries", "documents")}
    if "in.negatives" in case:
        leaves["negatives"] = case["in.negatives"].requires_grad_()
    sets, losses = {role: full_set(x) for role, x in leaves.items()}, []
    for query_count, document_count, weight in case.cfg["groups"]:
        maxsim_of_group = Truncated(SumMax(), images=document_count, captions=query_count)
        scores = maxsim_of_group(sets["documents"], sets["queries"]).T
        if "negatives" in sets:
            extra = maxsim_of_group(sets["negatives"], sets["queries"]).T
            own = diagonal(len(scores)).repeat_interleave(case.cfg["negatives_per_query"], dim=1)
            scores = torch.cat([scores, extra.masked_fill(~own, -torch.inf)], 1)
        losses.append(weight * query_rows(scores, case.cfg["temperature"]))
    close(torch.stack(losses), case["out.group_losses"])
    loss = sum(losses) / len(losses)
    close(loss, case["out.loss"])
    loss.backward()
    for role, leaf in leaves.items():
        close_gradient(leaf.grad, case[f"out.grad_{role}"])
