"""Notebook hygiene, read from the JSON: without it nbval passes cells never executed, and compares nothing."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_output
from synthetic import FIGURE, TABLE, build

from xmr_core.base.errors import BadInput
from xmr_core.ui.parameters import checked_value, declared_parameters

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
EXPECTED = {"train", "ablation_alpha"}  # the README and `make study` name these
MAX_CELLS, MAX_LINES, MAX_BYTES = 15, 15, 1_000_000
MACHINE_PATH = re.compile(r"""(?<![\w.:/~$}-])/(home|root|tmp|Users|mnt|opt|var|usr|work|data)/\w|\b[A-Z]:\\\\\w""")


def problems(path: Path) -> list[str]:
    """What is wrong with a notebook that is about to be committed."""
    raw = path.read_text()
    notebook = nbformat.reads(raw, 4)
    cells = [c for c in notebook.cells if c.cell_type == "code"]
    out = [f"{len(raw)} bytes"] if len(raw) > MAX_BYTES else []
    if (
        not notebook.cells
        or notebook.cells[0].cell_type != "markdown"
        or not re.match(r"# .*\?", notebook.cells[0].source)
    ):
        out.append("the title is not a question")
    tagged = [i for i, c in enumerate(cells) if "parameters" in c.metadata.get("tags", [])]
    if tagged != [0]:
        out.append(f"cells tagged parameters: {tagged}, must be the first code cell only")
    else:
        try:
            for parameter in declared_parameters(path).values():
                checked_value(parameter, parameter.default)
                if not parameter.help:
                    out.append(f"parameter {parameter.name} has no comment")
        except BadInput as e:
            out.append(str(e))
    if any("injected-parameters" in c.metadata.get("tags", []) for c in cells) or "papermill" in notebook.metadata:
        out.append("this is papermill's output, not the notebook run on its defaults")
    if "check_parameters" not in _calls(cells[1] if len(cells) > 1 else None):
        out.append("the second code cell does not call check_parameters")
    if not cells or "finish" not in _calls(cells[-1]):
        out.append("the last code cell does not call finish")
    elif f'output_folder("{path.stem}", p)' not in cells[-1].source:
        out.append("its output folder is not named after it")
    if len(cells) > MAX_CELLS:
        out.append(f"{len(cells)} code cells")
    out += [
        f"code cell {i + 1} has {n} lines" for i, c in enumerate(cells) if (n := len(c.source.splitlines())) > MAX_LINES
    ]
    if (counts := [c.execution_count for c in cells]) != list(range(1, len(cells) + 1)):
        out.append(f"execution counts {counts}: run make notebooks")
    kinds = [
        {"error" if o.output_type == "error" else mime for o in c.outputs for mime in o.get("data", [None])}
        for c in cells
    ]
    out += [f"code cell {i + 1} ended in an error" for i, found in enumerate(kinds) if "error" in found]
    figures = [i for i, found in enumerate(kinds) if "image/png" in found]
    tables = [i for i, found in enumerate(kinds) if "text/html" in found]
    if not figures:
        out.append("no figure")
    elif not any(i < figures[-1] for i in tables):
        out.append("no table before the last figure: pictures are not compared, tables are")
    if match := MACHINE_PATH.search(json.dumps([[c.source, c.get("outputs", [])] for c in notebook.cells])):
        out.append(f"path of one machine: …{match.string[max(0, match.start() - 20) : match.end() + 20]}…")
    return out


def _calls(cell) -> set[str]:
    """Names of the functions a cell calls."""
    nodes = ast.walk(ast.parse(cell.source)) if cell is not None else []
    return {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def test_the_notebooks_are_there():
    assert {path.stem for path in NOTEBOOKS} >= EXPECTED


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_hygiene(path):
    assert not problems(path)


@pytest.fixture
def good(tmp_path) -> Path:
    path = build(tmp_path / "small.ipynb", TABLE, FIGURE)
    notebook = nbformat.read(path, 4)
    for number, cell in enumerate((c for c in notebook.cells if c.cell_type == "code"), 1):
        cell.execution_count = number
    notebook.cells[3].outputs = [
        new_output("execute_result", {"text/html": "<table>", "text/plain": "alpha"}, execution_count=3)
    ]
    notebook.cells[4].outputs = [new_output("display_data", {"image/png": "abcd", "text/plain": "<Figure>"})]
    nbformat.write(notebook, path)
    return path


def test_a_good_notebook_has_no_problems(good):
    assert not problems(good)


def _tag(cell, name):
    cell.metadata["tags"] = [*cell.metadata.get("tags", []), name]


BREAKS = {  # cells of `good`: title, parameters, check, table, figure, finish
    "execution counts": lambda cells: cells[4].update(execution_count=None),
    "run make notebooks": lambda cells: cells[3].update(execution_count=7),
    "ended in an error": lambda cells: cells[3].outputs.append(new_output("error", ename="E", evalue="", traceback=[])),
    "must be the first code cell only": lambda cells: _tag(cells[2], "parameters"),
    "cells tagged parameters: []": lambda cells: cells[1].metadata.clear(),
    "papermill's output": lambda cells: _tag(cells[2], "injected-parameters"),
    "does not call check_parameters": lambda cells: cells[2].update(source="# check_parameters(globals())"),
    "does not call finish": lambda cells: cells[5].update(source="finish"),
    "not named after it": lambda cells: cells[5].update(source=cells[5].source.replace('"small"', '"smal"')),
    "no figure": lambda cells: cells[4].outputs.clear(),
    "no table before": lambda cells: cells[3].outputs.clear(),
    "path of one machine": lambda cells: cells[2].update(source=cells[2].source + "\nx = '/home/me/data'"),
    "/tmp/": lambda cells: cells[2].outputs.append(
        new_output("stream", name="stderr", text="/tmp/ipykernel_1/2.py:3: Warning")
    ),
    "16 lines": lambda cells: cells[3].update(source="\n".join(["x = 1"] * 16)),
    "16 code cells": lambda cells: cells.extend(new_code_cell("x", execution_count=6 + i) for i in range(11)),
    "bytes": lambda cells: cells[3].outputs[0].data.update({"text/plain": "x" * 1_100_000}),
    "has no comment": lambda cells: cells[1].update(source="alpha: float = 1.0"),
    "is not 'name: type": lambda cells: cells[1].update(source="alpha = 1.0  # scale"),
    "must be int, got 1.5": lambda cells: cells[1].update(source="k: int = 1.5  # number"),
    "title": lambda cells: cells[0].update(source="# An ablation"),
}


@pytest.mark.parametrize("message", BREAKS)
def test_each_problem_is_seen(good, message):
    notebook = nbformat.read(good, 4)
    BREAKS[message](notebook.cells)
    nbformat.write(notebook, good)
    assert any(message in problem for problem in problems(good)), problems(good)


NOISY = """import time
import warnings

