"""A method's own settings: what of it can be changed without encoding anything anew."""

from collections.abc import Callable
from math import log2

import ipywidgets as w

from xmr_core.base.types import GaussianEmbedding
from xmr_core.search.library import Library
from xmr_core.search.ranking import Settings
from xmr_core.similarities.distances import distances_of

_STYLE = {"description_width": "initial"}


def settings_row(library: Library, title: str, now: Settings, changed: Callable[..., None]) -> w.Widget | None:
    """Sliders and menus for what this method has, None for nothing. title: of its column. changed: called with the new
    value of one field of Settings."""
    row = []
    own = library.method.similarity
    if "alpha" in own.settings:
        span = own.ranges["alpha"]
        slider = w.FloatLogSlider(
            value=now.alpha or own.settings["alpha"], base=2, min=log2(span.low), max=log2(span.high), step=0.5,
            description=f"{span.symbol} of {title}", continuous_update=False, style=_STYLE,
        )  # fmt: skip
        slider.observe(lambda change: changed(alpha=float(change["new"])), "value")
        row.append(slider)
    if isinstance(library.images, GaussianEmbedding):
        options = [("as trained", ""), *((name, name) for name in distances_of(library.images))]
        menu = w.Dropdown(options=options, value=now.distance, description=f"{title} by", style=_STYLE)
        menu.observe(lambda change: changed(distance=change["new"]), "value")
        row.append(menu)
    return w.HBox(row, layout=w.Layout(flex_flow="row wrap")) if row else None


def in_words(library: Library, now: Settings) -> str:
    """What of the settings is not the method's own: 'α = 4, elements 1 and 3'; '' for nothing."""
    own = library.method.similarity.settings.get("alpha")
    alpha = f"α = {now.alpha:g}" if now.alpha and now.alpha != own else ""
    elements = "elements " + ", ".join(str(e + 1) for e in now.elements) if now.elements else ""
    return ", ".join(part for part in (alpha, elements, now.distance) if part)
