"""The cells of a notebook run in this very process, on parameters of a test: no kernel, no pictures on the disk.

A kernel takes seconds to start, and a dozen notebooks on four corpora need a dozen times four of them.
"""

import ast
import contextlib
import io
from pathlib import Path

import matplotlib
import nbformat
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure

from xmr_core.features.cells import CellDescriptor

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"


class SmallCells(CellDescriptor):
    """The cell descriptor on 32 × 32 pixels of an image of 224 × 224: 16 cells, so that word attention is quick."""

    def __init__(self):
        super().__init__(32)
        self.read = 32
        self.resolution, self.identity = 224, "small-cells"

    def __call__(self, pixels):
        small = F.interpolate(torch.from_numpy(pixels).permute(0, 3, 1, 2).float(), self.read, mode="area")
        self.resolution = self.read
        try:
            return super().__call__(small.permute(0, 2, 3, 1).round().to(torch.uint8).numpy())
        finally:
            self.resolution = 224


def run_cells(name: str, **overrides) -> tuple[dict, str]:
    """(variables, printed text) of notebooks/NAME.ipynb after its last cell. Raises: what a cell raises.

    overrides: values of parameters; one that the notebook does not declare is left out, so that a list of common ones
    fits all. The value of a cell's last expression is rendered as a notebook would.
    """
    cells = [c for c in nbformat.read(FOLDER / f"{name}.ipynb", 4).cells if c.cell_type == "code"]
    space, text = {"__name__": "__main__", "display": _rendered}, io.StringIO()
    matplotlib.use("Agg")
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(io.StringIO()):
        for number, cell in enumerate(cells):
            tree = ast.parse(cell.source)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, f"{name}[{number}]", "exec", dont_inherit=True), space)
            if last is not None:
                code = compile(ast.Expression(last.value), f"{name}[{number}]", "eval", dont_inherit=True)
                _rendered(eval(code, space))
            if number == 0:
                space |= {key: value for key, value in overrides.items() if key in space}
    matplotlib.pyplot.close("all")
    return space, text.getvalue()


def _rendered(*values) -> None:
    """Make the table or picture of a value, and drop it."""
    for value in values:
        if hasattr(value, "_repr_html_"):
            value._repr_html_()


def layout_only(figure: Figure, file, **options) -> None:
    """In place of Figure.savefig: everything is laid out, which is where a wrong figure fails, and little is drawn."""
    if Path(file).suffix == ".png":  # the same figure follows as a PDF
        figure.draw_without_rendering()
    Path(file).write_bytes(b"figure")
