"""How long the explorer takes as a person sees it: in voila and Chromium, from the click to the last change.

python benchmarks/explorer_page_speed.py [--images 5000 --captions 25000] [--method dive --second pcme] [--width 256].
The embeddings are random and the encoders untrained, so only times and memory mean something. A time is that between
the event of the click (key, pointer) in the page and the last change of the page before a second without any. Without
a GPU the browser draws the map's points in software. Printed are the best and the median of several, because other work
on the machine only adds, and the machine's load. Memory is the peak of the kernel, where the library lives. Needs the
extras `app` and `test`, and a Chromium on the path.
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from playwright.sync_api import sync_playwright

TIMES = 5
SENTENCES = ("a red circle", "two blue squares", "a ring above a circle", "a green ring", "a yellow cross", "a circle")
CELL = """
import sys
sys.path.insert(0, {folder!r})
import torch
from explorer_speed import library
from xmr_core.data.prepare import DataConfig, prepare
from xmr_core.methods.registry import build
from xmr_core.ui.widgets import Explorer

prepared, made = prepare(DataConfig(size="tiny"), progress=iter), {{}}

def opened(name):
    if name not in made:
        torch.manual_seed(0)
        own = build(name.partition(" ")[0], prepared.inputs, d={width}).eval()
        made[name] = library(name, own, prepared, len(made), {images}, {captions})
    return made[name]

Explorer(opened, {names!r}, judgments={judgments!r})
"""
WATCH = """() => {
  for (const name of ['keydown', 'change', 'pointerup', 'mouseup', 'click'])
    document.addEventListener(name, () => { window.began = window.began ?? performance.now(); }, true);
  new MutationObserver(() => { window.changed = performance.now(); }).observe(
    document.querySelector('.xmr'), {subtree: true, childList: true, characterData: true, attributes: true});
}"""


def served(cell: str, folder: Path) -> tuple[subprocess.Popen, str]:
    """voila of a notebook with one cell, and its address."""
    code = {"cell_type": "code", "id": "a", "metadata": {}, "execution_count": None, "outputs": [], "source": cell}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": [code], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (folder / "speed.ipynb").write_text(json.dumps(notebook))
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    words = [sys.executable, "-m", "voila", str(folder / "speed.ipynb"), "--no-browser", f"--port={port}"]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not any(c.laddr.port == port for c in psutil.Process(server.pid).net_connections()):
        time.sleep(0.2)
    return server, f"http://127.0.0.1:{port}/"


def timed(page, what: str, acts: list) -> None:
    """Print the best and the median of some acts, each of which ends with the event that is timed."""
    found = []
    for act in acts:
        page.evaluate("() => { window.began = null; window.changed = null; }")
        act()
        page.wait_for_function("() => window.changed > window.began && performance.now() - window.changed > 1000")
        found.append(page.evaluate("() => window.changed - window.began"))
    load = os.getloadavg()[0]
    print(f"| {what} | {min(found):.0f} | {statistics.median(found):.0f} | {load:.1f} |", flush=True)


def lasso(page, share: float):
    """A function that draws a square lasso around the middle of the map; its side is a share of the map's height."""
    page.evaluate("() => window.scrollTo(0, 0)")
    box = page.locator(".js-plotly-plot .nsewdrag").first.bounding_box()
    x, y, half = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, share * box["height"] / 2

    def draw():
        page.mouse.move(x - half, y - half)
        page.mouse.down()
        for dx, dy in ((1, -1), (1, 1), (-1, 1), (-1, -0.9)):
            page.mouse.move(x + dx * half, y + dy * half, steps=3)
        page.evaluate("() => { window.began = null; }")
        page.mouse.up()

    return draw


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("images", 5_000), ("captions", 25_000), ("width", 256)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--method", default="dive")
    parser.add_argument("--second", default="pcme")
    parser.add_argument("--lasso", type=float, default=0.2, help="side of the lasso, as a share of the map's height")
    wanted = parser.parse_args()
    second = wanted.second if wanted.second != wanted.method else f"{wanted.second} again"
    folder = Path(tempfile.mkdtemp())
    cell = CELL.format(
        folder=str(Path(__file__).parent), names=[wanted.method, second], judgments=str(folder / "marks.jsonl"),
        width=wanted.width, images=wanted.images, captions=wanted.captions,
    )  # fmt: skip
    server, address = served(cell, folder)
    try:
        with sync_playwright() as pw:
            browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
            page = pw.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page(
                viewport={"width": 1400, "height": 1000}
            )
            start = time.perf_counter()
            page.goto(address)
            page.locator("[aria-label^='answer ']").first.wait_for(timeout=300_000)
            ready = time.perf_counter() - start
            print(f"{wanted.method} and {second}, width {wanted.width}, {wanted.images:,} × {wanted.captions:,}\n")
            print("| what | best ms | median ms | load |\n| --- | --- | --- | --- |")
            page.evaluate(WATCH)
            box = page.locator("input[placeholder^='a red circle']")

            def asks(sentence):
                box.fill(sentence)
                page.evaluate("() => { window.began = null; }")
                box.press("Enter")

            timed(page, "a sentence", [lambda s=s: asks(s) for s in SENTENCES])
            why = page.get_by_role("button", name="why?")
            timed(page, "why", [lambda n=n: why.nth(n).click() for n in range(TIMES)])
            page.get_by_role("button", name="Map", exact=True).click()
            page.locator(".js-plotly-plot .nsewdrag").first.wait_for(timeout=120_000)
            page.wait_for_timeout(3000)
            growing = [lasso(page, wanted.lasso * (1 + n / 4)) for n in range(TIMES)]  # outside the last
            timed(page, "a lasso", growing)
            page.get_by_role("button", name="Filter", exact=True).click()
            page.wait_for_timeout(500)
            selected = page.locator("text=items selected on the map").inner_text()
            page.get_by_role("button", name="Clear filter").click()
            page.wait_for_timeout(1000)
            page.get_by_role("button", name="Map", exact=True).click()
            menu = page.locator(".jupyter-widgets select").nth(1)
            menu.select_option(second)
            page.locator(".xmr-column").nth(1).wait_for(timeout=120_000)  # the first time it is opened
            page.wait_for_timeout(1000)

            def compares():
                menu.select_option("–")
                page.wait_for_timeout(1500)
                page.evaluate("() => { window.began = null; window.changed = null; }")
                menu.select_option(second)  # this alone is timed

            timed(page, "the second method", [compares] * TIMES)
            kernel = max(psutil.Process(server.pid).children(recursive=True), key=lambda p: p.memory_info().rss)
            peak = [line for line in Path(f"/proc/{kernel.pid}/status").read_text().splitlines() if "VmHWM" in line]
            memory = int(peak[0].split()[1]) / 2**20
            print(f"\nready after {ready:.1f} s; {selected}; peak of the kernel {memory:.2f} GiB")
    finally:
        for child in psutil.Process(server.pid).children(recursive=True):
            child.terminate()
        server.terminate()
        server.wait(20)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
