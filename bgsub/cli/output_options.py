"""Options for the outputs of a source, shared by the commands for one file and for many."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bgsub.cli.help import EVENTS, OUTPUT
from bgsub.cli.method_options import check_model, given, model_option
from bgsub.cli.motion_options import MotionActions
from bgsub.cli.options import (
    checked,
    combine,
    converted,
    list_of,
    names_from,
    one_of_files,
    option,
    split_at_commas,
)
from bgsub.cli.source_options import on_error_option, rate_option, source_options
from bgsub.jobs.job import Job
from bgsub.video.output_names import (
    DEFAULT_NAME,
    EVENT_FORMATS,
    STILL,
    VIEWS,
    allowed_endings,
    check_name,
    parse_outputs,
)
from bgsub.video.regions import Regions


def _outputs(value: Sequence[str]) -> list[str] | None:
    return [str(spec) for spec in parse_outputs(split_at_commas(value))] if value else None


def _views(begun: str) -> list[str]:
    """Return completions of a word: the views, with endings once there is a dot."""
    view, dot, _ = begun.partition(".")
    return [f"{view}{ending}" for ending in allowed_endings(view)] if dot else [*VIEWS, STILL]


save_option = option(
    "--save",
    "views",
    group=OUTPUT,
    multiple=True,
    callback=converted(_outputs),
    shell_complete=list_of(_views),
    metavar="VIEW,...",
    help=f"Views to write, such as panel.mp4 or mask.png: {', '.join(VIEWS)}, {STILL}.  [default: mask]",
)
"""`views` is a list of str such as "mask" and "panel.mp4", or None."""

boxes_option = option(
    "--boxes",
    group=OUTPUT,
    is_flag=True,
    help="Draw objects, regions, time and events onto panel, overlay and contours, too.",
)
name_option = option(
    "--name",
    group=OUTPUT,
    default=DEFAULT_NAME,
    show_default=True,
    callback=checked(check_name),
    metavar="TEMPLATE",
    help="File names in the folder, with {view}, {source}, {date} and {time}.",
)
event_options = combine(
    option(
        "--event-formats",
        group=EVENTS,
        default="",
        callback=names_from(tuple(EVENT_FORMATS)),
        shell_complete=list_of(lambda _begun: EVENT_FORMATS),
        metavar="FORMAT,...",
        help="Track the objects and write the events: csv, jsonl (with tracks), coco (every object in every frame), "
        "html (a summary page).",
    ),
    option(
        "--roi",
        group=EVENTS,
        shell_complete=one_of_files(),
        multiple=True,
        callback=checked(Regions),
        metavar="[NAME=]REGION",
        help="Process this region only: x,y,w,h or x1,y1;x2,y2;x3,y3;... in pixels or percent, or a mask image. "
        "Can be repeated.",
    ),
    option(
        "--privacy",
        group=EVENTS,
        shell_complete=one_of_files(),
        multiple=True,
        callback=checked(Regions),
        metavar="REGION",
        help="Black out this region before processing; written like --roi. Can be repeated.",
    ),
)
"""The values: `event_formats` is a list of str, `roi` and `privacy` are tuples of str."""

common_options = combine(name_option, source_options, event_options, on_error_option, rate_option, model_option)
"""Names, source, events and models."""
job_options = combine(save_option, boxes_option, common_options)
"""The options of `make_job` without `actions`."""


def make_job(
    source: str | tuple[str, ...],
    output: Path,
    *,
    views: Sequence[str] | None,
    actions: MotionActions,
    event_formats: Sequence[str],
    model: Path | None,
    **options: Any,
) -> Job:
    """Return the job of the options; names in `options` that are no field of `Job` are ignored."""
    check_model(options, model)
    names = {field.name for field in dataclasses.fields(Job)}
    return Job(
        source,
        output,
        save=actions.views(views),
        event_formats=tuple(event_formats),
        model=model,
        parameters=given(options),
        **actions.of_job,
        **{name: value for name, value in options.items() if name in names},
    )
