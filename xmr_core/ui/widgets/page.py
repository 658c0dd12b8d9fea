"""The explorer's page: which widgets there are, where they stand, and the queries that buttons draw."""

from collections.abc import Callable, Sequence

import ipywidgets as w

from xmr_core.search.library import Library
from xmr_core.search.query import Query
from xmr_core.search.state import ambiguous_queries, hard_query, random_query, unsure_queries
from xmr_core.ui.widgets.columns import Column

NONE = "–"  # in the second menu: no second method
_BUTTONS = {  # label → tooltip
    "Ask": "rank the images for this sentence",
    "Random image": "captions for an image of the corpus",
    "Random caption": "images for a caption of the corpus",
    "Hard": "a caption whose first answer is wrong",
    "Ambiguous": "a caption that many images fit",
    "Unsure": "a caption of which the first method is least certain",
    "Back": "the query before",
}
_CHOICES = 20  # queries that a button goes through, one after the other
DRAWS: dict[str, Callable[[Library, int], Query]] = {  # button → its query number n
    "Random image": lambda library, n: random_query(library, "image", n),
    "Random caption": lambda library, n: random_query(library, "caption", n),
    "Hard": lambda library, n: hard_query(library, seed=n),
    "Ambiguous": lambda library, n: (choices := ambiguous_queries(library, n=_CHOICES))[n % len(choices)],
    "Unsure": lambda library, n: (choices := unsure_queries(library, n=_CHOICES))[n % len(choices)],
}
_STATIC = (
    "<p>The explorer needs a running kernel: run this cell. The figure at the end shows its answers to one query.</p>"
)
_WRAP = {"flex_flow": "row wrap"}


class Page:
    """The widgets of an explorer; as the last line of a notebook's cell it is shown.

    Args: labels: methods in the two menus. k: answers at first. ask, why: as of Column, why with the column's number
    first.
    """

    def __init__(self, labels: Sequence[str], k: int, ask: Callable[[Query], None], why: Callable[[int, int], None]):
        wide, automatic = w.Layout(width="99%"), w.Layout(width="auto")
        example = {"placeholder": "a red circle above a blue square", "continuous_update": False}
        self.text = w.Text(description="Sentence", layout=w.Layout(width="60%"), **example)
        self.buttons = {
            name: w.Button(description=name, tooltip=tip, layout=w.Layout(width="auto"))
            for name, tip in _BUTTONS.items()
        }
        self.upload = w.FileUpload(accept="image/*", multiple=False, description="Upload an image", layout=automatic)
        self.first = w.Dropdown(options=labels, description="Method")
        self.second = w.Dropdown(options=(NONE, *labels), value=NONE, description="beside")
        self.k = w.IntSlider(value=k, min=1, max=30, description="answers", continuous_update=False)
        self.status, self.query, self.links = w.HTML(), w.HTML(), w.HTML()
        self.columns = [Column(ask, lambda position, n=n: why(n, position)) for n in (0, 1)]
        self.controls, self.answers, self.why = w.VBox(layout=wide), w.HBox(layout=wide), w.VBox(layout=wide)
        choices = [button for name, button in self.buttons.items() if name != "Ask"]
        lines = (
            w.HBox([self.text, self.buttons["Ask"]]),
            w.HBox([*choices, self.upload], layout=w.Layout(**_WRAP)),
            w.HBox([self.first, self.second, self.k], layout=w.Layout(**_WRAP)),
        )
        self.widget = w.VBox([*lines, self.controls, self.status, self.query, self.answers, self.why])

    def _repr_mimebundle_(self, **options):
        # The HTML is for pages that cannot show widgets.
        return {**self.widget._repr_mimebundle_(**options), "text/html": _STATIC}
