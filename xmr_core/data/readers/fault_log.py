"""What is wrong in the files of a corpus: tolerated and counted, or refused."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from xmr_core.base.errors import BadInput, XmrError

EXAMPLES = 3  # stored of each kind of fault


class FaultLog:
    """The faults that a reader meets.

    A tolerated fault is counted, and the reader leaves the item out. A refused fault raises an error at once. With
    collect=True a refusal is only noted and the reader continues as far as it can, so that a check can list everything
    that is wrong with a folder.

    counts: kind → how often it was tolerated. examples: kind → the first few. refused: the refusals that were noted.
    >>> faults = FaultLog(collect=True)
    >>> faults.tolerate("captions without a word", ["a.jpg#3", "b.jpg#0"])
    >>> faults.refuse_items(["a.jpg"], "captions.csv names", "images twice")
    >>> dict(faults.counts), faults.refused
    ({'captions without a word': 2}, ["captions.csv names 1 images twice, the first is 'a.jpg'."])
    """

    def __init__(self, collect: bool = False):
        self.collect = collect
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = {}
        self.refused: list[str] = []

    def tolerate(self, kind: str, examples: str | Iterable[object], times: int | None = None) -> None:
        """Count faults. kind: a phrase in the plural. examples: where they are; each counts once without `times`."""
        examples = [examples] if isinstance(examples, str) else list(examples)
        if times := len(examples) if times is None else times:
            self.counts[kind] += times
            stored = self.examples.setdefault(kind, [])
            stored += [str(example)[:120] for example in examples[: EXAMPLES - len(stored)]]

    def refuse(self, message: str) -> None:
        """Raise BadInput with the message. When collecting, note it; the caller then continues without the item."""
        if not self.collect:
            raise BadInput(message)
        self.refused.append(message)

    def refuse_items(self, items: Iterable[object], prefix: str, fault: str, remedy: str = "") -> None:
        """`refuse`, unless there is no item: '{prefix} {number of items} {fault}, the first is {item}. {remedy}'"""
        if items := list(items):
            self.refuse(f"{prefix} {len(items):,} {fault}, the first is {items[0]!r}. {remedy}".strip())

    @contextmanager
    def noting(self) -> Iterator[None]:
        """When collecting, an error in the block ends the block only, and is noted as a refusal."""
        try:
            yield
        except XmrError as e:
            if not self.collect:
                raise
            self.refused.append(str(e))
