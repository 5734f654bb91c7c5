"""``bgsub run`` and ``bgsub track``: a video, an image sequence or a stream to files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bgsub.cli.blocks import PATH, Decorator, block
from bgsub.cli.job_options import common_options, job_options, make_job
from bgsub.cli.logs import report_options
from bgsub.cli.model_options import save_model_option
from bgsub.cli.options import MethodCommand
from bgsub.cli.pipeline import Telling, run_and_tell
from bgsub.cli.record_options import Clips, motion_options
from bgsub.cli.source_options import raw_option, reconnect_option
from bgsub.video.output_names import EVENT_FILES


def _options_of_one(options: Decorator, place: str = "Folder for the results") -> Decorator:
    """Return what adds source and `place` of the results, `options`, and those that make sense for one source only."""
    return block(
        click.argument("sources", nargs=-1, required=True, metavar="SOURCE..."),
        click.option(
            "-o",
            "--output",
            type=PATH,
            help=f"{place}; --record, --webhook and the like alone need none.",
        ),
        options,
        motion_options,
        raw_option,
        reconnect_option,
        save_model_option,
        click.option(
            "--resume",
            is_flag=True,
            help="Keep checkpoints; after an interruption the same command goes on from the last.",
        ),
        click.option("--overwrite", is_flag=True, help="Replace results that exist; with --resume, begin anew."),
        click.option("--checkpoint-seconds", type=click.FloatRange(min=0), default=15.0, hidden=True),
        report_options,
    )


def _run(sources: tuple[str, ...], output: Path | None, *, quiet: bool, clips: Clips, **options: Any) -> None:
    source = sources[0] if len(sources) == 1 else sources
    if output is None and clips.is_wanted:
        options["views"] = options["views"] or ()  # the masks, which are written otherwise, need a folder
    job = make_job(source, output or Path(), clips=clips, **options)
    if output is None and (not clips.is_wanted or job.save or job.event_files):
        context = click.get_current_context()
        option = next(option for option in context.command.params if option.name == "output")
        raise click.MissingParameter(ctx=context, param=option)
    run_and_tell(job, Telling(quiet))


@click.command(cls=MethodCommand, short_help="Separate a video, images or a stream into files.")
@_options_of_one(job_options, "Folder for the results, or - for standard output")
def run(*, sources: tuple[str, ...], output: Path | None, **options: Any) -> None:
    """Separate SOURCE into background and foreground and write the results to a folder.

    SOURCE is a video file, a folder or pattern of images ("frames/in*.jpg"), the address of a network camera,
    or the number of a camera. Several video files are taken for one that goes on from file to file, as cameras record
    them. Images keep their numbers: in000123.jpg gives mask/bin000123.png. Videos become mask.mkv (without loss),
    panel.mp4 and so on. Frames count from 0. Masks are 0 background, 127 shadow, 255 foreground.

    SOURCE may be a named pipe, or - for standard input. With -o - the frames of one view go to standard output: as a
    Matroska stream, or as bytes alone with --save mask.raw and where PyAV is missing.

    Ctrl-C finishes the outputs as they are; the exit code is 130 then, and 143 after SIGTERM, but 0 where a camera
    without --end or --duration was ended so. An input that breaks off leaves finished outputs, too, and exit code 1.
    """
    _run(sources, output, **options)


@click.command(cls=MethodCommand, short_help="Write what happens in a video: objects that come and go, as lists.")
@_options_of_one(common_options)
def track(*, sources: tuple[str, ...], output: Path | None, event_files: list[str], **options: Any) -> None:
    """Follow the objects in SOURCE and write events.csv, events.jsonl, objects.json and summary.html.

    Connected pieces of foreground are linked from frame to frame. This is no tracker of identities: people who
    touch are one object, and somebody who comes back is a new one. What flickers in place, such as leaves, is no
    object, nor is what rests while the model starts. Frames count from 0; objects.json calls an image by its file,
    and frame 123 of a video clip.mp4#123. --event-files chooses among the files.
    """
    _run(sources, output, views=[], event_files=event_files or list(EVENT_FILES), **options)
