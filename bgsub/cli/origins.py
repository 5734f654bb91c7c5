"""Where the value of an option stands if it was not typed: in a file or in a variable."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource


@dataclass(frozen=True)
class Setting:
    """One value and where it stands."""

    value: Any  # from a file as it stands there, in a type of TOML; a text from the environment
    place: str  # the file, or the variable
    key: str = ""  # as it stands in the file; empty for a variable
    table: str = ""  # that holds it; empty for the top of a file and for a variable

    @property
    def name(self) -> str:
        """How messages call it: ``bgsub.toml: 'rank' in [run]`` or ``BGSUB_RANK``."""
        return f"{self.place}: {self.key!r}{inside(self.table)}" if self.key else self.place


def inside(table: str) -> str:
    """Return how messages name the table of a file; nothing for its top."""
    return f" in [{table}]" if table else ""


def remember(context: click.Context, settings: dict[str, Setting]) -> None:
    """Keep what gave the parameters in the `default_map` of a context their values, for `setting_of`."""
    context.meta[__name__] = settings


def setting_of(context: click.Context, option: click.Parameter) -> Setting | None:
    """Return the setting that gave an option its value, None where it was typed or is the default."""
    source = context.get_parameter_source(option.name or "")
    if source is ParameterSource.ENVIRONMENT:
        variable = next(variable for variable in option.envvar or () if os.environ.get(variable))
        return Setting(os.environ[variable], variable)
    return context.meta[__name__].get(option.name) if source is ParameterSource.DEFAULT_MAP else None


def called(context: click.Context | None, option: click.Parameter) -> str:
    """Return how messages call the value of an option: by its place, or by the option if it was typed."""
    setting = None if context is None else setting_of(context, option)
    return option.opts[0] if setting is None else setting.name
