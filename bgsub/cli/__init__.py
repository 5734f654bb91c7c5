"""The command line. It imports nothing heavy before a command runs, so that ``bgsub --help`` is fast."""

import atexit
import os
import platform
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import distributions
from pathlib import Path

import click

from bgsub._version import __version__
from bgsub.cli import reporting
from bgsub.cli.batch import batch
from bgsub.cli.decompose import decompose
from bgsub.cli.evaluate import bench, demo, evaluate
from bgsub.cli.help import EXITING, REPORTING, HelpContext, write_sections
from bgsub.cli.live import live, regions
from bgsub.cli.results import overview, search
from bgsub.cli.run import run, scan, track
from bgsub.cli.settings import Command, config
from bgsub.errors import StoppedError
from bgsub.jobs.interrupts import take_signals, terminations


@click.command(
    cls=Command,
    short_help="Compile all kernels now, for container images and installers.",
    examples={"bgsub warm-up": "Once after an installation, so that the first run starts at once"},
)
def warm_up() -> None:
    """Compile all kernels for grey and colour frames of any type.

    Kernels are the compiled functions of the method. Without this command, the first run that needs a kernel compiles
    it, once per installation. Existing kernels are kept. They are stored beside the sources or, if that folder is not
    writable, in the user's cache folder; NUMBA_CACHE_DIR sets another folder.
    """
    from bgsub.scene.kernel_warmup import warm_up_all  # noqa: PLC0415 - it imports Numba

    click.echo(f"all kernels are in {warm_up_all()}")


_GROUPS = {
    "Separate": (run, batch, decompose),
    "Watch": (live, scan, track),
    "Look at results": (overview, search),
    "Measure": (demo, evaluate, bench),
    "Set up": (config, regions, warm_up),
}

_OPENCV = [f"opencv-{kind}" for kind in ("python", "contrib-python", "python-headless", "contrib-python-headless")]
_PACKAGES = (*_OPENCV, "av", "numpy", "scipy", "numba", "llvmlite", "distributed")


def _print_versions(context: click.Context, _option: click.Parameter, value: bool) -> None:
    """Print the versions of bgsub and of its packages, and exit; the callback of ``--version``."""
    if value and not context.resilient_parsing:
        found = {one.name: one.version for one in distributions()}
        packages = [f"{name} {found[name]}" for name in _PACKAGES if name in found]
        system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
        click.echo("\n".join([f"bgsub {__version__}", system, ", ".join(packages)]))
        context.exit()


class Program(click.Group):
    """The program: its help shows the commands in groups, then the options."""

    context_class = HelpContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = {
            group: [(one.name or "", one.get_short_help_str(limit=100)) for one in members]
            for group, members in _GROUPS.items()
        }
        write_sections(formatter, commands)
        records: dict[str, list[tuple[str, str]]] = {REPORTING: [], "Options": []}
        for one in self.get_params(ctx):
            if record := one.get_help_record(ctx):
                records[getattr(one, "group", "Options")].append(record)
        write_sections(formatter, records)


@click.group(
    cls=Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    callback=_print_versions,
    help="Show the versions of bgsub and of the packages that it uses.",
    **EXITING,
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    envvar=["BGSUB_CONFIG"],
    metavar="FILE",
    help="Settings file in TOML, which overrides that of the user and bgsub.toml in this folder.",
)
@click.option("--no-config", is_flag=True, envvar=["BGSUB_NO_CONFIG"], help="Read no settings files.")
@click.pass_context
def program(context: click.Context, config: Path | None, no_config: bool) -> None:
    """Detect motion in front of a fixed camera: masks, clips and event lists, from files or live.

    \b
    Start with:
      bgsub demo                              a synthetic scene, in bgsub-demo/
      bgsub run bgsub-demo/input.mp4 -o out   masks of that video, or of yours
      bgsub live                              the first camera, in a window

    bgsub COMMAND --help shows the common options and examples. Every option can also be set in a file bgsub.toml or
    by a variable BGSUB_OPTION; see bgsub config --help.
    """
    if no_config and context.get_parameter_source("config") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("--no-config and --config exclude each other")
    reporting.log_to_screen(reporting.Reporting.of(context).verbose)
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


program.params += reporting.reporting_options()
for _members in _GROUPS.values():
    for _command in _members:
        program.add_command(_command)


def invoke(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; errors are one line, with ``--verbose`` with the traceback."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    with terminations() as signals:
        try:
            result = program.main(args=given, prog_name="bgsub", standalone_mode=False)
        except SystemExit as end:  # after a completion, and after a closed pipe
            return reporting.OK if end.code == 0 else reporting.READER_GONE
        except (Exception, KeyboardInterrupt) as error:
            if reporting.is_verbose() or {"-v", "--verbose"} & set(given):
                traceback.print_exc()
            # A signal during an import, for example, ends as another error.
            was_signal = signals is not None and signals.raised and not isinstance(error, (click.Abort, StoppedError))
            shown = KeyboardInterrupt(signals.raised) if signals is not None and was_signal else error
            message, code = reporting.exit_status(shown)
            if code != reporting.READER_GONE:
                with suppress(OSError):  # standard error may be closed
                    click.echo(f"bgsub: error: {message}", err=True)
            return code
        return result if isinstance(result, int) else reporting.OK


def _fill_closed() -> None:
    """Open the closed ones of the three standard files, so that no output file gets their number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR)  # gets the lowest free number
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8")  # noqa: SIM115


def _drop_unwritten() -> None:
    """Drop text that cannot be written, which Python would try again at the end, with an exit code of its own."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def main() -> None:
    """Run the command line and end the process with its exit code."""
    _fill_closed()
    signals = take_signals()
    atexit.register(signals.leave)  # runs last: exit handlers run in reverse order
    signals.code = invoke()
    _drop_unwritten()
    sys.exit(signals.code)
