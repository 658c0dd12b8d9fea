"""Marks in the explorer: what people said, kept in a file, and what follows for the query."""

from pathlib import Path

from xmr_core.base.errors import BadInput
from xmr_core.evaluation.judgments import Judgments
from xmr_core.search.assessment import assessed_r_precision
from xmr_core.search.filters import judgments_path, query_key
from xmr_core.search.library import Library
from xmr_core.search.query import Query
from xmr_core.search.ranking import Ranking


class Marks:
    """The judgments that an explorer shows. path: of their file; '' for the place beside the first library."""

    def __init__(self, path: str):
        self._path, self.judgments = path, Judgments(Path())

    def open(self, library: Library) -> None:
        """Read the judgments of a library's items, when the first library is opened."""
        if self.judgments.path == Path():
            self.judgments = Judgments.read(self._path or judgments_path(library))

    def mark(self, library: Library, query: Query, answer: Query, verdict: str, scores) -> str:
        """Mark an answer; the verdict that it has already is taken back. Returns a sentence on what changed. Raises:
        BadInput for an uploaded image as the query, which has no name."""
        if query.kind == "upload":
            raise BadInput(
                "an uploaded image has no name to remember marks by; put it into the folder and index again."
            )
        key, item = query_key(query), (query.target, str(answer.item))
        verdict = "" if self.judgments.verdict(key, item) == verdict else verdict
        self.judgments.mark(key, item, verdict)
        value, n = assessed_r_precision(library, query, scores, self.judgments)
        metric = f"R-Precision of this query {value:.2f}, {n} right" if n else "no right answer is known"
        return f"marked {'as ' + verdict if verdict else 'as not judged'}: {metric}, by {library.label}."

    def verdicts(self, query: Query, ranking: Ranking) -> list[str]:
        """The verdict of each answer that is shown, '' without one."""
        key = query_key(query)
        return [self.judgments.verdict(key, (query.target, str(item))) for item in ranking.table["item"]]
