"""What all figures share: a palette for colour-blind readers, markers, one font size, and files of few bytes."""

import textwrap
from collections.abc import Collection, Sequence
from io import BytesIO

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FixedLocator, NullLocator
from matplotlib.transforms import Bbox

from xmr_core.base.paths import plain_math, printable

COLOURS = sns.color_palette("colorblind")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
ON_LINES = [withStroke(linewidth=2.5, foreground="white")]  # of a text that lines may cross
# for up to 16 methods in one figure: no two share a colour or a marker
MANY_COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d00", "#56b4e9", "#000000", "#7b3294", "#e6194b", "#808080",
    "#1b5e20", "#b15928", "#4b4bff", "#00a6a6", "#a6bb00", "#5c1a33",
)  # fmt: skip
MANY_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h", "d", "8", (4, 1, 0), (6, 1, 0))
QUERY_COLOURS = {"images": COLOURS[0], "captions": COLOURS[1], "i2t": COLOURS[0], "t2i": COLOURS[1]}
DIRECTIONS = {"i2t": "image → captions", "t2i": "caption → images"}


def method_style(n: int) -> dict:
    """Colour and marker of the n-th of up to 16 methods (from 0); more begin again.

    >>> method_style(0)["marker"]
    'o'
    """
    return {"color": MANY_COLOURS[n % len(MANY_COLOURS)], "marker": MANY_MARKERS[n % len(MANY_MARKERS)]}


# inches at which the text of a figure, as wide as the column of a printed page, has eight points
PAGE = 7.8


def start(
    width: float = 7.0, height: float = 3.6, columns: int = 1, rows: int = 1, **options
) -> tuple[Figure, np.ndarray]:
    """(figure, its panels: beside each other, then below). width, height: in inches. options: of matplotlib's
    subplots."""
    sns.set_theme(style="whitegrid", context="notebook", font_scale=0.85)
    fig, axes = plt.subplots(rows, columns, figsize=(width, height), layout="constrained", **options)
    return fig, np.atleast_1d(axes).ravel()


def legend_below(fig: Figure, axes: Axes | Sequence[Axes], columns: int = 0) -> None:
    """One legend for all panels, below them. columns: 0 for one line."""
    named = {label: h for ax in np.atleast_1d(axes) for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    fig.legend(named.values(), named, loc="outside lower center", ncols=columns or len(named), frameon=False)


_BESIDE = [(6, 0), (-6, 0), (0, 7), (0, -7), (5, 6), (5, -6), (-5, 6), (-5, -6), (8, 13), (-8, 13), (8, -13), (-8, -13)]


def name_points(ax: Axes, x: Sequence[float], y: Sequence[float], names: Sequence[str]) -> None:
    """Write a name beside each point, where it covers no other name and no point. The figure was drawn before."""
    places = ax.transData.transform(np.column_stack([x, y]))
    taken = [Bbox.from_bounds(*place - 4, 8, 8) for place in places]
    for *place, name in zip(x, y, names, strict=True):
        for right, up in _BESIDE:
            sides = {
                "ha": ("right", "center", "left")[np.sign(right) + 1],
                "va": ("top", "center", "bottom")[np.sign(up) + 1],
            }
            text = ax.annotate(
                name, place, (right, up), textcoords="offset points", fontsize=8, path_effects=ON_LINES, **sides
            )
            box = text.get_window_extent()
            if ax.bbox.contains(box.x0, box.y0) and ax.bbox.contains(box.x1, box.y1) and not box.count_overlaps(taken):
                break
            text.remove()
        else:
            text = ax.annotate(name, place, _BESIDE[0], textcoords="offset points", fontsize=8, path_effects=ON_LINES)
        taken.append(text.get_window_extent())


def plain_numbers(ax: Axes, ticks: Collection[float] | None = None) -> None:
    """Numbers on the horizontal axis as they are written: 0.5, 16. ticks: the only ones that are named."""
    ax.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
    if ticks is not None:
        ax.xaxis.set_major_locator(FixedLocator(sorted(set(ticks))))
        ax.xaxis.set_minor_locator(NullLocator())


def whole_numbers(ax: Axes) -> None:
    """Only whole numbers on the horizontal axis."""
    ax.xaxis.get_major_locator().set_params(integer=True)


def line_style(n: int) -> dict:
    """Colour, marker and dashes of the n-th line (from 0)."""
    dashes = ("-", "--", ":", "-.")[n % 4]
    return {"color": COLOURS[n % len(COLOURS)], "marker": MARKERS[n % len(MARKERS)], "ls": dashes}


def wrapped(text: str, width: int = 42, lines: int = 2) -> str:
    """At most so many lines of so many letters; a text that does not fit ends in an ellipsis. A dollar sign
    starts no formula."""
    parts = textwrap.wrap(printable(text), width)
    return plain_math("\n".join(parts[:lines]) + (" …" if len(parts) > lines else ""))


# Figures of many images in few bytes.


def palette_png(figure: Figure, dpi: int = 90, colours: int = 256) -> bytes:
    """The figure as a PNG of so many colours, in a quarter of the bytes that its images would take in full colour.

    >>> from xmr_study.plots.style import start
    >>> palette_png(start()[0])[1:4]
    b'PNG'
    """
    from PIL import Image

    drawn, small = BytesIO(), BytesIO()
    figure.canvas.print_figure(drawn, format="png", dpi=dpi, bbox_inches="tight")
    # this palette keeps the colours of small objects, which a median cut would spend on the background
    palette = {"method": Image.Quantize.MAXCOVERAGE, "kmeans": 1, "dither": Image.Dither.NONE}
    image = Image.open(drawn).convert("RGB").quantize(colours, **palette)
    image.save(small, "PNG", optimize=True)
    return small.getvalue()
