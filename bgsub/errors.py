"""The exceptions of bgsub: each message is one line that names the thing, what is allowed and what came."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from types import ModuleType
from typing import Any


class BgsubError(Exception):
    """Base class of every error that bgsub raises on purpose.

    Examples
    --------
    >>> import bgsub
    >>> try:
    ...     bgsub.BackgroundSubtractor(threshold=-1)
    ... except bgsub.BgsubError as error:
    ...     print(error)
    threshold must be a number in [1e-06, 2], got -1
    """


class ParameterError(BgsubError, ValueError):
    """A parameter or an array has a value, shape or type outside what is allowed."""


class SourceError(BgsubError, OSError):
    """A video, image folder or camera cannot be opened or read."""


class BrokenSourceError(SourceError):
    """A source that was being read cannot be read on: a failure, no wrong input.

    Attributes
    ----------
    result : JobResult, Summary or None
        What `bgsub.jobs.run_job` or `bgsub.process_video` did: its outputs hold the frames before that.
    """

    result: Any = None


class CutShortError(BrokenSourceError):
    """A source broke off; what came before is good, and the outputs of it are finished."""


class SinkError(BgsubError, OSError):
    """An output cannot be created or written."""


class OutputError(SinkError):
    """An output that was open already cannot be written any more, as on a full disk: a failure, no wrong input."""


class ReaderGoneError(OutputError):
    """Whoever read the output from a pipe has seen enough."""


class StoppedError(BgsubError):
    """A run was stopped before its end.

    Parameters
    ----------
    message : str
        One line.
    by : {"user", "SIGINT", "SIGTERM"}
        Who stopped it; an attribute as well.
    result : JobResult, optional
        What was done until then, if anything; an attribute as well.
    """

    def __init__(self, message: str = "", by: str = "user", result: Any = None) -> None:
        super().__init__(message)
        self.by, self.result = by, result


class DependencyError(BgsubError, ImportError):
    """A package or a system library that the requested feature needs is missing."""


def import_optional(package: str, message: str) -> ModuleType:
    """Return a package that may be missing; `DependencyError` with that message, and why it fails if it is there."""
    try:
        return import_module(package)
    except ImportError as error:
        is_missing = isinstance(error, ModuleNotFoundError) and package.startswith(str(error.name))
        raise DependencyError(message if is_missing else f"{message} ({error})") from None


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that is most like `name`, ignoring case, or None when none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - wanted only when something is wrong

    known = {candidate.lower(): candidate for candidate in names}
    found = get_close_matches(name.lower(), known, n=1)
    return known[found[0]] if found else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ``; did you mean 'threshold'?`` for the end of a message, or nothing when no name is near."""
    found = nearest(name, names)
    return "" if found is None else f"; did you mean {found!r}?"
