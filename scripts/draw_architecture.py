"""Draw docs/architecture.svg: every room of both packages on its floor, and who imports whom. Nothing in it is typed by
hand.

python scripts/draw_architecture.py. Rooms, floors and imports are read from the code (tests/layout.py).
"""

import io
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from layout import FLOORS, imports, package_files, room_imported, room_of  # noqa: E402

from xmr_core.base.files import write_atomic  # noqa: E402

OUTPUT = ROOT / "docs" / "architecture.svg"
COLOURS = {
    "base": "#e8e8e8", "features": "#e8e8e8", "data": "#d7e8f7", "encoders": "#e3f1dc", "heads": "#e3f1dc",
    "similarities": "#e3f1dc", "losses": "#e3f1dc", "methods": "#cfe8c4", "evaluation": "#fdebc8",
    "training": "#f9d9c9", "models": "#eadcf3", "retrieval": "#eadcf3", "xmr_core": "#ffffff", "xmr_study": "#f7d7e0",
}  # fmt: skip
WIDTH, HEIGHT = 1.82, 0.62  # of a box; floors are 1.25 apart, boxes at least 1.94


def rooms(files: dict[str, str]) -> dict[str, tuple[int, int]]:
    """Room → (number of files, number of lines)."""
    out: dict[str, tuple[int, int]] = {}
    for path, source in files.items():
        n_files, n_lines = out.get(room_of(path), (0, 0))
        out[room_of(path)] = n_files + 1, n_lines + len(source.splitlines())
    return out


def edges(files: dict[str, str]) -> set[tuple[str, str]]:
    """(room, room that it imports)."""
    out = set()
    for path, source in files.items():
        targets = (room_imported(name, set(files)) for name in imports(source) if name.startswith("xmr_"))
        out |= {(room_of(path), other) for other in targets if other not in (None, "xmr_core", room_of(path))}
    return out


def direct(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Edges without those that a longer way implies, so that the picture stays readable."""
    below: dict[str, set[str]] = {}

    def reached(room: str) -> set[str]:
        if room not in below:
            next_rooms = {b for a, b in pairs if a == room}
            below[room] = next_rooms.union(*map(reached, next_rooms))
        return below[room]

    return {(a, b) for a, b in pairs if not any(b in reached(c) for x, c in pairs if x == a and c != b)}


def places(pairs: set[tuple[str, str]]) -> dict[str, tuple[float, float]]:
    """Room → centre of its box. On each floor rooms stand in the order of the mean place of what they import."""
    out: dict[str, tuple[float, float]] = {}
    for number, floor in enumerate(FLOORS):
        spread = {room: [out[b][0] for a, b in pairs if a == room and b in out] for room in floor}
        order = sorted(
            floor, key=lambda room: (sum(spread[room]) / len(spread[room]) if number > 1 and spread[room] else 0, room)
        )
        step = min(4.0, 13.6 / len(order))
        out |= {room: ((n - (len(order) - 1) / 2) * step, 1.25 * number) for n, room in enumerate(order)}
    return out


def draw() -> plt.Figure:
    """The figure: a row for each floor, imports point down."""
    files = package_files()
    size, pairs = rooms(files), direct(edges(files))
    where = places(pairs)
    figure, axes = plt.subplots(figsize=(12, 9.2))
    for number in range(len(FLOORS)):
        axes.axhspan(
            1.25 * number - 0.5, 1.25 * number + 0.5, color="#f6f6f6" if number % 2 else "#fbfbfb", lw=0, zorder=0
        )
        axes.text(-7.6, 1.25 * number, str(number), color="#888888", fontsize=13, ha="center", va="center")
    for a, b in sorted(pairs):
        (x, y), (u, v) = where[a], where[b]
        arrow = FancyArrowPatch(
            (x, y - HEIGHT / 2), (u, v + HEIGHT / 2), arrowstyle="-|>", mutation_scale=7, lw=0.8, color="#9a9a9a"
        )
        arrow.set(alpha=0.65, zorder=1)
        axes.add_patch(arrow)
    for room, (x, y) in where.items():
        n_files, n_lines = size[room]
        corner = (x - WIDTH / 2, y - HEIGHT / 2)
        colour = COLOURS["xmr_study" if room.startswith("xmr_study") else room.removeprefix("xmr_core/").split("/")[0]]
        box = FancyBboxPatch(
            corner, WIDTH, HEIGHT, boxstyle="round,pad=0,rounding_size=0.08", fc=colour, ec="#666666", lw=0.8
        )
        axes.add_patch(box)
        axes.text(x, y + 0.12, room.removeprefix("xmr_core/"), ha="center", va="center", fontsize=8, weight="bold")
        axes.text(
            x, y - 0.15, f"{n_files} files, {n_lines:,} lines", ha="center", va="center", fontsize=7, color="#444444"
        )
    total = f"{len(size)} rooms on {len(FLOORS)} floors, {sum(n for _, n in size.values()):,} lines"
    axes.set_title(f'{total}. An arrow means "imports"; arrows that a longer way implies are left out.', fontsize=10)
    axes.set(xlim=(-7.9, 7.3), ylim=(-0.6, 1.25 * len(FLOORS) - 0.65))
    axes.axis("off")
    figure.tight_layout()
    return figure


def main() -> int:
    plt.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "architecture", "font.family": "DejaVu Sans"}
    content = io.StringIO()
    draw().savefig(content, format="svg", metadata={"Date": None})
    write_atomic(OUTPUT, "\n".join(line.rstrip() for line in content.getvalue().splitlines()) + "\n")
    print(f"{OUTPUT.relative_to(ROOT)}, {OUTPUT.stat().st_size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
