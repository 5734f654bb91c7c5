"""``bgsub run`` and ``bgsub track``: a video, an image sequence or a stream to files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from bgsub.cli.camera_options import reconnect_option
from bgsub.cli.job_options import common_options, job_options, make_job
from bgsub.cli.options import Decorator, MethodCommand, keep_model_option, report_options
from bgsub.cli.record_options import check_record_options, record_options

_TRACK_FILES = ["csv", "jsonl", "coco"]


def _options_of_one(options: Decorator) -> Decorator:
    """Return what adds source and folder, `options`, and those that make sense for a single source only."""

    def add(command: Any) -> Any:
        """Decorate one command."""
        for decorate in (
            report_options,
            click.option("--checkpoint-seconds", type=click.FloatRange(min=0), default=15.0, hidden=True),
            click.option("--overwrite", is_flag=True, help="Replace results that exist; with --resume, begin anew."),
            click.option(
                "--resume",
                is_flag=True,
                help="Keep checkpoints; after an interruption the same command goes on from the last.",
            ),
            keep_model_option,
            reconnect_option,
            record_options,
            options,
            click.option(
                "-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder for the results."
            ),
            click.argument("source"),
        ):
            command = decorate(command)
        return command

    return add


def _run(
    source: str,
    output: Path,
    *,
    quiet: bool,
    resume: bool,
    overwrite: bool,
    checkpoint_seconds: float,
    record: Path | None,
    pre_roll: float | None,
    post_roll: float | None,
    motion: float | None,
    **options: Any,
) -> None:
    from bgsub.cli.pipeline import run_and_tell  # noqa: PLC0415

    check_record_options(record, pre_roll, post_roll, motion)
    clips = {"pre_roll": pre_roll, "post_roll": post_roll, "min_share": motion}
    job = replace(
        make_job(source, output, **options),
        resume=resume,
        overwrite=overwrite,
        checkpoint_seconds=checkpoint_seconds,
        record=record,
        recording={name: value for name, value in clips.items() if value is not None},
    )
    run_and_tell(job, quiet)


@click.command(cls=MethodCommand, short_help="Separate a video, images or a stream into files.")
@_options_of_one(job_options)
def run(*, source: str, output: Path, **options: Any) -> None:
    """Separate SOURCE into background and foreground and write the results to a folder.

    SOURCE is a video file, a folder or pattern of images ("frames/in*.jpg"), the address of a network camera,
    or the number of a camera. Images keep their numbers: in000123.jpg gives mask/bin000123.png. Videos become
    mask.mkv (without loss), panel.mp4 and so on. Masks are 0 background, 127 shadow, 255 foreground.
    """
    _run(source, output, **options)


@click.command(cls=MethodCommand, short_help="Write what happens in a video: objects that come and go, as lists.")
@_options_of_one(common_options)
def track(*, source: str, output: Path, event_files: list[str], plot: bool, **options: Any) -> None:
    """Follow the objects in SOURCE and write events.csv, events.jsonl, objects.json and timeline.png.

    Connected pieces of foreground are linked from frame to frame. This is no tracker of identities: people who
    touch are one object, and somebody who comes back is a new one. --event-files and --plot choose among the files;
    without them all are written, the picture where matplotlib is installed.
    """
    wanted = event_files or ([] if plot else _TRACK_FILES)
    _run(source, output, views=[], event_files=wanted, plot=plot or (not event_files and _can_plot()), **options)


def _can_plot() -> bool:
    from importlib.util import find_spec  # noqa: PLC0415

    return find_spec("matplotlib") is not None
