"""The state of an explorer, of which every step makes a new one, and the same as a short text for links."""

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace

import numpy as np

from xmr_core.base.errors import BadInput
from xmr_core.retrieval.judgments import Judgments
from xmr_core.retrieval.library import Library
from xmr_core.retrieval.ranking import Query, Ranking, Settings, rank
from xmr_study.explorer.filters import Filter, changed_ranks, passing


@dataclass(frozen=True)
class State:
    """One state. methods: one label, or two to compare; the same label twice compares two settings of one method.
    query: None before the first. settings: those that were changed, by (place, label), so that they still hold when a
    method is shown again. usual: settings of all others. filter: what answers must be."""

    methods: tuple[str, ...]
    query: Query | None = None
    settings: tuple[tuple[tuple[int, str], Settings], ...] = ()
    usual: Settings = Settings()
    filter: Filter = Filter()

    def settings_of(self, place: int) -> Settings:
        """Settings of the first (0) or second (1) method; the number of answers is the same for both."""
        own = dict(self.settings).get((place, self.methods[place]), self.usual)
        return replace(own, k=self.usual.k)

    def ask(self, query: Query) -> "State":
        """Another query, with the same methods and settings. An equal query changes nothing."""
        return self if query == self.query and query.kind != "upload" else replace(self, query=query)

    def set(self, place: int, **changes) -> "State":
        """Other settings of the first (0) or second (1) method."""
        key = place, self.methods[place]
        settings = {**dict(self.settings), key: replace(self.settings_of(place), **changes)}
        return replace(self, settings=tuple(settings.items()))

    def show(self, k: int) -> "State":
        """Another number of answers."""
        return replace(self, usual=replace(self.usual, k=k))

    def restrict(self, **changes) -> "State":
        """Other conditions on answers."""
        return replace(self, filter=replace(self.filter, **changes))

    def compare(self, *labels: str) -> "State":
        """Other methods, one or two; the same methods change nothing. Raises: BadInput for none, or more."""
        if not 1 <= len(labels) <= 2:
            raise BadInput(f"one method or two can be shown, got {', '.join(labels) or 'none'}.")
        return self if labels == self.methods else replace(self, methods=labels)

    def steps_from(self, other: "State") -> bool:
        """Whether it is a step from another state that can be undone: another query, method or filter. Sliders move
        often, and are none."""
        return (self.query, self.methods, self.filter) != (other.query, other.methods, other.filter) or (
            self.query is not other.query and self.query.kind == "upload"
        )


def answers(state: State, libraries: dict[str, Library], judgments: Judgments | None = None) -> list[Ranking]:
    """The ranking of the state's query by each of its methods, among the items that pass its filter. Raises: BadInput
    as rank and passing do."""
    if state.query is None:
        return []
    shown = [libraries[label].ids(state.query.target) for label in state.methods]
    if not all(np.array_equal(shown[0], ids) for ids in shown):
        raise BadInput(f"{' and '.join(state.methods)} have different {state.query.target}; show one after the other.")
    among = passing(libraries[state.methods[0]], state.query, state.filter, judgments)

    def ranked(among: np.ndarray | None) -> list[Ranking]:
        numbered = enumerate(state.methods)
        return [rank(libraries[label], state.query, state.settings_of(place), among) for place, label in numbered]

    rankings = ranked(among)
    if state.filter.moved and len(rankings) > 1:
        rankings = ranked(changed_ranks(*rankings, state.filter.moved, among))
    return rankings


def ranks_by(other: Ranking, shown: Ranking) -> list[int]:
    """The rank, from 1, of each answer that is shown, in another ranking of the same query among the same items."""
    scores, among = other.scores[other.among], other.among
    own = other.scores[shown.order]
    return [
        1 + int((scores > s).sum() + ((scores == s) & (among < p)).sum()) for s, p in zip(own, shown.order, strict=True)
    ]


def random_query(library: Library, kind: str = "image", seed: int = 0) -> Query:
    """A random item of the library: an 'image' (captions answer) or a 'caption'. Raises: BadInput where there is
    none."""
    ids = library.ids(f"{kind}s")
    if not len(ids):
        raise BadInput(f"this library has no {kind}s to choose from.")
    return Query(kind, item=ids[np.random.default_rng(seed).integers(len(ids))])


