"""Notebook hygiene, read from the JSON: without it nbval passes cells never executed, and compares nothing."""

import ast
import json
import re
import shutil
import subprocess
import sys
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_output
from synthetic import FIGURE, TABLE, build

import xmr_study as study
from xmr_core.base.errors import BadInput
from xmr_study.parameters import checked_value, declared_parameters

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import refresh_notebooks  # noqa: E402

FOLDER = ROOT / "notebooks"
GUIDE = ROOT / "docs" / "notebooks.md"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MAX_BYTES = 1_000_000
MACHINE_PATH = re.compile(r"""(?<![\w.:/~$}-])/(home|root|tmp|Users|mnt|opt|var|usr|work|data)/\w|\b[A-Z]:\\\\\w""")

# What every notebook with runs declares, in this order, its own parameters between preset and seed or at the end.
COMMON = ["dataset", "data_root", "preset", "seed", "n_seeds", "epochs", "features", "image_model", "text_model",
          "device"]  # fmt: skip
ONE_RUN = {"train", "explore"}  # show single runs, so that a number of seeds would say nothing


def problems(path: Path) -> list[str]:
    """What is wrong with a notebook that is about to be committed."""
    raw = path.read_text()
    notebook = nbformat.reads(raw, 4)
    cells = [c for c in notebook.cells if c.cell_type == "code"]
    out = [f"{len(raw)} bytes"] if len(raw) > MAX_BYTES else []
    if not notebook.cells or not re.match(r"# .*\?", notebook.cells[0].source):
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
    out += _ending_problems(path.stem, cells[-1] if cells else None)
    if (counts := [c.execution_count for c in cells]) != list(range(1, len(cells) + 1)):
        out.append(f"execution counts {counts}: run make notebooks")
    kinds = [{mime for o in c.outputs for mime in o.get("data", [o.output_type])} for c in cells]
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


MINUTES = re.compile(r"^\*(\d+) minutes( · before it: (\[\w+\]\(\w+\.ipynb\)(, )?)+)?\*$", re.M)


def course() -> dict[str, int]:
    """The notebooks of the course → minutes, as docs/notebooks.md has them."""
    lines = re.findall(r"^\| \[`(\w+)`\]\(\S+\) \| [^|]+ \| (\d+) \|$", GUIDE.read_text(), re.M)
    return {name: int(minutes) for name, minutes in lines}


def form_problems(notebook: nbformat.NotebookNode, minutes: int = 0) -> list[str]:
    """What a notebook lacks: minutes and the answer first, few parameters, folded bookkeeping at the end, no stored
    bar; in the course, of which the guide has the minutes, folded answers to its exercises too."""
    first, code = notebook.cells[0].source, [c for c in notebook.cells if c.cell_type == "code"]
    said, folded = MINUTES.search(first), {"source_hidden": True}
    out = [] if said and int(said[1]) == (minutes or int(said[1])) else [f"it does not say {minutes} minutes"]
    made = [o.data.get("text/markdown", "") for o in code[2].get("outputs", []) if "data" in o] if len(code) > 2 else []
    answer = [text for text in re.findall(r"^\*\*Answer\.\*\* .+", "\n".join([first, *made]), re.M)]
    if len(answer) != 1 or len(answer[0].split()) > 90:
        out.append("no short answer in the first cell, or made by the third of code")
    if len(code[0].source.splitlines()) > 8:
        out.append("more than eight lines of parameters")
    if code[-1].metadata.get("jupyter") != folded or "bookkeeping" not in code[-1].metadata.get("tags", []):
        out.append("its last cell is not folded")
    if any(re.search(r"\b(answer|show_verdicts)\(", c.source) and "jupyter" not in c.metadata for c in code):
        out.append("code that makes an answer is not folded")
    asked = [
        n for n, c in enumerate(notebook.cells) if re.search(r"Exercises\b", c.source) and c.cell_type == "markdown"
    ]
    answers = notebook.cells[asked[-1] + 1] if asked else None
    if not minutes:
        pass
    elif not asked or "<details><summary>Answers</summary>" not in notebook.cells[asked[-1]].source:
        out.append("no exercises with folded answers")
    elif answers.metadata.get("jupyter") != folded | {"outputs_hidden": True}:
        out.append("what checks the answers is not folded")
    return out + ["a stored bar"] * any("0%|" in json.dumps(c.outputs) for c in code)


