"""The two repeated parts of the explorer: a method's own settings, and a method's column of answers."""

from collections.abc import Callable

import ipywidgets as w

from xmr_core.explore.library import Library
from xmr_core.explore.query import Query
from xmr_core.explore.ranking import Ranking, Settings, elements_of, has_alpha
from xmr_core.similarities.gaussian import DISTANCES
from xmr_core.types import GaussianEmbedding
from xmr_core.widgets import cards

_FIT = w.Layout(width="auto")
_WRAP = w.Layout(flex_flow="row wrap")


def settings_row(library: Library, now: Settings, changed: Callable[..., None]) -> w.Widget | None:
    """Sliders and menus for what this method has, None for nothing. changed: called with the new value of one field of Settings."""
    label, row = library.label, []
    if has_alpha(library):
        own = float(library.method.similarity.keywords.get("alpha", 16.0))
        slider = w.FloatLogSlider(
            value=now.alpha or own, base=2, min=0, max=7, step=0.5, description=f"α of {label}", continuous_update=False
        )
        slider.observe(lambda change: changed(alpha=float(change["new"])), "value")
        row.append(slider)
    if (n := elements_of(library.images)) > 1:
        boxes = [
            w.Checkbox(value=not now.elements or e in now.elements, description=f"{e + 1}", indent=False, layout=_FIT) for e in range(n)
        ]

        def elements(_):
            kept = tuple(e for e, box in enumerate(boxes) if box.value)
            changed(elements=() if len(kept) == n else kept or (-1,))  # −1: none, which is refused in words

        for box in boxes:
            box.observe(elements, "value")
        row.append(w.HBox([w.Label(f"elements of the query ({label})"), *boxes]))
    if isinstance(library.images, GaussianEmbedding):
        options = [("match probability (trained)", ""), *((name, name) for name in DISTANCES)]
        menu = w.Dropdown(options=options, value=now.distance, description=f"{label} by")
        menu.observe(lambda change: changed(distance=change["new"]), "value")
        row.append(menu)
    return w.HBox(row, layout=_WRAP) if row else None


def column(library: Library, ranking: Ranking, width: str, ask: Callable[[Query], None], why: Callable[[int], None]) -> w.Widget:
    """The answers of one method, best first, each with a button that asks it and one that says why."""
    kinds = [kind for kind in library.judges if kind in ranking.table]
    low, high = float(ranking.scores.min()), float(ranking.scores.max())
    pictures, found = ranking.target == "images", []
    for row, at in zip(ranking.table.to_dict("records"), ranking.order.tolist(), strict=True):
        share = (row["score"] - low) / (high - low) if high > low else 1.0
        shown = {"picture": picture(library, at), "name": f"picture {row['item']}"} if pictures else {"text": row["text"]}
        card = w.HTML(cards.answer(row["rank"], row["score"], share, marks=[k for k in kinds if row[k]], **shown))
        again = w.Button(description="ask this", tooltip=f"make answer {row['rank']} the next query", layout=_FIT)
        reason = w.Button(description="why?", tooltip=f"why answer {row['rank']} was found", layout=_FIT)
        again.on_click(lambda _, item=row["item"]: ask(Query(ranking.target[:-1], item=item)))
        reason.on_click(lambda _, at=at: why(at))
        if pictures:
            found.append(w.VBox([card, w.HBox([again, reason])], layout=w.Layout(width="138px", margin="2px")))
        else:
            card.layout.width = "78%"
            found.append(w.HBox([card, again, reason], layout=w.Layout(width="99%", margin="2px", align_items="center")))
    grid = w.Box(found, layout=w.Layout(flex_flow="row wrap" if pictures else "column"))
    head = w.HTML(f"<h4 style='margin:4px 0'>{library.label}</h4>" + cards.ranks(ranking.relevant, kinds))
    return w.VBox([head, grid], layout=w.Layout(width=width))


def picture(library: Library, at: int, side: int = cards.THUMB) -> str:
    """Data URI of the picture at a position; '' for a corpus of features."""
    read = library.prepared.corpus.read_pixels
    return cards.data_uri(read(library.side.image_rows[[at]])[0], side) if read is not None else ""
