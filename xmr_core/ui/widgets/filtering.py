"""The line of filters: what answers must be."""

from collections.abc import Callable

import ipywidgets as w

from xmr_core.search.filters import MARKS, Filter
from xmr_core.search.library import Library

_WORDS = {"style": {"description_width": "initial"}, "layout": w.Layout(width="auto", max_width="240px")}


class FilterBar:
    """Menus and fields of a Filter. changed: called with the fields that changed."""

    def __init__(self, changed: Callable[..., None]):
        self._changed, self._watched = changed, True
        self.split = w.Dropdown(options=[("any", "")], description="Split", **_WORDS)
        options = [("any", ""), *((name, name) for name in MARKS[1:])]
        self.marked = w.Dropdown(options=options, description="Judged", **_WORDS)
        self.text = w.Text(description="Text", placeholder="in captions or names", continuous_update=False, **_WORDS)
        self.moved = w.BoundedIntText(value=0, min=0, max=10**9, description="Ranks differ by", **_WORDS)
        self.clear = w.Button(description="Clear filter", tooltip="show all answers", layout=w.Layout(width="auto"))
        self.said = w.HTML()
        for name, widget in self._fields().items():
            widget.observe(lambda change, name=name: self._watched and changed(**{name: change["new"]}), "value")
        self.clear.on_click(lambda _: changed(**vars(Filter())))
        fields = [*self._fields().values(), self.clear, self.said]
        self.widget = w.HBox(fields, layout=w.Layout(flex_flow="row wrap", display="none"))

    def show(self, wanted: Filter, library: Library) -> None:
        """Set the menus to a filter, with the splits that there are."""
        self._watched = False
        splits = {str(s) for s in ([] if library.splits is None else library.splits)} | {wanted.split}
        self.split.options = [("any", ""), *((name, name) for name in sorted(splits - {""}))]
        self.split.value = wanted.split
        self.marked.value, self.text.value, self.moved.value = wanted.marked, wanted.text, wanted.moved
        selected = len(wanted.images) + len(wanted.captions)
        self.said.value = f"<span class='xmr-soft'>{selected:,} items selected on the map</span>" if selected else ""
        self._watched = True

    def _fields(self) -> dict[str, w.Widget]:
        return {n: getattr(self, n) for n in ("split", "marked", "text", "moved")}
