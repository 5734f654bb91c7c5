"""What a command says beside its result: the options for it, the log on the screen and the log in a file."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from bgsub.cli.blocks import PATH, Decorator, block, choice, option
from bgsub.cli.help import RUNNING, Option
from bgsub.cli.verdict import verdict
from bgsub.errors import SinkError

logger = logging.getLogger("bgsub")
progress_logger = logging.getLogger("bgsub.progress")  # told on the screen without --verbose, too

stream_logger = logging.getLogger("bgsub.stream")  # what is told of raw frames on standard output, likewise

PROGRESS = ("auto", "bar", "log")


@dataclass
class Reporting:
    """How much a command says, and where."""

    verbose: bool = False  # the log on the screen tells more than warnings
    quiet: bool = False  # no progress and no summary
    progress: str = "auto"  # one of `PROGRESS`; auto is a bar on a terminal and lines in the log elsewhere
    json: bool = False  # the summary is one JSON object
    log: Path | None = None  # its file

    @staticmethod
    def of(context: click.Context | None = None) -> Reporting:
        """Return what the options of the command that runs say, the defaults outside of any command."""
        context = context or click.get_current_context(silent=True)
        return Reporting() if context is None else context.meta.setdefault(f"{__name__}.reporting", Reporting())


class Screen(logging.StreamHandler):
    """The log on standard error: warnings and progress; everything when `verbose`."""

    def __init__(self, verbose: bool) -> None:
        super().__init__()
        self.verbose = verbose
        self.told = {progress_logger.name, stream_logger.name}
        self.setFormatter(logging.Formatter("bgsub: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, above the bars if there are any."""
        if "tqdm" not in sys.modules:
            super().emit(record)
            return
        from tqdm import tqdm  # noqa: PLC0415 - most commands draw none

        with tqdm.external_write_mode(file=self.stream):
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Do without a screen that takes nothing: there is nowhere to tell it."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def filter(self, record: logging.LogRecord) -> Any:
        wanted = self.verbose or record.levelno >= logging.WARNING or record.name in self.told
        return wanted and super().filter(record)


def log_to_screen(verbose: bool) -> None:
    """Begin the log of the program."""
    logger.handlers = [Screen(verbose)]
    logger.setLevel(logging.INFO if verbose else logging.WARNING)
    progress_logger.setLevel(logging.INFO)


class LogFile(logging.FileHandler):
    """The log in a file; while that cannot be written, lines are missing there and one warning says so."""

    _failing = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except OSError:  # of the opening
            self.handleError(record)
        else:
            self._failing = self._failing and self.stream is None

    def handleError(self, record: logging.LogRecord) -> None:
        """Forget what could not be written; the next line opens the file again."""
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


@contextmanager
def shown_on_screen(told: logging.Logger) -> Iterator[None]:
    """Let the screen tell what that logger says inside the block."""
    screens = [handler for handler in logger.handlers if isinstance(handler, Screen)]
    for screen in screens:
        screen.told.add(told.name)
    try:
        yield
    finally:
        for screen in screens:
            screen.told.discard(told.name)


def is_verbose() -> bool:
    """Return whether the log on the screen tells everything."""
    return any(isinstance(handler, Screen) and handler.verbose for handler in logger.handlers)


@contextmanager
def logged(reporting: Reporting) -> Iterator[None]:
    """Log as the options say inside the block; what ends it goes into the file as well, or SinkError without one."""
    if reporting.verbose and not is_verbose():
        log_to_screen(True)
    stream_logger.setLevel(logging.WARNING if reporting.quiet else logging.INFO)
    if reporting.log is None:
        yield
        return
    try:
        handler = LogFile(reporting.log, encoding="utf-8")
    except OSError as error:
        raise SinkError(f"the log cannot be written to '{reporting.log}': {error.strerror or error}") from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    except click.exceptions.Exit:
        raise
    except BaseException as error:
        to_file(verdict(error)[0], logging.ERROR)
        raise
    finally:
        logger.removeHandler(handler)
        handler.close()


def to_file(message: str, level: int = logging.INFO) -> None:
    """Write a line into the file of ``--log`` only, if there is one; the screen has been told in another way."""
    for handler in logger.handlers:
        if isinstance(handler, logging.FileHandler):
            handler.handle(logger.makeRecord(logger.name, level, "", 0, message, (), None))


def _store(context: click.Context, option: click.Parameter, value: Any) -> Any:
    """Keep the value of an option for whoever reports, unless it is that of a flag given to the program."""
    reporting, name = Reporting.of(context), option.name or ""
    setattr(reporting, name, value or getattr(reporting, name))
    return value


_QUIET: dict[str, Any] = {
    "group": RUNNING,
    "is_flag": True,
    "callback": _store,
    "help": "No progress and no summary; only results, warnings and errors.",
}


def shared_options() -> list[Option]:
    """Return the options that every command has, as far as it does not have its own."""
    return [
        Option(["-q", "--quiet"], expose_value=False, **_QUIET),
        Option(
            ["-v", "--verbose"],
            group=RUNNING,
            is_flag=True,
            expose_value=False,
            callback=_store,
            help="Log what happens; show the traceback of a failure.",
        ),
        Option(
            ["--log"],
            group=RUNNING,
            type=PATH,
            metavar="FILE",
            expose_value=False,
            callback=_store,
            help="Append the log, with times, to a file.",
        ),
    ]


progress_option = choice(
    "--progress",
    group=RUNNING,
    of=PROGRESS,
    expose_value=False,
    callback=_store,
    text="A bar, or lines in the log: every 30 s, of a live source every 10 minutes. auto is a bar on a terminal.",
)


def json_option(text: str = "Print the summary as one JSON object.") -> Decorator:
    """Return the option ``--json``, which `Reporting` keeps; `text` is its help."""
    return option("--json", group=RUNNING, is_flag=True, expose_value=False, callback=_store, help=text)


report_options = block(option("-q", "--quiet", **_QUIET), json_option(), progress_option)
"""``--quiet``, which is passed to the command, ``--json`` and ``--progress``, which `Reporting` keeps."""
