"""The report's page into a PDF by a browser, with a page of contents and bookmarks. scripts/build_site.py uses it."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from render_site import BUILD

from xmr_core.base.files import write_atomic

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PARTS = {"reports": "Results", "docs": "Methods", "notebooks": "Notebooks"}  # by the folder of a chapter's source
LISTED = {"Results": ("h2", "h3")}  # headings of a part that the page of contents lists; of others the chapters alone


@dataclass
class Heading:
    """A heading of the page: its part, its level (2 for a chapter), its words, and its number among all headings."""

    part: str
    level: int
    words: str
    number: int


def pdf(page: Path, made: Path) -> int:
    """Print a page into build/report.pdf and pack it. Returns the exit status; without a browser nothing is done, and
    said so.

    It is printed twice. The first time, with tags for screen readers, says on which page each heading stands. The
    second is the report, without the tags, which would take two fifths more bytes; the site has the same content.
    """
    browser = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if browser is None:
        print("no Chromium or Chrome on the path: build/report.pdf was left as it is", file=sys.stderr)
        return 0
    from pack_pdf import bookmark, pack, places  # needs the extra 'report', which the rest of this file does not

    try:
        headings = with_contents(page)
        tagged = made.with_suffix(".tagged.pdf")
        print_page(browser, page, tagged, "--generate-pdf-document-outline")
        found = places(tagged)
        if len(found) != headings[-1].number + 1:  # a browser from before this flag
            print("the browser does not say where headings stand, so the contents have no numbers", file=sys.stderr)
            found = []
        with_numbers(page, [place.page for place in found])
        print_page(browser, page, made, "--disable-pdf-tagging")
    except RuntimeError as e:
        print(f"error: {browser} could not print the report: {e}", file=sys.stderr)
        return 1
    if found:
        bookmark(made, [(h.part, h.level, h.words, found[h.number]) for h in headings])
    pack(made)
    write_atomic(BUILD / "report.pdf", made.read_bytes())
    print(f"build/report.pdf, {made.stat().st_size / 1e6:.1f} MB")
    return 0


def print_page(browser: str, page: Path, made: Path, *flags: str) -> None:
    """Raises: RuntimeError with the end of what the browser said."""
    always = ["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer", f"--print-to-pdf={made}"]
    done = subprocess.run([browser, *always, *flags, page.as_uri()], capture_output=True, text=True)
    if done.returncode or not made.exists():
        raise RuntimeError(done.stderr[-500:])


def with_contents(page: Path) -> list[Heading]:
    """Put a list of the chapters behind the first page, whose numbers are still blank. Returns all headings below the
    title, in order."""
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
    headings = read_headings(soup)
    block = soup.new_tag("div", attrs={"class": "chapters"})
    for part in dict.fromkeys(heading.part for heading in headings):
        title, lines = soup.new_tag("p", attrs={"class": "part"}), soup.new_tag("div", attrs={"class": part.lower()})
        title.string = part
        block.extend([title, lines])
        for heading in (h for h in headings if h.part == part and f"h{h.level}" in LISTED.get(part, ("h2",))):
            line = soup.new_tag("a", attrs={"href": f"#heading-{heading.number}", "class": f"level-{heading.level}"})
            words, number = soup.new_tag("span"), soup.new_tag("span", attrs={"data-heading": str(heading.number)})
            words.string, number.string = heading.words, "\u2007"  # a blank as wide as a digit
            line.extend([words, number])
            lines.append(line)
    second = soup.find("h3")  # the abstract ends before it
    second.find_parent("section").insert_before(block)
    page.write_text(str(soup), encoding="utf-8")
    return headings


def read_headings(soup) -> list[Heading]:
    """All headings of the one page below its title; each gets an id, since those of Sphinx repeat between chapters. A
    chapter's part is told by a mark before it, in which Sphinx writes the path of its source."""
    headings, part = [], ""
    for tag in soup.find("article").find_all(["h1", "h2", "h3", "h4", "h5", "h6", "span"]):
        if tag.name == "span":
            mark = str(tag.get("id", ""))
            part = PARTS[mark.removeprefix("document-").partition("/")[0]] if mark.startswith("document-") else part
            continue
        words = " ".join(tag.get_text().replace("¶", "").split())
        tag["id"] = f"heading-{len(headings)}"
        headings.append(Heading(part, int(tag.name[1]), words, len(headings)))
    return [heading for heading in headings if heading.level > 1]


def with_numbers(page: Path, pages: list[int]) -> None:
    """Write the number of its page behind each line of the contents. pages: of all headings, the title's first."""
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
    for number in soup.select("[data-heading]"):
        if pages:
            number.string = str(pages[int(number["data-heading"])])
    page.write_text(str(soup), encoding="utf-8")
