"""The pages of docs/ and their blocks of code."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```", re.M | re.S)


def python_blocks(text: str) -> list[str]:
    """The blocks of a page that run, in order: those marked `python` and nothing else."""
    return [body for info, body in FENCE.findall(text) if info.strip() == "python"]
