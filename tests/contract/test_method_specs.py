"""Method specs: everything that lists methods derives from them, and one from outside is as good as ours."""

from dataclasses import dataclass, fields, replace
from importlib.metadata import EntryPoint

import pytest
import torch
import toy_method
from tiny import tiny_config

import xmr_study as study
from xmr_core.base.errors import BadInput
from xmr_core.methods import registry
from xmr_core.methods.common import Inputs
from xmr_core.methods.registry import MODULES, Options, build, method_spec, methods, option, papers, register
from xmr_study.parameters import check_values
from xmr_study.variants import label_of, labelled

ADDRESS = "toy_method:SPEC"
INPUTS = Inputs(5, 3, 9, word_dim=4)


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    return register(toy_method.SPEC)


def test_every_module_listed_is_a_method_and_every_id_is_its_own():
    assert list(papers()) == [name for name in MODULES if name != "clip"], "which trains nothing but its own network"
    assert all(name == method_spec(name).id for name in MODULES)
    assert len({spec.label for spec in papers().values()}) == len(papers())
    labels = [label for spec in papers().values() for label in spec.variants]
    assert len(labels) == len(set(labels)) and set(study.comparison()) == set(labels)


@pytest.mark.parametrize("name", papers())
def test_options_have_help_and_defaults_in_range(name):
    spec = papers()[name]
    for f in fields(spec.options):
        assert f.metadata["help"], f.name
        for values in ({f.name: f.default}, {}):
            spec.options.make(name, f.metadata["form"] or "matched", values)
    for corpus in spec.settings:
        options = {k: v for k, v in spec.published_settings(corpus).items() if k in spec.options.names()}
        spec.make_options("published", options)


def test_sixteen_and_sixteen_point_nought_are_the_same_run():
    assert method_spec("dive").full_options("matched", {"alpha": 16}) == method_spec("dive").full_options("matched", {})
    assert method_spec("scan").full_options("matched", {})["sharpness"] is None


def test_the_temperature_reaches_the_objective():
    method = build("dive", INPUTS, d=8, temperature=0.2)
    assert method.objective.score_loss.log_scale.exp().item() == pytest.approx(5.0)


def test_a_spec_says_what_is_wrong_with_it():
    for wrong, word in (
        ({"id": "my method"}, "short name"), ({"id": ".."}, "short name"),
        ({"variants": {"x": {"dd": 3}}}, "unknown option"), ({"label": " "}, "label"),
    ):  # fmt: skip
        with pytest.raises(BadInput, match=word):
            replace(toy_method.SPEC, **wrong)
    with pytest.raises(BadInput, match="unknown form"):
        toy_method.SPEC.build(INPUTS, "published")


def test_options_need_their_type_and_range():
    @dataclass(frozen=True)
    class Few(Options):
        share: float | None = option(None, "a share", least=0, most=1)

    assert Few(share=1).share == 1.0 and Few().share is None
    for value in (1.5, -0.1, float("nan"), "a", True):
        with pytest.raises(BadInput, match="share must be"):
            Few(share=value)


def test_addresses_that_lead_nowhere():
    for address in ("no_such_module:SPEC", "toy_method:SPECS", "toy_method:matched"):
        with pytest.raises(BadInput, match=address):
            method_spec(address)
    with pytest.raises(BadInput, match="method of the package"):
        register(replace(toy_method.SPEC, id="dive"))


def test_a_method_from_outside_is_compared_and_labelled(registered):
    assert methods()["toy-maxsim"] is registered and "toy-maxsim" not in papers()
    assert study.comparison()["Toy MaxSim i2t"] == ("toy-maxsim", {"direction": "i2t"})
    check_values({"method": "toy-maxsim"})  # of a notebook, or the command line
    assert label_of("toy-maxsim") == "Toy MaxSim" and "Toy MaxSim" in labelled()
    first, second = study.variant_configs(tiny_config("scan"), ["Toy MaxSim i2t", ADDRESS], [3])
    assert (first.method, first.options["direction"], first.train.seed) == ("toy-maxsim", "i2t", 3)
    assert second.method == ADDRESS and second.options["d"] == 16
    torch.manual_seed(0)
    one, other = build("toy-maxsim", INPUTS, d=8), build(ADDRESS, INPUTS, d=8)
    assert one.n_parameters() == other.n_parameters() and other.address == ADDRESS


def test_one_broken_package_takes_no_other_method_away(monkeypatch):
    broken = EntryPoint("broken", "no_such_module:SPEC", "xmr_core.methods")
    monkeypatch.setattr(registry, "entry_points", lambda group: [broken])
    registry._installed.cache_clear()
    try:
        with pytest.warns(UserWarning, match="cannot be imported.*left out"):
            assert "dive" in methods()
    finally:
        registry._installed.cache_clear()
