"""``bgsub batch``: any number of files, shared out among processes or machines."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bgsub.cli.blocks import count, one_of_files, option
from bgsub.cli.help import METHOD, OUTPUT, RUNNING, Example
from bgsub.cli.job_options import job_options, make_job
from bgsub.cli.logs import Reporting, progress_logger, report_options, to_file
from bgsub.cli.options import MethodCommand, folder_option
from bgsub.cli.progress import bar, kind_of_progress
from bgsub.cli.record_options import Clips, record_options
from bgsub.cli.verdict import OK, code_of, stopped_by
from bgsub.errors import ParameterError
from bgsub.jobs import batch as batches

if TYPE_CHECKING:
    from bgsub.jobs.batch.dispatch import BatchResult
    from bgsub.jobs.batch.manifest import Entry
    from bgsub.jobs.job import Job


@click.command(
    cls=MethodCommand,
    short_help="Separate any number of files, in parallel or on many machines.",
    common=(
        *("output", "save", "overwrite", "duration", "fps", "event-formats", "roi", "record"),
        *("threshold", "min-area", "scale", "shadows", "absorb-after", "workers", "scheduler"),
    ),
    examples=(
        Example('bgsub batch "*.mp4" -o results', "The masks of every video here, by all cores"),
        Example("bgsub batch recordings -o results --record clips --save panel.mp4", "Clips of motion of each"),
        Example("bgsub batch recordings -o results --scheduler tcp://host:8786", "By the machines of a Dask cluster"),
    ),
)
@click.argument("patterns", nargs=-1, required=True, metavar="PATTERN...", shell_complete=one_of_files())
@folder_option
@option(
    "--workers",
    group=RUNNING,
    type=click.IntRange(1),
    metavar="N",
    help="Processes on this machine; they share its cores.  [default: one per core, no more than files]",
)
@option(
    "--scheduler",
    group=RUNNING,
    metavar="ADDRESS",
    help="Use the workers of a running Dask scheduler, such as tcp://host:8786; they must see the same files.",
)
@count(
    "--retries",
    group=RUNNING,
    least=0,
    default=2,
    text="Further attempts after a failure that may pass: a full disk, a dead worker.",
)
@option("--overwrite", group=OUTPUT, is_flag=True, help="Do everything again, also what is done.")
@job_options
@record_options
@option(
    "--save-model",
    "model_name",
    group=METHOD,
    metavar="NAME",
    help="Write the model of each file at the end, into its folder.",
)
@report_options
def batch(
    *,
    patterns: tuple[str, ...],
    output: Path,
    workers: int | None,
    scheduler: str | None,
    retries: int,
    overwrite: bool,
    model_name: str | None,
    clips: Clips,
    quiet: bool,
    **options: Any,
) -> int:
    """Do what "bgsub run" does with any number of files, but for the notifications to other programs.

    PATTERN is a video, a folder of images, another folder with videos in it, a pattern such as "data/**/*.mp4" or
    "data/**" (videos and folders of images at any depth), or @FILE, a text file with one of these per line; what is
    named twice is done once. Each file has a folder of its own in that of the results, named after it. manifest.csv
    there tells what became of each.

    The same command again goes on where it was stopped, also inside a file: it leaves out what is done and
    unchanged, and tries again what failed. A file that fails does not hold up the others; it is named at the end,
    and the exit code is 1. --save-model and --record take a name here, for a file or a folder in each of the folders.
    """
    if scheduler is not None and workers is not None:
        raise ParameterError("--scheduler brings its own workers, so --workers cannot be given")
    if "-" in patterns:
        raise ParameterError("a batch takes files, got '-': bgsub run reads standard input")
    for flag, kind, path in (("--save-model", "file", model_name), ("--record", "folder", clips.record)):
        if path is not None and Path(path).name != str(path):
            raise ParameterError(f"{flag} takes the name of a {kind} without a folder here, got '{path}'")

    def job_of(source: str, folder: Path) -> Job:
        model = None if model_name is None else folder / model_name
        return make_job(source, folder, save_model=model, clips=clips.moved(folder.joinpath), **options)

    with _Progress() as progress:
        result = batches.run_batch(
            patterns,
            output,
            workers=workers,
            scheduler=scheduler,
            retries=retries,
            overwrite=overwrite,
            make_job=job_of,
            started=progress.start,
            progress=progress,
        )
    _tell(result, quiet, progress.tells)
    return OK if result.complete else code_of(result.stopped)


class _Progress:
    """A bar over the files, or a line in the log for each, as ``--progress`` wants it."""

    def __init__(self) -> None:
        kind = kind_of_progress()
        self._drawn, self.tells = kind == "bar", kind == "log"  # `tells`: what failed is on the screen already
        self._say = progress_logger.info if kind == "log" else to_file
        self._failed = self._ended = self._total = 0
        self._stack = ExitStack()

    def __enter__(self) -> _Progress:
        self._bar = self._stack.enter_context(bar(unit=" files", mininterval=0, disable=not self._drawn))
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def start(self, todo: int, skipped: int) -> None:
        self._total = todo
        self._bar.reset(todo)
        if skipped:
            self._say(f"{skipped} of {counted(todo + skipped)} done already")

    def __call__(self, entry: Entry) -> None:
        self._ended += 1
        self._failed += entry.state == "failed"
        if self._failed:
            self._bar.set_postfix_str(f"{self._failed} failed", refresh=False)
        self._bar.update()
        done = f"{entry.result.get('frames', 0)} frames in {entry.seconds:.1f} s"
        what = done if entry.state == "done" else f"failed: {entry.error}"
        self._say(f"[{self._ended}/{self._total}] {entry.source.path}: {what}")


def counted(files: int) -> str:
    """Return a number of files in words."""
    return f"{files} file{'' if files == 1 else 's'}"


def _tell(result: BatchResult, quiet: bool, told: bool) -> None:
    """Print what failed, each on a line unless the progress has `told` of it, and the summary."""
    for entry in () if told else result.failed:
        click.echo(f"failed: {entry.source.path}: {entry.error}", err=True)
    if result.left:
        why = "the scheduler went away" if result.stopped == "lost" else stopped_by(result.stopped)
        click.echo(f"{why}; {counted(result.left)} left: the same command goes on", err=True)
    sentence = (
        f"{len(result.done)} done, {len(result.failed)} failed, {len(result.skipped)} done before, "
        f"{result.left} left in {result.seconds:.1f} s; see {result.folder / 'manifest.csv'}"
    )
    to_file(sentence)
    if Reporting.of().json:
        click.echo(json.dumps(result.as_dict()))
    elif not quiet:
        click.echo(sentence)
