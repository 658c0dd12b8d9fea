"""Parameters are what the parameters cell says, and a record is written only for what exists."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from synthetic import PARAMETERS, build

from xmr_core.base import files, paths
from xmr_core.base.errors import BadInput
from xmr_study import notebook
from xmr_study.notebook import check_parameters
from xmr_study.parameters import Parameter, checked_value, declared_parameters, parse_parameters

pytestmark = pytest.mark.usefixtures("own_home")


def cell(source: str, injected: str = "") -> dict:
    """The globals of a notebook after its parameters cell, and papermill's cell if there was one."""
    namespace: dict = {"In": ["", source, *([f"# Parameters\n{injected}"] if injected else [])]}
    exec(source, namespace)
    exec(injected, namespace)
    return namespace


def test_declared_parameters_are_read_without_running(tmp_path):
    found = declared_parameters(build(tmp_path / "n.ipynb", "1 / 0"))
    assert found["alpha"] == Parameter("alpha", "float", 16.0, "inverse temperature")
    assert found["seeds"] == Parameter("seeds", "list[int]", [0, 1], "seeds")
    assert found["name"] == Parameter("name", "str", "a#b", "a name")
    assert list(found) == ["alpha", "seeds", "fast", "name"]


@pytest.mark.parametrize("where", [{"kernelspec": {"language": "R"}}, {"language_info": {"name": "julia"}}])
def test_a_notebook_in_another_language_is_refused(tmp_path, where):
    path = build(tmp_path / "n.ipynb")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"metadata": where}))
    with pytest.raises(BadInput, match="Python"):
        declared_parameters(path)


@pytest.mark.parametrize(
    "source", ["alpha = 1", "alpha: float = 2 * 8", "alpha: Path = 'x'", "alpha: float = ", "values: list[int] = [1]"]
)
def test_a_parameters_cell_that_cannot_be_checked_is_refused(source):
    with pytest.raises(BadInput):
        parse_parameters(source)


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [("float", 0.5, True), ("float", 8, "1e-4"), ("float", 1.0, float("nan")), ("int", 3, 8.0), ("int", 3, True),
     ("bool", False, 0), ("bool", True, "false"), ("str", "1", 1), ("list", [1, "a"], "[1]"),
     ("list[float]", [1, 2.5], ["1"]), ("list[int]", [], [1, 2.5]), ("list[int]", [2], [True])],
)  # fmt: skip
def test_values_have_the_declared_type(kind, right, wrong):
    got = checked_value(Parameter("x", kind, None, ""), right)
    assert got == right and (kind != "float" or type(got) is float)
    with pytest.raises(BadInput, match="must be"):
        checked_value(Parameter("x", kind, None, ""), wrong)


def test_check_returns_read_only_parameters_and_converts_the_notebooks_own():
    namespace = cell(PARAMETERS, "alpha = 8\nseeds = [3]")
    p = check_parameters(namespace)
    assert dict(p) == {"alpha": 8.0, "seeds": [3], "fast": False, "name": "a#b"} and p.alpha == 8.0 and len(p) == 4
    assert type(namespace["alpha"]) is float
    with pytest.raises(BadInput, match="read-only"):
        p.alpha = 9.0
    with pytest.raises(AttributeError, match="'alpha'"):
        _ = p.alhpa


@pytest.mark.parametrize("injected", ["alhpa = 8", "fast = 'false'", "seeds = '[3, 4]'", "del alpha"])
def test_check_refuses_what_papermill_lets_pass(injected):
    with pytest.raises(BadInput):
        check_parameters(cell(PARAMETERS, injected))


def test_equal_parameters_share_a_folder_and_others_do_not():
    p = check_parameters(cell(PARAMETERS))
    same = notebook.output_folder("small", {"name": "a#b", "fast": False, "seeds": [0, 1], "alpha": 16.0})
    assert notebook.output_folder("small", p) == same and same.is_dir() and same.parent == paths.root() / "outputs"
    assert notebook.output_folder("small", check_parameters(cell(PARAMETERS, "alpha = 8"))) != same


def test_finish_records_what_was_made(tmp_path, monkeypatch):
    monkeypatch.setenv(notebook.RECORD_VARIABLE, str(tmp_path / "asked" / "record.json"))
    p = check_parameters(cell(PARAMETERS))
    folder = notebook.output_folder("small_one", p)
    (folder / "rows.csv").write_text("x")
    notebook.finish(folder, p, {"rows": folder / "rows.csv"}, {"best": np.float32(0.5), "n": np.int64(3)})
    record = files.read_json(folder / "record.json")
    assert (record["notebook"], record["parameters"]) == ("small_one", dict(p))
    assert (record["files"], record["summary"]) == ({"rows": "rows.csv"}, {"best": 0.5, "n": 3})
    assert record["started_utc"] <= record["finished_utc"] and record["finished_utc"].endswith("+00:00")
    assert {"xmr_core", "python", "torch", "numpy", "git_commit", "git_dirty", "device"} <= set(record["environment"])
    asked = files.read_json(os.environ[notebook.RECORD_VARIABLE])
    assert Path(asked.pop("folder")) == folder and asked == record
    (folder / "rows.csv").unlink()
    with pytest.raises(BadInput, match="not found"):
        notebook.finish(folder, p, {"rows": folder / "rows.csv"}, {})


def test_close_saves_figures_and_tables_and_shows_no_path(tmp_path):
    p, table = notebook.Parameters({"alpha": 2.0}), pd.DataFrame({"alpha": [2.0], "rsum": [300.5]})
    folder = notebook.output_folder("small", p)
    (folder / "line.png").symlink_to(tmp_path / "elsewhere")
    notebook.close("small", p, {"line": Figure()}, {"sweep": table}, {"best": 300.5})
    assert not (tmp_path / "elsewhere").exists(), "a link in an output folder is replaced, not followed"
    record = files.read_json(folder / "record.json")
    assert sorted(record["files"].values()) == ["line.pdf", "line.png", "sweep.csv"]
    assert pd.read_csv(folder / "sweep.csv").equals(table) and (folder / "line.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(BadInput, match="figure"):
        notebook.close("small", p, {}, {}, {})
