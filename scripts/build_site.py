"""The report as static HTML (reports/html) and PDF (reports/report.pdf): results, claims ledger and every executed notebook.

python scripts/build_site.py, or `make report`; it needs the extra 'report' (which 'test' includes). Nothing is executed and no number is typed: results come
from reports/results.csv, pages from the committed notebooks. The PDF needs a Chromium or Chrome on the path; without one it is left out, and said so.
"""

import contextlib
import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import build_reports
import nbformat
import pandas as pd

from xmr_core.base import paths
from xmr_core.study import results
from xmr_core.study.claims import CLAIMS, ledger

ROOT = Path(__file__).resolve().parents[1]
REPORTS, NOTEBOOKS = ROOT / "reports", ROOT / "notebooks"
GROUPS = {
    "The study": ["report", "compare_methods", "ambiguity_benchmarks", "cost"],
    "Sets of embeddings": [
        "ablation_alpha", "ablation_similarity", "ablation_cardinality", "ablation_iterations", "ablation_slot_attention", "ablation_elements",
        "circular_variance", "tsne", "attention_maps",
    ],
    "Uncertainty": ["uncertainty_vs_recall", "corruption_vs_uncertainty", "gaussian_distances"],
    "Tools": ["explore", "train", "scenes"],
}  # fmt: skip
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CONF = """
project = "Image–text retrieval: five papers, one system, matched conditions"
html_title, author, copyright = "Image–text retrieval", "", ""
extensions = ["myst_nb"]
nb_code_prompt_show, nb_code_prompt_hide = "code", "hide the code"
nb_execution_mode, myst_enable_extensions = "off", ["deflist"]
html_theme, html_show_copyright, html_show_sphinx, html_copy_source, html_show_sourcelink = "furo", False, False, False, False
html_static_path, html_css_files = ["_static"], ["study.css"]
exclude_patterns, suppress_warnings = ["_build"], ["mystnb.unknown_mime_type", "misc.highlighting_failure"]
html_last_updated_fmt, myst_heading_anchors = None, 2
"""
CSS = """
div.cell_output table.dataframe, article table { font-size: 0.8rem; }
table.dataframe { border: 0; border-collapse: collapse; margin: 0.5rem 0; }
table.dataframe th, table.dataframe td { border: 0; border-bottom: 1px solid var(--color-table-border); padding: 0.25rem 0.6rem; text-align: right; }
div.cell_output { overflow-x: auto; }
@media print { .sidebar-drawer, .toc-drawer, .related-pages, .mobile-header, .skip-to-content { display: none !important; } .content { width: 100% !important; } }
@media print { div.cell_output table.dataframe, article table { font-size: 0.52rem; } article table th, article table td { padding: 0.12rem 0.25rem !important; } }
@media print { div.cell_output, .table-wrapper { overflow: visible !important; } } /* paper does not scroll */
@page { size: A4; margin: 14mm; }
"""


def claims_page(rows: pd.DataFrame) -> str:
    """The ledger as a page: what is claimed, by what rule, and the verdict per corpus with effect and interval."""
    table = ledger(rows, CLAIMS)
    shown = pd.DataFrame(
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
        "A claim is a sentence of a paper that a number can decide. Its rule was fixed before the runs: a comparison is paired by seed, and decided when the 95 % Student interval of "
        "the difference leaves 0 out; fewer than three seeds decide nothing; a claim about several comparisons shows the weakest. p is corrected (Holm) over all "
        "comparisons of the ledger on that corpus, and stands beside the verdict. The rows are in <a href='../results.csv'>results.csv</a>; the notebook [report](report.ipynb) makes the same table and a figure.\n\n"
        + build_reports.markdown(shown)
        + f"\n\n## The rules\n\n{rules}\n"
    )


def _effect(line) -> str:
    if line.effect != line.effect:
        return "–"
    digits = 1 if abs(line.effect) >= 1 else 3
    interval = f" [{line.low:.{digits}f}, {line.high:.{digits}f}]" if line.low == line.low else ""
    return f"{line.effect:+.{digits}f}{interval}"


