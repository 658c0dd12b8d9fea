"""Run notebooks on their defaults and store the outputs in place, without anything that changes from run to run."""

import os
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def refresh(path: Path) -> None:
    """Execute one notebook in its own folder and write it back; a failing notebook is left as it was."""
    notebook = nbformat.read(path, 4)
    client = NotebookClient(
        notebook, timeout=1800, kernel_name="python3", record_timing=False, resources={"metadata": {"path": str(path.parent)}}
    )
    client.execute()
    notebook.metadata.pop("widgets", None)
    notebook.metadata["kernelspec"] = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    notebook.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for name in sys.argv[1:]:
        started = time.monotonic()
        refresh(Path(name))
        print(f"{name} {time.monotonic() - started:.0f} s")