from tqdm.auto import tqdm

warnings.warn(f"never the same: {time.time_ns()}")
for _ in tqdm(range(3), desc="steps"):
    pass
print(f"took {id(p) % 97 + 0.5} s at {hex(id(p))}")
pd.DataFrame({"x": [1]}).style"""


@pytest.mark.slow
def test_refreshed_notebooks_pass_nbval_and_altered_ones_do_not(tmp_path):
    """The whole recipe, in a copy of the layout, called from another folder."""

    def python(*words, cwd=tmp_path):
        environment = os.environ | {"XMR_HOME": str(tmp_path / "home"), "MPLBACKEND": "Agg"}
        return subprocess.run(
            [sys.executable, *map(str, words)], cwd=cwd, capture_output=True, text=True, env=environment
        )

    for name in ("pyproject.toml", "conftest.py", "tests/nbval_sanitize.cfg", "notebooks/conftest.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    path = build(tmp_path / "notebooks" / "small.ipynb", TABLE, NOISY, FIGURE)
    bad = build(tmp_path / "bad.ipynb", "1 / 0")
    before = bad.read_bytes()
    refreshed = python(ROOT / "scripts" / "refresh_notebooks.py", bad, path)
    assert refreshed.returncode == 1 and "division by zero" in refreshed.stderr and f"{path} " in refreshed.stdout
    assert bad.read_bytes() == before
    (left,) = problems(path)  # the warning names ipykernel's temporary file, which a committed notebook must not
    assert "ipykernel_" in left

    checked = python("-m", "pytest", "--nbval", "notebooks")
    assert checked.returncode == 0 and "6 passed" in checked.stdout, checked.stdout
    path.write_text(path.read_text().replace("16.0", "17.0").replace("alpha: float = 17.0", "alpha: float = 16.0"))
    altered = python("-m", "pytest", "--nbval", "small.ipynb", cwd=path.parent)
    assert altered.returncode == 1 and "1 failed" in altered.stdout, altered.stdout
