"""Parameters are what the parameters cell says, and a record is written only for what exists."""

import os
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure
from synthetic import PARAMETERS, build

from xmr_core.base import files, paths
from xmr_core.base.errors import BadInput
from xmr_study import notebook
from xmr_study.notebook import check_parameters
from xmr_study.parameters import Parameter, checked_value, declared_parameters, parse_parameters


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(notebook.RECORD_VARIABLE, raising=False)


def cell(source: str, injected: str = "") -> dict:
    """The globals of a notebook after its parameters cell, and papermill's cell if there was one."""
    namespace: dict = {"In": ["", source, *([f"# Parameters\n{injected}"] if injected else [])]}
    exec(source, namespace)
    exec(injected, namespace)
    return namespace


def refusal(call, *arguments) -> str:
    with pytest.raises(BadInput) as error:
        call(*arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_declared_parameters_are_read_without_running(tmp_path):
    found = declared_parameters(build(tmp_path / "n.ipynb", "1 / 0"))
    assert found["alpha"] == Parameter("alpha", "float", 16.0, "inverse temperature")
    assert found["seeds"] == Parameter("seeds", "list[int]", [0, 1], "seeds")
    assert found["name"] == Parameter("name", "str", "a#b", "a name")
    assert list(found) == ["alpha", "seeds", "fast", "name"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("alpha = 1", "line 1 of the parameters cell is not"),
        ("alpha: float = 2 * 8", "line 1"),
        ("alpha: Path = 'x'", "declared as Path; use int, float"),
        ("alpha: float = ", "not Python"),
        ("values: list[int] = [1]", "cannot be called values"),
    ],
)
def test_a_parameters_cell_that_cannot_be_checked_is_refused(source, message):
    assert message in refusal(parse_parameters, source)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("not json", "is not a notebook"),
        ("{}", "is not a notebook"),
        ('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', "0 cells tagged"),
    ],
)
def test_a_file_that_is_no_notebook_is_refused(tmp_path, content, message):
    (tmp_path / "n.ipynb").write_text(content)
    assert message in refusal(declared_parameters, tmp_path / "n.ipynb")
    assert "does not exist" in refusal(declared_parameters, tmp_path / "absent.ipynb")
    assert "parameters cell is not Python" in refusal(
        declared_parameters, build(tmp_path / "s.ipynb", parameters="x: int = =")
    )


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [("float", 8, 8.0), ("float", 0.5, 0.5), ("int", 3, 3), ("bool", False, False), ("str", "1", "1"),
     ("list", [1, "a"], [1, "a"]),
     ("list[float]", [1, 2.5], [1.0, 2.5]), ("list[int]", [], []), ("list[str]", ["a"], ["a"])],
)  # fmt: skip
def test_values_of_the_type_pass(kind, value, expected):
    got = checked_value(Parameter("x", kind, None, ""), value)
    assert got == expected and type(got) is type(expected)
    if kind == "list[float]":
        assert [type(v) for v in got] == [float, float]


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [("int", True, "x must be int, got True"), ("int", 8.0, "must be int"), ("float", True, "must be float"),
     ("float", "1e-4", "1.0e-4"), ("float", float("nan"), "got nan"), ("bool", "false", "True or False"),
     ("bool", 0, "True or False"), ("str", 1, "must be str"), ("list", "[1]", "'[1, 2]'"),
     ("list[int]", [1, 2.5], "x[1] must be int, got 2.5"), ("list[int]", [True], "x[0] must be int")],
)  # fmt: skip
def test_values_of_another_type_are_refused(kind, value, message):
    assert message in refusal(checked_value, Parameter("x", kind, None, ""), value)


def test_check_returns_read_only_parameters_and_converts_the_notebooks_own():
    namespace = cell(PARAMETERS, "alpha = 8\nseeds = [3]")
    p = check_parameters(namespace)
    assert dict(p) == {"alpha": 8.0, "seeds": [3], "fast": False, "name": "a#b"} and p.alpha == 8.0 and len(p) == 4
    assert type(namespace["alpha"]) is float
    with pytest.raises(BadInput, match="read-only"):
        p.alpha = 9.0
    with pytest.raises(AttributeError, match="Did you mean 'alpha'"):
        _ = p.alhpa