def hard_query(
    library: Library, kind: str = "caption", seed: int = 0, relevance: str = "annotated", tries: int = 200
) -> Query:
    """A random item whose best answer is wrong by a relevance set.

    Raises: BadInput when none of `tries` items is, or for a library without that relevance set.
    """
    if relevance not in library.relevance_sets:
        raise BadInput(f"this library has no relevance set {relevance!r}, so no query can be called hard.")
    ids = library.ids(f"{kind}s")
    for position in np.random.default_rng(seed).permutation(len(ids))[:tries]:
        query = Query(kind, item=ids[position])
        if not rank(library, query, Settings(k=1)).table[relevance].iloc[0]:
            return query
    raise BadInput(f"the best answers to {min(tries, len(ids))} random {kind}s were all right; none of them is hard.")


def unequal_counts(library: Library, kind: str = "caption") -> np.ndarray | None:
    """How many right answers each item has, by the relevance set with the most pairs ('exhaustive' on scenes); None
    without relevance sets, or where all have as many."""
    relevances = [r if kind == "caption" else r.transpose() for r in library.relevance_sets.values()]
    counts = max((r.counts for r in relevances), key=np.sum, default=np.zeros(1))
    return None if counts.min() == counts.max() else counts


def ambiguous_queries(library: Library, kind: str = "caption", n: int = 10) -> Sequence[Query]:
    """Items with the most right answers, by `unequal_counts`. Raises: BadInput where that is None."""
    if (counts := unequal_counts(library, kind)) is None:
        raise BadInput(f"every {kind} of this library has as many known right answers; none is more ambiguous.")
    return _queries(library, kind, counts, n)


def unsure_queries(library: Library, kind: str = "caption", n: int = 10) -> Sequence[Query]:
    """Items of which the method is least certain (analysis.uncertainty). Raises: BadInput for a method without
    uncertainty."""
    values = library.uncertainty(f"{kind}s")
    if values is None:
        raise BadInput(f"{library.label} does not say how sure it is; take a method with distributions or sets.")
    return _queries(library, kind, values, n)


def _queries(library: Library, kind: str, values: np.ndarray, n: int) -> Sequence[Query]:
    """The n items with the largest values, in that order."""
    return [Query(kind, item=library.ids(f"{kind}s")[p]) for p in np.argsort(-values, kind="stable")[:n]]


# The state of an explorer as a short text, so that a link or a file opens the same view again.


_FORMAT = 1
_LARGEST = 2**20  # bytes of a view; a link could unpack to a thousand times its length


def state_to_json(state: State) -> str:
    """A state as JSON. Raises: BadInput for an uploaded image, which is in no library.

    >>> state_from_json(state_to_json(State(("DivE",), Query("text", "a dog")))).query.text
    'a dog'
    """
    query = state.query
    if query is not None and query.kind == "upload":
        raise BadInput("an uploaded image is no part of a link or a file; ask a sentence or an image of the library.")
    content = {"format": _FORMAT, "methods": state.methods}
    content |= {"usual": asdict(state.usual), "filter": asdict(state.filter)}
    parts = ("kind", "text", "item", "similar", "words", "like", "unlike")
    content["query"] = None if query is None else {name: getattr(query, name) for name in parts}
    content["settings"] = [[place, label, asdict(settings)] for (place, label), settings in state.settings]
    return json.dumps(content, ensure_ascii=False, sort_keys=True, default=lambda value: value.item())


def state_from_json(text: str) -> State:
    """The state in a text of state_to_json. Raises: BadInput for any other text.

    >>> state_from_json("{}")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: this is no view of the explorer (KeyError: 'methods'). Copy the link again.
    """
    try:
        content = json.loads(text)
        methods, query = tuple(content["methods"]), content["query"]
        settings = [((place, label), _made(Settings, values)) for place, label, values in content["settings"]]
        query = None if query is None else _made(Query, query)
        return State(
            methods, query, tuple(settings), _made(Settings, content["usual"]), _made(Filter, content["filter"])
        )
    except Exception as e:  # whatever somebody pasted
        raise BadInput(f"this is no view of the explorer ({type(e).__name__}: {e}). Copy the link again.") from None


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


def _made(kind: type, values: dict):
    """Settings, a Filter or a Query; what an older link says of other fields is left out."""
    known = {f.name: values[f.name] for f in fields(kind) if f.name in values}
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in known.items()})
