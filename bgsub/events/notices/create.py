"""The notices that a run asks for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bgsub.events.feed import EventFeed
from bgsub.events.notices.command import CommandNotifier
from bgsub.events.notices.sink import NoticeSink
from bgsub.events.notices.webhook import WebhookNotifier


def make_notices(
    commands: Sequence[str],
    webhooks: Sequence[str],
    snapshots: Path | None,
    feed: EventFeed,
    source: str,
    clips: Path | None = None,
) -> NoticeSink:
    """Return what tells the events of a feed to commands and web addresses; errors are those of the three classes.

    `snapshots` and `clips` are the folders of what is recorded.
    """
    missing = [name for name, folder in (("snapshot", snapshots), ("clip", clips)) if folder is None]
    destinations = [
        *(CommandNotifier(command, missing=missing) for command in commands),
        *(WebhookNotifier(address) for address in webhooks),
    ]
    return NoticeSink(feed, destinations, source=source, snapshots=snapshots, clips=clips is not None)
