"""The options that tell other programs what happens."""

from __future__ import annotations

from collections.abc import Collection

from bgsub.cli.blocks import FOLDER, block, option
from bgsub.cli.help import NOTIFICATIONS
from bgsub.cli.options import passed_through


def check_commands(texts: tuple[str, ...], missing: Collection[str] = ()) -> tuple[str, ...]:
    """Return the commands; ParameterError as of `CommandNotifier`."""
    if texts:
        from bgsub.events.notifications.command import CommandNotifier  # noqa: PLC0415 - most runs tell nobody

        for text in texts:
            CommandNotifier(text, missing=missing)
    return texts


def _addresses(texts: tuple[str, ...]) -> tuple[str, ...]:
    if texts:
        from bgsub.events.notifications.webhook import WebhookNotifier  # noqa: PLC0415 - as above

        for text in texts:
            WebhookNotifier(text)
    return texts


notification_options = block(
    option(
        "--on-event",
        group=NOTIFICATIONS,
        multiple=True,
        callback=passed_through(check_commands),
        metavar="[start:|end:|snapshot:|clip:]COMMAND",
        help="Run a command when motion, a change of light or the like begins or ends, or a snapshot or clip is there. "
        "It gets JSON on its standard input, and its words may hold {type}, {event}, {source}, {time}, {snapshot} and "
        "more. No shell is in between, unless it is the command: sh -c '...'. May be given several times.",
    ),
    option(
        "--webhook",
        group=NOTIFICATIONS,
        multiple=True,
        callback=passed_through(_addresses),
        metavar="URL",
        hide_input=True,
        help="Send that JSON to this address when motion and the like begins and ends. May be given several times.",
    ),
    option(
        "--snapshots",
        group=NOTIFICATIONS,
        type=FOLDER,
        metavar="FOLDER",
        help="Store a picture of each moment with motion in this folder.",
    ),
)
"""The command gets `on_event` and `webhook` (tuples of str), and `snapshots` (Path or None)."""
