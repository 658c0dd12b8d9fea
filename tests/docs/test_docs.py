"""The documents are true: their code runs, their links lead somewhere, what is generated is current, and what is
tracked stays small.
"""

import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
from layout import FLOORS
from pages import DOCS, FENCE, ROOT, python_blocks

from xmr_core.methods import registry

sys.path.insert(0, str(ROOT / "scripts"))

import build_readme

PAGES = sorted(DOCS.rglob("*.md"))
LINKED = [*PAGES, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "reports/README.md"))]
FILE = re.compile(r"# (\w+)\.py\n")  # the first line of a block that is a file of its own
LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")
REPORTS_BYTES = 15_000_000  # a clone does not mind
OUTSIDE = [r"\.\./shared\b", r"\b[A-Z]{4,}(?: §|\.md\b)"]  # a section of, or a file with, a name in capitals


def run_page(text: str, folder: Path) -> dict:
    """Execute the blocks of a page in one namespace; one that begins with `# name.py` is written to that file too."""
    namespace: dict = {"__name__": "page"}
    for number, block in enumerate(python_blocks(text)):
        if match := FILE.match(block):
            (folder / f"{match[1]}.py").write_text(block)
            importlib.invalidate_caches()
        exec(compile(block, f"block {number + 1}", "exec"), namespace)
    return namespace


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def text_of(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


def anchors(text: str) -> set[str]:
    """Everything after a `#` that leads to a place on a page: `(name)=`, and headings as GitHub names them."""
    plain = FENCE.sub("", text)
    out = set(re.findall(r"^\(([\w-]+)\)=$", plain, re.M)) | set(re.findall(r'\b(?:id|name)="([^"]+)"', plain))
    for heading in re.findall(r"^#+ (.+)$", plain, re.M):
        words = re.sub(r"\]\([^)]*\)", "]", heading).lower()
        out.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return out


def dead_links(path: Path, text: str) -> list[str]:
    out = []
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"\w+:", target):
            continue
        place, _, anchor = target.partition("#")
        page = (path.parent / place).resolve() if place else path
        if place and not page.exists():
            out.append(f"{target}: there is no such file")
        elif anchor and anchor not in anchors(text if page == path else page.read_text()):
            out.append(f"{target}: there is no such place on the page")
    return out


def pages_with_code() -> list:
    """Pages with blocks that run; one that trains is slow."""
    out = []
    for page in [ROOT / "README.md", *PAGES]:
        if blocks := python_blocks(page.read_text()):
            marks = [pytest.mark.slow] if "train_or_load" in "".join(blocks) else []
            out.append(pytest.param(page, id=page.relative_to(ROOT).as_posix(), marks=marks))
    return out


def rounded(text: str) -> str:
    """A text whose numbers have two places, because the last ones depend on the processor."""
    return re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.2f}", text)


@pytest.mark.parametrize("page", pages_with_code())
@pytest.mark.filterwarnings("ignore")
def test_the_code_on_a_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_registered", {})
    try:
        run_page(page.read_text(), tmp_path)
        if page.name == "README.md":
            assert rounded(re.search("```text\n(.*?)```", page.read_text(), re.S)[1]) == rounded(
                capsys.readouterr().out
            )
    finally:
        for path in tmp_path.glob("*.py"):
            sys.modules.pop(path.stem, None)


@pytest.mark.parametrize("page", LINKED, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    assert not dead_links(page, page.read_text())


def test_a_dead_link_is_seen(tmp_path):
    page = tmp_path / "a.md"
    text = "(one)=\n# A B: c\n[x](#one) [x](#a-b-c) [x](#two) [x](b.md) [x](https://example.org) `[x](c.md)`\n"
    assert [line.split(":")[0] for line in dead_links(page, text.replace("`[x](c.md)`", ""))] == ["#two", "b.md"]


def test_docstrings_lead_to_places_in_the_documents():
    missing = []
    for path in tracked("*.py", "*.ipynb", "Makefile"):
        for place, anchor in re.findall(r"\b(docs/[\w/]+\.(?:md|svg))(?:#([\w-]+))?", text_of(path)):
            page = ROOT / place
            if not page.exists() or (anchor and anchor not in anchors(page.read_text())):
                missing.append(f"{path.relative_to(ROOT)}: {place}#{anchor}")
    assert not missing


def test_every_page_is_reached_from_the_index():
    index = {(DOCS / t.partition("#")[0]).resolve() for t in LINK.findall((DOCS / "index.md").read_text())}
    methods = {
        (DOCS / "methods" / t.partition("#")[0]).resolve()
        for t in LINK.findall((DOCS / "methods" / "index.md").read_text())
    }
    assert set(PAGES) - {DOCS / "index.md"} <= index | methods


def test_commands_of_make_that_documents_name_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = set()
    for page in LINKED:
        for code in re.findall(r"`make ([a-z-]+(?: [a-z-]+)*)[^`]*`|^make ([a-z-]+)", page.read_text(), re.M):
            named |= set(" ".join(code).split())
    assert named <= targets


def test_tables_of_methods_are_current():
    readme = (ROOT / "README.md").read_text()
    assert build_readme.with_table(readme) == readme and build_readme.methods_table() in readme, "run `make readme`"
    page = build_readme.OPTIONS.read_text()
    assert page == build_readme.options_page(), "run `make readme`"
    assert build_readme.options_table() in page and build_readme.published_table().partition("\n\n")[2] in page


@pytest.mark.parametrize("module", registry.MODULES.values())
def test_the_page_of_a_method_names_every_option(module):
    spec = importlib.import_module(f"xmr_core.methods.{module}").SPEC
    text = (DOCS / "methods" / f"{module}.md").read_text()
    assert [name for name in spec.options.names() if not re.search(rf"`{name}[`=]", text)] == []


def test_the_picture_and_the_table_show_every_room():
    rooms = {room for floor in FLOORS for room in floor}
    drawn = (DOCS / "architecture.svg").read_text()
    wrong = {room for room in rooms if f">{room.removeprefix('xmr_core/')}<" not in drawn}
    assert not wrong, "run `python scripts/draw_architecture.py`"
    listed = set(re.findall(r"^\| `([\w/]+)` \|", (DOCS / "architecture.md").read_text(), re.M))
    assert rooms <= listed, sorted(rooms - listed)


def test_what_is_tracked_of_the_reports_is_small():
    paths = tracked("reports")
    assert paths and sum(path.stat().st_size for path in paths) <= REPORTS_BYTES
    assert not [p for p in paths if p.suffix in (".html", ".pdf")], "pages and PDF belong in build/"


def internal_names(text: str) -> list[str]:
    names = [match[0] for pattern in OUTSIDE for match in re.finditer(pattern, text)]
    return [name for name in names if not (ROOT / name).exists() or name.startswith("..")]


def test_no_file_names_a_document_that_users_do_not_have():
    paths = [path for path in tracked() if path != Path(__file__).resolve()]
    assert not {path.relative_to(ROOT).as_posix(): names for path in paths if (names := internal_names(text_of(path)))}


def test_where_is_names_what_exists():
    table = (DOCS / "architecture.md").read_text().split("## Where is …")[1].split("\n## ")[0]
    names = re.findall(r"\| `([\w.]+)` \|", table)
    assert len(names) > 10
    for name in names:
        pkgutil.resolve_name(name if name.startswith("xmr_study") else f"xmr_core.{name}")
