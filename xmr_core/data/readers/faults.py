"""What is wrong in the files of a corpus: tolerated and counted, or refused."""

from collections import Counter

from xmr_core.base.errors import BadInput

EXAMPLES = 3  # kept of each kind, to be shown


class Faults:
    """A reader's notebook of faults.

    Two kinds: what can be tolerated is counted and the reader goes on without the item; what cannot is refused. Normally a
    refusal raises at once. With collect=True it is noted and the reader goes on as far as it can, so that a check can list
    everything that is wrong with a folder, not only the first thing.

    counts: kind → how often it was tolerated. examples: kind → the first few. refused: the refusals noted, in order.
    """

    def __init__(self, collect: bool = False):
        self.collect = collect
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = {}
        self.refused: list[str] = []

    def tolerate(self, kind: str, example: object = "", times: int = 1) -> None:
        """Count a fault. kind: a plural phrase ('captions of a missing picture'). example: where it was seen."""
        if times:
            self.counts[kind] += times
            seen = self.examples.setdefault(kind, [])
            if len(seen) < EXAMPLES and example != "":
                seen.append(str(example)[:120])

    def refuse(self, message: str) -> None:
        """Raise BadInput with the message, or note it when collecting; the caller then leaves the item out and goes on."""
        if not self.collect:
            raise BadInput(message)
        self.refused.append(message)
