"""Write the tables of the course and of the methods into README.md, between their marks, and docs/methods/options.md. A
test says when one is out of date.

python scripts/build_readme.py, or `make readme`.
"""

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path

from xmr_core.base.files import write_atomic
from xmr_core.methods.registry import COMMON_SETTINGS, Options, papers

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = ROOT / "docs" / "methods" / "options.md"
GUIDE = ROOT / "docs" / "notebooks.md"
START, END = "<!-- methods: made by `make readme` -->\n", "<!-- end of methods -->"
COURSE, LAST = "<!-- course: made by `make readme` -->\n", "<!-- end of course -->"


def methods_table() -> str:
    """A GitHub table, one row per method: id, label, summary and citation. For the README."""
    rows = [(f"`{s.id}`", s.label, s.summary, s.citation) for s in papers().values()]
    return _table(("method", "label", "what it is", "source"), rows)


def options_table() -> str:
    """A GitHub table, one row per method: options with the defaults of the matched form, and those of the published one
    that differ, or that it alone reads.
    """
    rows = []
    for s in papers().values():
        matched, published = _defaults(s.options, "matched"), s.published_options
        if "published" in s.forms:
            published = {n: v for n, v in _defaults(s.options, "published").items() if n not in matched} | published
        rows.append((f"`{s.id}`", _settings(matched), _settings(published) or "–"))
    return _table(("method", "options of the matched form", "published form"), rows)


def _defaults(options: type[Options], form: str) -> dict[str, object]:
    return {name: getattr(options, name) for name in options.names(form)}


def published_table() -> str:
    """What the papers trained with: what all share, then a GitHub table with one row per method and corpora."""
    rows = []
    for s in papers().values():
        rows += [(f"`{s.id}`", ", ".join(corpora), _settings(settings)) for corpora, settings in _merged(s.settings)]
        for corpus, when, settings in s.special:
            corpora = corpus or ", ".join(s.settings)
            rows.append((f"`{s.id}` with {_settings(when)}", corpora, f"as without, but {_settings(settings)}"))
    shared = f"(`preset=published`, `published_for=` a corpus): {_settings(COMMON_SETTINGS)}, and"
    table = _table(("method", "corpus", "published settings"), rows)
    return f"The published form trains as the paper did {shared}\n\n{table}"


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (columns, ("---",) * len(columns), *rows))


def _merged(settings: Mapping[str, Mapping]) -> list[tuple[list[str], Mapping]]:
    """Corpora with equal settings together."""
    groups: list[tuple[list[str], Mapping]] = []
    for corpus, values in settings.items():
        same = next((corpora for corpora, other in groups if other == values), None)
        if same is None:
            groups.append(([corpus], values))
        else:
            same.append(corpus)
    return groups


def _settings(values: Mapping[str, object]) -> str:
    return " ".join(f"`{k}={v:g}`" if isinstance(v, float) else f"`{k}={v}`" for k, v in values.items())


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


def course_table() -> str:
    """A line for each notebook of the course: name, question, minutes; from the guide."""
    lines = re.findall(r"^\| \[`(\w+)`\]\(\S+\) \| ([^|?]+\?)[^|]* \| (\d+) \|$", GUIDE.read_text(), re.M)
    rows = [f"| [{name}](notebooks/{name}.ipynb) | {asks} | {minutes} |\n" for name, asks, minutes in lines]
    return "".join(["| notebook | question | minutes |\n| --- | --- | --- |\n", *rows])


def with_table(readme: str) -> str:
    """README.md with its tables as they must be now."""
    for start, end, table in ((COURSE, LAST, course_table()), (START, END, methods_table())):
        before, rest = readme.split(start)
        readme = before + start + table + end + rest.split(end)[1]
    return readme


if __name__ == "__main__":
    readme = ROOT / "README.md"
    write_atomic(readme, with_table(readme.read_text()))
    write_atomic(OPTIONS, options_page())
