"""The report is built from rows and executed notebooks, and every page leads back to both."""

import json
import re
import sys
from pathlib import Path

import nbformat
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import build_site  # noqa: E402

from xmr_study import ledger, results  # noqa: E402
from xmr_study.protocol import PARTS  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "source"
    folder.mkdir()
    build_site.write_sources(folder)
    return folder


def test_every_notebook_and_document_is_a_page_in_one_place(sources):
    names = [n for group in build_site.groups().values() for n in group]
    for folder, pattern in ((build_site.NOTEBOOKS, "*.ipynb"), (sources, "**/*.ipynb")):
        assert sorted(names) == sorted(p.stem for p in folder.glob(pattern))
    index = (sources / "index.md").read_text()
    paths = [p.relative_to(sources).with_suffix("") for p in sources.rglob("*") if p.suffix in (".md", ".ipynb")]
    pages = [path.as_posix() for path in paths]
    assert {"reports/README", "reports/claims", "docs/glossary", "docs/methods/dive", "CONTRIBUTING"} <= set(pages)
    assert all(len(re.findall(rf"^{re.escape(page)}$", index, re.M)) == 1 for page in pages if page != "index")


def test_answers_to_exercises_are_folded_with_what_they_print(sources):
    cells = nbformat.read(sources / "notebooks" / "scoring.ipynb", 4).cells
    folded = [cell for cell in cells if "hide-cell" in cell.metadata.get("tags", [])]
    assert len(folded) == 1 and folded[0].outputs and "ranks stay the same" in folded[0].source


def test_the_claims_page_shows_every_claim_with_its_rule_and_verdict(sources):
    page = (sources / "reports" / "claims.md").read_text()
    assert all(c.sentence in page and c.measure in page for c in ledger().itertuples())
    assert {"**held**", "**contradicted**", "**undecided**"} & set(re.findall(r"[*]{2}[a-z]+[*]{2}", page))


def test_the_table_of_all_runs_has_a_line_for_each_and_needs_no_server(sources):
    page, rows = (sources / "reports" / "runs.html").read_text(), results()
    lines = json.loads(json.loads(re.search(r'"data_json": (".*"),?\n', page)[1]))
    assert len(lines) == len(rows) and [line[0] for line in lines] == rows["label"].tolist()
    values = [float("nan") if line[1][1] == "___NaN___" else line[1][1] for line in lines]  # of a run that diverged
    assert values == pytest.approx((100 * rows["annotated both rsum"]).round(1).tolist(), nan_ok=True)
    assert not re.search(r"(src|href)=[\"']http[^>]*[.](js|css)", page), "a script or a style comes from elsewhere"


def test_the_first_page_demonstrates_fifty_sentences_whose_marks_are_true(sources):
    page = (sources / "demonstration.html").read_text()
    data = json.loads(re.search(r"const data = (.+?), \$ = id", page)[1])
    queries = data["queries"]
    assert len({q["text"] for q in queries}) == 50 and data["images"] == 500
    right = [[sum(ok for _, ok in answers) for answers in q["answers"]] for q in queries]
    assert all(max(found) <= q["fits"] for q, found in zip(queries, right, strict=True))
    assert all(sum(found) > 50 for found in zip(*right, strict=True)), "six answers are right as often as by chance"
    assert {q["fits"] for q in queries} > {1} and max(q["fits"] for q in queries) > 20


def test_the_pages_that_sphinx_makes(sources, tmp_path):
    pytest.importorskip("myst_nb", reason="the extra 'report' is not installed")
    build_site.sphinx(sources, tmp_path / "html")
    page = (tmp_path / "html" / "notebooks" / "ablation_alpha.html").read_text()
    assert "../../../notebooks/ablation_alpha.ipynb" in page and "../../../reports/protocol/results.csv" in page
    assert "<img" in page and "cell_output" in page
    assert "epoch/s" not in page and "<details" in page
    method = (tmp_path / "html" / "docs" / "methods" / "dive.html").read_text()
    assert "<math" in method and "differences.html#x-43" in method and "../../../../xmr_core" not in method
    everything = "".join(p.read_text() for p in (tmp_path / "html").rglob("*.html"))
    assert str(tmp_path) not in everything and not re.search("mathjax(?!_ignore)", everything, re.I)
    assert not re.findall(r"<script[^>]+https?:", everything)
    assert not raw_latex(everything)


def raw_latex(pages: str) -> list[str]:
    """Formulas that a reader would see as they are written, or in the place of one that could not be converted."""
    shown = re.sub(r"<(script|style|pre|code|annotation)\b.*?</\1>", "", pages, flags=re.S)
    return re.findall(r"\$\$|\\[a-zA-Z]{2,}", shown) + re.findall(r"<code>\\[a-zA-Z]+", pages)


def test_raw_latex_is_seen():
    assert not raw_latex("<pre>$$\\frac 1 2$$</pre><math>x</math><code>x</code>")
    assert len(raw_latex("$$ a $$")) == 2 and raw_latex(r"a \frac{1}{2}") and raw_latex(r"<code>\unknown{x}</code>")


def test_links_out_of_the_site_lead_to_the_repository():
    text = "[a](../README.md) [b](data.md#x) [c](https://x.org) `code`\n```\n[d](../README.md)\n```\n![p](p.png)"
    out = build_site.with_outside_links(text, "guide/a/page.md", {"guide/a/data.md"})
    assert "<a href='../../../../guide/README.md'>a</a>" in out and "[b](data.md#x)" in out and out.count("<a ") == 1


def test_the_page_of_results_and_the_answer_are_those_of_the_rows(tmp_path, monkeypatch):
    import build_reports

    monkeypatch.setattr(build_reports, "stored", lambda figure, name: None)  # a test leaves the repository as it was
    page, readme = build_reports.page(), (ROOT / "README.md").read_text()
    assert page == (ROOT / "reports" / "README.md").read_text(), "run `make reports`"
    assert build_reports.with_answer(readme, page) == readme, "run `make reports`"
    account = re.findall(r"^\| [a-z]+ \| (\d+) \| [\d.]+ \| (\d+) \|", page, re.M)
    assert len(account) == sum("photographs" not in part for part in PARTS), "of photographs nothing was planned"
    assert all(int(made) <= int(planned) for planned, made in account), "a run counts twice"
    figures = {path.name for path in (ROOT / "reports" / "figures").iterdir()}
    assert figures == {*re.findall(r"figures/(\w+[.]png)", page + readme)}, "a figure that nothing shows, or none"


def test_the_agreement_of_two_orders_has_the_interval_that_their_errors_leave():
    import build_reports

    def table(values, half):
        ends = {"rsum": values, "rsum low": [v - half for v in values], "rsum high": [v + half for v in values]}
        return pd.DataFrame({"label": list("abcd")} | ends)

    up, down = [1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]
    sure = build_reports.transfer(table(up, 0.0), table(down, 0.0)[::-1], 0.0)
    assert sure == {"shared": 4, "tau": -1.0, "tau_low": -1.0, "tau_high": -1.0}
    for half, noise in ((9.0, 0.0), (0.0, 9.0)):
        unsure = build_reports.transfer(table(up, half), table(up, 0.0)[1:], noise)
        assert unsure["shared"] == 3 and unsure["tau"] == 1 > unsure["tau_low"]
