"""The site (build/html): documents, results, verdicts and every executed notebook; and its page of results as PDF
(build/report.pdf), where a Chromium or Chrome is on the path.

python scripts/build_site.py, or `make report`; it needs the extra 'report' (which 'test' includes). Nothing is executed
and no number is typed: results come from the rows in reports/, pages from docs/ and from the committed notebooks.
"""

import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import build_demo
import build_reports
import nbformat
from build_reports import ROOT, markdown
from print_pdf import print_page

from xmr_core.base.files import make_folder
from xmr_study import ledger, records
from xmr_study.ledger import DECIDED

BUILD = ROOT / "build"
REPORTS, NOTEBOOKS, DOCS = ROOT / "reports", ROOT / "notebooks", ROOT / "docs"
SITE = Path(__file__).resolve().parent / "site"  # configuration and style
GUIDE = DOCS / "notebooks.md"  # its sections and their order are those of the site
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")


def groups() -> dict[str, list[str]]:
    """Title of each section of the guide → its notebooks, in order."""
    sections = re.findall(r"^## (.+)\n((?:(?!^## ).*\n?)*)", GUIDE.read_text(), re.M)
    named = {title: re.findall(r"^\| \[`(\w+)`\]", body, re.M) for title, body in sections}
    return {title: names for title, names in named.items() if names}


def claims_page() -> str:
    """The verdicts as a page: what is claimed, by what rule, and on each corpus the verdict and its effect."""
    table = ledger()
    table["claim"] = table["sentence"] + " (" + table["source"] + ")"
    table["verdict"] = table["verdict"].where(~table["verdict"].isin(DECIDED), "**" + table["verdict"] + "**")
    columns = ["claim", "measure", "verdict", "effect", "low", "high", "kind", "seeds"]
    parts = [f"## On {name}\n\n{markdown(own[columns], 3)}" for name, own in table.groupby("corpus") if name]
    absent = table.loc[table["corpus"] == "", ["claim", "measure"]]
    return (
        "# Claims of the papers, and what the rows say\n\n"
        "A claim is a sentence of a paper that a number can decide. A comparison is paired by seed; its interval is "
        "corrected (Holm) among the claims of its paper ([the protocol](../docs/protocol.md)).\n\n"
        + "\n\n".join(parts) + f"\n\n## Not measured yet\n\n{markdown(absent)}\n"
    )  # fmt: skip


def runs_page() -> str:
    """The runs of today's protocol as one table that sorts and filters in the browser, without a server."""
    from itables import options, to_html_datatable
    from itables.javascript import generate_init_offline_itables_html

    rows = records.results()
    rows["RSUM annotated"] = 100 * rows[records.column("annotated", "both", "rsum")]
    rows["RSUM, all true answers"] = 100 * rows[records.column("exhaustive", "both", "rsum")]
    sums = ["RSUM annotated", "RSUM, all true answers"]
    settings = ("ambiguity", "world", "seed", "epochs", "lr", "part", "train_seconds", "processor", "dataset", "commit")
    names = {"lr": "rate", "train_seconds": "seconds", "dataset": "corpus"}
    table = rows[["label", *sums, *settings]].rename(columns=names).round(dict.fromkeys(sums, 1))
    made = to_html_datatable(table, connected=False, table_id="runs", column_filters="footer", showIndex=False)
    script = generate_init_offline_itables_html(options.dt_bundle)
    return f"{script.partition('<div')[0]}<div class='runs'>{made}</div>\n"


def index_page() -> str:
    """The first page of the site: what it holds, and the order of its pages."""
    methods = ["docs/methods/index", *sorted(_names(DOCS / "methods", "docs/methods", "index"))]
    first = ["docs/index", "docs/architecture", "docs/glossary", "CONTRIBUTING"]
    documents = [*first, *sorted({*_names(DOCS, "docs", "index")} - {*first})]
    chapters = {
        "Results": ["reports/README", "reports/claims", "reports/runs"],
        **{group: [f"notebooks/{name}" for name in names] for group, names in groups().items()},
        "Documents": documents,
        "How to": sorted(_names(DOCS / "howto", "docs/howto")),
        "Methods": methods,
    }
    trees = [
        f"```{{toctree}}\n:caption: {title}\n:hidden:\n\n" + "\n".join(names) + "\n```"
        for title, names in chapters.items()
    ]
    readme = (ROOT / "README.md").read_text()
    found = readme[readme.index(build_reports.START) + len(build_reports.START) : readme.index(build_reports.END)]
    return (
        "# Image–text retrieval\n\nType a sentence and get the images that show it: every method of this study "
        "learns that from images with captions. Here two of them answer, from one world of drawn images.\n\n"
        "```{raw} html\n:file: demonstration.html\n```\n\n"
        "[The explorer](notebooks/explore.ipynb) answers any sentence, says why, and takes "
        "[your own images](docs/howto/photographs.md).\n\n"
        f"## What was found\n\n{found}\n"
        "All numbers are in [the results](reports/README.md) and [the runs](reports/runs.md), all verdicts in "
        "[the claims](reports/claims.md).\n\n"
        "## Where to begin\n\n"
        "- **To learn the field:** [the course](docs/notebooks.md), fifteen notebooks in order.\n"
        "- **To search your own images:** [ten minutes](docs/howto/photographs.md).\n"
        "- **To use it from Python:** [the library](docs/library.md), [one page](docs/cheat_sheet.md).\n"
        "- **To add a method in one file:** [extend it](docs/howto/extend.md).\n\n" + "\n\n".join(trees) + "\n"
    )


