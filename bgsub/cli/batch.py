"""``bgsub batch``: many files in parallel, on one machine or several."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from bgsub.cli import reporting
from bgsub.cli.help import METHOD, RUNNING
from bgsub.cli.method_options import MethodCommand
from bgsub.cli.options import SOURCE, count, folder_option, limit, option, overwrite_option
from bgsub.cli.output_options import job_options, make_job, record_options
from bgsub.cli.pipeline import show_result
from bgsub.errors import ParameterError, SourceError, counted, printable
from bgsub.jobs import batch as batches
from bgsub.jobs.interrupts import stopped_by
from bgsub.jobs.job import Job
from bgsub.storage.durable_io import unlink


@click.command(
    cls=MethodCommand,
    short_help="Process many files in parallel or on several machines.",
    common="output save overwrite duration fps event-formats roi record threshold min-area scale shadows "
    "absorb-after workers scheduler",
    examples={
        'bgsub batch "*.mp4" -o results': "The masks of every video here, on all cores",
        "bgsub batch recordings -o results --record clips --save panel.mp4": "Clips of motion of each",
        "bgsub batch recordings -o results --scheduler tcp://host:8786": "On the machines of a Dask cluster",
    },
)
@click.argument("patterns", nargs=-1, required=True, metavar="PATTERN...", type=SOURCE)
@folder_option
@limit(
    "--workers",
    group=RUNNING,
    help="Processes on this machine, which share its cores.  [default: one per core, at most one per file]",
)
@option(
    "--scheduler",
    group=RUNNING,
    metavar="ADDRESS",
    help="Use the workers of a running Dask scheduler, such as tcp://host:8786; they need access to the files.",
)
@count(
    "--retries",
    group=RUNNING,
    least=0,
    default=2,
    help="Further attempts after a temporary failure: a full disk, a dead worker.",
)
@overwrite_option(help="Process all files again, finished ones included.")
@job_options
@record_options
@option(
    "--save-model",
    "model_name",
    group=METHOD,
    metavar="NAME",
    help="Write the model of each file into its folder at the end.",
)
@reporting.json_option()
def batch(
    *, patterns: tuple[str, ...], output: Path, model_name: str | None, record: Path | None, **options: Any
) -> int:
    """Process many files as "bgsub run" does, without notifications.

    PATTERN is a video, a folder of images, another folder with videos in it, a pattern such as "data/**/*.mp4" or
    "data/**" (videos and folders of images at any depth), or @FILE, a text file with one of these per line.
    Duplicates are processed once. The results of each file are in a folder with its name. manifest.csv lists the
    result of each file. With --event-formats html,jsonl, overview.html shows all events.

    After an interruption, the same command continues, even within a file. It skips finished files that are unchanged
    and retries failed ones. Results made with other options are replaced only with --overwrite. A file that fails does
    not stop the others; it is listed at the end, and the exit code is 1. Here, --save-model and --record take the name
    of a file or folder within the folder of each result.
    """
    how = {name: options.pop(name) for name in ("workers", "scheduler", "retries", "overwrite")}
    if how["scheduler"] is not None and how["workers"] is not None:
        raise ParameterError("--scheduler brings its own workers, so --workers cannot be given")
    if "-" in patterns:
        raise ParameterError("a batch takes files, got '-': bgsub run reads standard input")
    for flag, kind, path in (("--save-model", "file", model_name), ("--record", "folder", record)):
        if path is not None and Path(path).name != str(path):
            raise ParameterError(f"{flag} takes the name of a {kind} without a folder here, got '{path}'")

    def job_of(source: str, folder: Path) -> Job:
        inside = {"save_model": model_name and folder / model_name, "record": record and folder / record}
        return make_job(source, folder, {**options, **inside})

    kind = reporting.kind_of_progress()
    page = output / "overview.html"
    with reporting.bar(unit=" files", mininterval=0, disable=kind != "bar") as drawn:
        old = page if how["overwrite"] else None
        progress = _Progress(drawn, reporting.progress_logger.info if kind == "log" else reporting.to_file, old)
        result = batches.run_batch(patterns, output, make_job=job_of, started=progress.start, progress=progress, **how)
    if "html" in options["event_formats"]:
        from bgsub.events.results import write_overview  # noqa: PLC0415 - it imports NumPy

        try:
            write_overview(output, page)
        except SourceError as error:  # such as no events.jsonl and no clips
            reporting.logger.warning("no overview: %s", error)
    _report(result, kind == "log")
    return reporting.OK if result.complete else reporting.code_of(result.stopped)


class _Progress:
    """Counts the files on a bar of tqdm and logs a line for each with `log`; removes the `old` page at the start."""

    def __init__(self, bar: Any, log: Callable[[str], None], old: Path | None) -> None:
        self._bar, self._log, self._old = bar, log, old
        self._failed = self._ended = self._total = 0

    def start(self, todo: int, skipped: int) -> None:
        self._total = todo
        self._bar.reset(todo)
        if self._old is not None:
            unlink(self._old)
        if skipped:
            self._log(f"{skipped} of {counted(todo + skipped, 'file')} done before")

    def __call__(self, entry: "batches.Entry") -> None:
        self._ended += 1
        self._failed += entry.state == "failed"
        if self._failed:
            self._bar.set_postfix_str(f"{self._failed} failed", refresh=False)
        self._bar.update()
        done = f"{entry.result.get('frames', 0)} frames in {entry.seconds:.1f} s"
        what = done if entry.state == "done" else f"failed: {entry.error}"
        self._log(f"[{self._ended}/{self._total}] {entry.source.path}: {what}")


def _report(result: "batches.BatchResult", failures_are_shown: bool) -> None:
    """Print the failures unless the progress log has shown them, and the summary."""
    for entry in () if failures_are_shown else result.failed:
        click.echo(printable(f"failed: {entry.source.path}: {entry.error}"), err=True)
    if result.left:
        why = "the connection to the scheduler is lost" if result.stopped == "lost" else stopped_by(result.stopped)
        click.echo(f"{why}; {counted(result.left, 'file')} left: the same command continues", err=True)
    short = sum(entry.result["frames"] > 0 and not entry.result["tracked"] for entry in result.done)
    provisional = f"; {counted(short, 'file')} shorter than the start phase, all masks are provisional" if short else ""
    sentence = (
        f"{len(result.done)} done, {len(result.failed)} failed, {len(result.skipped)} done before, "
        f"{result.left} left in {result.seconds:.1f} s{provisional}; see {result.folder / 'manifest.csv'}"
    )
    show_result(result.as_dict(), sentence)
