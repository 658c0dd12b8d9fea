"""The report is built from rows and executed notebooks, and every page leads back to both."""

import re
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import build_site  # noqa: E402
import render_site  # noqa: E402

from xmr_core.study import results  # noqa: E402
from xmr_core.study.claims import CLAIMS  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "source"
    folder.mkdir()
    build_site.write_sources(folder)
    return folder


def test_every_notebook_and_document_is_a_page_in_one_place(sources):
    names = [n for group in build_site.groups().values() for n in group]
    assert (
        sorted(names)
        == sorted(p.stem for p in build_site.NOTEBOOKS.glob("*.ipynb"))
        == sorted(p.stem for p in sources.rglob("*.ipynb"))
    )
    index = (sources / "index.md").read_text()
    pages = [
        p.relative_to(sources).with_suffix("").as_posix() for p in sources.rglob("*") if p.suffix in (".md", ".ipynb")
    ]
    assert {"reports/README", "reports/claims", "docs/glossary", "docs/methods/dive", "CONTRIBUTING"} <= set(pages)
    assert all(len(re.findall(rf"^{re.escape(page)}$", index, re.M)) == 1 for page in pages if page != "index")


def test_the_claims_page_shows_every_claim_with_its_rule_and_verdict(sources):
    page = (sources / "reports" / "claims.md").read_text()
    assert all(c.sentence in page and f"`{c.id}`" in page for c in CLAIMS)
    assert {"**held**", "**contradicted**", "**undecided**"} & set(re.findall(r"[*]{2}[a-z]+[*]{2}", page))


def test_a_number_on_the_claims_page_comes_from_the_rows():
    rows = results.study_rows()
    before = build_site.claims_page(rows)
    chosen = (rows["variant"] == "MIL, slots") & (rows["metric"] == "rsum")
    rows.loc[chosen, "value"] = rows.loc[chosen, "value"].astype(float) + 1.0
    after = build_site.claims_page(rows)
    line = lambda page: next(row for row in page.splitlines() if "Smooth-Chamfer beats MIL." in row)  # noqa: E731
    assert line(before) != line(after) and "contradicted" in line(after)


def test_the_pages_that_sphinx_makes(sources, tmp_path):
    pytest.importorskip("myst_nb", reason="the extra 'report' is not installed")
    build_site.sphinx("html", sources, tmp_path / "html")
    page = (tmp_path / "html" / "notebooks" / "ablation_alpha.html").read_text()
    assert "../../../notebooks/ablation_alpha.ipynb" in page and "../../../reports/protocol/results.csv" in page
    assert "<img" in page and "cell_output" in page
    assert "epoch/s" not in page and "<details" in page
    method = (tmp_path / "html" / "docs" / "methods" / "dive.html").read_text()
    assert "<math" in method and "differences.html#x-43" in method and "../../../../xmr_core" not in method
    everything = "".join(p.read_text() for p in (tmp_path / "html").rglob("*.html"))
    assert str(tmp_path) not in everything and not re.search("mathjax(?!_ignore)", everything, re.I)
    assert not re.findall(r"<script[^>]+https?:", everything)


def test_links_out_of_the_site_lead_to_the_repository():
    text = "[a](../README.md) [b](data.md#x) [c](https://x.org) `code`\n```\n[d](../README.md)\n```\n![p](p.png)"
    out = build_site.with_outside_links(text, "guide/a/page.md", {"guide/a/data.md"})
    assert "<a href='../../../../guide/README.md'>a</a>" in out and "[b](data.md#x)" in out and out.count("<a ") == 1


def test_the_answer_of_the_readme_and_the_first_page_are_those_of_the_rows(tmp_path, monkeypatch):
    import build_protocol

    monkeypatch.setattr(build_protocol, "FIGURES", tmp_path)  # a test leaves the repository as it was
    readme = (ROOT / "README.md").read_text()
    assert build_protocol.with_answer(readme) == readme, "run make reports"
    said = build_protocol.findings.findings()
    assert said and all(f"- {text} " in " ".join(readme.split()) for text in said)
    page = (ROOT / "reports" / "README.md").read_text()
    assert page.startswith("# What the study found\n\n- ") and all(
        f"- {text} " in " ".join(page.split()) for text in said
    )
    assert page.index("![") < page.index("## All methods"), "one figure before the results"


def test_paper_holds_each_thing_once_and_neither_code_nor_bars(tmp_path):
    build_site.write_sources(tmp_path / "paper", paper=True)
    names = {p.relative_to(tmp_path / "paper").as_posix() for p in (tmp_path / "paper").rglob("*") if p.is_file()}
    assert {"reports/README.md", "reports/claims.md", "docs/methods/dive.md", "notebooks/train.ipynb"} <= names
    assert not {"notebooks/report.ipynb", "reports/before_protocol.md", "docs/architecture.md"} & names
    order = (tmp_path / "paper" / "index.md").read_text()
    pages = ("reports/README", "reports/claims", "docs/methods/index", "notebooks/scenes")
    assert [order.index(page) for page in pages] == sorted(order.index(page) for page in pages)
    for path in (tmp_path / "paper").rglob("*.ipynb"):
        text = path.read_text()
        assert "finished; made:" not in text and "[00:00<?" not in text and "hide-input" not in text, path.name


