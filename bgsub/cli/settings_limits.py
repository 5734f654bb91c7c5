"""What a settings file may not set that merely lies in the working folder: it may come from a stranger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bgsub.cli.origins import Setting
from bgsub.errors import ParameterError

_Reason = Callable[[Any], str]
"""Returns what is wrong about a value, nothing where it may stand."""


def check_found(option: str, setting: Setting) -> None:
    """Raise ParameterError where a file that nobody has named sets what it may not."""
    values = setting.value if isinstance(setting.value, list) else [setting.value]
    for value in values:
        if reason := _LIMITS.get(option, _anything)(value):
            raise ParameterError(
                f"{setting.name} {reason}: it holds on the command line, in your own file and in one "
                f"that --config names, as --config {setting.place} does"
            )


def _anything(_value: Any) -> str:
    return ""


def _never(what: str) -> _Reason:
    return lambda value: "" if value is False else what


def _in_folder(value: Any) -> str:
    folder = Path.cwd().resolve()
    try:
        inside = (folder / str(value)).resolve().is_relative_to(folder)
    except (OSError, ValueError, RuntimeError):  # a loop of links, a zero byte
        inside = False
    return "" if inside else f"may name what lies in this folder only, got {str(value)!r}"


def _region_in_folder(value: Any) -> str:
    """Look at a mask image too, which a region may be, with a name before it or without."""
    text = str(value)
    return _in_folder(text.strip()) or _in_folder(text.partition("=")[2].strip())


def _on_loopback(host: str, value: Any) -> str:
    from bgsub.live.access import is_loopback  # noqa: PLC0415 - few files open a port

    return "" if is_loopback(host.strip("[]")) else f"may open a port to this machine only, got {value!r}"


_LIMITS: dict[str, _Reason] = {
    "on-event": _never("runs programs"),
    "webhook": _never("sends what happens to an address"),
    "scheduler": _never("has other machines do the work"),
    "token": _never("says who may watch"),
    "overwrite": _never("replaces results"),
    "serve": lambda value: _on_loopback(str(value).rpartition(":")[0] or "127.0.0.1", value),
    **dict.fromkeys(
        ("output", "log", "model", "save-model", "record", "snapshots", "observed", "results", "masks", "csv", "sheet"),
        _in_folder,
    ),
    **dict.fromkeys(("roi", "privacy"), _region_in_folder),
    **dict.fromkeys(("backdrop", "virtual-device"), _in_folder),  # an image; a device, which is a file in /dev
}
"""By option, for all commands; what is not in the table may be set."""