def _names(folder: Path, name: str, *without: str) -> list[str]:
    return [f"{name}/{page.stem}" for page in folder.glob("*.md") if page.stem not in without]


def with_outside_links(text: str, page: str, inside: set[str]) -> str:
    """Markdown whose links to files that are no part of the site lead to the repository, as seen from build/html.

    page: the path of the page in the repository and in the site. inside: paths of everything in the site.
    """
    here = Path(page).parent

    def link(match: re.Match) -> str:
        words, target = match.groups()
        place = os.path.normpath(here / target.partition("#")[0])
        if target.startswith(("http:", "https:", "mailto:", "#")) or place in inside:
            return match.group(0)
        up = "../" * (len(here.parts) + len((BUILD / "html").relative_to(ROOT).parts))
        return f"<a href='{up}{place}'>{words}</a>"

    parts = re.split(r"(```.*?```)", text, flags=re.S)  # code is left alone
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def write_sources(folder: Path) -> None:
    """Everything that Sphinx reads, each page at its path in the repository."""
    (folder / "_static").mkdir(parents=True)
    shutil.copy(SITE / "study.css", folder / "_static")
    shutil.copy(SITE / "conf.py", folder)
    shutil.copytree(DOCS, folder / "docs")
    shutil.copytree(REPORTS / "figures", folder / "reports" / "figures")
    shutil.copy(ROOT / "CONTRIBUTING.md", folder)
    shutil.copy(REPORTS / "README.md", folder / "reports")
    (folder / "reports" / "claims.md").write_text(claims_page())
    (folder / "reports" / "runs.html").write_text(runs_page())
    (folder / "reports" / "runs.md").write_text(
        "# All runs\n\nA line for every run of [the protocol](../docs/protocol.md). Sort by a column's head, filter at "
        "its foot. `xmr_study.results()` gives the same lines, with every measure, as a frame.\n\n"
        "```{raw} html\n:file: runs.html\n```\n"
    )
    (folder / "notebooks").mkdir()
    names = [n for group in groups().values() for n in group]
    if missing := {p.stem for p in NOTEBOOKS.glob("*.ipynb")} - set(names):
        raise SystemExit(f"error: no section of {GUIDE.name} has {', '.join(sorted(missing))}; add a line.")
    for name in names:
        nbformat.write(notebook_page(name), folder / "notebooks" / f"{name}.ipynb")
    (folder / "index.md").write_text(index_page())
    (folder / "demonstration.html").write_text(build_demo.demonstration())
    inside = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    for page in folder.rglob("*.md"):
        page.write_text(with_outside_links(page.read_text(), page.relative_to(folder).as_posix(), inside))


def sphinx(source: Path, out: Path) -> None:
    """Run Sphinx; any warning is an error. Raises: SystemExit with what Sphinx said."""
    from sphinx.cmd.build import main as build

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        failed = build(["-b", "html", "-W", "--keep-going", "-q", str(source), str(out)])
    if failed:
        raise SystemExit(f"error: the report cannot be built.\n{printed.getvalue()[-3000:]}")


def notebook_page(name: str) -> nbformat.NotebookNode:
    """A notebook as a page: what came out, the code behind it on a click, and where it comes from."""
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", 4)
    source = (
        f"Notebook: <a href='../../../notebooks/{name}.ipynb'>notebooks/{name}.ipynb</a> · rows of the study: "
        "<a href='../../../reports/protocol/results.csv'>results.csv</a>, "
        "<a href='../../../reports/protocol/runs.csv'>runs.csv</a> · "
        f"run it again: `xmr run notebooks/{name}.ipynb`"
    )
    note = nbformat.v4.new_markdown_cell(source)
    note["id"] = "where-from"
    notebook.cells.insert(1, note)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if not _is_noise(o)]
            tags = cell.metadata.get("tags", [])
            quiet = not cell.outputs and "parameters" not in tags
            cell.metadata["tags"] = ["remove-cell" if quiet else "hide-cell" if "answers" in tags else "hide-input"]
    return notebook


def _is_noise(output: nbformat.NotebookNode) -> bool:
    """Progress bars, and the line that says which files a notebook made."""
    text = output.get("data", {}).get("text/plain", "") or output.get("text", "")
    return "[00:00<?" in text or text.startswith("finished; made: ")


def main() -> int:
    try:
        import furo  # noqa: F401
        import itables  # noqa: F401
        import latex2mathml  # noqa: F401
        import myst_nb  # noqa: F401
    except ImportError:
        print("error: the report needs the extra 'report': pip install -e '.[report]'.", file=sys.stderr)
        return 2
    build_reports.main()
    with tempfile.TemporaryDirectory() as temporary:
        source, made = Path(temporary) / "source", Path(temporary) / "html"
        source.mkdir()
        write_sources(source)
        sphinx(source, made)
        html = make_folder(BUILD) / "html"
        shutil.rmtree(html, ignore_errors=True)
        shutil.copytree(made, html, ignore=shutil.ignore_patterns(".doctrees", ".buildinfo", "objects.inv", "_sources"))
    print(f"{html.relative_to(ROOT)}/index.html")
    return print_page(html / "reports" / "README.html", BUILD / "report.pdf")


if __name__ == "__main__":
    raise SystemExit(main())