def test_check_refuses_what_papermill_lets_pass():
    assert "Did you mean 'alpha'" in refusal(check_parameters, cell(PARAMETERS, "alhpa = 8"))
    assert "fast must be bool, got 'false'" in refusal(check_parameters, cell(PARAMETERS, "fast = 'false'"))
    assert "seeds must be list[int]" in refusal(check_parameters, cell(PARAMETERS, "seeds = '[3, 4]'"))
    namespace = cell(PARAMETERS)
    del namespace["alpha"]
    assert "alpha has no value" in refusal(check_parameters, namespace)


def test_equal_parameters_share_a_folder_and_others_do_not():
    p = check_parameters(cell(PARAMETERS))
    same = notebook.output_folder("small", {"name": "a#b", "fast": False, "seeds": [0, 1], "alpha": 16.0})
    assert notebook.output_folder("small", p) == same and same.is_dir() and same.parent == paths.root() / "outputs"
    assert notebook.output_folder("small", check_parameters(cell(PARAMETERS, "alpha = 8"))) != same


def test_finish_records_what_was_made(tmp_path, monkeypatch, capsys):
    import numpy as np

    monkeypatch.setenv(notebook.RECORD_VARIABLE, str(tmp_path / "asked" / "record.json"))
    p = check_parameters(cell(PARAMETERS))
    folder = notebook.output_folder("small_one", p)
    (folder / "rows.csv").write_text("x")
    notebook.finish(folder, p, {"rows": folder / "rows.csv"}, {"best": np.float32(0.5), "n": np.int64(3)})
    record = files.read_json(folder / "record.json")
    assert (
        record["notebook"] == "small_one"
        and record["parameters"] == dict(p)
        and record["files"] == {"rows": "rows.csv"}
    )
    assert record["summary"] == {"best": 0.5, "n": 3}
    assert record["started_utc"] <= record["finished_utc"] and record["finished_utc"].endswith("+00:00")
    assert {"xmr_core", "python", "torch", "numpy", "git_commit", "git_dirty", "device"} <= set(record["environment"])
    asked = files.read_json(os.environ[notebook.RECORD_VARIABLE])
    assert Path(asked.pop("folder")) == folder and asked == record
    assert capsys.readouterr().out == "finished; made: rows (rows.csv)\n"


def test_finish_refuses_a_file_that_was_not_made(tmp_path, monkeypatch):
    monkeypatch.setenv(notebook.RECORD_VARIABLE, str(tmp_path / "record.json"))
    folder = notebook.output_folder("small", {})
    assert "the figure this notebook should have made not found" in refusal(
        notebook.finish, folder, {}, {"figure": folder / "f.png"}, {}
    )
    assert not (tmp_path / "record.json").exists() and not list(folder.iterdir())


def test_close_saves_figures_and_tables_and_shows_no_path(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path))
    p, table = notebook.Parameters({"alpha": 2.0}), pd.DataFrame({"alpha": [2.0], "rsum": [300.5]})
    folder = notebook.output_folder("small", p)
    (folder / "line.png").symlink_to(tmp_path / "elsewhere")
    assert notebook.close("small", p, {"line": Figure()}, {"sweep": table}, {"best": 300.5}) is None
    assert not (tmp_path / "elsewhere").exists(), "a link in an output folder is replaced, not followed"
    record = files.read_json(folder / "record.json")
    assert (
        sorted(record["files"].values()) == ["line.pdf", "line.png", "sweep.csv"] and record["summary"]["best"] == 300.5
    )
    assert pd.read_csv(folder / "sweep.csv").equals(table) and (folder / "line.pdf").read_bytes().startswith(b"%PDF")
    assert refusal(notebook.close, "small", p, {}, {}, {}) == "notebook small has no figure to save."


def test_an_answer_is_shown_as_text_that_a_page_can_render(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    notebook.answer("α = 16 is best. ", "", "One seed decides nothing.")
    assert shown[0].data == "**Answer.** α = 16 is best. One seed decides nothing."
    notebook.answer("In points:", "\n\n- one\n- two\n\n", "All in all, two.")
    assert "In points: \n\n- one\n- two\n\n All in all" in shown[1].data, "a list needs its empty lines"
