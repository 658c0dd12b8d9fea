"""A method's own settings: what of it can be changed without encoding anything anew."""

from collections.abc import Callable
from math import log2

import ipywidgets as w

from xmr_core.base.types import GaussianEmbedding
from xmr_core.search.library import Library, elements_of
from xmr_core.search.ranking import Settings
from xmr_core.similarities.distances import distances_of

_FIT = w.Layout(width="auto")
_WRAP = w.Layout(flex_flow="row wrap")


def settings_row(library: Library, title: str, now: Settings, changed: Callable[..., None]) -> w.Widget | None:
    """Sliders and menus for what this method has, None for nothing. title: of its column. changed: called with the new
    value of one field of Settings."""
    row = []
    own = library.method.similarity
    if "alpha" in own.settings:
        span = own.ranges["alpha"]
        slider = w.FloatLogSlider(
            value=now.alpha or own.settings["alpha"], base=2, min=log2(span.low), max=log2(span.high), step=0.5,
            description=f"{span.symbol} of {title}", continuous_update=False, style={"description_width": "initial"},
        )  # fmt: skip
        slider.observe(lambda change: changed(alpha=float(change["new"])), "value")
        row.append(slider)
    if (n := elements_of(library.images)) > 1:
        boxes = [
            w.Checkbox(
                value=not now.elements or e in now.elements, description=f"element {e + 1}",
                tooltip=f"element {e + 1} of the query counts", indent=False, layout=_FIT,
            )
            for e in range(n)
        ]  # fmt: skip

        def elements(_):
            chosen = tuple(e for e, box in enumerate(boxes) if box.value)
            changed(elements=() if len(chosen) == n else chosen or (-1,))  # −1: none, which is refused in words

        for box in boxes:
            box.observe(elements, "value")
        row.append(w.HBox([w.Label(f"of the query ({title})"), *boxes]))
    if isinstance(library.images, GaussianEmbedding):
        options = [("as trained", ""), *((name, name) for name in distances_of(library.images))]
        menu = w.Dropdown(
            options=options, value=now.distance, description=f"{title} by", style={"description_width": "initial"}
        )
        menu.observe(lambda change: changed(distance=change["new"]), "value")
        row.append(menu)
    return w.HBox(row, layout=_WRAP) if row else None


def in_words(library: Library, now: Settings) -> str:
    """What of the settings is not the method's own: 'α = 4, elements 1 and 3'; '' for nothing."""
    own = library.method.similarity.settings.get("alpha")
    parts = [f"α = {now.alpha:g}"] if now.alpha and now.alpha != own else []
    parts += ["elements " + ", ".join(str(e + 1) for e in now.elements)] if now.elements else []
    return ", ".join([*parts, *([now.distance] if now.distance else [])])
