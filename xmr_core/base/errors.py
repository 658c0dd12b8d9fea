"""Errors that a user can act on: one line that names the thing, what was given and what to do."""


class XmrError(Exception):
    """Base of every error this package raises on purpose; its text is one line meant for a person."""


class BadInput(XmrError, ValueError):
    """A value, name or file that was given is not usable; the text says what was given and what to do."""


class DamagedFile(XmrError, OSError):
    """A file exists but does not hold what was written to it (truncated, altered, of another kind)."""


class CannotWrite(XmrError, OSError):
    """The output folder refuses the write (full, read-only, not a folder)."""


class ProcessLost(XmrError, RuntimeError):
    """A worker process ended before it answered; the text says which one, how, and what to do."""


class TrainingFailed(XmrError, RuntimeError):
    """Training diverged or collapsed; the text says at which step and what to change."""


def unknown(kind: str, value: object, choices) -> BadInput:
    """The error for a name that is not in a list: it repeats the name, suggests the nearest and lists the others.

    >>> print(unknown("method", "scna", ["scan", "dive"]))
    unknown method 'scna'. Did you mean 'scan'? Known: dive, scan.
    >>> print(unknown("fine_tune", "none", ["", "image"]))
    unknown fine_tune 'none'. Known: '', image.
    """
    import difflib

    names = sorted(str(choice) or "''" for choice in choices)
    near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return BadInput(f"unknown {kind} {value!r}.{hint} Known: {', '.join(names)}.")