def test_the_course_has_its_form():
    assert len(course()) == 15
    problems = {
        name: form_problems(nbformat.read(FOLDER / f"{name}.ipynb", 4), minutes) for name, minutes in course().items()
    }
    assert not any(problems.values()), problems


def test_the_bench_has_its_form():
    problems = {path.stem: form_problems(nbformat.read(path, 4)) for path in NOTEBOOKS if path.stem not in course()}
    assert not any(problems.values()), problems


def claim_problems(notebook: nbformat.NotebookNode, verdicts: dict[str, str]) -> list[str]:
    """Claims on which a stored run and the study's verdict of today differ where the notebook does not say so, or the
    other way round. What a run says of claims is stored with its answer."""
    said = [o for c in notebook.cells for o in c.get("outputs", []) if "claims" in o.get("metadata", {})]
    apart = [
        (any(verdicts.get(claim) != sign for claim, sign in o.metadata.claims.items()), o.data["text/markdown"])
        for o in said
    ]
    return [text for differs, text in apart if differs != ("The study decided otherwise" in text)]


def test_no_answer_contradicts_the_rows_without_saying_so():
    verdicts = study.ledger().query("corpus.str.startswith('scenes')").set_index("claim")["verdict"].to_dict()
    stored = [nbformat.read(path, 4) for path in NOTEBOOKS]
    assert sum("claims" in o.get("metadata", {}) for n in stored for c in n.cells for o in c.get("outputs", [])) > 1
    assert not [text for notebook in stored for text in claim_problems(notebook, verdicts)]
    other = {"held": "contradicted", "contradicted": "held"}
    turned = {claim: other.get(verdict, verdict) for claim, verdict in verdicts.items()}
    assert [text for notebook in stored for text in claim_problems(notebook, turned)]


def test_no_stored_run_is_of_the_smallest_world():
    sized = {path.stem for path in NOTEBOOKS if re.search(r"size\W{1,6}tiny", path.read_text())}
    assert not sized, "a stored run of the smallest world says nothing"


@pytest.mark.parametrize(
    ("old", "new"),
    [("minutes", "hours"), ("**Answer.**", ""), ("<details>", ""), ("seed: int", "\n" * 9 + "seed: int"),
     ("bookkeeping", "other"), ("outputs_hidden", "shown"), ("import torch", "answer()"),
     ("finished; made", "0%|   finished; made")],
)  # fmt: skip
def test_a_notebook_without_its_form_is_seen(old, new):
    text = (FOLDER / "method_vse.ipynb").read_text()
    assert old in text
    changed = nbformat.reads(text.replace(old, new.replace("\n", "\\n")), 4)
    assert len(form_problems(changed, course()["method_vse"])) == 1


def _calls(cell) -> dict[str, str]:
    """Functions a cell calls by their name → their first two arguments, as `"small", p`."""
    nodes = ast.walk(ast.parse(cell.source)) if cell is not None else []
    calls = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return {node.func.id: ", ".join(map(ast.unparse, node.args[:2])).replace("'", '"') for node in calls}


