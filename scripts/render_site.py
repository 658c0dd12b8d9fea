"""Sources of the site into HTML by Sphinx, and what differs on paper. scripts/build_site.py uses it."""

import base64
import contextlib
import io
import re
from pathlib import Path

import nbformat
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
PORTRAIT = 112  # letters of 8 points that fit beside each other on an upright page
SHORT = 14  # letters of a cell that is not broken
QUALITY, WIDEST = 32, 640  # of photographs on paper: JPEG's quality, pixels
DRAWN, COLOURS, DEARER = 940, 64, 1.2  # of drawings: pixels, colours, how many times the bytes of a JPEG are paid
_INTERVAL = re.compile(r"[+-]?[\d.]+ \[[^\]]{,20}\]")  # '+2.5 [-8.9, 13.9]' is one word
# where a long word may be parted, roughly: before the last syllables that begin with one consonant
_HYPHEN = re.compile(r"(?<=[a-z]{4})(?=[bcdfghjklmnpqrstvwxz][aeiou][a-z]{2,}\b)")


def sphinx(builder: str, source: Path, out: Path) -> None:
    """Run Sphinx; any warning is an error. Raises: SystemExit with what Sphinx said."""
    from sphinx.cmd.build import main as build

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        failed = build(["-b", builder, "-W", "--keep-going", "-q", str(source), str(out)])
    if failed:
        raise SystemExit(f"error: the report cannot be built.\n{printed.getvalue()[-3000:]}")


def for_paper(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A notebook's page for print: without code and parameters, and with images of fewer bytes."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata["tags"] = ["remove-input"] if cell.outputs else ["remove-cell"]
            for output in cell.outputs:
                if data := output.get("data", {}).get("image/png"):
                    output["data"] |= smaller(data)
                    if "image/jpeg" in output["data"]:
                        del output["data"]["image/png"]
    return notebook


def smaller(data: str) -> dict[str, str]:
    """An image of a notebook (PNG as text) as it stands on paper: a drawing with sharp lines and few colours as PNG,
    where that takes at most DEARER times the bytes of a JPEG; anything else, as photographs, as JPEG."""
    with Image.open(io.BytesIO(base64.b64decode(data))) as image:
        flat = Image.new("RGB", image.size, "white")
        flat.paste(image, mask=image.convert("RGBA").getchannel("A"))
    png, jpeg = io.BytesIO(), io.BytesIO()
    at_most(flat, DRAWN).quantize(COLOURS, dither=Image.Dither.NONE).save(png, "PNG", optimize=True)
    at_most(flat, WIDEST).save(jpeg, "JPEG", quality=QUALITY)
    if png.tell() <= DEARER * jpeg.tell():
        return {"image/png": base64.b64encode(png.getvalue()).decode()}
    return {"image/jpeg": base64.b64encode(jpeg.getvalue()).decode()}


def at_most(image: Image.Image, width: int) -> Image.Image:
    """An image, made narrower where it is wider than a number of pixels."""
    if image.width <= width:
        return image
    return image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)


def fitted(page: Path) -> None:
    """Short cells of tables, and numbers with their intervals, stay on one line; a table that does not fit the page at
    8 points gets the class 'wide', whose columns share the width, and break at spaces (not beside ±, nor within an
    interval), and long words of its head at a hyphen. A number that is missing is a dash; parts of a formula may stand
    below each other."""
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
    for table in soup.find_all("table"):
        wide = letters(table) > PORTRAIT
        for cell in table.find_all("td"):
            text = cell.get_text(" ", strip=True)
            if cell.string and _INTERVAL.fullmatch(text):
                cell.string.replace_with(text.replace(" ", "\u00a0"))
            elif cell.string and len(text) <= SHORT:
                text = re.sub(r"(?<=[a-z])-(?=[a-z])", "\u2011", text)  # of "t-i"; a minus stays one
                text = text.replace(" ± ", "\u00a0±\u00a0")
                cell.string.replace_with(text if wide else text.replace(" ", "\u00a0"))
        if wide:
            outer = table.find_parent(class_=["cell_output", "table-wrapper"]) or table
            outer["class"] = [*outer.get("class", []), "wide"]
            for words in table.select_one("thead").find_all(string=True) if table.thead else ():
                words.replace_with(_HYPHEN.sub("\u00ad", words))
        for cell in table.find_all("td"):
            if cell.get_text(strip=True) == "NaN":
                cell.string = "–"
    for formula in soup.select("div.math-block > math > mrow"):
        parted(soup, formula)
    page.write_text(str(soup), encoding="utf-8")


def parted(soup, row) -> None:
    """Divide a formula at its wide gaps into several that stand beside each other where the line has room."""
    outer, parts = row.parent, [[]]
    for part in list(row.children):
        wide = part.name == "mspace" and float(part.get("width", "0em").removesuffix("em") or 0) >= 1
        parts.append([]) if wide else parts[-1].append(part)
    for part in filter(None, parts) if len(parts) > 1 else ():
        one = soup.new_tag("math", attrs={"xmlns": outer["xmlns"], "displaystyle": "true"})
        one.extend(part)
        outer.insert_before(one, " ")
    if len(parts) > 1:
        outer.decompose()


def letters(table) -> int:
    """How many letters a table needs beside each other: in each column its longest word (short cells and intervals are
    one), and 2 between columns."""
    widths: list[int] = []
    for row in table.find_all("tr"):
        for n, cell in enumerate(row.find_all(["td", "th"])):
            text = cell.get_text(" ", strip=True)
            one_line = cell.name == "td" and (len(text) <= SHORT or _INTERVAL.fullmatch(text) is not None)
            need = len(text) if one_line else max(map(len, text.split()), default=0)
            need += need // 6 if cell.name == "th" else 0  # bold
            if n == len(widths):
                widths.append(0)
            widths[n] = max(widths[n], need)
    return sum(widths) + 2 * len(widths)
