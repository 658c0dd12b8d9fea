"""A method in one file outside the package goes all the way: trained by workers and a notebook, compared, exported,
searched with, explained, explored and listed."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import toy_method
from tiny import tiny_config

import xmr_study as study
from xmr_core.methods import registry
from xmr_core.methods.checkpoint import load_method
from xmr_core.retrieval.explain import explained
from xmr_core.retrieval.index import index_split, open_index
from xmr_core.retrieval.library import open_library
from xmr_core.retrieval.ranking import Query, search
from xmr_core.training.runs import load, train_or_load_all
from xmr_study.cli import main

ADDRESS = "toy_method:SPEC"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(module_home):
    """Two variants and a baseline, trained by two worker processes."""
    variants = {**study.comparison(), "Toy MaxSim i2t": (ADDRESS, {"direction": "i2t"})}
    configs = study.variant_configs(tiny_config("vse++"), ["VSE++", ADDRESS, "Toy MaxSim i2t"], [0], variants)
    return train_or_load_all(configs, workers=2, progress=False)


def test_workers_train_it_and_it_is_compared(runs):
    assert [run.id.rpartition("-")[0] for run in runs[1:]] == ["toy-maxsim-scenes-s0"] * 2 and runs[1].id != runs[2].id
    labels = ["VSE++", "Toy MaxSim", "Toy MaxSim i2t"]
    assert len(study.seed_means(study.run_table(runs, labels), ["rsum annotated"])) == 3
    assert set(study.tidy.rows(runs, labels)["variant"]) == set(labels)


def test_it_is_loaded_by_its_id_and_exported(runs, tmp_path):
    assert load(runs[1].id).method().similarity.direction == "t2i"
    assert load_method(runs[2].export(tmp_path / "toy.safetensors"))[0].similarity.direction == "i2t"


def test_search_explains_it_by_what_its_words_add(runs, tmp_path):
    index = open_index(index_split(runs[1], tmp_path / "index"))
    text = str(index.texts[0])
    answers = search(index, text, k=2)
    words = explained(index, Query("text", text), answers).query("part == 'word'")
    sums = words.groupby("rank")["adds"].sum()
    np.testing.assert_allclose(sums.to_numpy(), answers["score"].to_numpy(), rtol=1e-5)
    assert words["adds"].notna().all()


def test_the_explorer_shows_it(runs):
    from xmr_study.explorer.screen import Explorer

    page = Explorer(lambda label: open_library(runs[1], label=label), ["Toy MaxSim"], k=3)
    page.ask(Query("text", "a red circle"))
    assert len(page.rankings) == 1 and len(page.rankings[0].order) == 3


def test_a_notebook_trains_it(tmp_path, own_home, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(toy_method.__file__).parent))
    notebook = Path(__file__).resolve().parents[2] / "notebooks" / "train.ipynb"
    assert main(["run", str(notebook), str(tmp_path / "out.ipynb"), "-p", "method", ADDRESS, "-p", "epochs", "1"]) == 0
    (record,) = (json.loads(p.read_text()) for p in (own_home / "outputs").glob("train-*/record.json"))
    rows = pd.read_csv(next((own_home / "outputs").glob("train-*/rows.csv")))
    assert record["parameters"]["method"] == ADDRESS and set(rows["method"]) == {ADDRESS}


def test_one_line_puts_it_into_the_readme_and_every_list(monkeypatch):
    """The line is one name in methods.MODULES; here the module stands in for a file of the package."""
    import sys

    monkeypatch.setitem(sys.modules, "xmr_core.methods.toy_maxsim", toy_method)
    monkeypatch.setitem(registry.MODULES, "toy-maxsim", "toy_maxsim")
    registry.papers.cache_clear()
    try:
        assert "toy-maxsim" in registry.papers(), "a line of the table of methods"
        assert study.comparison()["Toy MaxSim"] == ("toy-maxsim", {})
        assert study.base_config("toy-maxsim", device="cpu").options["d"] == 64
    finally:
        registry.papers.cache_clear()
