"""The command line: thin, every command usable from Python too.

Nothing heavy is imported before a command runs, so that ``bgsub --help`` answers at once.
"""

from __future__ import annotations

import atexit
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from bgsub.cli.batch import batch
from bgsub.cli.bench import bench
from bgsub.cli.camera import camera
from bgsub.cli.completion import completion
from bgsub.cli.config import config
from bgsub.cli.decompose import decompose
from bgsub.cli.demo import demo
from bgsub.cli.evaluate import evaluate
from bgsub.cli.help import HelpContext, write_sections
from bgsub.cli.live import live
from bgsub.cli.logs import Reporting, is_verbose, log_to_screen
from bgsub.cli.run import run, track
from bgsub.cli.verdict import FAILURE, OK, READER_GONE, verdict
from bgsub.cli.version import print_versions
from bgsub.cli.warm_up import warm_up
from bgsub.errors import StoppedError
from bgsub.jobs.interrupts import interruption, take_signals, terminations

_GROUPS = {
    "Separate": (run, batch, decompose),
    "Watch": (live, track, camera),
    "Measure": (demo, evaluate, bench),
    "Set up": (config, completion, warm_up),
}


class Program(click.Group):
    """The commands, in groups, before the options."""

    groups, context_class = _GROUPS, HelpContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_sections(
            formatter,
            {
                group: [(one.name or "", one.get_short_help_str(limit=100)) for one in members]
                for group, members in self.groups.items()
            },
        )


@click.group(
    cls=Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_versions,
    help="Show the versions of bgsub and of what it uses.",
)
@click.option("-v", "--verbose", is_flag=True, help="Log what happens; show the traceback of a failure.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    envvar=["BGSUB_CONFIG"],
    metavar="FILE",
    help="Settings in TOML; before them come those of the user and bgsub.toml in this folder.",
)
@click.option("--no-config", is_flag=True, envvar=["BGSUB_NO_CONFIG"], help="Read no settings from files.")
@click.pass_context
def program(context: click.Context, verbose: bool, config: Path | None, no_config: bool) -> None:
    """Find what moves in front of a fixed camera: masks, clips and lists of it, from files or live.

    \b
    Begin with:
      bgsub demo                              a made scene, in bgsub-demo/
      bgsub run bgsub-demo/input.mp4 -o out   masks of that video, or of yours
      bgsub live                              the first camera, in a window

    bgsub COMMAND --help shows the options that most people need and examples. Every option can be set in a file
    bgsub.toml or as a variable BGSUB_OPTION as well; see bgsub config --help.
    """
    if no_config and context.get_parameter_source("config") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("--no-config and --config exclude each other")
    log_to_screen(verbose)
    Reporting.of(context).verbose = verbose
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for _members in _GROUPS.values():
    for _command in _members:
        program.add_command(_command)


def invoke(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, by default that of the process, and return its exit code.

    0 done, 1 failure, 2 wrong input, 130 ended by Ctrl-C, 143 by SIGTERM, which is treated like Ctrl-C. Whatever goes
    wrong is told in one line on standard error; the traceback only with ``--verbose``. It is 141, and nothing is told,
    when whoever read the frames on standard output has gone.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    with terminations() as signals:
        try:
            result = program.main(args=given, prog_name="bgsub", standalone_mode=False)
        except SystemExit as end:  # how Click answers the shell that completes, and a closed pipe: whoever read is gone
            return OK if end.code == 0 else FAILURE
        except (Exception, KeyboardInterrupt) as error:
            if is_verbose() or {"-v", "--verbose"} & set(given):
                traceback.print_exc()
            # In the middle of an import, say, a signal ends as another error.
            was_signal = signals is not None and signals.raised and not isinstance(error, (click.Abort, StoppedError))
            message, code = verdict(interruption(signals.raised) if signals is not None and was_signal else error)
            if code != READER_GONE:  # which is nothing to tell of
                with suppress(OSError):  # nobody sees it; the exit code says it
                    click.echo(f"bgsub: error: {message}", err=True)
            return code
        return result if isinstance(result, int) else OK


def _fill_closed() -> None:
    """Open what is closed of the three standard files, so that no output gets their number, and what is said there."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR)  # gets the lowest number that is free
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8")  # noqa: SIM115


def main() -> None:
    """Run the command line and end the process with its exit code."""
    _fill_closed()
    signals = take_signals()
    atexit.register(signals.leave)  # after all else that is done at the end, as that comes in the opposite order
    signals.code = invoke()
    sys.exit(signals.code)
