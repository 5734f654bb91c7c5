"""Options for reporting, the log on the screen and the log in a file."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from bgsub.cli.exit_status import exit_status
from bgsub.cli.help import REPORTING, RUNNING, Option
from bgsub.cli.options import PATH, option
from bgsub.errors import SinkError, logger, printable
from bgsub.numerics.compilation import logger as kernel_logger
from bgsub.storage.durable_io import os_errors_as

progress_logger = logging.getLogger("bgsub.progress")
_SHOWN = (progress_logger, logging.getLogger("bgsub.stream"), kernel_logger)  # on the screen without --verbose, too

PROGRESS = ("auto", "bar", "log")


@dataclass
class Reporting:
    """The values of the reporting options."""

    verbose: bool = False
    quiet: bool = False  # no progress and no summary
    progress: str = "auto"  # one of `PROGRESS`
    json: bool = False  # the summary is one JSON object
    log: Path | None = None

    @staticmethod
    def of(context: click.Context | None = None) -> Reporting:
        """Return the values of the running command, or the defaults outside of a command."""
        context = context or click.get_current_context(silent=True)
        return Reporting() if context is None else context.meta.setdefault(f"{__name__}.reporting", Reporting())


class _OneLine(logging.Formatter):
    """Formats a record as one line; the traceback of an error has its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record))


class Screen(logging.StreamHandler):
    """The log on standard error: warnings and, unless `quiet`, progress; everything if `verbose`."""

    def __init__(self, verbose: bool) -> None:
        super().__init__()
        self.verbose, self.quiet = verbose, False
        self.setFormatter(_OneLine("bgsub: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line above the progress bars."""
        if "tqdm" not in sys.modules:
            super().emit(record)
            return
        from tqdm import tqdm  # noqa: PLC0415 - most commands draw no bar

        with tqdm.external_write_mode(file=self.stream):
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Ignore a screen that cannot be written: there is no other place to report it."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def filter(self, record: logging.LogRecord) -> Any:
        is_shown = not self.quiet and record.name in [one.name for one in _SHOWN]
        return (self.verbose or record.levelno >= logging.WARNING or is_shown) and super().filter(record)


def log_to_screen(verbose: bool) -> None:
    """Start the log of the program."""
    logger.handlers = [Screen(verbose)]
    logger.setLevel(logging.INFO if verbose else logging.WARNING)
    for shown in _SHOWN:
        shown.setLevel(logging.INFO)


class LogFile(logging.FileHandler):
    """The log in a file. While it cannot be written, lines are lost and one warning is shown."""

    _failing = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except OSError:  # while opening
            self.handleError(record)
        else:
            self._failing = self._failing and self.stream is None

    def handleError(self, record: logging.LogRecord) -> None:
        """Close the file; the next line opens it again."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        stream, self.stream = self.stream, None
        with suppress(OSError):
            if stream is not None:
                stream.close()
        if not self._failing:
            self._failing = True
            logger.warning("the log cannot be written to '%s': %s", self.baseFilename, error.strerror or error)


def _screens() -> list[Screen]:
    return [handler for handler in logger.handlers if isinstance(handler, Screen)]


def is_verbose() -> bool:
    """Return whether the screen shows the whole log."""
    return any(screen.verbose for screen in _screens())


@contextmanager
def logged(reporting: Reporting) -> Iterator[None]:
    """Log as the options say inside the block, its error included; SinkError if the file cannot be opened."""
    if reporting.verbose and not is_verbose():
        log_to_screen(True)
    for screen in _screens():
        screen.quiet = reporting.quiet
    if reporting.log is None:
        yield
        return
    with os_errors_as(SinkError, f"the log cannot be written to '{reporting.log}'"):
        handler = LogFile(reporting.log, encoding="utf-8")
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    except click.exceptions.Exit:
        raise
    except BaseException as error:
        to_file(exit_status(error)[0], logging.ERROR)
        raise
    finally:
        logger.removeHandler(handler)
        handler.close()


def to_file(message: str, level: int = logging.INFO) -> None:
    """Write a line into the file of ``--log`` only."""
    for handler in logger.handlers:
        if isinstance(handler, logging.FileHandler):
            handler.handle(logger.makeRecord(logger.name, level, "", 0, message, (), None))


def _store(context: click.Context, option: click.Parameter, value: Any) -> Any:
    """Keep the value of an option in `Reporting`; a default does not replace a value given to the program."""
    reporting, name = Reporting.of(context), option.name or ""
    default = getattr(Reporting, name)
    setattr(reporting, name, value if value not in (None, default) else getattr(reporting, name))
    return value


def reporting_options() -> list[Option]:
    """Return the options of every command, which may also stand before the command."""
    kept: dict[str, Any] = {"group": REPORTING, "expose_value": False, "callback": _store}
    quiet = "Show no progress and no summary, only results, warnings and errors."
    verbose = "Show the whole log, and the traceback of an error."
    progress = "Show a bar, or lines every 30 s (for a live source every 10 minutes). auto is a bar on a terminal."
    words = click.Choice(PROGRESS)
    return [
        Option(["-q", "--quiet"], is_flag=True, help=quiet, **kept),
        Option(["-v", "--verbose"], is_flag=True, help=verbose, **kept),
        Option(["--log"], type=PATH, metavar="FILE", help="Append the log, with times, to a file.", **kept),
        Option(["--progress"], type=words, default="auto", show_default=True, help=progress, **kept),
    ]


def json_option(text: str = "Print the summary as one JSON object.") -> Any:
    """Return the option ``--json``, which `Reporting` keeps; `text` is its help."""
    return option("--json", group=RUNNING, is_flag=True, expose_value=False, callback=_store, help=text)
