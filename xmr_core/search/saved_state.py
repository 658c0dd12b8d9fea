"""The state of an explorer as a short text, so that a link or a file opens the same view again."""

import base64
import json
import zlib
from dataclasses import asdict

from xmr_core.base.errors import BadInput
from xmr_core.search.filters import Filter
from xmr_core.search.query import Query
from xmr_core.search.ranking import Settings
from xmr_core.search.state import State

_FORMAT = 1
_LARGEST = 2**20  # bytes of a view; a link could unpack to a thousand times its length


def state_to_json(state: State) -> str:
    """A state without its past as JSON. Raises: BadInput for an uploaded image, which is in no library.

    >>> state_from_json(state_to_json(State(("DivE",), Query("text", "a dog")))).query.text
    'a dog'
    """
    query = state.query
    if query is not None and query.kind == "upload":
        raise BadInput("an uploaded image is no part of a link or a file; ask a sentence or an image of the library.")
    content = {
        "format": _FORMAT,
        "methods": state.methods,
        "query": None if query is None else {"kind": query.kind, "text": query.text, "item": query.item},
        "settings": [[place, label, asdict(settings)] for (place, label), settings in state.settings],
        "usual": asdict(state.usual),
        "filter": asdict(state.filter),
    }
    return json.dumps(content, ensure_ascii=False, sort_keys=True, default=lambda value: value.item())


def state_from_json(text: str) -> State:
    """The state in a text of state_to_json. Raises: BadInput for any other text.

    >>> state_from_json("{}")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: this is no view of the explorer (KeyError: 'methods'). Copy the link or file again.
    """
    try:
        content = json.loads(text)
        methods, query = tuple(content["methods"]), content["query"]
        settings = {(place, label): _settings(values) for place, label, values in content["settings"]}
        chosen = content["filter"] | {n: tuple(content["filter"].get(n, ())) for n in ("images", "captions")}
        return State(
            methods,
            None if query is None else Query(**query),
            tuple(settings.items()),
            _settings(content["usual"]),
            Filter(**chosen),
        )
    except BadInput:
        raise
    except Exception as e:  # whatever somebody pasted
        reason = f"{type(e).__name__}: {e}"
        raise BadInput(f"this is no view of the explorer ({reason}). Copy the link or file again.") from None


def state_to_link(state: State) -> str:
    """A state as letters that may stand in a web address, after '?view='.

    >>> state_from_link(state_to_link(State(("DivE",)))).methods
    ('DivE',)
    """
    return base64.urlsafe_b64encode(zlib.compress(state_to_json(state).encode(), 9)).decode().rstrip("=")


def state_from_link(letters: str) -> State:
    """The state in the letters of state_to_link. Raises: BadInput for any other letters."""
    try:
        packed = base64.urlsafe_b64decode(letters + "=" * (-len(letters) % 4))
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(packed, _LARGEST).decode()
        text = text if unpacking.eof else ""
    except (ValueError, zlib.error):  # binascii's errors are ValueErrors
        text = ""
    return state_from_json(text)


def _settings(values: dict) -> Settings:
    return Settings(**values | {"elements": tuple(values.get("elements", ()))})
