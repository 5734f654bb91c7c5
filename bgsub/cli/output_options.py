"""Options for the outputs of a source: views, events, clips of motion and notifications."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from bgsub import events
from bgsub.cli import options as opt
from bgsub.cli.help import CLIPS, EVENTS, METHOD, NOTIFICATIONS, OUTPUT
from bgsub.cli.method_options import given, model_option
from bgsub.errors import ParameterError
from bgsub.jobs.job import Job
from bgsub.video.output_names import ANNOTATED, DEFAULT_NAME, EVENT_FORMATS, STILL, VIEWS, check_name, parse_outputs

#: Settings by name of the preset; other options override them.
PRESETS: dict[str, dict[str, Any]] = {
    "sensitive": {"threshold": "0.04", "min_area": "0.0001", "motion_threshold": ["0.05%"], "min_event_length": "0.1"},
    "calm": {"min_area": "0.001", "motion_threshold": ["1%"], "min_event_length": "1", "min_object_time": "0.5"},
    "fast": {"scale": "fast", "stabilise": "false"},
}

# fields of `MotionRules` and `ClipRules` by option
_MOTION = {"min_event_length": "min_duration", "event_gap": "max_gap"}
_RECORDING = {
    **{"pre_roll": "pre_roll", "post_roll": "post_roll", "max_clip_length": "max_duration"},
    **{"clip_boxes": "drawn", "keep_days": "keep_days", "keep_gb": "keep_bytes"},
}


def reacts_to_motion(options: Mapping[str, Any]) -> bool:
    """Return whether options enable clips, snapshots or notifications."""
    return any(options.get(name) for name in ("record", "on_event", "webhook", "snapshots"))


def _check_needs(options: Mapping[str, Any]) -> None:
    """Raise ParameterError for options of motion and objects without an output that needs them."""
    lists = options.get("list_motion", False)
    folders = {"snapshot": options.get("snapshots"), "clip": options["record"]}
    _check_commands(options.get("on_event", ()), [name for name, folder in folders.items() if folder is None])
    views = {view.partition(".")[0] for view in options.get("views") or ()}
    has_screen = not options.get("no_window", True) or options.get("serve") is not None
    drawn = has_screen or bool(views & ({*ANNOTATED} if options.get("boxes") else {"boxes"}))
    source_of = click.get_current_context().get_parameter_source
    users = (options.get(name) for name in ("event_formats", "clip_boxes", "on_event", "webhook"))
    for names, is_allowed, needed in (
        (_RECORDING, options["record"], "--record"),
        (
            ("motion_threshold", *_MOTION, "max_events"),
            lists or reacts_to_motion(options),
            "--record, --on-event, --webhook or --snapshots",
        ),
        (("boxes",), drawn or not options.get("boxes"), "--save panel, overlay or contours"),
        (_OBJECTS, drawn or any(users), "--event-formats, --boxes, --clip-boxes, --on-event or --webhook"),
    ):
        given_here = (name for name in names if options.get(name) not in (None, {}))
        # Files and presets may be for other commands.
        used = [name for name in given_here if source_of(name) is not ParameterSource.DEFAULT_MAP]
        if used and not is_allowed:
            raise ParameterError(f"--{used[0].replace('_', '-')} needs {needed}")


def _values(options: Mapping[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Return the values of options that were given, by field."""
    return {field: options[name] for name, field in names.items() if options.get(name) is not None}


def _check_commands(texts: tuple[str, ...], missing: Collection[str] = ()) -> None:
    """Raise ParameterError as `CommandNotifier` does."""
    for text in texts:
        events.CommandNotifier(text, missing=missing)


def _check_addresses(texts: tuple[str, ...]) -> None:
    for text in texts:
        events.WebhookNotifier(text)


def _use_preset(context: click.Context, _option: click.Parameter, value: str | None) -> None:
    """Make the settings of a preset the defaults of a command; those of files and variables override them."""
    if value is not None:
        known = {option.name for option in context.command.params}
        settings = {name: setting for name, setting in PRESETS[value].items() if name in known}
        context.default_map = {**settings, **(context.default_map or {})}


preset_option = opt.option(
    "--preset",
    group=METHOD,
    type=click.Choice(list(PRESETS)),
    is_eager=True,
    expose_value=False,
    callback=_use_preset,
    help="Settings for small or faint motion, for scenes with much unimportant motion, or for slow machines.",
)

_of_clips = partial(opt.seconds, group=CLIPS)
_limit_of_clips = partial(opt.option, group=CLIPS, type=opt.Number(0, min_open=True))
snapshots_option = opt.in_folder(
    "--snapshots", group=NOTIFICATIONS, help="Write a picture of each motion into this folder."
)
_of_notifications = partial(opt.option, group=NOTIFICATIONS, multiple=True)
record_options = opt.combine(
    preset_option,
    opt.in_folder("--record", group=CLIPS, help="Record a clip of each motion into this folder, listed in clips.csv."),
    opt.motion_threshold(
        group=CLIPS,
        help="Share of the frame that must be foreground to count as motion, such as 0.01 or 1%. With --roi, share of "
        "a region; gate=2% sets it for the region gate. Can be repeated.  [default: 0.2%]",
    ),
    _of_clips("--min-event-length", help="Minimum length of motion.  [default: 0.3]"),
    _of_clips("--event-gap", help="Motion that returns within this time belongs to the same event.  [default: 3]"),
    _of_clips("--pre-roll", help="Length of a clip before the motion.  [default: 2]"),
    _of_clips("--post-roll", help="Length of a clip after the motion.  [default: 3]"),
    _of_clips(
        "--max-clip-length",
        type=opt.Number(0, min_open=True),
        help="Continue a longer clip in another file.  [default: no limit]",
    ),
    opt.flag(
        "--clip-boxes",
        group=CLIPS,
        default=None,
        help="Draw objects, regions, date or time onto the clips, which are then encoded instead of copied.",
    ),
    _limit_of_clips("--keep-days", metavar="N", help="Remove clips in the folder that are older than N days."),
    _limit_of_clips(
        "--keep-gb",
        metavar="N",
        callback=lambda _context, _option, value: None if value is None else 1e9 * value,
        help="Remove the oldest clips in the folder while its clips take more than N GB.",
    ),
)

