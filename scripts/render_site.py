"""Sources of the site into HTML by Sphinx, and a page into PDF by a browser. scripts/build_site.py uses it."""

import contextlib
import io
import shutil
import subprocess
import sys
from pathlib import Path

from xmr_core.base.files import write_atomic

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def sphinx(builder: str, source: Path, out: Path) -> None:
    """Run Sphinx; any warning is an error. Raises: SystemExit with what Sphinx said."""
    from sphinx.cmd.build import main as build

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        failed = build(["-b", builder, "-W", "--keep-going", "-q", str(source), str(out)])
    if failed:
        raise SystemExit(f"error: the report cannot be built.\n{printed.getvalue()[-3000:]}")


def pdf(page: Path, made: Path) -> int:
    """Print a page into build/report.pdf. Returns the exit status; without a browser nothing is done, and said so."""
    browser = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if browser is None:
        print("no Chromium or Chrome on the path: build/report.pdf was left as it is", file=sys.stderr)
        return 0
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer", f"--print-to-pdf={made}"]
    done = subprocess.run([browser, *flags, page.as_uri()], capture_output=True, text=True)
    if done.returncode or not made.exists():
        print(f"error: {browser} could not print the report: {done.stderr[-500:]}", file=sys.stderr)
        return 1
    write_atomic(BUILD / "report.pdf", made.read_bytes())
    print(f"build/report.pdf, {made.stat().st_size / 1e6:.1f} MB")
    return 0
