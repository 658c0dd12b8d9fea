"""The site (build/html) and the report as PDF (build/report.pdf): documents, results, claims ledger and every executed
notebook.

python scripts/build_site.py, or `make report`; it needs the extra 'report' (which 'test' includes). Nothing is executed
and no number is typed: results come from the rows in reports/, pages from docs/ and from the committed notebooks. The
PDF holds the findings, the results, the ledger, the methods and what came out of the notebooks. It needs a Chromium or
Chrome on the path; without one it is left out, and said so.
"""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import build_reports
import nbformat
import pandas as pd
from build_protocol import markdown
from print_pdf import pdf
from render_site import BUILD, ROOT, fitted, for_paper, sphinx

from xmr_core.base.files import make_folder
from xmr_core.study import results
from xmr_core.study.claims import CLAIMS, DECIDED, NOT_MEASURED, VERDICTS, effect_text, ledger

REPORTS, NOTEBOOKS, DOCS = ROOT / "reports", ROOT / "notebooks", ROOT / "docs"
SITE = Path(__file__).resolve().parent / "site"  # configuration and style
GUIDE = DOCS / "notebooks.md"  # its sections and their order are those of the site
TITLE = "Image–text retrieval: five papers, one system, matched conditions"
_OPTIONS = "docs/methods/options"  # long tables, for the screen
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")


def groups() -> dict[str, list[str]]:
    """Title of each section of the guide → its notebooks, in order."""
    sections = re.findall(r"^## (.+)\n((?:(?!^## ).*\n?)*)", GUIDE.read_text(), re.M)
    named = {title: re.findall(r"^\| \[`(\w+)`\]", body, re.M) for title, body in sections}
    return {title: names for title, names in named.items() if names}


def claims_page(rows: pd.DataFrame, paper: bool = False) -> str:
    """The ledger as a page: what is claimed, by what rule, and on each corpus the verdicts with effect and interval.
    Claims without rows are only named. paper: the rules are left to the site."""
    table = ledger(rows, CLAIMS)
    measured = table[table["verdict"] != NOT_MEASURED]
    parts = [f"## On {corpus}\n\n{markdown(_lines(own))}" for corpus, own in measured.groupby("corpus", sort=False)]
    absent = table.loc[table["verdict"] == NOT_MEASURED, ["sentence", "source"]].set_axis(["claim", "source"], axis=1)
    parts += [f"## Not measured yet\n\n{markdown(absent)}"] if len(absent) else []
    if not paper:
        parts.append("## The rules\n\n" + "\n".join(f"- `{c.id}`: {c.sentence} {c.rule_text()}." for c in CLAIMS))
    return (
        "# Claims of the papers, and what the rows say\n\n"
        "A claim is a sentence of a paper that a number can decide. A comparison is paired by seed. It is decided when "
        "its interval, whose level is corrected (Holm) among the claims of its paper on that corpus, leaves out the "
        "claim's bound; fewer seeds than the protocol asks for decide nothing. A claim about several comparisons shows "
        "the one that decides. *Exploratory* are claims whose rows were made before their rule was registered, or on "
        "worlds on which choices were made ([definitions](../docs/evaluation.md#evaluation-claims)). The rows are in "
        "[protocol/results.csv](protocol/results.csv) and [protocol/runs.csv](protocol/runs.csv), and the "
        "notebook [report](../notebooks/report.ipynb) makes the same table and a figure.\n\n"
        + "\n\n".join(parts)
        + "\n"
    )


def _lines(table: pd.DataFrame) -> pd.DataFrame:
    """Lines of the ledger as they are read: what is claimed, the verdict, the effect, and what it rests on."""
    return pd.DataFrame(
        {
            "claim": [f"{r.sentence} ({r.source})" for r in table.itertuples()],
            "verdict": [f"**{v}**" if v in DECIDED else v for v in table["verdict"]],
            "effect": [effect_text(r) for r in table.itertuples()],
            "kind": table["kind"],
            "seeds": table["seeds"],
            "p (Holm)": ["–" if p != p else f"{p:.3f}" if p >= 0.001 else "< 0.001" for p in table["p Holm"]],
        }
    )


