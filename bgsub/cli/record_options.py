"""The options of what happens on motion: clips are recorded, other programs are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from bgsub.cli.blocks import FOLDER, Decorator, block, option, packed
from bgsub.cli.help import CLIPS
from bgsub.cli.notification_options import check_commands, notification_options
from bgsub.errors import ParameterError


@dataclass(frozen=True)
class Clips:
    """What happens on motion; what was not given is None, and needs what it is for."""

    record: Path | None
    motion_threshold: float | None
    min_event_length: float | None
    event_gap: float | None
    pre_roll: float | None
    post_roll: float | None
    max_clip_length: float | None
    merge_clips: bool
    on_event: tuple[str, ...] = ()
    webhook: tuple[str, ...] = ()
    snapshots: Path | None = None

    def __post_init__(self) -> None:
        folders = {"snapshot": self.snapshots, "clip": self.record}
        check_commands(self.on_event, [name for name, folder in folders.items() if folder is None])
        for name in ("pre_roll", "post_roll", "max_clip_length", "merge_clips"):
            if self.record is None and getattr(self, name) not in (None, False):
                raise ParameterError(f"--{name.replace('_', '-')} needs --record")
        for name in ("motion_threshold", "min_event_length", "event_gap"):
            if not self.is_wanted and getattr(self, name) is not None:
                others = "--record, --on-event, --webhook or --snapshots"
                raise ParameterError(f"--{name.replace('_', '-')} needs {others}")

    @property
    def is_wanted(self) -> bool:
        """Whether anything happens on motion."""
        return bool(self.record or self.on_event or self.webhook or self.snapshots)

    def moved(self, move: Callable[[Path], Path]) -> Clips:
        """Return the same with other folders."""
        return replace(
            self, record=self.record and move(self.record), snapshots=self.snapshots and move(self.snapshots)
        )

    def views(self, views: Sequence[str] | None) -> tuple[str, ...]:
        """Return what of ``--save`` is written, None where it was not given: masks then, but not beside clips."""
        return ("mask",) if views is None and self.record is None else tuple(views or ())

    @property
    def of_job(self) -> dict[str, Any]:
        """The fields of a `Job`."""
        motion = {"min_share": self.motion_threshold, "min_duration": self.min_event_length, "max_gap": self.event_gap}
        rolls = {"pre_roll": self.pre_roll, "post_roll": self.post_roll, "max_duration": self.max_clip_length}
        recording = {**rolls, "merge": self.merge_clips or None}
        told = {name: getattr(self, name) for name in ("record", "on_event", "webhook", "snapshots")}
        return {**told, "motion": _given(motion), "recording": _given(recording)}


def _seconds(name: str, text: str) -> Decorator:
    return option(name, group=CLIPS, type=click.FloatRange(0), metavar="SECONDS", help=text)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


_recording = block(
    option(
        "--record",
        group=CLIPS,
        type=FOLDER,
        metavar="FOLDER",
        help="Record a clip of each moment with motion into this folder, listed in clips.csv. Other outputs are "
        "made only if asked for.",
    ),
    option(
        "--motion-threshold",
        group=CLIPS,
        type=click.FloatRange(0, 1),
        metavar="SHARE",
        help="Share of the picture that must be foreground to be motion, after the start (--start-frames).  "
        "[default: 0.002]",
    ),
    _seconds("--min-event-length", "How long motion lasts at least.  [default: 0.3]"),
    _seconds("--event-gap", "Motion that comes again so soon belongs to the same event.  [default: 3]"),
    _seconds("--pre-roll", "How long before the motion a clip begins.  [default: 2]"),
    _seconds("--post-roll", "How long after the motion a clip ends.  [default: 3]"),
    option(
        "--max-clip-length",
        group=CLIPS,
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
        help="A longer clip goes on in another file.  [default: no limit]",
    ),
    option("--merge-clips", group=CLIPS, is_flag=True, help="At the end, join all clips into one film as well."),
)

record_options = packed("clips", Clips, _recording)
"""``--record`` and what goes with it; the command gets `clips`."""
motion_options = packed("clips", Clips, _recording, notification_options)
"""The same and ``--on-event``, ``--webhook`` and ``--snapshots``."""
