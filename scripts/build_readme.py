"""Write the table of methods into README.md, between its two marks, and docs/methods/options.md. A test says when one
is out of date.

python scripts/build_readme.py, or `make readme`.
"""

import textwrap
from pathlib import Path

from xmr_core.base.files import write_atomic
from xmr_study.method_tables import methods_table, options_table, published_table

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = ROOT / "docs" / "methods" / "options.md"
START, END = "<!-- methods: made by `make readme` -->\n", "<!-- end of methods -->"


def options_page() -> str:
    """docs/methods/options.md: the options of every method, and what each paper set."""
    return (
        "(methods-options)=\n# Options and published settings of every method\n\n"
        "`make readme` writes this page from the specs of the methods; nothing in it is typed. "
        "An option is given by its\nname in a notebook, on the command line or from Python:\n\n"
        "```sh\nxmr run notebooks/train.ipynb -p method scan -p seed 1\n```\n\n```python\n"
        "from xmr_study import base_config\n\n"
        'base_config("scan", direction="i2t", sharpness=4.0).options["direction"]\n```\n\n'
        "What an option means, its range and its choices stand in the options class of the method's file in\n"
        "`xmr_core/methods/`, and on the method's page ([methods](index.md#methods-table)). "
        "A value that is out of its\nrange is refused with a message that says so.\n\n"
        "(methods-options-table)=\n## Options\n\n"
        f"{options_table()}\n"
        "(methods-published-table)=\n## Published settings\n\n"
        f"{_wrapped(published_table())}"
    )


def _wrapped(text: str) -> str:
    """Markdown with lines of prose of at most 116 characters; tables stay as they are."""
    lines = text.splitlines()
    return "".join(f"{line if line.startswith('|') else textwrap.fill(line, 116)}\n" for line in lines)


def with_table(readme: str) -> str:
    """README.md with the table of methods as it must be now."""
    before, rest = readme.split(START)
    return before + START + methods_table() + END + rest.split(END)[1]


if __name__ == "__main__":
    readme = ROOT / "README.md"
    write_atomic(readme, with_table(readme.read_text()))
    write_atomic(OPTIONS, options_page())
