"""What a training says while it goes on: to a callable in this process, also from a training in another one."""

import json
from collections.abc import Callable
from pathlib import Path

Report = Callable[[dict], None]


def silent(event: dict) -> None:
    """The `report` that does nothing."""


def report_of(run_id: str, report: Report) -> Report:
    """A user's `report` for one run: it receives a copy of each event with the id under 'run'.

    >>> seen = []
    >>> report_of("dive-1", seen.append)({"loss": 0.5})
    >>> seen
    [{'run': 'dive-1', 'loss': 0.5}]
    """
    return report if report is silent else lambda event: report({"run": run_id, **event})


class EventFile:
    """Events of a training in another process: lines of JSON in the folder of the run, which both processes see."""

    def __init__(self, folder: Path, ticket: str):
        self.ticket, self._path, self._position = ticket, folder / f"events-{ticket}.jsonl", 0

    def add(self, event: dict) -> None:
        """Append an event; the training process calls this."""
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")

    def new(self) -> list[dict]:
        """The events since the last call, in order; the process that waits calls this."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._position)
                text = file.read()
        except OSError:  # none yet
            return []
        complete = text[: text.rfind(b"\n") + 1]
        self._position += len(complete)
        return [json.loads(line) for line in complete.splitlines()]

    def remove(self) -> None:
        """Delete the file, when all events were read."""
        self._path.unlink(missing_ok=True)
