"""``bgsub live``: a camera, shown in a window, written to files, or both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bgsub.cli.options import (
    VIEWS,
    MethodCommand,
    format_option,
    make_subtractor,
    method_options,
    model_options,
    on_error_option,
    quiet_option,
    save_option,
)


@click.command(cls=MethodCommand, short_help="Separate a camera's picture in a window, into files, or both.")
@click.argument("camera", default="0")
@click.option("--view", type=click.Choice(VIEWS), default="panel", show_default=True, help="What the window shows.")
@click.option("--no-window", is_flag=True, help="Show nothing; needs --output.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for recordings of the --save views.")
@save_option("mask")
@format_option
@click.option("--frames", "limit", type=click.IntRange(1), metavar="N", help="Stop after so many frames.")
@on_error_option
@model_options
@quiet_option
@method_options
def live(
    *,
    camera: str,
    view: str,
    no_window: bool,
    output: Path | None,
    views: list[str],
    kind: str,
    limit: int | None,
    on_error: str,
    model: Path | None,
    save_model: Path | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Separate a camera's picture while it comes in.

    CAMERA is the number of a camera (0, the default, is the first) or an address such as rtsp://... or
    http://...; a file works as well. Where frames come too fast, the oldest are dropped and counted.

    Keys in the window: q quit, space pause, s snapshot, r reset the model, f freeze it.
    """
    if no_window and output is None:
        raise click.UsageError("--no-window needs --output, or nothing would be seen of the result")
    from bgsub.cli.pipeline import run_pipeline  # noqa: PLC0415
    from bgsub.video import Controls, Sink, WindowSink, create_sinks, open_source  # noqa: PLC0415

    subtractor = make_subtractor(options, model)  # what is wrong shows before the source is opened
    controls = Controls()
    window = [] if no_window else [WindowSink(view, title=f"bgsub: {camera}", controls=controls)]
    try:
        with open_source(camera, on_error=on_error) as source:
            if model is None:
                subtractor = make_subtractor(options, rate=source.rate)
            files = create_sinks(output, views, source, kind) if output is not None else []
            sinks: list[Sink] = [*files, *window]
            run_pipeline(source, subtractor, sinks, quiet=quiet, limit=limit, controls=controls, save_model=save_model)
    finally:
        for sink in window:
            sink.close()
