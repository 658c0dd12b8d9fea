"""The notebooks of the course lead from one to the next, in the order of docs/notebooks.md, in one chain."""

import re
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[2]
NEXT = re.compile(r"\bnext: ", re.I)


def reading_order() -> list[str]:
    """The notebooks of the course, in the order in which docs/notebooks.md lists them."""
    guide = (ROOT / "docs" / "notebooks.md").read_text()
    return re.findall(r"^\| \[`(\w+)`\]\(\.\./notebooks/\1\.ipynb\) \| [^|]+ \| \d+ \|$", guide, re.M)


def last_text(name: str) -> str:
    """The last text cell of a notebook."""
    cells = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", 4).cells
    return [cell.source for cell in cells if cell.cell_type == "markdown"][-1]


def chain_problems(order: list[str], ends: dict[str, str]) -> list[str]:
    """What is wrong with the sentences "Next: …" at the ends of notebooks: each links the one that follows, and no
    other; the last one has none."""
    out = []
    for name, follows in zip(order, [*order[1:], ""], strict=True):
        _, *after = NEXT.split(ends[name])
        links = [re.findall(r"\]\((\w+)\.ipynb\)", text) for text in after]
        if links != ([[follows]] if follows else []):
            out.append(f'{name} ends with links to {links}; "Next: " must lead to {follows or "nothing"}')
    return out


def test_every_notebook_leads_to_the_one_that_follows_in_the_guide():
    order = reading_order()
    assert len(order) == 15
    assert not chain_problems(order, {name: last_text(name) for name in order})


def test_a_broken_chain_is_seen():
    ends = {"a": "Page: [c](c.ipynb). Next: [b](b.ipynb).", "b": "Next: [c](c.ipynb).", "c": "Page."}
    assert not chain_problems(["a", "b", "c"], ends)
    for name, end in (("a", "Next: [c](c.ipynb)."), ("a", "Page."), ("c", "Next: [a](a.ipynb).")):
        assert len(chain_problems(["a", "b", "c"], ends | {name: end})) == 1
