"""One run of the pipeline with progress and summary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bgsub.cli.report import Progress
from bgsub.errors import SinkError

if TYPE_CHECKING:
    from bgsub.separation import Separation
    from bgsub.subtractor import BackgroundSubtractor
    from bgsub.video import Controls, Frame, FrameSource, Sink, Summary


def run_pipeline(
    source: FrameSource,
    subtractor: BackgroundSubtractor,
    sinks: Sequence[Sink],
    *,
    quiet: bool = False,
    limit: int | None = None,
    controls: Controls | None = None,
    callback: Callable[[Frame, Separation], None] | None = None,
) -> Summary:
    """Run a source to its end, or for `limit` frames, and print the summary line.

    `callback` sees every frame and its separation after the sinks.

    Raises
    ------
    SourceError, ParameterError
        As the stages raise them.
    click.ClickException
        When an output that was open cannot be written any more: a failure, not a wrong input.
    """
    from bgsub.video import Controls, Pipeline  # noqa: PLC0415

    controls = controls or Controls()
    with Progress(source, quiet) as progress:

        def after(frame: Frame, separation: Separation) -> None:
            progress(frame, separation)
            if callback is not None:
                callback(frame, separation)
            if progress.frames == limit:
                controls.quit()

        try:
            summary = Pipeline(source, subtractor, sinks, progress=after, controls=controls).run()
        except SinkError as error:
            raise click.ClickException(str(error)) from error
    reached = limit is not None and summary.frames >= limit
    progress.tell(summary, [str(path) for path in map(_target, sinks) if path], by_user=not reached)
    return summary


def _target(sink: Sink) -> Path | None:
    """Return where a sink's output lies, None for a window."""
    return getattr(sink, "path", None) or getattr(sink, "folder", None)
