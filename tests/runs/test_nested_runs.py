"""Methods with nested sets: their options, names, claims and runs. What a nested similarity is: test_nested.py."""

import pytest
import torch
from tiny import tiny_config

from xmr_core.evaluation.analysis import budget_table, encode_split
from xmr_core.methods.checkpoint import load_method
from xmr_core.methods.common import Inputs
from xmr_core.methods.registry import build
from xmr_core.retrieval.index import index_split, open_index
from xmr_core.retrieval.ranking import Query, Settings, rank, search
from xmr_core.similarities import Nested
from xmr_core.training.runs import train_or_load

INPUTS = Inputs(5, 3, 9, word_dim=4)


@pytest.mark.parametrize("form", ["matched", "published"])
@pytest.mark.parametrize("name", ["dive", "pvse"])
def test_the_option_nests_every_form_and_changes_no_weight(name, form):
    torch.manual_seed(0)
    plain = build(name, INPUTS, form, d=8, slots=6)
    torch.manual_seed(0)
    nested = build(name, INPUTS, form, d=8, slots=6, nested=True)
    assert isinstance(nested.similarity, Nested) and nested.similarity.prefixes == (1, 2, 4, 6)
    assert not isinstance(plain.similarity, Nested) and plain.similarity.scoring_weight == 1.0
    assert list(plain.state_dict()) == list(nested.state_dict())
    assert all(
        torch.equal(a, b) for a, b in zip(plain.state_dict().values(), nested.state_dict().values(), strict=True)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dive", "pvse"])
def test_a_nested_run_is_evaluated_at_budgets_indexed_and_searched(name, tmp_path, shared_home, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(shared_home))
    run = train_or_load(tiny_config(name, nested=True))
    method, split = run.method(), run.prepared().splits["test"]
    table = budget_table(method.similarity, *encode_split(method, split), {"annotated": split.relevance})
    assert list(zip(table["images"], table["captions"], strict=True)) == [(r, q) for r in (1, 2, 4) for q in (1, 2, 4)]
    stored = run.metrics.query("metric == 'rsum' and relevance == 'annotated'")["value"].item()
    assert table["rsum"].iloc[-1] == pytest.approx(100 * stored, abs=1e-9)
    assert (table["products"] == table["images"] * table["captions"]).all()
    index = open_index(index_split(run, tmp_path / "index"))
    exact = search(index, index.texts[0])
    assert len(exact) and isinstance(index.method.similarity, Nested)
    assert rank(index, Query("text", text=index.texts[0]), Settings(k=3)).order.tolist() == [
        index.position("images", item) for item in exact["item"][:3]
    ]
    loaded, *_ = load_method(run.export(tmp_path / "method.safetensors"))
    assert isinstance(loaded.similarity, Nested)
