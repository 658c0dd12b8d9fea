"""Run notebooks on their defaults and store the outputs in place, without anything that changes from run to run.

python scripts/refresh_notebooks.py notebooks/*.ipynb. A notebook that fails, or whose outputs name a file of this
machine (a warning does), is left as it was, and the exit status is 1.
"""

import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from xmr_core.base import files
from xmr_core.base.errors import BadInput
from xmr_study.running import kernel_environment, own_kernel

WIDGET = "application/vnd.jupyter.widget-view+json"  # a view of a model that lives only as long as its kernel
OF_ONE_EXECUTION = ("papermill", "execution")  # times and paths
# a home of "/", which containers have, is in every path
PLACES = [str(place) for place in (Path(__file__).resolve().parents[1], Path.home()) if len(place.parts) > 1]


def refuse_places(notebook: nbformat.NotebookNode) -> None:
    """Raises: BadInput with the first line of a text output that names a folder of this machine."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            texts = [
                output.get("text", ""),
                *(output.get("data", {}).get(f"text/{kind}", "") for kind in ("plain", "html")),
            ]
            for line in "\n".join(map(str, texts)).splitlines():
                if any(place in line for place in PLACES):
                    raise BadInput(f"an output names a file of this machine: {line} (make clean-runs may help)")


def refresh(path: Path) -> None:
    """Execute one notebook in its own folder, with this very interpreter, and write it back whole."""
    notebook = nbformat.read(path, 4)
    place = {"metadata": {"path": str(path.resolve().parent)}}
    client = NotebookClient(notebook, km=own_kernel(), timeout=1800, record_timing=False, resources=place)
    client.execute(env=kernel_environment(), cleanup_kc=True)  # a manager that was handed in is shut down only if asked
    notebook.metadata.pop("widgets", None)
    notebook.metadata["kernelspec"] = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    notebook.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    for cell in notebook.cells:
        for key in OF_ONE_EXECUTION:
            cell.metadata.pop(key, None)
        if "nbval-ignore-output" in cell.metadata.get("tags", []):  # elsewhere nbval would miss it
            shown = [(o, o.get("data", {}).get("text/plain", "")) for o in cell.outputs]
            cell.outputs = [o for o, text in shown if "%|" not in text and "/s]" not in text]  # bars, also empty ones
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET, None)
    refuse_places(notebook)
    files.write_atomic(path, nbformat.writes(notebook) + "\n")


def main(names: list[str]) -> int:
    if not names:
        print("error: no notebook given. Use: python scripts/refresh_notebooks.py notebooks/*.ipynb", file=sys.stderr)
        return 2
    failed = 0
    for name in names:
        started = time.monotonic()
        try:
            refresh(Path(name))
        except (CellExecutionError, RuntimeError, OSError, ValueError) as e:  # a cell, the kernel, the file, its format
            failed = 1
            print(f"error: {name} is left as it was: {str(e).strip().splitlines()[-1]}", file=sys.stderr)
        else:
            print(f"{name} {time.monotonic() - started:.0f} s", flush=True)
    return failed


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
