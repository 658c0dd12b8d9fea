"""Alter one printed number in every compared cell of the notebooks, and see that nbval fails at each of them.

python tests/altered_outputs.py [notebooks/x.ipynb …] prints a line for each notebook, and fails where a number passes.
Nothing is trained: the copy that is collected has the altered numbers as its stored outputs, and in place of a kernel
stands one that answers with the outputs that the notebook really has. All else is nbval as `make test` runs it: tags,
the list of what is not compared, and what is made equal first (nbval_sanitize.cfg). That a true run gives the stored
outputs is what `make test` itself shows.
"""

import re
import subprocess
import sys
import tempfile
from collections import Counter, deque
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
PRINTED = ("text/plain", "text/markdown")  # beside the text of streams; text/html repeats them
NUMBER = re.compile(r"(?<![\w.#])\d+(?:\.\d+)?(?![\w.]| ?s\b)")  # nbval_sanitize.cfg makes seconds and addresses equal
CONFTEST = """import sys
sys.path.insert(0, {tests!r})
from altered_outputs import pytest_collectstart
"""


def altered(text: str) -> str:
    """The text with the last digit of its last number another one; the same text where it has no number.

    >>> altered("α=16 has 0.25"), altered("nothing"), altered("<Figure with 9 Axes>")
    ('α=16 has 0.26', 'nothing', '<Figure with 0 Axes>')
    """
    found = list(NUMBER.finditer(text))
    if not found:
        return text
    end = found[-1].end()
    return text[: end - 1] + str((int(text[end - 1]) + 1) % 10) + text[end:]


def alter(cell) -> bool:
    """Alter one number that the cell prints, if it prints any; whether it does."""
    for output in cell.outputs:
        places = [(output, "text")] if "text" in output else [(output.get("data", {}), kind) for kind in PRINTED]
        for holder, key in places:
            old = holder.get(key, "")
            if output.get("name") != "stderr" and (new := altered(old)) != old:
                holder[key] = new
                return True
    return False


def write_altered(path: Path, folder: Path) -> list[str]:
    """Write the altered copy of a notebook into `folder`, and the notebook itself beside it as NAME.true. Of each
    code cell: 'altered', 'ignored' (its tag keeps nbval from comparing it) or 'silent' (it prints no number)."""
    notebook, kinds = nbformat.read(path, 4), []
    (folder / f"{path.stem}.true").write_bytes(path.read_bytes())
    for cell in (c for c in notebook.cells if c.cell_type == "code"):
        ignored = "nbval-ignore-output" in cell.metadata.get("tags", [])
        kinds.append("ignored" if ignored else "altered" if alter(cell) else "silent")
    nbformat.write(notebook, folder / path.name)
    return kinds


class Replay:
    """In place of nbval's kernel: a cell that is executed has the outputs that the true notebook stores for it."""

    def __init__(self, path: Path):
        self.cells = iter([c for c in nbformat.read(path, 4).cells if c.cell_type == "code"])
        self.messages: deque = deque()

    def execute_cell_input(self, source: str, allow_stdin: bool = False) -> str:
        cell = next(self.cells)
        assert cell.source == source, "the copy has other cells than the notebook"
        contents = [(output.output_type, {"metadata": {}, **output}) for output in cell.outputs]
        for kind, content in [*contents, ("status", {"execution_state": "idle"})]:
            self.messages.append({"msg_type": kind, "content": content, "parent_header": {"msg_id": "cell"}})
        return "cell"

    def get_message(self, stream: str, timeout: float | None = None) -> dict:
        return self.messages.popleft()

    def await_reply(self, msg_id: str, timeout: float | None = None) -> None:
        """Every answer is there already."""

    def stop(self) -> None:
        """There is no process."""

    def is_alive(self) -> bool:
        return True


def pytest_collectstart(collector):
    """Hook of the copies' conftest.py: warnings are not compared, as in notebooks/conftest.py, and kernels replay."""
    if hasattr(collector, "skip_compare"):
        collector.skip_compare = (*collector.skip_compare, "stderr")

        def setup():
            collector.kernel = Replay(Path(collector.fspath).with_suffix(".true"))
            collector.setup_sanitize_files()

        collector.setup = setup


def failures(paths: list[Path]) -> dict[str, tuple[list[str], set[int]]]:
    """Name of a notebook → what became of its code cells, and the numbers of those at which nbval fails."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        kinds = {path.stem: write_altered(path, folder) for path in paths}
        (folder / "conftest.py").write_text(CONFTEST.format(tests=str(ROOT / "tests")))
        (folder / "pytest.ini").write_text("[pytest]\n")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-q",
            "--tb=no",
            "--nbval",
            "-rf",
            str(folder),
        ]
        command += ["--nbval-sanitize-with", str(ROOT / "tests" / "nbval_sanitize.cfg")]
        said = subprocess.run(command, capture_output=True, text=True, cwd=folder).stdout
    failed = re.findall(r"^FAILED .*?(\w+)\.ipynb::Cell (\d+)", said, re.M)
    return {name: (own, {int(cell) + 1 for stem, cell in failed if stem == name}) for name, own in kinds.items()}


def main(names: list[str]) -> int:
    """Print the table; 1 if nbval passes a cell with an altered number, or fails at one that has none."""
    paths = [Path(name) for name in names] or sorted((ROOT / "notebooks").glob("*.ipynb"))
    wrong, total = 0, Counter()
    print(f"{'notebook':28} cells  not compared  no number  altered  failed")
    for name, (kinds, failed) in failures(paths).items():
        count, expected = Counter(kinds), {n for n, kind in enumerate(kinds, 1) if kind == "altered"}
        wrong += failed != expected or not expected
        total += count
        numbers = f"{len(kinds):5}  {count['ignored']:12}  {count['silent']:9}  {len(expected):7}  {len(failed):6}"
        print(f"{name:28} {numbers}" + f"  ← {sorted(failed ^ expected)}" * (failed != expected))
    print(f"{sum(total.values())} cells, {sum(total.values()) - total['ignored']} compared, {total['altered']} altered")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
