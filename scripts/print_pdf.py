"""The page of results as PDF, by a Chromium or Chrome on the path. scripts/build_site.py uses it."""

import shutil
import subprocess
import sys
from pathlib import Path

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def print_page(page: Path, made: Path) -> int:
    """Print a page of HTML. Returns the exit status; without a browser nothing is done, and said so."""
    browser = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if browser is None:
        print(f"no Chromium or Chrome on the path: {made.name} was not made", file=sys.stderr)
        return 0
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer", f"--print-to-pdf={made}"]
    done = subprocess.run([browser, *flags, page.resolve().as_uri()], capture_output=True, text=True)
    if done.returncode or not made.exists():
        print(f"error: {browser} could not print {page.name}: {done.stderr[-500:]}", file=sys.stderr)
        return 1
    print(f"{made.name}, {made.stat().st_size / 1e6:.1f} MB")
    return 0