def paper_page() -> str:
    """The first page of the PDF: title and order. The findings follow at once, from reports/README.md."""
    notebooks = [f"notebooks/{name}" for names in groups().values() for name in names if name != "report"]
    methods = ["docs/methods/index", *sorted({*_names(DOCS / "methods", "docs/methods", "index")} - {_OPTIONS})]
    pages = ["reports/README", "reports/claims", *methods, *notebooks]
    return f"# {TITLE}\n\n```{{toctree}}\n:maxdepth: 1\n\n" + "\n".join(pages) + "\n```\n"


def index_page() -> str:
    """The first page of the site: what it holds, and the order of its pages."""
    methods = ["docs/methods/index", *sorted(_names(DOCS / "methods", "docs/methods", "index"))]
    first = ["docs/index", "docs/architecture", "docs/glossary", "CONTRIBUTING"]
    documents = [*first, *sorted({*_names(DOCS, "docs", "index")} - {*first})]
    chapters = {
        "Results": ["reports/README", "reports/claims", "reports/before_protocol"],
        **{group: [f"notebooks/{name}" for name in names] for group, names in groups().items()},
        "Documents": documents,
        "How to": sorted(_names(DOCS / "howto", "docs/howto")),
        "Methods": methods,
    }
    trees = [
        f"```{{toctree}}\n:caption: {title}\n:maxdepth: 1\n\n" + "\n".join(names) + "\n```"
        for title, names in chapters.items()
    ]
    verdicts = ledger(results.study_rows(before=False), CLAIMS)["verdict"].value_counts()
    counts = ", ".join(f"{verdicts.get(word, 0)} {word}" for word in VERDICTS)
    return (
        f"# {TITLE}\n\nThe numbers of the study are in "
        "[Results](reports/README.md). What they say about the papers is in [Claims](reports/claims.md): "
        f"{counts}. Then come the notebooks, each of which answers one question; they were executed as they stand, "
        "show their code on a click, and run again by one command. The [documents](docs/index.md) say how everything "
        "is defined and how to add to it.\n\n" + "\n\n".join(trees) + "\n"
    )


def _names(folder: Path, name: str, *without: str) -> list[str]:
    return [f"{name}/{page.stem}" for page in folder.glob("*.md") if page.stem not in without]


def with_outside_links(text: str, page: str, inside: set[str], paper: bool = False) -> str:
    """Markdown whose links to files that are no part of the site lead to the repository, as seen from build/html; on
    paper they are words.

    page: the path of the page in the repository and in the site. inside: paths of everything in the site.
    """
    here = Path(page).parent

    def link(match: re.Match) -> str:
        words, target = match.groups()
        place = os.path.normpath(here / target.partition("#")[0])
        if target.startswith(("http:", "https:", "mailto:", "#")) or place in inside:
            return match.group(0)
        if paper:
            return words
        up = "../" * (len(here.parts) + len((BUILD / "html").relative_to(ROOT).parts))
        return f"<a href='{up}{place}'>{words}</a>"

    parts = re.split(r"(```.*?```)", text, flags=re.S)  # code is left alone
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def write_sources(folder: Path, paper: bool = False) -> None:
    """Everything that Sphinx reads, each page at its path in the repository. paper: only what the PDF holds."""
    (folder / "_static").mkdir(parents=True)
    shutil.copy(SITE / "study.css", folder / "_static")
    shutil.copy(SITE / "conf.py", folder)
    shutil.copytree(REPORTS / "figures", folder / "reports" / "figures")
    if paper:
        shutil.copytree(DOCS / "methods", folder / "docs" / "methods", ignore=shutil.ignore_patterns("options.md"))
    else:
        shutil.copytree(DOCS, folder / "docs")
        shutil.copy(ROOT / "CONTRIBUTING.md", folder)
        shutil.copy(REPORTS / "before_protocol.md", folder / "reports")
    shutil.copy(REPORTS / "README.md", folder / "reports")
    (folder / "reports" / "claims.md").write_text(claims_page(results.study_rows(before=False), paper))
    (folder / "notebooks").mkdir()
    names = [n for group in groups().values() for n in group]
    if missing := {p.stem for p in NOTEBOOKS.glob("*.ipynb")} - set(names):
        raise SystemExit(f"error: no section of {GUIDE.name} has {', '.join(sorted(missing))}; add a line.")
    for name in names:
        if not paper:
            nbformat.write(notebook_page(name), folder / "notebooks" / f"{name}.ipynb")
        elif name != "report":  # its table is the page of claims
            nbformat.write(for_paper(notebook_page(name)), folder / "notebooks" / f"{name}.ipynb")
    (folder / "index.md").write_text(paper_page() if paper else index_page())
    inside = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    for page in folder.rglob("*.md"):
        page.write_text(with_outside_links(page.read_text(), page.relative_to(folder).as_posix(), inside, paper))
    for path in folder.rglob("*.ipynb") if paper else ():
        notebook = nbformat.read(path, 4)
        for cell in (c for c in notebook.cells if c.cell_type == "markdown"):
            cell.source = with_outside_links(cell.source, path.relative_to(folder).as_posix(), inside, paper)
        nbformat.write(notebook, path)


