"""Labels of claims, ablations and printed tables: each stands for one run, which can be built."""

import pytest
import torch

import xmr_study as study
from xmr_core.base.types import Features, Tokens
from xmr_core.methods.common import Inputs
from xmr_core.methods.registry import build, method_spec
from xmr_study import paper_tables as published
from xmr_study.claims import ABLATIONS, CLAIMS
from xmr_study.variants import labelled

INPUTS = Inputs(5, 3, 9, word_dim=4)
TABLES = {f"{method}, {name}": table for method, tables in ABLATIONS.items() for name, table in tables.items()}


def run_of(variant: tuple[str, dict]) -> str:
    method, options = variant
    return f"{method} {sorted(method_spec(method).full_options('matched', options).items(), key=str)}"


@pytest.mark.parametrize("name", TABLES)
def test_every_row_of_an_ablation_is_another_run_under_one_label(name):
    table = TABLES[name]
    assert len({run_of(variant) for variant in table.values()}) == len(table)
    for other in (*TABLES.values(), study.comparison()):
        assert all(run_of(other[label]) == run_of(table[label]) for label in set(table) & set(other))


@pytest.mark.parametrize("label", sorted({label for table in TABLES.values() for label in table}))
def test_every_row_of_an_ablation_scores_a_pair(label):
    method, options = next(table[label] for table in TABLES.values() if label in table)
    torch.manual_seed(0)
    model = build(method, INPUTS, **{"d": 8, **options}).eval()
    images = model.encode_images(Features(torch.randn(2, 3, 5), torch.ones(2, 3, dtype=torch.bool)))
    captions = model.encode_captions(Tokens(torch.randint(1, 9, (4, 6)), torch.ones(4, 6, dtype=torch.bool)))
    scores = model.similarity(images, captions)
    assert scores.shape == (2, 4) and scores.isfinite().all() and scores.std() > 0


def test_claims_are_about_runs_that_can_be_trained():
    for claim in CLAIMS:
        for name in (*claim.above, *claim.below):
            assert set(name.split(" + ")) <= labelled().keys(), name


PRINTED = {  # ablation: the paper's table of it
    ("sgraf", "graph"): published.sgraf_graph, ("sgraf", "nodes"): published.sgraf_nodes,
    ("scan", "configuration"): published.scan_configuration, ("dive", "slot attention"): published.dive_slots,
    ("vse+2ad", "removals"): published.vse_2ad_removals, ("vse+2ad", "aggregators"): published.vse_2ad_aggregators,
    ("vse+2ad", "balance"): published.vse_2ad_balance,
}  # fmt: skip


@pytest.mark.parametrize(("method", "name"), PRINTED)
def test_printed_tables_have_the_rows_of_the_ablation(method, name):
    assert set(PRINTED[method, name]()["variant"]) == set(study.ablation(method, name))


@pytest.mark.parametrize(
    ("method", "options"),
    [("scan", {"unit_regions": True}), ("vse+2ad", {"balance": "learned"}),
     ("dive", {"nested": False}), ("pvse", {"nested": False})],
)  # fmt: skip
def test_options_that_were_added_change_no_name_of_an_older_run(method, options):
    spec = method_spec(method)
    full = spec.full_options("matched", {})
    assert full == spec.full_options("matched", options) and not set(options) & set(full)
