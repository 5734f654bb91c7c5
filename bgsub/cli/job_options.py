"""The options that say what is made of a source; the commands for one file and for many share them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bgsub.cli.blocks import block, option
from bgsub.cli.event_options import boxes_option, event_options
from bgsub.cli.help import OUTPUT
from bgsub.cli.model_options import model_option
from bgsub.cli.options import check_model, given, passed_through, save_option
from bgsub.cli.record_options import Clips
from bgsub.cli.source_options import on_error_option, rate_option, source_options
from bgsub.jobs.job import Job
from bgsub.video.output_names import DEFAULT_NAME, check_name


def _checked(name: str) -> str:
    check_name(name)
    return name


name_option = option(
    "--name",
    group=OUTPUT,
    default=DEFAULT_NAME,
    show_default=True,
    callback=passed_through(_checked),
    metavar="TEMPLATE",
    help="Names of the outputs below the folder, with {view}, {source}, {date} and {time}.",
)

common_options = block(name_option, source_options, event_options, on_error_option, rate_option, model_option)
"""Names, source, events and models."""

job_options = block(save_option, boxes_option, common_options)
"""What `make_job` takes, but for `clips`."""


def make_job(
    source: str | tuple[str, ...],
    output: Path,
    *,
    views: Sequence[str] | None,
    clips: Clips,
    event_formats: Sequence[str],
    roi: Sequence[str],
    privacy: Sequence[str],
    model: Path | None,
    **options: Any,
) -> Job:
    """Return the job that the options of `job_options` ask for; what else `options` hold of a job is its own."""
    check_model(options, model)
    names = {field.name for field in dataclasses.fields(Job)}
    return Job(
        source,
        output,
        save=clips.views(views),
        event_formats=tuple(event_formats),
        roi=tuple(roi),
        privacy=tuple(privacy),
        model=model,
        parameters=given(options),
        **clips.of_job,
        **{name: value for name, value in options.items() if name in names},
    )
