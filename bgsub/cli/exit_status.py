"""The message, in one line, and the exit code of an error that ends a command."""

from __future__ import annotations

import os
import signal

import click

from bgsub import errors
from bgsub.cli.setting_sources import setting_of
from bgsub.jobs.interrupts import INTERRUPTED, name_of, stopped_by
from bgsub.numerics.memory import is_lack_of_memory
from bgsub.storage.durable_io import DISK_FAILURES

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
        # An error of an output names its file.
        return f"standard output cannot be written: {error.strerror}"
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
