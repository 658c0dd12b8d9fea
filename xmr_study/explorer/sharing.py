"""Saving and sharing: the view as a link, answers as a table, judgments as qrels."""

import base64
import os
from collections.abc import Callable
from urllib.parse import parse_qs

import ipywidgets as w
import pandas as pd

from xmr_study.explorer.state import State, state_from_link, state_to_link


class SharePanel:
    """Buttons that make files, and a field that opens a view. Each maker raises XmrErrors, which `act` shows.

    act: runs one action. state, frame, qrels: make what is saved. open_view: shows a state.
    """

    def __init__(
        self,
        act: Callable[[Callable[[], None]], None],
        state: Callable[[], State],
        frame: Callable[[], pd.DataFrame],
        qrels: Callable[[], str],
        open_view: Callable[[State], None],
    ):
        makers = {
            "Link": ("the view as a link", lambda: _link_html(state())),
            "Answers (CSV)": ("the answers", lambda: _file_html("answers.csv", frame().to_csv(index=False))),
            "Judgments (qrels)": ("all marks in the format of TREC", lambda: _file_html("qrels.txt", qrels())),
        }
        self.out, self.buttons = w.HTML(), {}
        for name, (tip, make) in makers.items():
            self.buttons[name] = w.Button(description=name, tooltip=tip, layout=w.Layout(width="auto"))
            self.buttons[name].on_click(lambda _, make=make: act(lambda: setattr(self.out, "value", make())))
        texts = {"description": "View", "placeholder": "paste a link", "continuous_update": False}
        self.view = w.Text(**texts, layout=w.Layout(width="60%"))

        def opened(change: dict) -> None:
            if change["new"].strip():
                self.view.value = ""
                act(lambda: open_view(view_of(change["new"])))

        self.view.observe(opened, "value")
        line = w.HBox([*self.buttons.values()], layout=w.Layout(flex_flow="row wrap"))
        self.widget = w.VBox([line, self.view, self.out], layout=w.Layout(display="none"))


def view_of(text: str) -> State:
    """The state in a link, or in its part after '?view='. Raises: BadInput."""
    _, mark, tail = text.strip().partition("?")
    return state_from_link(parse_qs(tail).get("view", [""])[0] if mark else text.strip())


def view_of_page() -> State | None:
    """The state in the address of a voila page, None for an address without one. Raises: BadInput."""
    letters = parse_qs(os.environ.get("QUERY_STRING", "")).get("view", [""])[0]
    return state_from_link(letters) if letters else None


def _file_html(name: str, text: str) -> str:
    uri = f"data:text/plain;base64,{base64.b64encode(text.encode()).decode()}"
    return f"<a download='{name}' href='{uri}'>Save {name}</a>"


def _link_html(state: State) -> str:
    letters = state_to_link(state)
    voila = os.environ.get("SERVER_SOFTWARE", "").startswith("voila")
    said = f"<a href='?view={letters}'>This view as a link</a>" if voila else "In voila this view is the address with"
    field = f"<input readonly class='xmr-address' aria-label='the address of this view' value='?view={letters}'>"
    return f"<div>{said} {field}</div>"
