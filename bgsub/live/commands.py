"""State and commands of a live run as JSON, for its page."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from bgsub.errors import ParameterError
from bgsub.jobs.controls import LIVE_VIEWS, SETTINGS, Controls
from bgsub.live.region_store import RegionStore
from bgsub.live.viewer import Broadcast
from bgsub.parameters import check_live


def state_of(broadcasts: Sequence[Broadcast], regions: RegionStore) -> dict[str, Any]:
    """Return the state of all cameras, the names of all views, and the range of each parameter with a slider."""
    settings = [{name: getattr(setting, name) for name in ("name", "low", "high", "step")} for setting in SETTINGS]
    return {
        "cameras": [_camera(broadcast, regions) for broadcast in broadcasts],
        "views": list(LIVE_VIEWS),
        "settings": settings,
    }


def _camera(broadcast: Broadcast, regions: RegionStore) -> dict[str, Any]:
    name, controls, recent = broadcast.name, broadcast.controls, broadcast.recent
    numbers = controls.statistics.as_dict()
    parameters = {
        # JSON has no infinity.
        key: str(value) if isinstance(value, float) and math.isinf(value) else value
        for key, value in controls.parameters.items()
    }
    return {
        "name": name,
        **{key: getattr(controls, key) for key in ("view", "paused", "frozen", "boxes", "busy", "notice")},
        "silence": round(controls.statistics.silence, 1),
        "silent": controls.statistics.is_silent,
        "parameters": parameters,
        "events": [] if recent is None else recent.describe(),
        "regions": regions.describe(numbers["width"], numbers["height"]),
        **numbers,
    }


def run_command(body: bytes, broadcasts: Sequence[Broadcast], regions: RegionStore) -> None:
    """Run a command, a JSON object for one or all cameras, completely, or raise ParameterError or SinkError."""
    command = _parsed(body)
    if list(command) == ["regions"]:
        numbers = [broadcast.controls.statistics.as_dict() for broadcast in broadcasts]
        shapes = {(one["height"], one["width"]) for one in numbers if one["width"]}
        notice = regions.replace(command["regions"], sorted(shapes))
        for broadcast in broadcasts:
            broadcast.controls.notice = notice
        return
    chosen = _chosen(command.pop("camera", None), broadcasts)
    actions = [_action(name, value) for name, value in command.items()]
    for broadcast in chosen:
        for action in actions:
            action(broadcast.controls)
        broadcast.refresh()


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        command = json.loads(body)
    except (ValueError, RecursionError):
        command = None
    if not isinstance(command, dict):
        raise ParameterError("a command must be a JSON object")
    return command


def _chosen(camera: Any, broadcasts: Sequence[Broadcast]) -> Sequence[Broadcast]:
    if camera is None:
        return broadcasts
    if type(camera) is not int or not 0 <= camera < len(broadcasts):
        raise ParameterError(f"camera must be an integer in [0, {len(broadcasts) - 1}], got {camera!r}")
    return [broadcasts[camera]]


def _action(name: str, value: Any) -> Callable[[Controls], object]:
    """Return the checked action of one part of a command."""
    if name == "view" and value in LIVE_VIEWS:
        return lambda controls: setattr(controls, "view", value)
    if name == "parameters" and isinstance(value, dict):
        parameters = check_live({key: math.inf if part == "inf" else part for key, part in value.items()})
        return lambda controls: controls.tune(**parameters)
    if name in ("paused", "frozen", "boxes") and isinstance(value, bool):
        return lambda controls: setattr(controls, name, value)
    if name == "reset" and value is True:
        return Controls.reset
    if name == "snapshot" and value is True:
        return Controls.request_snapshot
    allowed = "camera, paused, frozen, boxes, reset, snapshot, view, parameters; or regions alone"
    raise ParameterError(f"a command takes {allowed} with valid values, got {name!r}: {str(value)[:40]!r}")
