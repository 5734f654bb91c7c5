"""Options for what a camera may do: go away."""

from __future__ import annotations

import click

reconnect_option = click.option(
    "--reconnect",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="For how long a lost camera, or one that is not there at the start, is tried again; 0 is not at all, inf for "
    "ever. Default: lost network cameras for ever, others not at all.",
)
