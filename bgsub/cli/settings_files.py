"""Settings of the commands from TOML files and from environment variables.

Keys are the long names of the options. Those at the top of a file hold for every command that has the option, those
in the table of a command, as ``[run]``, for that command only; ``[method]`` holds the parameters of the method. A value
means what it means on the command line: paths are relative to the working directory, not to the file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bgsub.errors import ParameterError, SourceError
from bgsub.nearest import did_you_mean

FILE_NAME = "bgsub.toml"
METHOD = "method"
PREFIX = "BGSUB_"
RESERVED = ("BGSUB_CONFIG", "BGSUB_NO_CONFIG")

Options = Mapping[str, Collection[str]]
Resolved = dict[str, dict[str, "Setting"]]


@dataclass(frozen=True)
class Setting:
    """One value and where it stands.

    Attributes
    ----------
    value : bool, int, float, str, list or other TOML type
        From a file, as it stands there; a text from the environment.
    place : str
        The file, or the variable.
    key : str
        The name as it stands in the file; empty for a variable.
    table : str
        The table that holds it; empty for the top of a file and for a variable.
    """

    value: Any
    place: str
    key: str = ""
    table: str = ""

    @property
    def name(self) -> str:
        """How messages call it: ``bgsub.toml: 'rank' in [run]`` or ``BGSUB_RANK``."""
        return f"{self.place}: {self.key!r}{_inside(self.table)}" if self.key else self.place


def user_file(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return where the settings of the user stand, whether the file is there or not; None without a home.

    ``$XDG_CONFIG_HOME/bgsub/config.toml``, where that variable is not set ``%APPDATA%`` on Windows,
    ``~/Library/Application Support`` on macOS and ``~/.config`` elsewhere.
    """
    folder = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(folder):  # the standard says to ignore it then
        folder = environ.get("APPDATA", "") if sys.platform == "win32" else ""
    if not folder:
        home = os.path.expanduser("~")
        if home == "~":
            return None
        folder = os.path.join(home, *(("Library", "Application Support") if sys.platform == "darwin" else (".config",)))
    return Path(folder) / "bgsub" / "config.toml"


def find_files(named: Path | None = None, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the files to read, the later ones winning: the user's, ``bgsub.toml`` in this folder, and `named`."""
    usual = (user_file(environ), Path(FILE_NAME))
    # In a folder that may not be entered, such as another user's home, there is none for this one.
    found = [path for path in usual if path is not None and os.path.isfile(path)]
    return found if named is None else [*found, named]


def read_file(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file.

    Raises
    ------
    SourceError
        When it cannot be read.
    ParameterError
        When it is no TOML, with the line.
    """
    import tomllib  # noqa: PLC0415 - most runs have no file

    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text)
    except FileNotFoundError:
        raise SourceError(f"there is no settings file '{path}'") from None
    except OSError as error:
        raise SourceError(f"the settings file '{path}' cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ParameterError(f"{path}: this is no TOML: the text is not in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        message = str(error).replace("at end of document", f"at the end of line {len(text.splitlines())}")
        raise ParameterError(f"{path}: this is no TOML: {message}") from None


def resolve(options: Options, files: Iterable[Path] = (), environ: Mapping[str, str] | None = None) -> Resolved:
    """Return the settings that hold, by command and option.

    Parameters
    ----------
    options : mapping of str to collection of str
        Long names of the options, with hyphens, of every command; those of the method under "method".
    files : iterable of Path
        The later ones win.
    environ : mapping of str to str, optional
        Wins over all files; by default the environment of the process.

    Raises
    ------
    ParameterError
        For an unknown key, table or variable, naming the nearest one, and for a file that is no TOML.
    SourceError
        For a file that cannot be read.
    """
    resolved: Resolved = {command: {} for command in options}
    for path in files:
        for table, key, setting in _file_settings(str(path), read_file(path), options):
            _set(resolved, options, table, key, setting)
    variables = os.environ if environ is None else environ
    for table, key, setting in sorted(_variable_settings(variables, options), key=lambda found: found[0] != ""):
        _set(resolved, options, table, key, setting)
    return resolved


def canonical(key: str) -> str:
    """Return the name of an option as `resolve` has it: with hyphens."""
    return key.replace("_", "-")


def _set(resolved: Resolved, options: Options, table: str, key: str, setting: Setting) -> None:
    for command in options if table in ("", METHOD) else (table,):
        # a command may have an option of the same name for something else
        if key in options[command] and (table != METHOD or set(options[METHOD]) <= set(options[command])):
            resolved[command][key] = setting


def _file_settings(place: str, content: dict[str, Any], options: Options) -> Iterator[tuple[str, str, Setting]]:
    """Yield table, option and setting of a file, the more special tables later."""
    for name, value in content.items():
        if isinstance(value, dict) and name not in options:
            raise ParameterError(f"{place}: unknown table [{name}]{did_you_mean(name, options)}")
        if not isinstance(value, dict) and name in options:
            raise ParameterError(f"{place}: {name!r} must be a table, [{name}], got {value!r}")
    top = {name: value for name, value in content.items() if name not in options}
    tables = {name: content[name] for name in sorted(options, key=lambda name: name != METHOD) if name in content}
    for table, entries in {"": top, **tables}.items():
        yield from _entries(place, table, entries, options)


def _entries(place: str, table: str, entries: dict[str, Any], options: Options) -> Iterator[tuple[str, str, Setting]]:
    allowed = options[table] if table else {name for names in options.values() for name in names}
    seen: dict[str, str] = {}
    for key, value in entries.items():
        option = canonical(key)
        if option not in allowed:
            raise ParameterError(f"{place}: unknown key {key!r}{_inside(table)}{_hint(key, allowed, options)}")
        if option in seen:
            raise ParameterError(f"{place}: {seen[option]!r} and {key!r}{_inside(table)} are the same")
        seen[option] = key
        yield table, option, Setting(value, place, key, table)


def _hint(key: str, allowed: Collection[str], options: Options) -> str:
    """Return the nearest name, in the spelling of `key`, or the commands that have the option."""
    others = [f"[{command}]" for command, names in options.items() if canonical(key) in names]
    if others:
        return f"; it belongs to {' or '.join(others)}"
    return did_you_mean(key, (name.replace("-", "_") if "_" in key else name for name in allowed))


def _variable_settings(environ: Mapping[str, str], options: Options) -> Iterator[tuple[str, str, Setting]]:
    """Yield command ("" for all), option and setting of the variables; an empty one counts as not set."""
    general = {_variable(name): ("", name) for names in options.values() for name in names}
    special = {
        _variable(f"{command}-{name}"): (command, name)
        for command, names in options.items()
        if command != METHOD
        for name in names
    }
    known = {**general, **special}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable in RESERVED or not environ[variable]:
            continue
        if variable not in known:
            hint = did_you_mean(variable, (*known, *RESERVED))
            raise ParameterError(f"environment: unknown variable {variable!r}{hint}")
        yield *known[variable], Setting(environ[variable], variable)


def _variable(name: str) -> str:
    return PREFIX + name.replace("-", "_").upper()


def _inside(table: str) -> str:
    return f" in [{table}]" if table else ""
