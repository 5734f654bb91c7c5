"""Options for what a camera may do: go away."""

from __future__ import annotations

import click

reconnect_option = click.option(
    "--reconnect",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="For how long a lost camera is tried again; 0 is not at all, inf for ever. Default: network addresses "
    "for ever, local cameras not at all.",
)
