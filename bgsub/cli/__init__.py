"""The command line: thin, every command usable from Python too.

Nothing heavy is imported before a command runs, so that ``bgsub --help`` answers at once.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Sequence

import click

from bgsub import __version__
from bgsub.cli.bench import bench
from bgsub.cli.demo import demo
from bgsub.cli.evaluate import evaluate
from bgsub.cli.live import live
from bgsub.cli.run import run
from bgsub.errors import BgsubError, DependencyError, OutputError

OK, FAILURE, WRONG_INPUT = 0, 1, 2


class Program(click.Group):
    """The commands in the order of their use, not of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self.commands)


@click.group(
    cls=Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="bgsub")
@click.option("-v", "--verbose", is_flag=True, help="Log what happens; show the traceback of a failure.")
@click.pass_context
def program(context: click.Context, verbose: bool) -> None:
    """Find what moves in front of a fixed camera: live, or in videos and images."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("bgsub: %(message)s"))
    logger = logging.getLogger("bgsub")
    logger.handlers = [handler]
    logger.setLevel(logging.INFO if verbose else logging.WARNING)
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for _command in (run, live, demo, evaluate, bench):
    program.add_command(_command)


def invoke(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 failure, 2 wrong input.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.

    Notes
    -----
    Whatever goes wrong is told in one line on standard error; the traceback only with ``--verbose``.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        result = program.main(args=given, prog_name="bgsub", standalone_mode=False)
    except SystemExit:  # how Click answers a closed pipe: the reader has seen enough
        return FAILURE
    except (Exception, KeyboardInterrupt) as error:
        if {"-v", "--verbose"} & set(given):
            traceback.print_exc()
        message, code = _verdict(error)
        click.echo(f"bgsub: error: {' '.join(message.splitlines())}", err=True)
        return code
    return result if isinstance(result, int) else OK


def main() -> None:
    """Run the command line and end the process with its exit code."""
    sys.exit(invoke())


def _verdict(error: BaseException) -> tuple[str, int]:
    """Return the message and the exit code for whatever ended a command."""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{error.format_message().rstrip('.')}; see {error.ctx.command_path} --help", WRONG_INPUT
    if isinstance(error, click.ClickException):
        return error.format_message(), error.exit_code
    if isinstance(error, BgsubError):
        return str(error), FAILURE if isinstance(error, (DependencyError, OutputError)) else WRONG_INPUT
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return "stopped by the user", FAILURE
    return f"{type(error).__name__}: {error} (bgsub --verbose shows where)", FAILURE