def notebook_page(name: str) -> nbformat.NotebookNode:
    """A notebook as a page: what came out, the code behind it on a click, and where it comes from."""
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", 4)
    source = (
        f"Notebook: <a href='../../../notebooks/{name}.ipynb'>notebooks/{name}.ipynb</a> · rows of the study: "
        "<a href='../../../reports/protocol/results.csv'>results.csv</a>, "
        "<a href='../../../reports/protocol/runs.csv'>runs.csv</a> · "
        f"run it again: `python -m xmr_core run notebooks/{name}.ipynb`"
    )
    note = nbformat.v4.new_markdown_cell(source)
    note["id"] = "where-from"
    notebook.cells.insert(1, note)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if not _is_noise(o)]
            quiet = not cell.outputs and "parameters" not in cell.metadata.get("tags", [])
            cell.metadata["tags"] = ["remove-cell" if quiet else "hide-input"]
    return notebook


def _is_noise(output: nbformat.NotebookNode) -> bool:
    """Progress bars, and the line that says which files a notebook made."""
    text = output.get("data", {}).get("text/plain", "") or output.get("text", "")
    return "[00:00<?" in text or text.startswith("finished; made: ")


def main() -> int:
    try:
        import furo  # noqa: F401
        import latex2mathml  # noqa: F401
        import myst_nb  # noqa: F401
        import pikepdf  # noqa: F401
    except ImportError:
        print("error: the report needs the extra 'report': pip install -e '.[report]'.", file=sys.stderr)
        return 2
    build_reports.main()
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary) / "source"
        source.mkdir()
        write_sources(source)
        sphinx("html", source, Path(temporary) / "html")
        paper = Path(temporary) / "paper"
        paper.mkdir()
        write_sources(paper, paper=True)
        sphinx("singlehtml", paper, Path(temporary) / "single")
        fitted(Path(temporary) / "single" / "index.html")
        for left_over in (".doctrees", ".buildinfo", "objects.inv", "_sources"):
            path = Path(temporary) / "html" / left_over
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        html = make_folder(BUILD) / "html"
        shutil.rmtree(html, ignore_errors=True)
        shutil.copytree(Path(temporary) / "html", html)
        print(
            f"{html.relative_to(ROOT)}/index.html, "
            f"{sum(f.stat().st_size for f in html.rglob('*') if f.is_file()) / 1e6:.1f} MB"
        )
        return pdf(Path(temporary) / "single" / "index.html", Path(temporary) / "report.pdf")


if __name__ == "__main__":
    raise SystemExit(main())
