"""Judgments of people: which answers are right or wrong, in a small file that only grows."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import numpy as np

from xmr_core.base import files
from xmr_core.base.errors import BadInput, require_choice
from xmr_core.base.paths import open_to_append, read_regular
from xmr_core.base.types import Brief, Relevance
from xmr_core.data.readers.assembly import TwoWayRelevance

VERDICTS = {"right": 1, "wrong": 0, "": None}  # verdict → relevance in qrels; '' takes a verdict back
Key = tuple[str, str]  # a query: its kind ('text', 'caption', 'image', or 'similar': images like one), and what it is


@dataclass
class Judgments(Brief):
    """What people said of answers. verdicts: query → item → 'right' or 'wrong'. An item is (modality, id).

    The file has one line of JSON for each act, and lines are only added, each written to the disk before the call
    returns. A line that was cut by a kill is left out when the file is read, and the next one starts below it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Judgments.read(f"{folder}/judgments.jsonl").mark(("text", "a dog"), ("images", "1.jpg"), "right")
    ...     Judgments.read(f"{folder}/judgments.jsonl").verdicts
    {('text', 'a dog'): {('images', '1.jpg'): 'right'}}
    """

    path: Path
    verdicts: dict[Key, dict[Key, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path | str, before: Sequence[Path] = ()) -> "Judgments":
        """The judgments in a file, which need not exist yet. Lines that are no judgment are left out. before: files of
        earlier judgments, as those that came with an index; nothing is added to them.

        Raises: BadInput for what is no regular file, or cannot be read.
        """
        out = cls(Path(path).expanduser())
        for path in filter(Path.exists, (*before, out.path)):
            try:
                text = read_regular(path).decode("utf8", "replace")
            except OSError as e:
                raise BadInput(f"{path} cannot be read as judgments ({e.strerror}). Give a file.") from None
            for line in text.split("\n"):
                with suppress(ValueError, KeyError, TypeError):  # cut by a kill, or not ours
                    out._take(json.loads(line))
        return out

    def mark(self, query: Key, item: Key, verdict: str) -> None:
        """An item is a 'right' or a 'wrong' answer to a query; '' takes that back. Raises: BadInput for another
        verdict; CannotWrite."""
        require_choice("verdict", verdict, VERDICTS)
        utc = datetime.now(UTC).isoformat(timespec="seconds")
        act = {"query": _key(query), "item": _key(item), "verdict": verdict, "utc": utc}
        files.make_folder(self.path.parent)
        try:
            with files.locked(f"{self.path}.lock"), open_to_append(self.path) as file:
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                start = b"" if file.read(1) in (b"", b"\n") else b"\n"  # below a line that a kill cut
                file.write(start + json.dumps(act, ensure_ascii=False).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as e:
            raise files.cannot_write(self.path, e) from None
        self._take(act)

    def verdict(self, query: Key, item: Key) -> str:
        """'right', 'wrong', or '' for an answer that is not judged."""
        return self.verdicts.get(query, {}).get(item, "")

    def corrected(self, base: Relevance) -> TwoWayRelevance:
        """A relevance set, captions × images, with what people said of its pairs: right ones are added and wrong ones
        taken away. Each direction has only queries of which a pair is judged, with all their right answers, so averages
        are over judged queries.

        >>> judgments = Judgments(Path("none"), {("caption", "c"): {("images", "b"): "right"}})
        >>> base = Relevance.from_pairs([("c", "a"), ("d", "b")], ["c", "d"], ["a", "b"])
        >>> [judgments.corrected(base)[n].tolist() for n in range(2)]
        [[0, 1], []]
        """
        ids = base.query_ids.tolist(), base.gallery_ids.tolist()
        (captions, images), pairs = ({str(name): n for n, name in enumerate(own)} for own in ids), {}
        for (kind, query), answers in self.verdicts.items():
            for (_, item), verdict in answers.items():
                caption, image = (query, item) if kind == "caption" else (item, query)
                if kind in ("caption", "image") and caption in captions and image in images:
                    pairs[captions[caption], images[image]] = verdict
        turned = {(i, c): verdict for (c, i), verdict in pairs.items()}
        return TwoWayRelevance.join(_with_verdicts(base, pairs), _with_verdicts(base.transpose(), turned))

    def qrels(self) -> str:
        """All verdicts in the format of TREC, 'query 0 item relevance', relevance 1 for right and 0 for wrong. Blanks
        and other signs of names are written as in web addresses (%20).

        >>> Judgments(Path("none"), {("text", "a dog"): {("images", "1.jpg"): "right"}}).qrels()
        'text:a%20dog 0 1.jpg 1\\n'
        """
        return "".join(
            f"{kind}:{quote(query)} 0 {quote(item)} {VERDICTS[verdict]}\n"
            for (kind, query), answers in self.verdicts.items()
            for (_, item), verdict in answers.items()
        )

    def _take(self, act: dict) -> None:
        query, item, relevance = _key(act["query"]), _key(act["item"]), VERDICTS[act["verdict"]]
        answers = self.verdicts.setdefault(query, {})
        answers.pop(item, None)  # the latest verdict comes last
        if relevance is not None:
            answers[item] = act["verdict"]


def _with_verdicts(base: Relevance, pairs: dict[tuple[int, int], str]) -> Relevance:
    """The queries of base that are in pairs (query, item) → verdict, with their right items."""
    annotated = {(q, g): "right" for q, _ in pairs for g in base[q].tolist()}
    right = [pair for pair, verdict in (annotated | pairs).items() if verdict == "right"]
    q, g = np.array(sorted(right), np.int64).reshape(-1, 2).T
    return Relevance.from_positions(q, g, base.query_ids, base.gallery_ids)


def _key(pair: Sequence) -> Key:
    if isinstance(pair, str) or len(pair) != 2:
        raise BadInput(f"an item or a query is named by its kind and its id, as ('images', '1.jpg'); got {pair!r}.")
    return str(pair[0]), str(pair[1])
