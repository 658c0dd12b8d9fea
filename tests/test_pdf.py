"""The report as PDF: contents and bookmarks from what a browser says, and fewer bytes without a change of a pixel."""

import base64
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import print_pdf  # noqa: E402
import render_site  # noqa: E402

pytestmark = pytest.mark.slow

ONE_PAGE = """<article><section><h1>A report<a>¶</a></h1><span id="document-reports/README"></span>
<section><h2>What was found<a>¶</a></h2><p>Much.</p><section id="a"><h3>All of it</h3></section></section>
<span id="document-docs/methods/scan"></span><section id="scan"><h2>SCAN</h2><section id="a"><h3>Its loss</h3>
<section><h4>Detail</h4></section></section></section>
<span id="document-docs/methods/dive"></span><section><h2>DivE</h2></section></section></article>"""
HEADINGS = ["A report", "What was found", "All of it", "SCAN", "Its loss", "Detail", "DivE"]


def test_a_drawing_stays_sharp_on_paper_and_a_photograph_becomes_a_jpeg():
    def on_paper(pixels: np.ndarray) -> tuple[str, Image.Image]:
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "PNG")
        [(kind, made)] = render_site.smaller(base64.b64encode(buffer.getvalue()).decode()).items()
        return kind, Image.open(io.BytesIO(base64.b64decode(made)))

    kind, drawn = on_paper(drawing())
    assert kind == "image/png" and (np.asarray(drawn.convert("RGB")) == drawing()).all()
    noise = np.random.default_rng(0).integers(0, 256, (300, 1400, 3), dtype=np.uint8)
    kind, photograph = on_paper(noise)
    assert kind == "image/jpeg" and photograph.size == (render_site.WIDEST, round(300 * render_site.WIDEST / 1400))


def drawing() -> np.ndarray:
    """A square and a thin line on white."""
    pixels = np.full((300, 400, 3), 255, np.uint8)
    pixels[100:200, 100:200] = (0, 90, 180)
    pixels[np.arange(300), np.arange(300)] = (200, 0, 0)
    return pixels


def printed(pixels: np.ndarray, path: Path) -> bytes:
    """A PDF of one page with some words and an image, stored as browsers do it."""
    import pikepdf

    document = pikepdf.new()
    image = pikepdf.Stream(document, pixels.tobytes())
    image.stream_dict = pikepdf.Dictionary(
        Type=pikepdf.Name.XObject, Subtype=pikepdf.Name.Image, Width=pixels.shape[1], Height=pixels.shape[0]
    )
    image.ColorSpace, image.BitsPerComponent = pikepdf.Name.DeviceRGB, 8
    words = pikepdf.Stream(document, b"BT (a sentence) Tj ET /figure Do")
    page = document.add_blank_page()
    page.Contents, page.Resources = words, pikepdf.Dictionary(XObject=pikepdf.Dictionary(figure=image))
    document.save(path, compress_streams=True)
    return words.read_bytes()


def of(path: Path):
    """The image and the words of the page."""
    import pikepdf

    with pikepdf.open(path) as document:
        page = document.pages[0]
        image = pikepdf.PdfImage(page.Resources.XObject.figure)
        return np.asarray(image.as_pil_image().convert("RGB")), image.indexed, page.Contents.read_bytes()


def test_a_pdf_is_packed_without_a_change_of_what_is_drawn(tmp_path):
    pytest.importorskip("pikepdf", reason="the extra 'report' is not installed")
    from pack_pdf import pack

    path = tmp_path / "report.pdf"
    words = printed(drawing(), path)
    assert not of(path)[1]
    before = path.stat().st_size
    pack(path)
    pixels, indexed, kept = of(path)
    assert indexed and (pixels == drawing()).all() and kept == words and path.stat().st_size < before
    again = path.stat().st_size
    pack(path)
    assert (of(path)[0] == drawing()).all() and path.stat().st_size <= again + 64


