"""Options for actions on motion: recording clips and notifying other programs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from bgsub.cli.help import CLIPS, NOTIFICATIONS
from bgsub.cli.options import FOLDER, Decorator, checked, collect, combine, option
from bgsub.errors import ParameterError


@dataclass(frozen=True)
class MotionActions:
    """The values of the options; None for an option that was not given."""

    record: Path | None
    motion_threshold: float | None
    min_event_length: float | None
    event_gap: float | None
    pre_roll: float | None
    post_roll: float | None
    max_clip_length: float | None
    on_event: tuple[str, ...] = ()
    webhook: tuple[str, ...] = ()
    snapshots: Path | None = None

    def __post_init__(self) -> None:
        folders = {"snapshot": self.snapshots, "clip": self.record}
        _check_commands(self.on_event, [name for name, folder in folders.items() if folder is None])
        for name in ("pre_roll", "post_roll", "max_clip_length"):
            if self.record is None and getattr(self, name) is not None:
                raise ParameterError(f"--{name.replace('_', '-')} needs --record")
        for name in ("motion_threshold", "min_event_length", "event_gap"):
            if not self.is_wanted and getattr(self, name) is not None:
                others = "--record, --on-event, --webhook or --snapshots"
                raise ParameterError(f"--{name.replace('_', '-')} needs {others}")

    @property
    def is_wanted(self) -> bool:
        """Whether there is an action."""
        return bool(self.record or self.on_event or self.webhook or self.snapshots)

    def moved(self, move: Callable[[Path], Path]) -> MotionActions:
        """Return the same actions with other folders."""
        return replace(
            self, record=self.record and move(self.record), snapshots=self.snapshots and move(self.snapshots)
        )

    def views(self, views: Sequence[str] | None) -> tuple[str, ...]:
        """Return the views to write: without ``--save`` (None) masks, or nothing if clips are recorded."""
        return ("mask",) if views is None and self.record is None else tuple(views or ())

    @property
    def of_job(self) -> dict[str, Any]:
        """The fields of a `Job`."""
        motion = {
            "min_share": self.motion_threshold,
            "min_duration": self.min_event_length,
            "max_gap": self.event_gap,
        }
        clips = {"pre_roll": self.pre_roll, "post_roll": self.post_roll, "max_duration": self.max_clip_length}
        actions = {name: getattr(self, name) for name in ("record", "on_event", "webhook", "snapshots")}
        return {**actions, "motion": _given(motion), "recording": _given(clips)}


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _check_commands(texts: tuple[str, ...], missing: Collection[str] = ()) -> None:
    """Raise ParameterError as `CommandNotifier` does."""
    if texts:
        from bgsub.events.notifications.command import CommandNotifier  # noqa: PLC0415 - few runs need it

        for text in texts:
            CommandNotifier(text, missing=missing)


def _check_addresses(texts: tuple[str, ...]) -> None:
    from bgsub.events.notifications.webhook import WebhookNotifier  # noqa: PLC0415 - few runs need it

    for text in texts:
        WebhookNotifier(text)


def _seconds(name: str, text: str, more_than_0: bool = False) -> Decorator:
    return option(name, group=CLIPS, type=click.FloatRange(0, min_open=more_than_0), metavar="SECONDS", help=text)


_recording = combine(
    option(
        "--record",
        group=CLIPS,
        type=FOLDER,
        metavar="FOLDER",
        help="Record a clip of each motion into this folder, listed in clips.csv. Other outputs are written only if "
        "--save asks for them.",
    ),
    option(
        "--motion-threshold",
        group=CLIPS,
        type=click.FloatRange(0, 1),
        metavar="SHARE",
        help="Foreground share of the frame that counts as motion, after the start frames.  [default: 0.002]",
    ),
    _seconds("--min-event-length", "Minimum length of motion.  [default: 0.3]"),
    _seconds("--event-gap", "Motion that returns within this time belongs to the same event.  [default: 3]"),
    _seconds("--pre-roll", "Length of a clip before the motion.  [default: 2]"),
    _seconds("--post-roll", "Length of a clip after the motion.  [default: 3]"),
    _seconds("--max-clip-length", "Continue a longer clip in another file.  [default: no limit]", more_than_0=True),
)

record_options = collect("actions", MotionActions, _recording)
"""``--record`` and the options of motion and clips; the command gets `actions`."""

motion_options = collect(
    "actions",
    MotionActions,
    _recording,
    option(
        "--on-event",
        group=NOTIFICATIONS,
        multiple=True,
        callback=checked(_check_commands),
        metavar="[start:|end:|snapshot:|clip:]COMMAND",
        help="Run a command when motion, a light change or another event begins or ends, or when a snapshot or clip "
        "is written. It gets JSON on its standard input; {type}, {event}, {source}, {time}, {snapshot} and others in "
        "its words are replaced. No shell runs it, unless the command is one: sh -c '...'. Can be repeated.",
    ),
    option(
        "--webhook",
        group=NOTIFICATIONS,
        multiple=True,
        callback=checked(_check_addresses),
        metavar="URL",
        hide_input=True,
        help="Send that JSON to this address when motion or another event begins and ends. Can be repeated.",
    ),
    option(
        "--snapshots",
        group=NOTIFICATIONS,
        type=FOLDER,
        metavar="FOLDER",
        help="Write a picture of each motion into this folder.",
    ),
)
"""The same with ``--on-event``, ``--webhook`` and ``--snapshots``."""
