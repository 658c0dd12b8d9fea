"""The explorer in JupyterLab, in a real browser: what a person does in the first minute. Skipped where no browser is
installed.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
from in_browser import BROWSER, CARD, PATIENCE, SENTENCE, cards, free_port, lasso, wait_for, wait_for_server
from PIL import Image

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install -e '.[test]')")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on the path")]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab on a copy of the notebook with two small methods; yields its address."""
    folder = tmp_path_factory.mktemp("lab")
    notebook = nbformat.read(ROOT / "notebooks" / "explore.ipynb", 4)
    cell = next(c for c in notebook.cells if "parameters" in c.metadata.get("tags", []))
    cell.source = re.sub(
        r"methods: list\[str\] = \[.*?\]", 'methods: list[str] = ["DivE", "PCME"]', cell.source
    ).replace("epochs: int = 0", "epochs: int = 1")
    for code in (c for c in notebook.cells if c.cell_type == "code"):
        code.outputs = []  # what is waited for must be new
    cell = nbformat.v4.new_code_cell("'nothing' if explorer.selection is None else explorer.selection.head(60)")
    at = next(n for n, c in enumerate(notebook.cells) if c.source == "explorer") + 1
    notebook.cells.insert(at, cell)  # what comes at the end is folded
    nbformat.write(notebook, folder / "explore.ipynb")
    settings = folder / "settings" / "@jupyterlab" / "notebook-extension" / "tracker.jupyterlab-settings"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"windowingMode": "none"}')  # else a cell that is far away is hidden
    port = free_port()
    words = [
        "--no-browser",
        "--allow-root",
        f"--port={port}",
        "--ServerApp.token=",
        "--ServerApp.password=",
        "--LabApp.news_url=None",
    ]
    environment = os.environ | {
        "XMR_HOME": str(folder / "home"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
    }
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", str(folder), *words],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for_server(f"http://127.0.0.1:{port}/api")
        yield f"http://127.0.0.1:{port}/lab/tree/explore.ipynb"
    finally:
        server.terminate()
        server.wait(20)


@pytest.fixture(scope="module")
def page(lab):
    with playwright.sync_playwright() as pw:
        browser = pw.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1500, "height": 1300})
        page.set_default_timeout(PATIENCE)
        page.goto(lab)
        # Run before the kernel is attached would ask for a kernel, and nothing would run
        page.wait_for_function("document.querySelector('#jp-main-statusbar')?.innerText.includes('| Idle')")
        page.locator(".lm-MenuBar-itemLabel", has_text="Run").first.click()
        page.locator(".lm-Menu-itemLabel").filter(has_text="Run All Cells").first.click()
        page.locator("text=finished; made").last.wait_for(timeout=3 * PATIENCE)
        yield page
        browser.close()


def upload(page, file: Path) -> None:
    """Choose a file as a person does: by the button, because the input behind it is not part of the page."""
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Upload an image").click()
    chooser.value.set_files(str(file))


def test_the_first_minute(page, tmp_path):
    box = page.locator(SENTENCE)
    box.scroll_into_view_if_needed()
    box.fill("a large red circle above a blue ring")
    box.press("Enter")
    page.locator("b", has_text="“a large red circle above a blue ring”").wait_for()  # the example was ranked before
    wait_for(page, "images ranked by DivE")
    assert len(cards(page)) == 10 and page.locator(f"{CARD} img").count() == 10
    before = cards(page)

    page.get_by_role("button", name="more answers").click()
    page.wait_for_function("document.querySelectorAll(\"[aria-label^='answer ']\").length >= 20")
    assert cards(page)[:10] == before

    page.get_by_label("Method").select_option("PCME")
    wait_for(page, "images ranked by PCME")
    page.get_by_label("beside").select_option("DivE")
    wait_for(page, "ranked by PCME and by DivE")
    assert len(cards(page)) >= 40

    page.get_by_role("button", name="why?").first.click()
    wait_for(page, "why PCME found")
    assert "what each word adds" in page.locator(".jp-Notebook").inner_text()

    page.get_by_role("button", name="its captions").first.click()
    wait_for(page, "captions ranked by")
    picture = tmp_path / "mine.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (80, 120, 3), np.uint8)).save(picture)
    upload(page, picture)
    page.locator("img[alt='the image that was the query']").wait_for()
    broken = tmp_path / "broken.png"
    broken.write_bytes(picture.read_bytes()[:40])
    upload(page, broken)
    wait_for(page, "no image that can be read")
    # the way back with the keyboard alone: from the sentence by tabs to the buttons
    box.focus()
    reach(page, "Back")
    for text in ("captions ranked by", "images ranked by"):
        page.keyboard.press("Enter")
        wait_for(page, text)
    assert "a large red circle above a blue ring" in page.locator(".jp-Notebook").inner_text()

    box.fill("zeppelin")
    box.press("Enter")
    wait_for(page, "knows none of the words")
    page.screenshot(path=tmp_path / "explorer.png")


def reach(page, name: str, most: int = 20) -> None:
    """Press the tabulator until the button of this name has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.innerText") == name:
            return
    raise AssertionError(f"{name} cannot be reached with the keyboard")


def test_quick_changes_one_after_another_all_arrive(page):
    """What is changed while the last change is still being answered must not be lost: the last one counts."""
    box = page.locator(SENTENCE)
    box.fill("a red circle")
    box.press("Enter")
    page.get_by_label("beside").select_option("–")
    page.get_by_label("Method").select_option("DivE")
    box.fill("a blue ring")
    box.press("Enter")
    page.get_by_label("α of DivE").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    wait_for(page, "images ranked by DivE.")
    page.locator("h3", has_text="DivE (α = 22.6)").wait_for()  # half a step up from 16
    wait_for(page, "images ranked by DivE.")
    assert "“a blue ring”" in page.locator(".jp-Notebook").inner_text()


def test_every_control_has_a_name(page):
    """For those who hear the page: nothing that can be focused is without a name."""
    nameless = page.locator(
        ".jp-OutputArea button, .jp-OutputArea input, .jp-OutputArea select, .jp-OutputArea [role=slider]"
    ).evaluate_all(
        """all => all.filter(e => e.offsetParent !== null && !(
            e.innerText?.trim() || e.title || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby')
            || e.labels?.length || e.closest('.widget-inline-hbox')?.querySelector('label')?.innerText.trim()
        )).map(e => e.outerHTML.slice(0, 200))"""
    )
    assert nameless == []


def test_a_lasso_gives_the_frame_in_the_notebook(page):
    """The selection on the map is a DataFrame in the next cell, and the ranking is restricted to it."""
    page.get_by_role("button", name="Map", exact=True).click()
    page.locator(".js-plotly-plot .nsewdrag").first.wait_for()
    lasso(page)
    said = "[...document.querySelectorAll('[role=status]')].some(e => /of [0-9,]+ images ranked/.test(e.innerText))"
    page.wait_for_function(said)
    last = page.locator(".jp-CodeCell", has_text="explorer.selection").last
    last.scroll_into_view_if_needed()
    last.locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    table = page.locator(".jp-CodeCell table.dataframe", has_text="modality").last
    table.wait_for()
    heads = table.locator("thead th").all_inner_texts()
    assert {"modality", "item", "x", "y", "split", "cluster"} <= set(heads)
    assert set(table.locator("tbody tr td:nth-child(2)").all_inner_texts()) <= {"images", "captions"}
