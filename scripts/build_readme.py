"""Write the table of methods into README.md, between its two marks. `make readme`; a test says when it is out of date."""

from pathlib import Path

from xmr_core.base import paths
from xmr_core.study.method_tables import methods_table

START, END = "<!-- methods: made by `make readme` -->\n", "<!-- end of methods -->"

if __name__ == "__main__":
    readme = Path(__file__).resolve().parent.parent / "README.md"
    text = readme.read_text()
    before, rest = text.split(START)
    paths.write_atomic(readme, before + START + methods_table() + END + rest.split(END)[1])
