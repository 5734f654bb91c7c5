"""``bgsub run`` and ``bgsub track``: a video, an image sequence or a stream to files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bgsub.cli.blocks import PATH, Decorator, block, one_of_files, option
from bgsub.cli.help import OUTPUT, RUNNING, Example
from bgsub.cli.job_options import common_options, job_options, make_job
from bgsub.cli.logs import report_options
from bgsub.cli.model_options import save_model_option
from bgsub.cli.options import MethodCommand, check_no_file
from bgsub.cli.pipeline import Telling, run_and_tell
from bgsub.cli.record_options import Clips, motion_options
from bgsub.cli.source_options import BEGINNINGS, raw_option, reconnect_option
from bgsub.video.output_names import EVENT_FORMATS

_COMMON = (
    *("output", "overwrite", "start", "duration", "fps", "event-formats", "roi", "record", "motion-threshold"),
    *("threshold", "min-area", "scale", "shadows", "absorb-after"),
)
_completed = one_of_files(*BEGINNINGS)


def _options_of_one(options: Decorator, place: str = "Folder for the results") -> Decorator:
    """Return what adds source and `place` of the results, `options`, and those that make sense for one source only."""
    return block(
        click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=_completed),
        option(
            "-o",
            "--output",
            group=OUTPUT,
            type=PATH,
            callback=check_no_file,
            help=f"{place}; --record, --webhook and the like alone need none.",
        ),
        options,
        motion_options,
        raw_option,
        reconnect_option,
        save_model_option,
        option(
            "--resume",
            group=RUNNING,
            is_flag=True,
            help="Keep checkpoints; after an interruption the same command goes on from the last.",
        ),
        option(
            "--overwrite",
            group=OUTPUT,
            is_flag=True,
            help="Replace results that exist; with --resume, begin anew.",
        ),
        option("--checkpoint-seconds", group=RUNNING, type=click.FloatRange(min=0), default=15.0, hidden=True),
        report_options,
    )


def _run(sources: tuple[str, ...], output: Path | None, *, quiet: bool, clips: Clips, **options: Any) -> None:
    source = sources[0] if len(sources) == 1 else sources
    if output is None and clips.is_wanted:
        options["views"] = options["views"] or ()  # the masks, which are written otherwise, need a folder
    job = make_job(source, output or Path(), clips=clips, **options)
    if output is None and (not clips.is_wanted or job.save or job.event_formats):
        context = click.get_current_context()
        option = next(option for option in context.command.params if option.name == "output")
        raise click.MissingParameter(ctx=context, param=option)
    run_and_tell(job, Telling(quiet))


@click.command(
    cls=MethodCommand,
    short_help="Separate a video, images or a stream into files.",
    common=("save", *_COMMON),
    examples=(
        Example("bgsub run video.mp4 -o out --save mask,panel", "Masks, and a video to look at"),
        Example("bgsub run frames -o results --fps 25 --event-formats csv,html", "Images; what happens, as a list"),
        Example(
            "bgsub run cam-*.mp4 --record clips --motion-threshold 0.01", "Clips of motion from the files of one camera"
        ),
    ),
)
@_options_of_one(job_options, "Folder for the results, or - for standard output")
def run(*, sources: tuple[str, ...], output: Path | None, **options: Any) -> None:
    """Separate SOURCE into background and foreground and write the results to a folder.

    SOURCE is a video file, a folder or pattern of images ("frames/in*.jpg"), the address of a network camera,
    or the number of a camera. Several video files are taken for one that goes on from file to file, as cameras record
    them. Images keep their numbers: in000123.jpg gives mask/bin000123.png. Videos become mask.mkv (without loss),
    panel.mp4 and so on. Frames count from 0. Masks are 0 background, 127 shadow, 255 foreground.

    SOURCE may be a named pipe, or - for standard input. With -o - the frames of one view go to standard output: as a
    Matroska stream, or as bytes alone with --save mask.raw.

    --event-formats writes events.csv, events.jsonl, objects.json and summary.html; beside --roi, csv means regions.csv
    as well. What of a region sticks out of the frame is cut off.

    Ctrl-C finishes the outputs as they are; the exit code is 130 then, and 143 after SIGTERM, but 0 where a camera
    without --end or --duration was ended so. An input that breaks off leaves finished outputs, too, and exit code 1.
    """
    _run(sources, output, **options)


@click.command(
    cls=MethodCommand,
    short_help="Write what happens in a video: objects that come and go, as lists.",
    common=_COMMON,
    examples=(
        Example("bgsub track video.mp4 -o events", "When and where something moved, and a page of it all"),
        Example(
            'bgsub track video.mp4 -o door --event-formats csv --roi "door=0,0,40%,100%"', "In one region, by name"
        ),
    ),
)
@_options_of_one(common_options)
def track(*, sources: tuple[str, ...], output: Path | None, event_formats: list[str], **options: Any) -> None:
    """Follow the objects in SOURCE and write events.csv, events.jsonl, objects.json and summary.html.

    Connected pieces of foreground are linked from frame to frame. This is no tracker of identities: people who
    touch are one object, and somebody who comes back is a new one. What flickers in place, such as leaves, is no
    object, nor is what rests while the model starts. Frames count from 0; objects.json calls an image by its file,
    and frame 123 of a video clip.mp4#123. --event-formats chooses among the files.
    """
    _run(sources, output, views=[], event_formats=event_formats or list(EVENT_FORMATS), **options)
