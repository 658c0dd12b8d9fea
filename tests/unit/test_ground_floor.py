"""Types, relevance, masked reductions, files: what everything else stands on."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from xmr_core.base import machine, tensors
from xmr_core.base.errors import BadInput
from xmr_core.base.types import EmbeddingSet, Features, Relevance


def test_rows_slice_and_move_every_tensor_and_leave_none_alone():
    f = Features(torch.arange(12.0).view(3, 2, 2), torch.ones(3, 2, dtype=torch.bool))
    assert len(f) == 3 and len(f[1:]) == 2 and f[1].local_feats.shape == (1, 2, 2) and f.global_feat is None
    assert torch.equal(f[-1].local_feats, f.local_feats[2:]) and f.to(torch.float64).local_feats.dtype == torch.float64
    s = EmbeddingSet(f.local_feats, f.mask, residual=f.local_feats + 1)
    assert torch.equal(s[torch.tensor([2, 0])].residual, (f.local_feats + 1)[[2, 0]])


PAIRS = [("c1", "i1"), ("c0", "i0"), ("c1", "i0"), ("c1", "i1")]


def test_relevance_is_sparse_many_to_many_and_counts_a_pair_once():
    r = Relevance.from_pairs(PAIRS, ["c0", "c1", "c2"], ["i0", "i1"])
    assert [r[q].tolist() for q in range(3)] == [[0], [0, 1], []] and r.counts.tolist() == [1, 2, 0]
    t = r.transpose()
    assert [t[q].tolist() for q in range(2)] == [[0, 1], [1]] and t.query_ids.tolist() == ["i0", "i1"]
    assert (t.transpose().indices == r.indices).all()
    assert r.restrict(np.array([1, 0]), np.array([1])).counts.tolist() == [1, 0]
    assert r.dense(np.array([1, 0, 1]), np.array([1, 0, 1])).tolist() == [[True] * 3, [False, True, False], [True] * 3]


ROWS = [([0, 2], [0]), ([1, 1], [0]), ([0.0, 1.0], [0]), ([0, 1], [0.5]), ([[0, 1]], [0]), (["a", "b"], [0])]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: Relevance.from_pairs([("c9", "i0")], ["c0"], ["i0"]), "id 'c9' occurs in a relevant pair"),
        (lambda: Relevance.from_pairs([], ["c0", "c0"], ["i0"]), "query ids repeat"),
        (
            lambda: Relevance(np.array([0, 1]), np.array([3]), np.array(["c"]), np.array(["i"])),
            "in the gallery",
        ),
        (lambda: Relevance(np.array([0]), np.array([]), np.array(["c"]), np.array(["i"])), "more than queries"),
        *((lambda p=p: Relevance(*map(np.array, p), np.array(["c"]), np.array(["i"])), "indptr") for p in ROWS),
        (lambda: tensors.require_element(torch.tensor([[True], [False]]), "caption"), "caption 1 has no valid element"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(BadInput, match=message):
        call()


@pytest.mark.parametrize("fill", [0.0, 1e30, -1e30])
def test_masked_reductions_see_only_what_is_real(fill):
    x = torch.tensor([[1.0, -2.0, 3.0], [5.0, 0.0, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 0]]).bool()
    x = x.masked_fill(~mask, fill).requires_grad_()
    assert_close(tensors.masked_mean(x, mask).tolist(), [-0.5, 5.0, 0.0])
    assert tensors.masked_max(x, mask).tolist() == [1.0, 5.0, -np.inf]
    assert_close(tensors.masked_logsumexp(x, mask)[:2].tolist(), [np.log(np.exp(1) + np.exp(-2)), 5.0])
    soft = tensors.masked_softmax(x, mask)
    assert_close(soft.sum(1).tolist(), [1.0, 1.0, 0.0])
    assert_close(soft[0, 0].item(), np.exp(1) / (np.exp(1) + np.exp(-2)))
    (
        soft.square().sum() + tensors.masked_mean(x, mask).sum() + tensors.masked_logsumexp(x[:2], mask[:2]).sum()
    ).backward()
    assert torch.isfinite(x.grad).all() and (x.grad[~mask] == 0).all()


def test_models_of_one_name_are_told_by_their_numbers(monkeypatch):
    told = []
    for model in (2, 17):
        text = f"processor : 0\ncpu family : 26\nmodel : {model}\nmodel name : AMD EPYC\n\nprocessor : 1\nmodel : 99\n"
        monkeypatch.setattr(Path, "read_text", lambda self, text=text, **_: text)
        machine.processor.cache_clear()
        told.append(machine.processor())
    monkeypatch.undo()
    machine.processor.cache_clear()
    assert told == ["AMD EPYC, family 26, model 2", "AMD EPYC, family 26, model 17"], "of the first core"
