"""The options that record clips of motion."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bgsub import events
from bgsub.cli.blocks import packed
from bgsub.errors import ParameterError
from bgsub.video.sinks.create import label_of

if TYPE_CHECKING:
    from bgsub.events.clips.recorder import RecorderSink
    from bgsub.video.sources.base import FrameSource


@dataclass(frozen=True)
class Clips:
    """What is recorded, and where; the others are None where they were not given, and need `record`."""

    record: Path | None
    pre_roll: float | None
    post_roll: float | None
    motion: float | None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if self.record is None and value is not None:
                raise ParameterError(f"--{name.replace('_', '-')} needs --record")

    @property
    def parameters(self) -> dict[str, Any]:
        """Those of the recorder that were given."""
        wanted = {"pre_roll": self.pre_roll, "post_roll": self.post_roll, "min_share": self.motion}
        return {name: value for name, value in wanted.items() if value is not None}

    def recorder(self, source: FrameSource, folder: str = "") -> RecorderSink | None:
        """Return what records the clips of a source, in a folder below that of the option; None without ``--record``.

        Raises
        ------
        SinkError
            If the folder cannot be written.
        """
        if self.record is None:
            return None
        rules = events.MotionRules(**self.parameters)
        return events.RecorderSink(self.record / folder, rules, source=label_of(source), rate=source.rate)


record_options = packed(
    "clips",
    Clips,
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
)
"""``--record``, ``--pre-roll``, ``--post-roll`` and ``--motion``; the command gets `clips`."""