def test_an_image_that_a_palette_makes_no_smaller_is_left(tmp_path):
    pytest.importorskip("pikepdf", reason="the extra 'report' is not installed")
    from pack_pdf import pack

    noise = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    printed(noise, tmp_path / "report.pdf")
    pack(tmp_path / "report.pdf")
    made, indexed, _ = of(tmp_path / "report.pdf")
    assert not indexed and (made == noise).all()


def test_without_a_browser_the_pdf_is_left_as_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert print_pdf.pdf(tmp_path / "index.html", tmp_path / "x.pdf") == 0
    assert "no Chromium or Chrome" in capsys.readouterr().err and not (tmp_path / "x.pdf").exists()


def browser(folder: Path, pages: list[int]) -> None:
    """A program called chromium that prints four blank pages, with bookmarks of the headings if it is asked for them.

    pages: of the headings, from 0; [] for a browser that makes none.
    """
    import pikepdf

    document = pikepdf.new()
    for _ in range(4):
        document.add_blank_page(page_size=(595, 842))
    document.save(folder / "plain.pdf")
    with document.open_outline() as outline:
        at = outline.root
        for words, page in zip(HEADINGS, pages, strict=False):  # each below the one before
            at.append(pikepdf.OutlineItem(words, page, "XYZ", left=40, top=700))
            at = at[-1].children
    document.save(folder / "marked.pdf")
    program = folder / "chromium"
    program.write_text(
        f"""#!/bin/sh
kind=plain
for word in "$@"; do
  case "$word" in --generate-pdf-document-outline) kind=marked;; --print-to-pdf=*) made="${{word#*=}}";; esac
done
/bin/cp {folder}/$kind.pdf "$made"
"""
    )
    program.chmod(0o755)


def printed_report(folder: Path, monkeypatch, pages: list[int]):
    """(lines of the contents, the PDF) of ONE_PAGE."""
    import pikepdf
    from bs4 import BeautifulSoup

    browser(folder, pages)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(print_pdf, "BUILD", folder / "build")
    (folder / "build").mkdir()
    page = folder / "index.html"
    page.write_text(ONE_PAGE)
    assert print_pdf.pdf(page, folder / "x.pdf") == 0
    soup = BeautifulSoup(page.read_text(), "html.parser")
    lines = [
        (a["href"], *(span.get_text().strip("\u2007") for span in a.find_all("span"))) for a in soup.select("a[href]")
    ]
    for to, words, _ in lines:
        assert soup.select_one(to).get_text().strip("¶") == words  # each link leads to its own heading
    return lines, pikepdf.open(folder / "build" / "report.pdf")


def test_the_pdf_has_a_page_of_contents_with_numbers_and_bookmarks(tmp_path, monkeypatch):
    pytest.importorskip("pikepdf", reason="the extra 'report' is not installed")
    lines, made = printed_report(tmp_path, monkeypatch, [0, 0, 1, 2, 2, 3, 3])
    assert [(words, page) for _, words, page in lines] == [
        ("What was found", "1"),
        ("All of it", "2"),
        ("SCAN", "3"),
        ("DivE", "4"),
    ]
    with made.open_outline() as outline:
        tree = [
            (part.title, [(c.title, [h.title for h in c.children]) for c in part.children]) for part in outline.root
        ]
        assert tree == [
            ("Results", [("What was found", ["All of it"])]),
            ("Methods", [("SCAN", ["Its loss"]), ("DivE", [])]),
        ]
        detail = outline.root[1].children[0].children[0].children[0]
        assert detail.title == "Detail" and made.pages.index(detail.destination[0]) == 3


def test_with_a_browser_that_makes_no_bookmarks_the_contents_have_no_numbers(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pikepdf", reason="the extra 'report' is not installed")
    lines, made = printed_report(tmp_path, monkeypatch, [])
    assert [page for _, _, page in lines] == ["", "", "", ""] and "/Outlines" not in made.Root
    assert "does not say where headings stand" in capsys.readouterr().err
