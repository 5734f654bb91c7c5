"""What is said of whatever ended a command, in one line, and the exit code."""

from __future__ import annotations

import signal

import click

from bgsub.cli.origins import setting_of
from bgsub.errors import (
    BgsubError,
    BrokenSourceError,
    DependencyError,
    OutputError,
    ReaderGoneError,
    StoppedError,
    did_you_mean,
)
from bgsub.jobs.interrupts import INTERRUPTED, name_of, stopped_by
from bgsub.numerics.memory import is_lack_of_memory
from bgsub.storage.durable_io import DISK_FAILURES

OK, FAILURE, WRONG_INPUT = 0, 1, 2
READER_GONE = 141  # what a shell says of a program that SIGPIPE ended

_FAILURES = (BrokenSourceError, DependencyError, OutputError)


def verdict(error: BaseException) -> tuple[str, int]:
    """Return the message, one line, and the exit code: 1 failure, 2 wrong input, 141 a closed pipe, or a signal's."""
    cause = error.__cause__ if isinstance(error, click.Abort) else error  # Click's word for Ctrl-C
    if isinstance(error, StoppedError):
        message, code = str(error), code_of(error.by)
    elif isinstance(cause, KeyboardInterrupt):
        message, code = stopped_by(name_of(cause)), code_of(name_of(cause))
    else:
        message, code = _verdict(error)
    return " ".join(line.strip() for line in message.splitlines()), code


def _verdict(error: BaseException) -> tuple[str, int]:
    if isinstance(error, click.BadParameter) and error.ctx is not None and error.param is not None:
        setting = setting_of(error.ctx, error.param)
        if setting is not None:
            message = error.message.rstrip(".")
            return f"{setting.name}: {message}{choice_hint(message, error.param)}", WRONG_INPUT
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{_usage(error)}; see {error.ctx.command_path} --help", WRONG_INPUT
    if isinstance(error, click.ClickException):
        return error.format_message(), error.exit_code
    if isinstance(error, BgsubError):
        code = FAILURE if isinstance(error, _FAILURES) else WRONG_INPUT
        return str(error), READER_GONE if isinstance(error, ReaderGoneError) else code
    return _surprise(error), FAILURE


def _surprise(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno in DISK_FAILURES and error.filename is None:
        # Outputs are told by their names; what is left is printed.
        return f"standard output cannot be written: {error.strerror}"
    if is_lack_of_memory(error):
        return f"the memory does not suffice ({' '.join(str(error).split()) or 'nothing is left'})"
    return f"{type(error).__name__}: {error} (bgsub --verbose shows where)"


def code_of(stopped: str) -> int:
    """Return the exit code of what was stopped before its end: 130 for Ctrl-C, 143 for SIGTERM, 1 for anything else."""
    return 128 + signal.Signals[stopped] if stopped in INTERRUPTED else FAILURE


def _usage(error: click.UsageError) -> str:
    """Return the message about a wrong command line, with the nearest right word."""
    context = error.ctx
    assert context is not None
    if isinstance(error, click.NoSuchOption):
        return f"No such option {error.option_name!r}{_option_hint(error.option_name, context)}"
    message = error.format_message().rstrip(".").partition(". Did you mean")[0]
    if isinstance(error, click.BadParameter) and error.param is not None:
        return message + choice_hint(error.message, error.param)
    if isinstance(context.command, click.Group) and message.startswith("No such command"):
        return message + did_you_mean(message.partition("'")[2].rstrip("'"), context.command.commands)
    return message


def _option_hint(name: str, context: click.Context) -> str:
    flags = [flag for option in context.command.get_params(context) for flag in (*option.opts, *option.secondary_opts)]
    nearest = did_you_mean(name, (flag for flag in flags if flag.startswith("--"))) if len(name) > 2 else ""
    program = context.find_root()
    if context is not program and any(name in option.opts for option in program.command.params):
        return f"; it stands before the command: {program.command_path} {name}"
    return nearest


def choice_hint(message: str, option: click.Parameter) -> str:
    """Return the nearest choice for the end of the message about a wrong one, which begins with it in quotes."""
    if not isinstance(option.type, click.Choice):
        return ""
    came = message.partition("'")[2].partition("'")[0]
    return did_you_mean(came, map(str, option.type.choices))
