"""``bgsub --version``, ``bgsub completion`` and ``bgsub warm-up``; importing them is fast."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

import click
from click.shell_completion import get_completion_class

from bgsub._version import __version__
from bgsub.cli.help import Example
from bgsub.cli.settings import Command

_OPENCV = [f"opencv-{kind}" for kind in ("python", "contrib-python", "python-headless", "contrib-python-headless")]
_NUMERICS = {"numpy": "NumPy", "scipy": "SciPy", "numba": "Numba", "llvmlite": "llvmlite"}
_EXTRAS = {"plot": "matplotlib", "batch": "distributed", "virtual-camera": "pyvirtualcam"}


def versions() -> str:
    """Return the versions in lines; the first has program and version for other programs to read."""
    numerics = [f"{name} {_version(package) or 'missing'}" for package, name in _NUMERICS.items()]
    extras = {extra: _version(package) for extra, package in _EXTRAS.items()}
    there = [f"{_EXTRAS[extra]} {found}" for extra, found in extras.items() if found]
    missing = [extra for extra, found in extras.items() if not found]
    lines = [
        f"bgsub {__version__}",
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        f"OpenCV: {_listed(f'{package} {_version(package)}' for package in _OPENCV if _version(package))}",
        f"PyAV {_version('av') or 'missing'}{_ffmpeg() if _version('av') else ''}",
        _listed(numerics),
        f"extras: {_listed(there)}",
    ]
    return "\n".join([*lines, *([f"not installed: pip install 'bgsub[{','.join(missing)}]'"] if missing else [])])


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words) or "none"


def _ffmpeg() -> str:
    with suppress(ImportError):
        import av  # noqa: PLC0415 - it is slow to import

        return f" (FFmpeg {av.ffmpeg_version_info})"
    return ""


def print_versions(context: click.Context, _option: click.Parameter, value: bool) -> None:
    """Print the versions and exit; the callback of ``--version``."""
    if value and not context.resilient_parsing:
        click.echo(versions(), color=context.color)
        context.exit()


@click.command(
    cls=Command,
    takes_settings=False,
    short_help="Print the shell script for Tab completion.",
    examples=(
        Example("""echo 'eval "$(bgsub completion bash)"' >> ~/.bashrc""", "bash, 4.4 or newer"),
        Example("""echo 'eval "$(bgsub completion zsh)"' >> ~/.zshrc""", "zsh, below the line with compinit"),
        Example("echo 'bgsub completion fish | source' >> ~/.config/fish/config.fish", "fish"),
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of bgsub for SHELL: bash, zsh or fish.

    Add one line to the startup file of the shell, see the examples; it takes effect in the next shell. The script
    completes commands, options, words, lists such as --save mask,panel, and file names.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    program = click.get_current_context().find_root()
    script = kind(program.command, {}, "bgsub", "_BGSUB_COMPLETE").source()
    # The script of fish would split mask,panel at its comma.
    click.echo(script.replace('string split ","', 'string split --max 1 ","'))


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
