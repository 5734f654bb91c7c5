"""The options that record clips of motion."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bgsub.errors import ParameterError

if TYPE_CHECKING:
    from bgsub.video.sinks.recorder import RecorderSink
    from bgsub.video.sources.base import FrameSource

_NAMES = ("pre_roll", "post_roll", "motion")


def record_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--record``, ``--pre-roll``, ``--post-roll`` and ``--motion``, for `make_recorder`.

    The command gets `record` (Path or None), `pre_roll`, `post_roll` and `motion` (float or None).
    """
    options = [
        click.option(
            "--record",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="FOLDER",
            help="Record a clip of each moment with motion into this folder, and list them in clips.csv.",
        ),
        click.option(
            "--pre-roll",
            type=click.FloatRange(0),
            metavar="SECONDS",
            help="How long before the motion a clip begins.  [default: 2]",
        ),
        click.option(
            "--post-roll",
            type=click.FloatRange(0),
            metavar="SECONDS",
            help="How long after the motion a clip ends.  [default: 3]",
        ),
        click.option(
            "--motion",
            type=click.FloatRange(0, 1),
            metavar="SHARE",
            help="Share of the picture that must be foreground to be motion.  [default: 0.002]",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def check_record_options(
    record: Path | None, pre_roll: float | None, post_roll: float | None, motion: float | None
) -> None:
    """Refuse the other options without ``--record``."""
    for name, value in zip(_NAMES, (pre_roll, post_roll, motion), strict=True):
        if record is None and value is not None:
            raise ParameterError(f"--{name.replace('_', '-')} needs --record")


def make_recorder(
    source: FrameSource,
    *,
    record: Path | None,
    pre_roll: float | None,
    post_roll: float | None,
    motion: float | None,
) -> RecorderSink | None:
    """Return the recorder that the options ask for, or None without ``--record``.

    Raises
    ------
    ParameterError
        For the other options without ``--record``.
    SinkError
        If the folder cannot be written.
    """
    check_record_options(record, pre_roll, post_roll, motion)
    if record is None:
        return None
    from bgsub.video.sinks.create import label_of  # noqa: PLC0415
    from bgsub.video.sinks.motion_gate import MotionRules  # noqa: PLC0415
    from bgsub.video.sinks.recorder import RecorderSink  # noqa: PLC0415

    given = {"pre_roll": pre_roll, "post_roll": post_roll, "min_share": motion}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return RecorderSink(record, MotionRules(**options), source=label_of(source), rate=source.rate)
