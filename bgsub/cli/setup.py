"""Commands that set up: ``bgsub config``, ``bgsub --version`` and ``bgsub warm-up``."""

from __future__ import annotations

import json
import platform
from importlib.metadata import distributions
from typing import Any

import click

from bgsub._version import __version__
from bgsub.cli.setting_sources import setting_of
from bgsub.cli.settings import Command, apply, as_text, commands, keys_of, load
from bgsub.errors import did_you_mean


@click.command(
    cls=Command,
    takes_settings=False,
    short_help="Show the settings from files and variables, and their sources.",
    examples={"bgsub config run": "The settings of bgsub run and where they come from"},
)
@click.argument("command", required=False)
@click.pass_context
def config(context: click.Context, command: str | None) -> None:
    """Print the settings of COMMAND, by default of all commands, as TOML with their sources.

    \b
    Later ones win:
      the defaults, which "bgsub COMMAND --help-all" shows
      the user's file, such as ~/.config/bgsub/config.toml
      bgsub.toml in this folder
      bgsub-regions.toml in this folder: regions drawn on the page of bgsub live
      the file of bgsub --config FILE, or of the variable BGSUB_CONFIG
      variables: BGSUB_OPTION for all commands, BGSUB_COMMAND_OPTION for one
      the command line

    In a file, keys at the top apply to every command that has the option, those in [run] to run only. [method] has
    the parameters of bgsub.BackgroundSubtractor. A key is the long name of an option; _ may replace the hyphens. An
    option without a value is true or false; an option that can be repeated takes a list. Paths are relative to the
    working folder, as on the command line. A bgsub.toml that --config does not name may come from a stranger: it
    cannot open ports to the network, set a token, run programs, send anything, or name files outside the folder.
    """
    known = commands(context)
    if command is not None and command not in known:
        hint = did_you_mean(command, known)
        raise click.UsageError(f"COMMAND must be one of {', '.join(known)}, got {command!r}{hint}")
    settings, tables = load(context), []
    for name in known if command is None else [command]:
        own = click.Context(known[name], info_name=name)
        apply(own, settings[name])
        lines = [line for one in known[name].params if (line := _line(own, one))]
        if lines:
            tables.append("\n".join([f"[{name}]", *lines]))
    none = "# no settings in files or variables; bgsub COMMAND --help-all shows the defaults"
    click.echo("\n\n".join(tables) or none)


def _line(context: click.Context, option: click.Parameter) -> str:
    """Return the line of an option that is set, after a check of its value; empty for its default."""
    value, source = option.consume_value(context, {})
    context.set_parameter_source(option.name or "", source)
    setting = setting_of(context, option)
    if setting is None:
        return ""
    option.process_value(context, value)
    shown = "***" if getattr(option, "hide_input", False) else setting.value
    return f"{keys_of(option)[0]} = {as_toml(shown)}  # {setting.place}"


def as_toml(value: Any) -> str:
    """Return a value in TOML."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(as_toml, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else as_text(value)


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
    examples={"bgsub warm-up": "Once after an installation, so that the first run starts at once"},
)
def warm_up() -> None:
    """Compile all kernels for grey and colour frames of any type.

    Without this command the first run that needs a kernel compiles it, once per installation. Kernels that are
    compiled already are kept. They are stored beside the sources or, if these cannot be written, in the cache of the
    user; NUMBA_CACHE_DIR names another folder.
    """
    from bgsub.scene.kernel_warmup import warm_up_all  # noqa: PLC0415 - it imports Numba

    click.echo(f"all kernels are in {warm_up_all()}")