max_events_option = opt.limit("--max-events", group=CLIPS, help="Stop after N motion events.")
#: Motion, clips and notifications.
motion_options = opt.combine(
    record_options,
    _of_notifications(
        "--on-event",
        callback=partial(opt.checked, _check_commands),
        metavar="[start:|end:|snapshot:|clip:]COMMAND",
        help="Run a command when motion, a light change or another event begins or ends, or when a snapshot or clip "
        "is written. It gets JSON on its standard input. {type}, {event}, {source}, {time}, {snapshot} and others are "
        "replaced by their values. For a shell, write: sh -c '...'. Can be repeated.",
    ),
    _of_notifications(
        "--webhook",
        callback=partial(opt.checked, _check_addresses),
        metavar="URL",
        hide_input=True,
        help="Post JSON to this address when motion or another event begins and ends. Can be repeated.",
    ),
    snapshots_option,
)


def _outputs(value: Sequence[str]) -> list[str] | None:
    return [str(spec) for spec in parse_outputs(opt.split_at_commas(value))] if value else None


#: `views` is a list of str such as "mask" and "panel.mp4", or None.
save_option = opt.option(
    "--save",
    "views",
    group=OUTPUT,
    multiple=True,
    callback=partial(opt.converted, _outputs),
    shell_complete=partial(opt.complete_last, (*VIEWS, STILL)),
    metavar="VIEW,...",
    help=f"Views to write, such as panel.mp4 or mask.png: {', '.join(VIEWS)}, {STILL}.  [default: mask; none with "
    "--record]",
)

boxes_option = opt.flag(
    "--boxes", group=OUTPUT, help="Also draw objects, regions, time and events onto panel, overlay and contours."
)
name_option = opt.option(
    "--name",
    group=OUTPUT,
    default=DEFAULT_NAME,
    show_default=True,
    callback=partial(opt.checked, check_name),
    metavar="TEMPLATE",
    help="File names in the folder, with {view}, {source}, {date} and {time}.",
)
_of_events = partial(opt.option, group=EVENTS)
_region = partial(opt.region_option, metavar="REGION")
#: The values are tuples of str.
region_options = opt.combine(
    _region(
        "--roi",
        metavar="[NAME=]REGION",
        help="Process this region only: x,y,w,h or x1,y1;x2,y2;x3,y3;... in pixels or percent, or a mask image, "
        "whose black and transparent pixels are outside. Can be repeated.",
    ),
    _region(
        "--ignore", help="Report no foreground in this region, but still show it; written like --roi. Can be repeated."
    ),
    _region("--privacy", help="Black out this region before processing; written like --roi. Can be repeated."),
)

# parameters of `ObjectLinker` by option
_OBJECTS = {
    "max_object_area": "max_area",
    "max_object_width": "max_width",
    "max_object_height": "max_height",
    "min_object_time": "min_duration",
}
_of_size = partial(_of_events, type=opt.Share(0, 1, min_open=True), metavar="SHARE")
object_options = opt.combine(
    _of_size("--max-object-area", help="Maximum area of an object, as a share of the frame, such as 20%."),
    _of_size("--max-object-width", help="Maximum width of an object, as a share of the frame."),
    _of_size("--max-object-height", help="Maximum height of an object, as a share of the frame."),
    opt.seconds("--min-object-time", group=EVENTS, help="Minimum time that an object must be seen.  [default: 0.2]"),
)

#: The value `event_formats` is a list of str.
event_options = opt.combine(
    _of_events(
        "--event-formats",
        default="",
        callback=partial(opt.names_from, tuple(EVENT_FORMATS)),
        shell_complete=partial(opt.complete_last, tuple(EVENT_FORMATS)),
        metavar="FORMAT,...",
        help="Track the objects and write the events: csv, jsonl (with tracks), html (a summary page), pictures (of "
        "the objects).",
    ),
    object_options,
    region_options,
)

#: Names, source, events and models.
common_options = opt.combine(
    name_option,
    opt.source_options,
    event_options,
    opt.on_error_option,
    opt.rate_option,
    model_option,
    opt.online_option,
)
#: The options of `make_job` without those of motion.
job_options = opt.combine(save_option, boxes_option, common_options)


def make_job(source: str | tuple[str, ...], output: Path | None, options: Mapping[str, Any]) -> Job:
    """Return the job of the options; by default it writes masks, unless it has no output folder or records clips."""
    _check_needs(options)
    opt.check_part(options)
    source = source[0] if isinstance(source, tuple) and len(source) == 1 else source
    views = options.get("views")
    if views is None and output is not None and options["record"] is None:
        views = ["mask"]
    fields_of_job: dict[str, Any] = {field.name: options[field.name] for field in fields(Job) if field.name in options}
    fields_of_job |= {"source": source, "output": output or Path(), "save": views or (), "parameters": given(options)}
    motion = {**options["motion_threshold"], **_values(options, _MOTION)}
    objects, recording = _values(options, _OBJECTS), _values(options, _RECORDING)
    return Job(**fields_of_job, motion=motion, objects=objects, recording=recording)
