"""What all figures share: one palette that colour-blind readers can tell apart, markers that do without colour, one font size."""

import textwrap

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.figure import Figure

COLOURS = sns.color_palette("colorblind")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
SIDES = {"images": COLOURS[0], "captions": COLOURS[1], "i2t": COLOURS[0], "t2i": COLOURS[1]}
DIRECTIONS = {"i2t": "image → captions", "t2i": "caption → images"}


def start(width: float = 7.0, height: float = 3.6, columns: int = 1, **options) -> tuple[Figure, np.ndarray]:
    """A figure with so many panels beside each other."""
    sns.set_theme(style="whitegrid", context="notebook", font_scale=0.85)
    fig, axes = plt.subplots(1, columns, figsize=(width, height), layout="constrained", **options)
    return fig, np.atleast_1d(axes)


def wrapped(text: str, width: int = 42, lines: int = 2) -> str:
    """At most so many lines of so many letters; what does not fit ends in an ellipsis."""
    found = textwrap.wrap(text, width)
    return "\n".join(found[:lines]) + (" …" if len(found) > lines else "")
