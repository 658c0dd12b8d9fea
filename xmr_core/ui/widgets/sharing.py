"""Saving and sharing: the view as a link or a file, answers as a table or a figure, judgments as qrels."""

import base64
import html
import io
import os
from collections.abc import Callable
from urllib.parse import parse_qs

import ipywidgets as w
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from xmr_core.base.errors import BadInput
from xmr_core.search.saved_state import state_from_json, state_from_link, state_to_json, state_to_link
from xmr_core.search.state import State

_FORMATS = {"svg": "image/svg+xml", "pdf": "application/pdf", "png": "image/png"}
_FIT = w.Layout(width="auto")


class SharePanel:
    """Buttons that make files, and a field that opens a view. Each maker raises XmrErrors, which `act` shows.

    act: runs one action. state, frame, figure, qrels: make what is saved. open_view: shows a state.
    """

    def __init__(
        self,
        act: Callable[[Callable[[], None]], None],
        state: Callable[[], State],
        frame: Callable[[], pd.DataFrame],
        figure: Callable[[], Figure],
        qrels: Callable[[], str],
        open_view: Callable[[State], None],
    ):
        self.out = w.HTML()
        makers = {
            "Link": ("the view as a link or a text", lambda: self._show(_link_html(state()))),
            "View file": ("the view as a file", lambda: self._file("view.json", state_to_json(state()).encode())),
            "Answers (CSV)": ("the answers as a table", lambda: self._file("answers.csv", _csv(frame()))),
            **{
                f"Figure ({kind.upper()})": (f"the answers as {kind}", lambda kind=kind: self._figure(figure, kind))
                for kind in _FORMATS
            },
            "Judgments (qrels)": ("all marks in the format of TREC", lambda: self._file("qrels.txt", qrels().encode())),
        }  # fmt: skip
        self.buttons = {}
        for name, (tip, make) in makers.items():
            self.buttons[name] = w.Button(description=name, tooltip=tip, layout=_FIT)
            self.buttons[name].on_click(lambda _, make=make: act(make))
        self.view = w.Text(
            description="View", placeholder="paste a link or the text of a view file", continuous_update=False,
            layout=w.Layout(width="60%"),
        )  # fmt: skip
        self.view.observe(lambda change: change["new"].strip() and act(lambda: self._open(open_view)), "value")
        line = w.HBox([*self.buttons.values()], layout=w.Layout(flex_flow="row wrap"))
        self.widget = w.VBox([line, self.view, self.out], layout=w.Layout(display="none"))

    def _open(self, open_view: Callable[[State], None]) -> None:
        text, self.view.value = self.view.value, ""
        open_view(view_of(text))

    def _show(self, content: str) -> None:
        self.out.value = content

    def _figure(self, figure: Callable[[], Figure], kind: str) -> None:
        self._file(f"answers.{kind}", drawn(figure(), kind))

    def _file(self, name: str, content: bytes) -> None:
        kind = _FORMATS.get(name.rpartition(".")[2], "text/plain")
        uri = f"data:{kind};base64,{base64.b64encode(content).decode()}"
        self._show(f"<a download='{name}' href='{uri}'>Save {name} ({len(content):,} bytes)</a>")


def view_of(text: str) -> State:
    """The state in a link, in its part after '?view=', or in the text of a view file. Raises: BadInput."""
    text = text.strip()
    if text.startswith("{"):
        return state_from_json(text)
    _, mark, tail = text.partition("?")
    return state_from_link(parse_qs(tail).get("view", [""])[0] if mark else text)


def view_of_page() -> State | None:
    """The state in the address of a voila page, None for an address without one. Raises: BadInput."""
    letters = parse_qs(os.environ.get("QUERY_STRING", "")).get("view", [""])[0]
    return state_from_link(letters) if letters else None


def drawn(figure: Figure, kind: str) -> bytes:
    """A figure as a file: 'svg', 'pdf' or 'png'. The figure is closed. Raises: BadInput for another word."""
    if kind not in _FORMATS:
        raise BadInput(f"a figure is saved as {', '.join(_FORMATS)}, got {kind!r}.")
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=200)
    plt.close(figure)
    return buffer.getvalue()


def _csv(frame: pd.DataFrame) -> bytes:
    return frame.to_csv(index=False).encode()


def _link_html(state: State) -> str:
    letters = state_to_link(state)
    text = html.escape(state_to_json(state))
    voila = os.environ.get("SERVER_SOFTWARE", "").startswith("voila")
    said = f"<a href='?view={letters}'>This view as a link</a>" if voila else "In voila this view is the address with"
    field = f"<input readonly class='xmr-address' aria-label='the address of this view' value='?view={letters}'>"
    return f"<div>{said} {field}</div><details><summary>as text</summary>{text}</details>"
