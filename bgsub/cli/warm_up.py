"""``bgsub warm-up``: all kernels at once, for images and installers."""

from __future__ import annotations

import click

from bgsub.cli.help import Example
from bgsub.cli.settings import Command


@click.command(
    cls=Command,
    short_help="Compile all kernels now, for images and installers.",
    examples=(Example("bgsub warm-up", "Once after an installation, so that the first run waits for nothing"),),
)
def warm_up() -> None:
    """Compile everything that streams of frames need, grey or colour, of 8 bit or others.

    It happens once per installation, by itself, when a first run needs it. Here it is done beforehand: what is there
    already is left alone. The kernels are kept beside the sources or, where these cannot be written, in the cache of
    the user; NUMBA_CACHE_DIR names another folder.
    """
    from bgsub.scene.kernel_warmup import warm_up_all  # noqa: PLC0415 - with it comes all of Numba

    click.echo(f"all kernels are in {warm_up_all()}")
