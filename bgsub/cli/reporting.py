"""Reporting: the message and exit code of an error, the log, and the progress of a run."""

import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from bgsub import errors
from bgsub.cli.help import REPORTING, RUNNING, Option
from bgsub.cli.options import PATH, option
from bgsub.cli.setting_sources import setting_of
from bgsub.errors import SinkError, logger, printable
from bgsub.jobs.interrupts import INTERRUPTED, name_of, stopped_by
from bgsub.numerics.compilation import logger as kernel_logger
from bgsub.numerics.compilation import working_time
from bgsub.numerics.memory import is_lack_of_memory
from bgsub.storage.durable_io import DISK_FAILURES, os_errors_as

OK, FAILURE, WRONG_INPUT = 0, 1, 2
READER_GONE = 141  # as a shell reports a program that SIGPIPE ended

_FAILURES = (errors.BrokenSourceError, errors.DependencyError, errors.OutputError)


def exit_status(error: BaseException) -> tuple[str, int]:
    """Return the message in one line and the exit code, of a signal 128 and its number."""
    cause = error.__cause__ if isinstance(error, click.Abort) else error  # click's error for Ctrl-C
    if isinstance(error, errors.StoppedError):
        message, code = str(error), code_of(error.by)
    elif isinstance(cause, KeyboardInterrupt):
        message, code = stopped_by(name_of(cause)), code_of(name_of(cause))
    else:
        message, code = _of_error(error)
    return errors.printable(" ".join(line.strip() for line in message.splitlines())), code


def _of_error(error: BaseException) -> tuple[str, int]:
    if isinstance(error, click.BadParameter) and error.ctx is not None and error.param is not None:
        setting = setting_of(error.ctx, error.param)
        if setting is not None:
            return f"{setting.name}: {error.message.rstrip('.')}", WRONG_INPUT
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{_usage(error)}; see {error.ctx.command_path} --help", WRONG_INPUT
    if isinstance(error, click.ClickException):
        return error.format_message(), error.exit_code
    if isinstance(error, errors.BgsubError):
        code = FAILURE if isinstance(error, _FAILURES) else WRONG_INPUT
        return str(error), READER_GONE if isinstance(error, errors.ReaderGoneError) else code
    return _unexpected(error), FAILURE


def _unexpected(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno in DISK_FAILURES and error.filename is None:
        return f"standard output cannot be written: {error.strerror}"  # an error of an output names its file
    if is_lack_of_memory(error):
        return f"out of memory ({' '.join(str(error).split()) or 'no memory left'})"
    return f"{type(error).__name__}: {error} (bgsub --verbose shows the traceback)"


def code_of(stopped: str) -> int:
    """Return the exit code of a run that was stopped: 130 by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP, 1 otherwise."""
    return 128 + signal.Signals[stopped] if stopped in INTERRUPTED else FAILURE


def _usage(error: click.UsageError) -> str:
    """Return the message about a wrong command line, with the nearest correct word."""
    context = error.ctx
    assert context is not None
    if isinstance(error, click.NoSuchOption):
        return f"No such option {error.option_name!r}{_option_hint(error.option_name, context)}"
    message = error.format_message().rstrip(".").partition(". Did you mean")[0]
    if isinstance(context.command, click.Group) and message.startswith("No such command"):
        word = message.partition("'")[2].rstrip("'")
        if "://" in word or os.path.exists(word):
            return f"{message}; bgsub scan {word} lists its motion, bgsub run {word} -o out writes masks"
        return message + errors.did_you_mean(word, context.command.commands)
    return message


def _option_hint(name: str, context: click.Context) -> str:
    program = context.find_root()
    if context is not program and any(name in option.opts for option in program.command.params):
        return f"; put it before the command: {program.command_path} {name}"
    flags = (flag for option in context.command.get_params(context) for flag in option.opts)
    return errors.did_you_mean(name, (flag for flag in flags if flag.startswith("--"))) if len(name) > 2 else ""


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
    def of(context: click.Context | None = None) -> "Reporting":
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
        _check_log(reporting.log)
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


def _check_log(path: Path) -> None:
    """Raise ParameterError for a file that is no log, such as the input."""
    if path.is_file():
        with path.open("rb") as file:
            line = file.readline(40)
        if line and not re.match(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ", line):
            raise errors.ParameterError(f"--log appends to logs of bgsub only, and '{path}' is none")


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


_LABEL = 40  # characters of a path next to the bar
INTERVAL = 30.0  # seconds between two lines
INTERVAL_LIVE = 600.0  # for a source without an end, whose log is kept for weeks

Write = Callable[[str], None]


class Meter:
    """Counts on a `bar`, by `write` in a line every `interval` seconds, or both; `length` is None if unknown."""

    def __init__(
        self, name: str, length: int | None, interval: float, write: Write | None, unit: str = "frames", bar: Any = None
    ) -> None:
        self._name, self._length, self._interval, self._write, self._unit = name, length, interval, write, unit
        self._bar = bar
        self._count = self._last_count = 0
        self._phase = ""
        self._last_time = working_time()

    def update(self, n: int = 1) -> None:
        if self._bar is not None:
            self._bar.update(n)
        self._count += n
        passed = working_time() - self._last_time
        if self._write is None or passed < self._interval:
            return
        self._write(self._line((self._count - self._last_count) / max(passed, 1e-9)))
        self._last_time += passed
        self._last_count = self._count

    def begin(self, phase: str, length: int | None) -> None:
        """Name the current phase; `length` is its last unit, if that can be estimated."""
        self._phase, self._length = f" ({phase})", length
        if self._bar is not None:
            self._bar.total = length
            self._bar.set_postfix_str(phase, refresh=False)

    def _line(self, fps: float) -> str:
        speed = pace(fps, self._unit)
        if self._length is None:
            return f"{self._name}: {self._count} {self._unit}{self._phase}, {speed}"
        left = timedelta(seconds=round(max(self._length - self._count, 0) / fps))
        return f"{self._name}: {self._count} of {self._length} {self._unit}{self._phase}, {speed}, {left} left"


def pace(rate: float, unit: str = "frames") -> str:
    """Return a rate in words, with two digits below ten per second."""
    return f"{rate:.0f} {unit}/s" if rate >= 10 else f"{rate:.2g} {unit}/s"


def kind_of_progress(quiet: bool = False) -> str:
    """Return "bar", "log" or "none", by ``--progress`` and ``--quiet``."""
    reporting = Reporting.of()
    if quiet or reporting.quiet:
        return "none"
    return {"auto": "bar" if sys.stderr.isatty() else "log"}.get(reporting.progress, reporting.progress)


@contextmanager
def show_progress(
    name: str, length: int | None, quiet: bool = False, live: bool = False, unit: str = "frames"
) -> Iterator[Meter]:
    """Show the progress of `name` on standard error; a `live` source has fewer lines, `length` is None if unknown."""
    kind, interval = kind_of_progress(quiet), INTERVAL_LIVE if live else INTERVAL
    to_log = to_file if Reporting.of().log is not None else None
    label = printable(name)
    label = label if len(label) <= _LABEL else f"...{label[3 - _LABEL :]}"
    with bar(total=length, desc=label, unit=f" {unit}") if kind == "bar" else nullcontext() as drawn:
        yield Meter(name, length, interval, progress_logger.info if kind == "log" else to_log, unit, drawn)


def bar(**options: Any) -> Any:
    """Return a bar of tqdm, which is removed after a block; the log appears above it."""
    from tqdm import tqdm  # noqa: PLC0415 - most commands draw no bar

    return tqdm(dynamic_ncols=True, leave=False, **options)
