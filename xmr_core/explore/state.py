"""Where a person is: what was asked, how, of which methods; and the way back. Every step gives a new state."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from xmr_core.errors import BadInput
from xmr_core.explore.library import Library
from xmr_core.explore.query import Query
from xmr_core.explore.ranking import Ranking, Settings, rank

MOST_STEPS = 50  # that a history remembers


@dataclass(frozen=True)
class State:
    """query: None before the first. methods: one label, or two to compare. settings: by label, for those that were changed. past: states one
    can step back to, the latest last."""

    methods: tuple[str, ...]
    query: Query | None = None
    settings: tuple[tuple[str, Settings], ...] = ()
    past: tuple["State", ...] = field(default=(), repr=False)

    def settings_of(self, label: str) -> Settings:
        return dict(self.settings).get(label, Settings())

    def ask(self, query: Query) -> "State":
        """The same methods and settings, another query; this state becomes the latest of the past. Asking the same again changes nothing."""
        if query == self.query and query.kind != "picture":
            return self
        return replace(self, query=query, past=self._remembered())

    def back(self) -> "State":
        """The state before; itself where there is none."""
        return replace(self.past[-1], past=self.past[:-1]) if self.past else self

    def set(self, label: str, **changes) -> "State":
        """Other settings of one method. Sliders move often, so this is no step of the history. Raises: BadInput for a method not shown."""
        if label not in self.methods:
            raise BadInput(f"{label} is not shown; shown are {', '.join(self.methods)}.")
        return replace(self, settings=tuple({**dict(self.settings), label: replace(self.settings_of(label), **changes)}.items()))

    def set_all(self, labels: Sequence[str], **changes) -> "State":
        """The same change of several methods, shown or not."""
        now = dict(self.settings)
        return replace(self, settings=tuple({**now, **{n: replace(self.settings_of(n), **changes) for n in labels}}.items()))

    def compare(self, *labels: str) -> "State":
        """Other methods, one or two. Raises: BadInput for none, more, or the same twice."""
        if not 1 <= len(labels) <= 2 or len(set(labels)) != len(labels):
            raise BadInput(f"one method or two different ones can be shown, got {', '.join(labels) or 'none'}.")
        return replace(self, methods=labels, past=self._remembered())

    def _remembered(self) -> tuple["State", ...]:
        return (*self.past, replace(self, past=()))[-MOST_STEPS:] if self.query or self.past else ()


def answers(state: State, libraries: dict[str, Library]) -> dict[str, Ranking]:
    """label → ranking of the state's query by each of its methods. Raises: BadInput as rank does, or for a method without a library."""
    if state.query is None:
        return {}
    if missing := [label for label in state.methods if label not in libraries]:
        raise BadInput(f"{missing[0]} has not been trained here. Open its library first.")
    return {label: rank(libraries[label], state.query, state.settings_of(label)) for label in state.methods}


def moved(first: Ranking, second: Ranking) -> list[tuple[int, int]]:
    """(place among the answers of the first, of the second), from 0, of answers that both show, for lines between two columns."""
    at = {position: n for n, position in enumerate(second.order.tolist())}
    return [(n, at[position]) for n, position in enumerate(first.order.tolist()) if position in at]


def hard_query(library: Library, kind: str = "caption", seed: int = 0, judge: str = "annotated", tries: int = 200) -> Query:
    """A random item whose best answer is wrong by a kind of relevance. Raises: BadInput when none of `tries` is."""
    ids = library.caption_ids if kind == "caption" else library.image_ids
    for at in np.random.default_rng(seed).permutation(len(ids))[:tries]:
        query = Query(kind, item=ids[at])
        if not rank(library, query, Settings(k=1)).table[judge].iloc[0]:
            return query
    raise BadInput(f"of {min(tries, len(ids))} random {kind}s every one was answered right; there is no hard one to show.")


def ambiguous_queries(library: Library, kind: str = "caption", n: int = 10) -> Sequence[Query]:
    """Items with the most right answers, where the corpus knows them all ('exhaustive'); else those the method is least sure of.

    Raises: BadInput where neither is known.
    """
    side, ids = (f"{kind}s", library.caption_ids if kind == "caption" else library.image_ids)
    if "exhaustive" in library.judges:
        known = library.judges["exhaustive"] if kind == "caption" else library.judges["exhaustive"].transpose()
        weight = known.counts.astype(float)
    elif (found := library.uncertainty(side)) is not None:
        weight = found
    else:
        raise BadInput(f"{library.label} is equally sure of everything, and this corpus does not know all right answers.")
    return [Query(kind, item=ids[at]) for at in np.argsort(-weight, kind="stable")[:n]]