def test_a_table_that_does_not_fit_the_page_shares_its_width(tmp_path):
    def table(columns: int) -> str:
        return "<table>" + "<tr>" + "<td>a dozen words</td><td>1.5 ± 0.5</td>" * columns + "</tr></table>"

    page = tmp_path / "index.html"
    page.write_text(f"<div class='table-wrapper'>{table(3)}</div><div class='cell_output'>{table(12)}</div>")
    render_site.fitted(page)
    assert page.read_text().count("wide") == 1 and 'class="cell_output wide"' in page.read_text()
    assert page.read_text().count("<td>a dozen words</td>") == 12, "only those of the wide one may break"
    assert page.read_text().count("<td>1.5\u00a0±\u00a00.5</td>") == 3 + 12


def test_an_interval_stays_on_one_line(tmp_path):
    page = tmp_path / "index.html"
    cells = "<td>+2.5 [-8.9, 13.9]</td><td>held by [the rule] of old</td><td>up to +2.5 [-8.9, 13.9]</td>"
    page.write_text(f"<table><tr>{cells * 6}</tr></table>")
    render_site.fitted(page)
    assert page.read_text().count("<td>+2.5\u00a0[-8.9,\u00a013.9]</td>") == 6 and "wide" in page.read_text()
    assert page.read_text().count("<td>held by [the rule] of old</td><td>up to +2.5 [-8.9, 13.9]</td>") == 6


def test_on_paper_a_formula_is_divided_at_its_gaps_and_a_missing_number_is_a_dash(tmp_path):
    from bs4 import BeautifulSoup

    row = "<mrow><mi>a</mi><mspace width='{}'></mspace><mi>b</mi></mrow>"
    formulas = "".join(
        f"<div class='math-block'><math xmlns='m' display='block'>{row.format(gap)}</math></div>"
        for gap in ("2em", "0.167em")
    )
    page = tmp_path / "index.html"
    page.write_text(formulas + "<table><tr><td>NaN</td><td>NaNny</td><td>SCAN t-i -5</td></tr></table>")
    render_site.fitted(page)
    soup = BeautifulSoup(page.read_text(), "html.parser")
    wide, narrow = soup.select("div.math-block")
    assert [math.get_text() for math in wide.find_all("math")] == ["a", "b"] and wide.find("mspace") is None
    assert len(narrow.find_all("math")) == 1 and narrow.find("mspace") is not None
    assert [cell.get_text() for cell in soup.find_all("td")] == ["–", "NaNny", "SCAN\u00a0t\u2011i\u00a0-5"]


def test_formulas_become_mathml():
    pytest.importorskip("latex2mathml", reason="the extra 'report' is not installed")
    sys.path.insert(0, str(build_site.SITE))
    import conf

    for page in build_site.DOCS.rglob("*.md"):
        plain = re.sub(r"^```.*?^```|`[^`]*`", "", page.read_text(), flags=re.S | re.M)
        for formula in re.findall(r"\$\$(.+?)\$\$|(?<!\$)\$([^$]+)\$(?!\$)", plain, re.S):
            converted = conf.mathml("".join(formula), "inline")
            assert "<math" in converted and not re.search(r">\\\w+<", converted), formula


def test_a_report_that_cannot_be_built_says_why(sources, tmp_path):
    pytest.importorskip("myst_nb", reason="the extra 'report' is not installed")
    broken = tmp_path / "broken"
    broken.mkdir()
    shutil.copy(build_site.SITE / "conf.py", broken)
    (broken / "index.md").write_text("# A\n\n[gone](gone.md)\n")
    (broken / "_static").mkdir()
    shutil.copy(build_site.SITE / "study.css", broken / "_static")
    with pytest.raises(SystemExit, match="gone"):
        build_site.sphinx("html", broken, tmp_path / "out")


def test_a_long_word_in_the_head_of_a_wide_table_may_be_parted_at_a_hyphen(tmp_path):
    heads = "<th>seeds</th>" + "<th>R-P exhaustive</th>" * 12
    page = tmp_path / "index.html"
    page.write_text(f"<table><thead><tr>{heads}</tr></thead><tr>{'<td>exhaustive</td>' * 13}</tr></table>")
    render_site.fitted(page)
    assert page.read_text().count("<th>R-P exhaus\u00adtive</th>") == 12 and "<th>seeds</th>" in page.read_text()
    assert page.read_text().count("<td>exhaustive</td>") == 13
