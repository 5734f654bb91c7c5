"""What ``bgsub --version`` tells: the versions of all that matters where something goes wrong; imports little."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

import click

from bgsub._version import __version__

_OPENCV = [f"opencv-{kind}" for kind in ("python", "contrib-python", "python-headless", "contrib-python-headless")]
_NUMERICS = {"numpy": "NumPy", "scipy": "SciPy", "numba": "Numba", "llvmlite": "llvmlite"}
_EXTRAS = {"plot": "matplotlib", "batch": "distributed", "virtual-camera": "pyvirtualcam"}


def versions() -> str:
    """Return the lines; the first is the program and its version, for programs to read."""
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
        import av  # noqa: PLC0415 - it takes some hundredths of a second

        return f" (FFmpeg {av.ffmpeg_version_info})"
    return ""


def print_versions(context: click.Context, _option: click.Parameter, value: bool) -> None:
    """Print the versions and end; the callback of ``--version``."""
    if value and not context.resilient_parsing:
        click.echo(versions(), color=context.color)
        context.exit()
