"""``bgsub run``: a video, an image sequence or a stream to files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bgsub.cli.options import (
    MethodCommand,
    check_model,
    format_option,
    given,
    method_options,
    model_options,
    on_error_option,
    quiet_option,
    rate_option,
    save_option,
)


@click.command(cls=MethodCommand, short_help="Separate a video, images or a stream into files.")
@click.argument("source")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder for the results.")
@save_option("mask")
@format_option
@on_error_option
@rate_option
@model_options
@quiet_option
@method_options
def run(
    *,
    source: str,
    output: Path,
    views: list[str],
    kind: str,
    on_error: str,
    rate: float | None,
    model: Path | None,
    save_model: Path | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Separate SOURCE into background and foreground and write the results to a folder.

    SOURCE is a video file, a folder or pattern of images ("frames/in*.jpg"), the address of a network camera,
    or the number of a camera. Images keep their numbers: in000123.jpg gives mask/bin000123.png. Videos become
    mask.mkv (without loss), panel.mp4 and so on. Masks are 0 background, 127 shadow, 255 foreground.
    """
    from bgsub.cli.pipeline import run_and_tell  # noqa: PLC0415
    from bgsub.jobs import Job  # noqa: PLC0415

    check_model(options, model)
    job = Job(
        source,
        output,
        save=tuple(views),
        format=kind,
        on_error=on_error,
        rate=rate,
        model=model,
        save_model=save_model,
        parameters=given(options),
    )
    run_and_tell(job, quiet)
