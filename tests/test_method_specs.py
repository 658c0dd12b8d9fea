"""Method specs: everything that lists methods derives from them, and one from outside is as good as ours."""

from dataclasses import dataclass, fields, replace

import pytest
import torch
import toy_method
from tiny import tiny_config

from xmr_core import study
from xmr_core.base.errors import BadInput
from xmr_core.methods import registry
from xmr_core.methods.common import Inputs
from xmr_core.methods.options import Options, option
from xmr_core.methods.registry import build, method_spec, methods, papers, register
from xmr_core.study.method_tables import methods_table, options_table, published_table
from xmr_core.study.variants import known_labels, label_of

ADDRESS = "toy_method:SPEC"
INPUTS = Inputs(5, 3, 9, word_dim=4)


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    return register(toy_method.SPEC)


def test_every_module_listed_is_a_method_and_every_id_is_its_own():
    assert len(papers()) == len(registry.MODULES) and all(name == spec.id for name, spec in papers().items())
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
        spec.make_options(
            "published", {k: v for k, v in spec.published_settings(corpus).items() if k in spec.options.names()}
        )


def test_a_misspelt_option_is_refused_at_once_and_the_nearest_is_named():
    for call in (
        lambda: study.base_config("dive", slotss=4),
        lambda: study.base_config("dive", device="cpu", alphaa=4.0),
        lambda: build("dive", INPUTS, slotss=4),
    ):
        with pytest.raises(BadInput, match="Did you mean '(slots|alpha)'"):
            call()
    with pytest.raises(BadInput, match="unknown method 'scna'. Did you mean 'scan'"):
        study.base_config("scna")
    with pytest.raises(TypeError):
        study.base_config("dive", "scenes")  # what used to be seven positions is named


def test_sixteen_and_sixteen_point_nought_are_the_same_run():
    assert method_spec("dive").full_options("matched", {"alpha": 16}) == method_spec("dive").full_options("matched", {})
    assert method_spec("scan").full_options("matched", {})["sharpness"] is None


def test_the_temperature_reaches_the_objective():
    method = build("dive", INPUTS, d=8, temperature=0.2)
    assert method.objective.score_loss.log_scale.exp().item() == pytest.approx(5.0)


def test_tables_hold_every_paper():
    for table in (methods_table(), options_table()):
        assert all(f"`{name}`" in table for name in papers())
    assert all((f"`{name}`" in published_table()) == bool(spec.published) for name, spec in papers().items())


def test_a_spec_says_what_is_wrong_with_it():
    with pytest.raises(BadInput, match="short name without blank"):
        replace(toy_method.SPEC, id="my method")
    with pytest.raises(BadInput, match="no published form"):
        replace(toy_method.SPEC, published_options={"d": 1024})
    with pytest.raises(BadInput, match="unknown option of toy-maxsim 'dd'"):
        replace(toy_method.SPEC, variants={"x": {"dd": 3}})
    with pytest.raises(BadInput, match="Toy MaxSim has no published form"):
        toy_method.SPEC.build(INPUTS, "published")
    with pytest.raises(BadInput, match="Toy MaxSim has no published settings"):
        study.base_config(ADDRESS, preset="published")


def test_options_need_their_type_and_range():
    @dataclass(frozen=True)
    class Few(Options):
        share: float | None = option(None, "a share", least=0, most=1)

    assert Few(share=1).share == 1.0 and Few().share is None
    for value, words in ((1.5, "at least 0 and at most 1"), ("a", "type float"), (True, "type float")):
        with pytest.raises(BadInput, match=words):
            Few(share=value)


def test_addresses_that_lead_nowhere():
    for address, words in (
        ("no_such_module:SPEC", "cannot be imported"),
        ("toy_method:SPECS", "cannot be imported"),
        ("toy_method:matched", "not a MethodSpec"),
    ):
        with pytest.raises(BadInput, match=words):
            method_spec(address)
    with pytest.raises(BadInput, match="belongs to a method of the package"):
        register(replace(toy_method.SPEC, id="dive"))
    with pytest.raises(BadInput, match="a MethodSpec can be registered"):
        register("dive")


def test_a_method_from_outside_is_compared_and_labelled(registered):
    assert methods()["toy-maxsim"] is registered and "toy-maxsim" not in papers()
    assert study.comparison()["Toy MaxSim i2t"] == ("toy-maxsim", {"direction": "i2t"})
    assert label_of("toy-maxsim") == "Toy MaxSim" and "Toy MaxSim" in known_labels()
    first, second = study.variant_configs(tiny_config("scan"), ["Toy MaxSim i2t", ADDRESS], [3])
    assert (first.method, first.options["direction"], first.train.seed) == ("toy-maxsim", "i2t", 3)
    assert second.method == ADDRESS and second.options["d"] == 16
    torch.manual_seed(0)
    one, other = build("toy-maxsim", INPUTS, d=8), build(ADDRESS, INPUTS, d=8)
    assert one.n_parameters() == other.n_parameters() and other.address == ADDRESS
