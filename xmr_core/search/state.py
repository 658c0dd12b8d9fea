"""Where a person is: what was asked, how, of which methods; and the way back. Every step gives a new state."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from xmr_core.base.errors import BadInput
from xmr_core.search.library import Library
from xmr_core.search.query import Query
from xmr_core.search.ranking import Ranking, Settings, rank

MOST_STEPS = 50  # that a history remembers


@dataclass(frozen=True)
class State:
    """query: None before the first. methods: labels, one, or two to compare; the same twice shows one method with two settings.
    settings: those that were changed, by (place, label), so that a method that comes back comes back as it was left. past: states one
    can step back to, the latest last."""

    methods: tuple[str, ...]
    query: Query | None = None
    settings: tuple[tuple[tuple[int, str], Settings], ...] = ()
    usual: Settings = Settings()
    past: tuple["State", ...] = field(default=(), repr=False)

    def settings_of(self, place: int) -> Settings:
        """Of the first (0) or second (1) method; how many answers are shown is the same for both."""
        own = dict(self.settings).get((place, self.methods[place]), self.usual)
        return replace(own, k=self.usual.k)

    def ask(self, query: Query) -> "State":
        """The same methods and settings, another query; this state becomes the latest of the past. Asking the same again changes nothing."""
        if query == self.query and query.kind != "picture":
            return self
        return replace(self, query=query, past=self._remembered())

    def back(self) -> "State":
        """The query and methods before, with the settings of now, which sliders show; itself where there is none."""
        if not self.past:
            return self
        return replace(self.past[-1], past=self.past[:-1], settings=self.settings, usual=self.usual)

    def set(self, place: int, **changes) -> "State":
        """Other settings of the first (0) or second (1) method. Sliders move often, so this is no step of the history.

        Raises: BadInput for a place where no method is shown.
        """
        if not 0 <= place < len(self.methods):
            raise BadInput(f"{len(self.methods)} methods are shown, so there is none in place {place}.")
        key = place, self.methods[place]
        return replace(self, settings=tuple({**dict(self.settings), key: replace(self.settings_of(place), **changes)}.items()))

    def show(self, k: int) -> "State":
        """Another number of answers."""
        return replace(self, usual=replace(self.usual, k=k))

    def compare(self, *labels: str) -> "State":
        """Other methods, one or two; no change where they are shown already. Raises: BadInput for none, or more."""
        if not 1 <= len(labels) <= 2:
            raise BadInput(f"one method or two can be shown, got {', '.join(labels) or 'none'}.")
        return self if labels == self.methods else replace(self, methods=labels, past=self._remembered())

    def _remembered(self) -> tuple["State", ...]:
        return (*self.past, replace(self, past=()))[-MOST_STEPS:] if self.query or self.past else ()


def answers(state: State, libraries: dict[str, Library]) -> list[Ranking]:
    """The ranking of the state's query by each of its methods. Raises: BadInput as rank does, or for a method without a library."""
    if state.query is None:
        return []
    if missing := [label for label in state.methods if label not in libraries]:
        raise BadInput(f"{missing[0]} has not been trained here. Open its library first.")
    return [rank(libraries[label], state.query, state.settings_of(place)) for place, label in enumerate(state.methods)]


def moved(first: Ranking, second: Ranking) -> list[tuple[int, int]]:
    """(place among the answers of the first, of the second), from 0, of answers that both show, for lines between two columns."""
    at = {position: n for n, position in enumerate(second.order.tolist())}
    return [(n, at[position]) for n, position in enumerate(first.order.tolist()) if position in at]


def ranks_by(other: Ranking, shown: Ranking) -> list[int]:
    """The rank, from 1, that another ranking of the same query gives to each answer that is shown."""
    scores, at = other.scores, shown.order
    return [1 + int((scores > scores[p]).sum() + (scores[:p] == scores[p]).sum()) for p in at.tolist()]


def random_query(library: Library, kind: str = "image", seed: int = 0) -> Query:
    """A random item of the library: an 'image' (captions answer) or a 'caption'. Raises: BadInput where there is none."""
    ids = library.ids(f"{kind}s")
    if not len(ids):
        raise BadInput(f"there are no {kind}s here to choose from.")
    return Query(kind, item=ids[np.random.default_rng(seed).integers(len(ids))])


def hard_query(library: Library, kind: str = "caption", seed: int = 0, judge: str = "annotated", tries: int = 200) -> Query:
    """A random item whose best answer is wrong by a kind of relevance. Raises: BadInput when none of `tries` is, or nothing is judged."""
    if judge not in library.judges:
        raise BadInput("nobody knows here what is right, so no query can be called hard.")
    ids = library.ids(f"{kind}s")
    for at in np.random.default_rng(seed).permutation(len(ids))[:tries]:
        query = Query(kind, item=ids[at])
        if not rank(library, query, Settings(k=1)).table[judge].iloc[0]:
            return query
    raise BadInput(f"of {min(tries, len(ids))} random {kind}s every one was answered right; there is no hard one to show.")


def ambiguous_queries(library: Library, kind: str = "caption", n: int = 10) -> Sequence[Query]:
    """Items with the most right answers, by the kind of relevance that knows most of them ('exhaustive' on scenes).

    Raises: BadInput where nothing is judged, or every item has as many right answers as every other.
    """
    known = {name: judge if kind == "caption" else judge.transpose() for name, judge in library.judges.items()}
    most = max(known.values(), key=lambda judge: judge.counts.sum(), default=None)
    if most is None or most.counts.min() == most.counts.max():
        raise BadInput(f"every {kind} here has as many known right answers as the next; none is more ambiguous.")
    return [Query(kind, item=library.ids(f"{kind}s")[at]) for at in np.argsort(-most.counts, kind="stable")[:n]]


def unsure_queries(library: Library, kind: str = "caption", n: int = 10) -> Sequence[Query]:
    """Items of which the method is least sure (analysis.uncertainty). Raises: BadInput for a method that is equally sure of all."""
    found = library.uncertainty(f"{kind}s")
    if found is None:
        raise BadInput(f"{library.label} does not say how sure it is; take a method with distributions or sets.")
    return [Query(kind, item=library.ids(f"{kind}s")[at]) for at in np.argsort(-found, kind="stable")[:n]]
