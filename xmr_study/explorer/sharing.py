"""Saving and sharing: the view as a link, searches by name, answers and the map as tables, judgments as qrels."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs

from xmr_core.base import files
from xmr_core.base.errors import BadInput
from xmr_study.explorer.settings import Control, button, field
from xmr_study.explorer.state import State, state_from_link


def of_sharing(searches: Mapping[str, str]) -> list[Control]:
    """The buttons that make files and links, and the fields that keep and open views. searches: name → letters."""
    files = (
        ("Copy link", "the address of this view", "link"), ("Answers (CSV)", "the answers", "answers"),
        ("Judgments (qrels)", "all marks, as TREC has them", "qrels"),
        ("Map (CSV)", "for FiftyOne and embedding-atlas", "map"),
    )  # fmt: skip
    earlier = [("open an earlier one …", ""), *searches.items()]
    return [
        *(button(*told) for told in files), field("Searches", "", "open", options=earlier),
        field("Keep this view as", "", "keep", hint="a name"), field("Open a link", "", "open", hint="paste it here"),
    ]  # fmt: skip


def view_of(text: str) -> State:
    """The state in a link, or in its part after '?view='. Raises: BadInput."""
    _, mark, tail = text.strip().partition("?")
    state = state_from_link(parse_qs(tail).get("view", [""])[0] if mark else text.strip())
    if state.query is None:
        raise BadInput("this view asks nothing. Copy the link again.")
    return state


def view_of_page() -> State | None:
    """The state in the address of a voila page, None for an address without one. Raises: BadInput."""
    letters = parse_qs(os.environ.get("QUERY_STRING", "")).get("view", [""])[0]
    return view_of(letters) if letters else None


def read_searches(path: Path) -> dict[str, str]:
    """Searches that were kept: name → letters of the view; {} where there are none. Raises: BadInput for a file that
    holds something else."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
    except (OSError, ValueError, TypeError) as e:
        raise BadInput(f"{path} holds no searches ({e}); move it away.") from None


def keep_search(path: Path, name: str, letters: str) -> None:
    """Keep a view under a name, in place of one of that name. Raises: CannotWrite; BadInput as read_searches."""
    files.make_folder(path.parent)
    files.write_atomic(path, json.dumps(read_searches(path) | {name: letters}, ensure_ascii=False, indent=1))
