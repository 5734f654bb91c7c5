"""The options that say what is made of a source; the commands for one file and for many share them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bgsub.cli.event_options import event_options
from bgsub.cli.options import (
    check_model,
    format_option,
    given,
    model_options,
    on_error_option,
    passed_through,
    rate_option,
    save_option,
)
from bgsub.cli.source_options import source_options
from bgsub.video.output_names import check_name

if TYPE_CHECKING:
    from bgsub.jobs.job import Job


def _checked(name: str) -> str:
    check_name(name)
    return name


name_option = click.option(
    "--name",
    default="{view}",
    show_default=True,
    callback=passed_through(_checked),
    metavar="TEMPLATE",
    help="Names of the outputs below the folder, with {view}, {source}, {date} and {time}.",
)


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add every option that `make_job` takes."""
    return output_options(common_options(command))


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--save`` and ``--format``."""
    return save_option("mask")(format_option(command))


def common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of source, names, events and models."""
    for add in reversed((name_option, source_options, event_options, on_error_option, rate_option, model_options)):
        command = add(command)
    return command


def make_job(
    source: str,
    output: Path,
    *,
    views: Sequence[str],
    event_files: Sequence[str],
    roi: Sequence[str],
    model: Path | None,
    kind: str = "auto",
    **options: Any,
) -> Job:
    """Return the job that the options of `job_options` ask for; others among `options` are ignored.

    Raises
    ------
    ParameterError
        For parameters of the method beside a saved model.
    """
    from bgsub.jobs.job import Job  # noqa: PLC0415

    check_model(options, model)
    names = {field.name for field in dataclasses.fields(Job)}
    return Job(
        source,
        output,
        save=tuple(views),
        format=kind,
        event_files=tuple(event_files),
        roi=tuple(roi),
        model=model,
        parameters=given(options),
        **{name: value for name, value in options.items() if name in names},
    )
