"""The exceptions of bgsub, its log, and clean-up. A message is one line: what is wrong, allowed, and was given."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

logger = logging.getLogger("bgsub")


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
    """An open source cannot be read any further: a failure, not wrong input.

    Attributes
    ----------
    result : JobResult, Summary or None
        The result of `bgsub.jobs.run_job` or `bgsub.process_video`, whose outputs have the frames before the error.
    """

    result: Any = None


class CutShortError(BrokenSourceError):
    """A source ended too early; the outputs of the frames before that are finished."""


class SinkError(BgsubError, OSError):
    """An output cannot be created or written."""


class OutputError(SinkError):
    """An open output cannot be written any further, such as on a full disk: a failure, not wrong input."""


class ReaderGoneError(OutputError):
    """The reader closed the pipe."""


class StoppedError(BgsubError):
    """A run was stopped before its end.

    Parameters
    ----------
    message : str
        One line.
    by : {"user", "SIGINT", "SIGTERM", "SIGHUP"}
        The reason; an attribute as well.
    result : JobResult, optional
        The result until then; an attribute as well.
    """

    def __init__(self, message: str = "", by: str = "user", result: Any = None) -> None:
        super().__init__(message)
        self.by, self.result = by, result


class DependencyError(BgsubError, ImportError):
    """A package or a system library that the requested feature needs is missing."""


@contextmanager
def on_failure(act: Callable[[], object]) -> Iterator[None]:
    """Call `act` if the block fails."""
    try:
        yield
    except BaseException:
        act()
        raise


def import_optional(package: str, message: str) -> ModuleType:
    """Return a package, or raise `DependencyError` with a message and, if the package is installed, the reason."""
    try:
        return import_module(package)
    except ImportError as error:
        is_missing = isinstance(error, ModuleNotFoundError) and package.startswith(str(error.name))
        raise DependencyError(message if is_missing else f"{message} ({error})") from None


def check_choice(name: str, value: Any, allowed: Collection[str]) -> None:
    """Raise `ParameterError` unless a value is one of the allowed ones."""
    if value not in allowed:
        raise ParameterError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def printable(text: str) -> str:
    """Return a text as one line without control characters, which a terminal would obey."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ``; did you mean 'threshold'?`` for the end of a message, or nothing if no name is similar."""
    from difflib import get_close_matches  # noqa: PLC0415 - only needed for errors

    known = {candidate.lower(): candidate for candidate in names}
    begun = sorted((word for word in known if len(name.strip("-")) > 2 and word.startswith(name.lower())), key=len)
    found = begun or get_close_matches(name.lower(), known, n=1)
    return f"; did you mean {known[found[0]]!r}?" if found else ""
