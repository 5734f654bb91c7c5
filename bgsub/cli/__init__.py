"""The command line: thin, every command usable from Python too.

Nothing heavy is imported before a command runs, so that ``bgsub --help`` answers at once.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence

import click

from bgsub import __version__
from bgsub.cli.bench import bench
from bgsub.cli.demo import demo
from bgsub.cli.evaluate import evaluate
from bgsub.cli.live import live
from bgsub.cli.run import run
from bgsub.errors import BgsubError, DependencyError

OK, FAILURE, WRONG_INPUT = 0, 1, 2


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="bgsub")
@click.option("-v", "--verbose", is_flag=True, help="Log what happens; show the traceback of a failure.")
def program(verbose: bool) -> None:
    """Find what moves in front of a fixed camera: live, on video files, or to be scored against masks."""
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="bgsub: %(message)s", force=True)


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
    except click.ClickException as error:
        return _tell(error.format_message(), error.exit_code)
    except DependencyError as error:
        return _tell(str(error), FAILURE)
    except BgsubError as error:
        return _tell(str(error), WRONG_INPUT)
    except (KeyboardInterrupt, click.Abort):
        return _tell("stopped", FAILURE)
    except BrokenPipeError:
        _drop_output()
        return FAILURE
    except Exception as error:
        if {"-v", "--verbose"} & set(given):
            raise
        return _tell(f"{type(error).__name__}: {error} (bgsub --verbose shows where)", FAILURE)
    return result if isinstance(result, int) else OK


def main() -> None:
    """Run the command line and end the process with its exit code."""
    sys.exit(invoke())


def _tell(message: str, code: int) -> int:
    click.echo(f"bgsub: error: {' '.join(message.split())}", err=True)
    return code


def _drop_output() -> None:
    """Keep the interpreter from complaining once more when it flushes a closed pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
