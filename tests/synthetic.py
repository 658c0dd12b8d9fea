"""Notebooks of a few lines, built on the spot."""

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

PARAMETERS = """alpha: float = 16.0  # inverse temperature
seeds: list[int] = [0, 1]  # seeds
fast: bool = False  # fewer steps
name: str = "a#b"  # a name"""
CHECK = "from xmr_study.notebook import check_parameters, finish, output_folder\n\np = check_parameters(globals())"
TABLE = "import pandas as pd\n\npd.DataFrame({'alpha': [p.alpha]}).round(3)"
FIGURE = "import matplotlib.pyplot as plt\n\nplt.plot([1, 2])\nplt.show()"
FINISH = """folder = output_folder("small", p)
(folder / "rows.csv").write_text("alpha")
finish(folder, p, {"rows": folder / "rows.csv"}, {"best alpha": p.alpha})"""


def build(
    path: Path, *cells: str, parameters: str | None = PARAMETERS, check: str = CHECK, finish: str = FINISH
) -> Path:
    """Write an unexecuted notebook: title, parameters, check, `cells`, finish; '' leaves a cell out."""
    head = [] if parameters is None else [new_code_cell(parameters, metadata={"tags": ["parameters"]})]
    codes = [new_code_cell(source) for source in (check, *cells, finish) if source]
    notebook = new_notebook(cells=[new_markdown_cell("# Does it work?"), *head, *codes])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path
