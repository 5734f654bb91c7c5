"""``bgsub --version`` and ``bgsub warm-up``; importing them is fast."""

from __future__ import annotations

import platform
from importlib.metadata import distributions

import click

from bgsub._version import __version__
from bgsub.cli.help import Example
from bgsub.cli.settings import Command

_OPENCV = [f"opencv-{kind}" for kind in ("python", "contrib-python", "python-headless", "contrib-python-headless")]
_PACKAGES = (*_OPENCV, "av", "numpy", "scipy", "numba", "llvmlite", "distributed")


def print_versions(context: click.Context, _option: click.Parameter, value: bool) -> None:
    """Print the versions of bgsub and of its packages, and exit; the callback of ``--version``."""
    if value and not context.resilient_parsing:
        found = {one.name: one.version for one in distributions()}
        packages = [f"{name} {found[name]}" for name in _PACKAGES if name in found]
        system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
        click.echo("\n".join([f"bgsub {__version__}", system, ", ".join(packages)]))
        context.exit()


@click.command(
    cls=Command,
    short_help="Compile all kernels now, for images and installers.",
    examples=(Example("bgsub warm-up", "Once after an installation, so that the first run starts at once"),),
)
def warm_up() -> None:
    """Compile all kernels for grey and colour frames of any type.

    Without this command the first run that needs a kernel compiles it, once per installation. Kernels that are
    compiled already are kept. They are stored beside the sources or, if these cannot be written, in the cache of the
    user; NUMBA_CACHE_DIR names another folder.
    """
    from bgsub.scene.kernel_warmup import warm_up_all  # noqa: PLC0415 - it imports Numba

    click.echo(f"all kernels are in {warm_up_all()}")