def index_page(titles: dict[str, str]) -> str:
    trees = [
        f"```{{toctree}}\n:caption: {group}\n:maxdepth: 1\n\n" + "\n".join(n for n in names if n in titles) + "\n```"
        for group, names in GROUPS.items()
    ]
    front = "```{toctree}\n:caption: Results\n:maxdepth: 1\n\nresults\nclaims\n```"
    verdicts = ledger(results.study_rows(), CLAIMS)["verdict"].value_counts()
    found = ", ".join(f"{verdicts.get(word, 0)} {word}" for word in ("held", "contradicted", "undecided", "not measured"))
    return (
        "# Image–text retrieval: five papers, one system, matched conditions\n\nThe numbers of the study are in [Results](results.md). What they say about the papers is in "
        f"[Claims](claims.md): {found}. Every other page is a notebook that answers one question; it was executed as it stands, shows its code on a "
        "click, and runs again by one command.\n\n" + "\n\n".join([front, *trees]) + "\n"
    )


def write_sources(folder: Path) -> None:
    """Everything Sphinx reads, in one folder."""
    (folder / "_static").mkdir(parents=True)
    (folder / "_static" / "study.css").write_text(CSS)
    (folder / "conf.py").write_text(CONF)
    shutil.copytree(REPORTS / "figures", folder / "figures")
    rows = results.study_rows()
    text = (REPORTS / "README.md").read_text()
    text = re.sub(r"\[([^]]*)\]\((results|runs)\.csv\)", r"<a href='../\2.csv'>\1</a>", text)  # beside the pages, not one of them
    (folder / "results.md").write_text(re.sub(r"\]\(\.\./notebooks/(\w+)\.ipynb\)", r"](\1.ipynb)", text))
    (folder / "claims.md").write_text(claims_page(rows))
    titles = {}
    for name in (n for names in GROUPS.values() for n in names):
        notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", 4)
        titles[name] = notebook.cells[0].source.splitlines()[0].lstrip("# ")
        source = (
            f"Notebook: <a href='../../notebooks/{name}.ipynb'>notebooks/{name}.ipynb</a> · rows of the study: <a href='../results.csv'>results.csv</a>, "
            f"<a href='../runs.csv'>runs.csv</a> · run it again: `python -m xmr_core run notebooks/{name}.ipynb`"
        )
        note = nbformat.v4.new_markdown_cell(source)
        note["id"] = "where-from"
        notebook.cells.insert(1, note)
        for cell in notebook.cells:  # a page shows what came out, and the code behind it on a click
            if cell.cell_type == "code":
                cell.outputs = [o for o in cell.outputs if "[00:00<?" not in o.get("data", {}).get("text/plain", "")]  # bars
                quiet = not cell.outputs and "parameters" not in cell.metadata.get("tags", [])
                cell.metadata["tags"] = ["remove-cell" if quiet else "hide-input"]
        nbformat.write(notebook, folder / f"{name}.ipynb")
    if missing := {p.stem for p in NOTEBOOKS.glob("*.ipynb")} - set(titles):
        raise SystemExit(f"error: no group of the report has {', '.join(sorted(missing))}; add it to GROUPS in {Path(__file__).name}.")
    (folder / "index.md").write_text(index_page(titles))


def sphinx(builder: str, source: Path, out: Path) -> None:
    from sphinx.cmd.build import main as build

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        failed = build(["-b", builder, "-W", "--keep-going", "-q", str(source), str(out)])
    if failed:
        raise SystemExit(f"error: the report cannot be built.\n{said.getvalue()[-3000:]}")


def main() -> int:
    try:
        import furo  # noqa: F401
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
        made = REPORTS / "html"
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(Path(temporary) / "html", made)
        print(f"{made.relative_to(ROOT)}/index.html, {sum(f.stat().st_size for f in made.rglob('*') if f.is_file()) / 1e6:.1f} MB")
        return pdf(Path(temporary) / "single" / "index.html", Path(temporary) / "report.pdf")


def pdf(page: Path, made: Path) -> int:
    browser = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if browser is None:
        print("no Chromium or Chrome on the path: reports/report.pdf was left as it is", file=sys.stderr)
        return 0
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer", f"--print-to-pdf={made}"]
    done = subprocess.run([browser, *flags, page.as_uri()], capture_output=True, text=True)
    if done.returncode or not made.exists():
        print(f"error: {browser} could not print the report: {done.stderr[-500:]}", file=sys.stderr)
        return 1
    paths.write_atomic(REPORTS / "report.pdf", made.read_bytes())
    print(f"reports/report.pdf, {made.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
