"""The explorer's page: which widgets there are, and where they stand."""

from collections.abc import Sequence

import ipywidgets as w

from xmr_core.ui.widgets.columns import Acts, Column
from xmr_core.ui.widgets.draws import DRAWS
from xmr_core.ui.widgets.theme import STYLE

MOST_ANSWERS = 30  # that the slider offers
NONE = "–"  # in the second menu: no second method
_STATIC = (
    "<p>The explorer needs a running kernel: run this cell. The figure at the end shows its answers to one query.</p>"
)
_FIT = w.Layout(width="auto")
_WRAP = w.Layout(flex_flow="row wrap")


class Page:
    """The widgets of an explorer; as the last line of a notebook's cell it is shown.

    Args: labels: methods in the two menus. k: answers at first. acts: what the buttons of an answer do. panels: name →
        a widget that a button of that name shows and hides.
    """

    def __init__(self, labels: Sequence[str], k: int, acts: Acts, panels: dict[str, w.Widget]):
        example = {"placeholder": "a red circle above a blue square, for example", "continuous_update": False}
        self.text = w.Text(description="Sentence", layout=w.Layout(width="auto", flex="1 1 240px"), **example)
        tips = {"Ask": "rank the images for this sentence", "Back": "the query before"}
        tips |= {name: tip for name, (tip, _) in DRAWS.items()}
        self.buttons = {name: w.Button(description=name, tooltip=tip, layout=_FIT) for name, tip in tips.items()}
        self.skip = w.Button(description="To the answers", tooltip="by keyboard: to the first answer", layout=_FIT)
        self.skip.add_class("xmr-skip").on_click(lambda _: self.columns[0].focus())
        self.upload = w.FileUpload(accept="image/*", multiple=False, description="Upload an image", layout=_FIT)
        self.first = w.Dropdown(options=labels, description="Method")
        self.second = w.Dropdown(options=(NONE, *labels), value=NONE, description="beside")
        self.k = w.IntSlider(value=k, min=1, max=MOST_ANSWERS, description="answers", continuous_update=False)
        self.status, self.query = w.HTML(), w.HTML()
        self.columns = [Column(n, acts) for n in (0, 1)]
        self.controls, self.answers = w.VBox(), w.Box().add_class("xmr-columns")
        self.toggles = {name: _toggle(name, widget) for name, widget in panels.items()}
        lines = (
            w.HBox([self.text, self.skip, self.buttons["Ask"], self.buttons["Back"]], layout=_WRAP),
            w.HBox([*(self.buttons[name] for name in DRAWS), self.upload], layout=_WRAP),
            w.HBox([self.first, self.second, self.k, *self.toggles.values()], layout=_WRAP),
        )
        shown = [w.HTML(STYLE), *lines, self.controls, *panels.values(), self.status, self.query, self.answers]
        self.widget = w.VBox(shown).add_class("xmr")

    def _repr_mimebundle_(self, **options):
        self.begin()
        # The HTML is for pages that cannot show widgets.
        return {**self.widget._repr_mimebundle_(**options), "text/html": _STATIC}

    def begin(self) -> None:
        """What happens before the page is shown."""


def _toggle(name: str, panel: w.Widget) -> w.ToggleButton:
    button = w.ToggleButton(description=name, tooltip=f"show or hide: {name.lower()}", layout=_FIT)
    button.observe(lambda change: setattr(panel.layout, "display", "" if change["new"] else "none"), "value")
    return button