def _ending_problems(name: str, cell) -> list[str]:
    """The last cell is `close("NAME", p, …)`, or `finish` into `output_folder("NAME", p)`."""
    calls = _calls(cell)
    if not {"close", "finish"} & set(calls):
        return ["the last code cell does not call close or finish"]
    named = calls.get("close", calls.get("output_folder"))
    return [] if named == f'"{name}", p' else ["its output folder is not named after it"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_with_runs_declare_the_same_parameters(path):
    declared = declared_parameters(path)
    common = [name for name in COMMON if name != "n_seeds" or path.stem not in ONE_RUN]
    assert "dataset" not in declared or [name for name in declared if name in COMMON] == common


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_hygiene(path):
    assert not problems(path)


@pytest.mark.slow
def test_refreshed_notebooks_pass_nbval_and_altered_ones_do_not(tmp_path, own_home):
    """The whole recipe, in a copy of the layout, called from another folder."""

    def python(*words):
        return subprocess.run([sys.executable, *map(str, words)], cwd=tmp_path, capture_output=True, text=True)

    for name in ("pyproject.toml", "conftest.py", "tests/nbval_sanitize.cfg", "notebooks/conftest.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    noisy = "import time, warnings\n\nwarnings.warn(f'at {time.time_ns()}')\nprint(f'took {id(p) % 97 + 0.5} s')"
    path = build(tmp_path / "notebooks" / "small.ipynb", TABLE, noisy, FIGURE)
    bad = build(tmp_path / "bad.ipynb", "1 / 0")
    before = bad.read_bytes()
    refreshed = python(ROOT / "scripts" / "refresh_notebooks.py", bad, path)
    assert refreshed.returncode == 1 and "division by zero" in refreshed.stderr and f"{path} " in refreshed.stdout
    assert bad.read_bytes() == before
    (left,) = problems(path)  # the warning names ipykernel's temporary file, which a committed notebook must not
    assert "ipykernel_" in left

    altered = path.read_text().replace("16.0", "17.0").replace("alpha: float = 17.0", "alpha: float = 16.0")
    path.with_name("altered.ipynb").write_text(altered)
    checked = python("-m", "pytest", "--nbval", "notebooks")
    assert checked.returncode == 1 and "FAILED notebooks/altered.ipynb" in checked.stdout, checked.stdout
    assert "1 failed, 11 passed" in checked.stdout and "FAILED notebooks/small.ipynb" not in checked.stdout


@pytest.mark.parametrize(("text", "refused"), [(f"{ROOT}/runs.py:1: UserWarning: old", True), ("RSUM 1", False)])
def test_outputs_that_name_a_file_of_this_machine_are_not_stored(text, refused):
    for output in (
        new_output("stream", name="stderr", text=f"first\n{text}\n"),
        new_output("execute_result", {"text/plain": f"first\n{text}"}),
        new_output("display_data", {"text/html": f"<b>first</b>\n{text}", "text/plain": ""}),
    ):
        notebook = nbformat.v4.new_notebook(cells=[new_code_cell("x = 1", outputs=[output])])
        with pytest.raises(BadInput, match="UserWarning: old") if refused else nullcontext():
            refresh_notebooks.refuse_places(notebook)


def test_the_guide_has_every_notebook_once_with_its_question():
    """docs/notebooks.md: a line for each notebook, in the order of reading; the site is built in the same order."""
    lines = re.findall(r"^\| \[`(\w+)`\]\(\.\./notebooks/\1\.ipynb\) \| (.+?) \|", GUIDE.read_text(), re.M)
    assert sorted(name for name, _ in lines) == [path.stem for path in NOTEBOOKS]
    for name, about in lines:
        title = nbformat.read(FOLDER / f"{name}.ipynb", 4).cells[0].source.splitlines()[0].removeprefix("# ")
        assert about.startswith(title) and len(about) > len(title) + 20, name


ITEMS = {"DivE": 16, "PCME": 28, "SGRAF": 11, "SCAN": 7, "VSE+2AD": 9}  # tables and figures with an experiment: 71


def item_problems(text: str) -> list[str]:
    """What is wrong with the guide's tables of items: their number, and notebooks and cells that show nothing."""
    out, counted = [], {}
    for paper, table in re.findall(r"^\*\*([\w+]+) \([^)]*\)\*\*, \d+ items\n\n((?:\|.*\n)+)", text, re.M):
        rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]
        counted[paper] = len({row[0].strip("| ") for row in rows})
        for row in rows:
            named = re.findall(r"`(\w+)` (\d[\d, ]*)", row[2] if len(row) == 5 else "")
            if not named or not all(row):
                out.append(f"{paper}, {row[0]}: no notebook with cells, or an empty column")
            for name, cells in named:
                shows = showing(name)
                missing = [int(n) for n in cells.split(", ") if int(n) not in shows]
                out += [f"{paper}, {row[0]}: cell {n} of {name} shows no table and no figure" for n in missing]
    return out + ([] if counted == ITEMS else [f"items {counted}"])


@cache
def showing(name: str) -> set[int]:
    """Numbers of the code cells of a notebook whose stored outputs are a table, a picture or text; none without it."""
    path = FOLDER / f"{name}.ipynb"
    cells = [c for c in nbformat.read(path, 4).cells if c.cell_type == "code"] if path.exists() else []
    return {cell.execution_count for cell in cells if cell.outputs}


def test_the_guide_has_every_table_and_figure_with_a_cell_that_shows_it():
    text = GUIDE.read_text()
    assert not item_problems(text) and sum(ITEMS.values()) == 71
    whole = sum(line.endswith("| all |") for line in text.splitlines())
    assert f"Of the 71, {whole} come whole by default" in " ".join(text.split()), whole
