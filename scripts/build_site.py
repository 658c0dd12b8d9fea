"""The site (build/html) and the report as PDF (build/report.pdf): documents, results, claims ledger and every executed
notebook.

python scripts/build_site.py, or `make report`; it needs the extra 'report' (which 'test' includes). Nothing is executed
and
no number is typed: results come from reports/results.csv, pages from docs/ and from the committed notebooks. The PDF
needs a Chromium or Chrome on the path; without one it is left out, and said so.
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
from render_site import BUILD, ROOT, pdf, sphinx

from xmr_core.base.files import make_folder
from xmr_core.study import results
from xmr_core.study.claims import CLAIMS, ledger

REPORTS, NOTEBOOKS, DOCS = ROOT / "reports", ROOT / "notebooks", ROOT / "docs"
SITE = Path(__file__).resolve().parent / "site"  # configuration and style
GROUPS = {
    "The study": ["report", "compare_methods", "ambiguity_benchmarks", "cost"],
    "Sets of embeddings": [
        "ablation_alpha", "ablation_similarity", "ablation_cardinality", "ablation_iterations",
        "ablation_slot_attention", "ablation_elements", "nested_sets",
        "circular_variance", "tsne", "attention_maps",
    ],
    "Uncertainty": ["uncertainty_vs_recall", "corruption_vs_uncertainty", "gaussian_distances"],
    "Tools": ["explore", "train", "scenes"],
}  # fmt: skip
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")


def claims_page(rows: pd.DataFrame) -> str:
    """The ledger as a page: what is claimed, by what rule, and the verdict per corpus with effect and interval."""
    table = ledger(rows, CLAIMS)
    columns = pd.DataFrame(
        {
            "claim": [f"{r.sentence} ({r.source})" for r in table.itertuples()],
            "corpus": table["corpus"],
            "verdict": [f"**{v}**" if v != "not measured" else v for v in table["verdict"]],
            "effect": [_effect(r) for r in table.itertuples()],
            "seeds": table["seeds"],
            "p (Holm)": ["–" if p != p else f"{p:.3f}" if p >= 0.001 else "< 0.001" for p in table["p Holm"]],
        }
    )
    rules = "\n".join(f"- `{c.id}`: {c.sentence} {c.rule_text()}." for c in CLAIMS)
    return (
        "# Claims of the papers, and what the rows say\n\n"
        "A claim is a sentence of a paper that a number can decide. Its rule was fixed before the runs. A comparison "
        "is paired by seed. It is decided when the 95 % Student interval of the difference leaves out 0, and fewer "
        "than three seeds decide nothing. A claim about several comparisons shows the weakest. p is corrected (Holm) "
        "over all comparisons of the ledger on that corpus, and stands beside the verdict "
        "([definitions](../docs/evaluation.md#evaluation-claims)). The rows are in [results.csv](results.csv), and the "
        "notebook [report](../notebooks/report.ipynb) makes the same table and a figure.\n\n"
        + build_reports.markdown(columns)
        + f"\n\n## The rules\n\n{rules}\n"
    )


def _effect(line) -> str:
    if line.effect != line.effect:
        return "–"
    digits = 1 if abs(line.effect) >= 1 else 3
    interval = f" [{line.low:.{digits}f}, {line.high:.{digits}f}]" if line.low == line.low else ""
    return f"{line.effect:+.{digits}f}{interval}"


def index_page() -> str:
    """The first page: what the site holds, and the order of its pages."""
    methods = ["docs/methods/index", *sorted(_names(DOCS / "methods", "docs/methods", "index"))]
    first = ["docs/index", "docs/architecture", "docs/glossary", "CONTRIBUTING"]
    documents = [*first, *sorted({*_names(DOCS, "docs", "index")} - {*first})]
    chapters = {
        "Results": ["reports/README", "reports/claims"],
        **{group: [f"notebooks/{name}" for name in names] for group, names in GROUPS.items()},
        "Documents": documents,
        "How to": sorted(_names(DOCS / "howto", "docs/howto")),
        "Methods": methods,
    }
    trees = [
        f"```{{toctree}}\n:caption: {title}\n:maxdepth: 1\n\n" + "\n".join(names) + "\n```"
        for title, names in chapters.items()
    ]
    verdicts = ledger(results.study_rows(), CLAIMS)["verdict"].value_counts()
    counts = ", ".join(
        f"{verdicts.get(word, 0)} {word}" for word in ("held", "contradicted", "undecided", "not measured")
    )
    return (
        "# Image–text retrieval: five papers, one system, matched conditions\n\nThe numbers of the study are in "
        "[Results](reports/README.md). What they say about the papers is in [Claims](reports/claims.md): "
        f"{counts}. Then come the notebooks, each of which answers one question; they were executed as they stand, "
        "show their code on a click, and run again by one command. The [documents](docs/index.md) say how everything "
        "is defined and how to add to it.\n\n" + "\n\n".join(trees) + "\n"
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
    shutil.copytree(REPORTS / "figures", folder / "reports" / "figures")
    shutil.copytree(DOCS, folder / "docs")
    shutil.copy(ROOT / "CONTRIBUTING.md", folder)
    shutil.copy(REPORTS / "README.md", folder / "reports")
    (folder / "reports" / "claims.md").write_text(claims_page(results.study_rows()))
    (folder / "notebooks").mkdir()
    names = [n for group in GROUPS.values() for n in group]
    if missing := {p.stem for p in NOTEBOOKS.glob("*.ipynb")} - set(names):
        raise SystemExit(
            f"error: no group of the report has {', '.join(sorted(missing))}; add it to GROUPS in "
            f"{Path(__file__).name}."
        )
    for name in names:
        nbformat.write(notebook_page(name), folder / "notebooks" / f"{name}.ipynb")
    (folder / "index.md").write_text(index_page())
    inside = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    for page in folder.rglob("*.md"):
        page.write_text(with_outside_links(page.read_text(), page.relative_to(folder).as_posix(), inside))


def notebook_page(name: str) -> nbformat.NotebookNode:
    """A notebook as a page: what came out, the code behind it on a click, and where it comes from."""
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", 4)
    source = (
        f"Notebook: <a href='../../../notebooks/{name}.ipynb'>notebooks/{name}.ipynb</a> · rows of the study: "
        "<a href='../../../reports/results.csv'>results.csv</a>, <a href='../../../reports/runs.csv'>runs.csv</a> · "
        f"run it again: `python -m xmr_core run notebooks/{name}.ipynb`"
    )
    note = nbformat.v4.new_markdown_cell(source)
    note["id"] = "where-from"
    notebook.cells.insert(1, note)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [
                o for o in cell.outputs if "[00:00<?" not in o.get("data", {}).get("text/plain", "")
            ]  # bars
            quiet = not cell.outputs and "parameters" not in cell.metadata.get("tags", [])
            cell.metadata["tags"] = ["remove-cell" if quiet else "hide-input"]
    return notebook


def main() -> int:
    try:
        import furo  # noqa: F401
        import latex2mathml  # noqa: F401
        import myst_nb  # noqa: F401
    except ImportError:
        print("error: the report needs the extra 'report': pip install -e '.[report]'.", file=sys.stderr)
        return 2
    build_reports.main()
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary) / "source"
        source.mkdir()
        write_sources(source)
        sphinx("html", source, Path(temporary) / "html")
        sphinx("singlehtml", source, Path(temporary) / "single")
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
