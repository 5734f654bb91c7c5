"""``bgsub run``, ``track`` and ``scan``: a video, an image sequence or a stream to files or to a list of motion."""

from pathlib import Path
from typing import Any

import click

from bgsub.cli import options as opt
from bgsub.cli import output_options as out
from bgsub.cli.help import RUNNING
from bgsub.cli.method_options import MethodCommand, model_option, save_model_option
from bgsub.cli.pipeline import RunReporter, run_job
from bgsub.cli.reporting import json_option
from bgsub.errors import ParameterError
from bgsub.video.output_names import EVENT_FORMATS

_COMMON = (
    "output overwrite start duration fps event-formats roi record motion-threshold "
    "threshold min-area scale shadows absorb-after"
)


def _options_of_one(output: opt.Decorator, options: opt.Decorator) -> opt.Decorator:
    """Return a decorator that adds source, `output`, `options`, and the options for a single source."""
    return opt.combine(
        click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", type=opt.SOURCE),
        output,
        options,
        out.motion_options,
        out.max_events_option,
        opt.reconnect_option,
        opt.insecure_option,
        save_model_option,
        opt.flag(
            "--resume",
            group=RUNNING,
            help="Write checkpoints. After an interruption, the same command continues from the last one.",
        ),
        opt.overwrite_option(help="Replace results that exist; with --resume, start again."),
        opt.option("--checkpoint-seconds", group=RUNNING, type=opt.Number(0), default=15.0, hidden=True),
        json_option(),
    )


def _run(sources: tuple[str, ...], output: Path | None, **options: Any) -> None:
    job = out.make_job(sources, output, {**options, "list_motion": options["record"] is not None})
    if output is None and (not out.reacts_to_motion(options) or job.save or job.event_formats):
        context = click.get_current_context()
        option = next(option for option in context.command.params if option.name == "output")
        raise click.MissingParameter(ctx=context, param=option)
    if output not in (None, Path("-")) and not (job.save or job.event_formats):
        raise ParameterError(f"nothing would be written to {output}: beside --record, name views with --save")
    run_job(job)


@click.command(
    cls=MethodCommand,
    short_help="Write masks, clips and events of a recording or camera.",
    common=f"save {_COMMON}",
    examples={
        "bgsub run video.mp4 -o out --save mask,panel": "Masks, and a video to look at",
        "bgsub run frames -o results --fps 25 --event-formats csv,html": "Images; a list of events",
        "bgsub run cam-*.mp4 --record clips --motion-threshold 0.01": "Clips of motion from the files of one camera",
    },
)
@_options_of_one(
    opt.output_option(
        callback=opt.check_no_file,
        help="Folder for the results, or - for standard output; not needed with only --record, --snapshots, --on-event "
        "or --webhook.",
    ),
    out.job_options,
)
def run(*, sources: tuple[str, ...], output: Path | None, **options: Any) -> None:
    """Separate SOURCE into background and foreground and write the results to a folder.

    SOURCE is a video file, a folder or pattern of images ("frames/in*.jpg"), the address of a network camera,
    or the number of a camera. Several video files are read as one recording. Images keep their numbers: in000123.jpg
    gives mask/bin000123.png. Videos become mask.mkv (lossless), panel.mp4 and so on. Frames count from 0. Masks are 0
    background, 127 shadow, 255 foreground.

    SOURCE may be a named pipe, or - for standard input. With -o - the frames of one view go to standard output
    as a Matroska stream.

    --event-formats writes events.csv, events.jsonl and summary.html; with --roi, csv adds regions.csv.
    Regions are clipped to the frame.

    Ctrl-C, SIGTERM and SIGHUP (a closed terminal) finish the outputs. The exit code is 130, 143 or 129, but 0 for a
    camera without --end or --duration. If the input breaks off, the outputs are finished and the exit code is 1.
    """
    _run(sources, output, **options)


@click.command(
    cls=MethodCommand,
    short_help="List the objects and events of a video.",
    common=_COMMON,
    examples={
        "bgsub track video.mp4 -o events": "When and where something moved, and a summary page",
        'bgsub track video.mp4 -o door --event-formats csv --roi "door=0,0,40%,100%"': "In one region, by name",
    },
)
@_options_of_one(opt.folder_option, out.common_options)
def track(*, sources: tuple[str, ...], output: Path | None, event_formats: list[str], **options: Any) -> None:
    """Track the objects in SOURCE and write events.csv, events.jsonl and summary.html.

    Connected foreground regions are linked from frame to frame and get an ID. People who touch are one object; an
    object that is out of sight for more than a second gets a new ID. Regions that flicker in place, such as leaves, or
    stand still during the start phase are ignored. Frames count from 0. --event-formats selects the files.
    """
    _run(sources, output, views=[], event_formats=event_formats or list(EVENT_FORMATS), **options)


@click.command(
    cls=MethodCommand,
    short_help="List the motion in a video.",
    common="motion-threshold min-event-length event-gap roi start duration every max-events csv json record "
    "snapshots threshold min-area scale",
    examples={
        "bgsub scan video.mp4": "A table of the motion; nothing is written",
        "bgsub scan cam-*.mp4 --roi gate=10%,20%,30%,50% --motion-threshold 5%": "At a gate, in several files",
        "bgsub scan video.mp4 --record clips --csv motion.csv": "A clip of each motion; the table as a file",
    },
)
@click.argument("sources", nargs=-1, required=True, metavar="VIDEO...", type=opt.SOURCE)
@opt.table_option
@out.record_options
@out.max_events_option
@out.snapshots_option
@opt.source_options
@out.region_options
@opt.insecure_option
@opt.on_error_option
@opt.rate_option
@model_option
@opt.online_option
@json_option("Print the table and the summary as one JSON object.")
def scan(*, sources: tuple[str, ...], csv: Path | None, **options: Any) -> None:
    """List the motion in VIDEO: a table with start, end, length, peak and place of each event.

    Several video files are read as one recording; a folder or a pattern of images works as well. The peak is the
    largest share of the frame (with --roi, of a region) in motion. The box (left, top, width, height in pixels) is
    that of the largest moving part at the peak.

    Nothing is written without --record, --snapshots or --csv. After Ctrl-C, the motion so far is listed.
    """
    job = out.make_job(sources, None, {**options, "views": (), "list_motion": True})
    with opt.claimed(csv):
        run_job(job, RunReporter(lists_motion=True, csv=csv))
