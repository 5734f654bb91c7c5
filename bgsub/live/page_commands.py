"""What the page of a live run sends and shows: regions that are drawn there, and state and commands as JSON."""

import itertools
import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from bgsub.errors import ParameterError
from bgsub.jobs.controls import LIVE_VIEWS, SETTINGS, Controls
from bgsub.live.viewer import Broadcast
from bgsub.parameters import check_live
from bgsub.video.regions import Length, Region, Regions, processed

KINDS = ("roi", "ignore", "privacy")  # purposes of regions: regions of interest, ignored and privacy regions

_MAX_REGIONS = 100  # of a kind
_DRAWN = set("0123456789.,;% -+e")  # characters of a region without its name; others may be those of a file

Texts = dict[str, tuple[str, ...]]
Follow = Callable[[Texts], None]  # makes a running camera use regions, given by kind, at once
Save = Callable[[Mapping[str, Sequence[str]]], str]


class RegionStore:
    """The regions of a session, as texts for ``--roi``, ``--ignore`` and ``--privacy``; safe to use from any thread.

    Parameters
    ----------
    texts : mapping of str to sequence of str, optional
        The initial regions by kind.
    save : callable, optional
        Stores the texts by kind and returns the name of the file; without it regions cannot be stored.

    Examples
    --------
    >>> from bgsub.live import RegionStore
    >>> store = RegionStore({"roi": ["door=0,0,80,120"]})
    >>> store.texts
    {'roi': ('door=0,0,80,120',), 'ignore': (), 'privacy': ()}
    """

    def __init__(self, texts: Mapping[str, Sequence[str]] | None = None, save: Save | None = None) -> None:
        self._texts: Texts = {kind: tuple((texts or {}).get(kind, ())) for kind in KINDS}
        self._save = save
        self._lock = threading.Lock()
        self._followers: list[tuple[tuple[int, int], Follow]] = []  # of running cameras, with their frame shapes
        self._replaced = False

    @property
    def texts(self) -> Texts:
        """The regions by kind."""
        return dict(self._texts)

    @contextmanager
    def followed_by(self, shape: tuple[int, int], follow: Follow) -> Iterator[None]:
        """Call `follow` when regions, which must lie in frames of `shape`, are replaced in the block or were before."""
        with self._lock:
            self._followers.append((shape, follow))
            if self._replaced:
                follow(self._texts)
        try:
            yield
        finally:
            with self._lock:
                self._followers.remove((shape, follow))

    def describe(self, width: int, height: int) -> list[dict[str, Any]]:
        """Return ``kind``, ``name``, ``text`` and corners ``points`` in percent of each region, for a frame size."""
        return [
            {"kind": kind, "name": region.name, "text": text, "points": corners(region, width, height)}
            for kind, texts in self._texts.items()
            for text, region in zip(texts, Regions.of(texts) or (), strict=True)
        ]

    def replace(self, texts: Any, shapes: Sequence[tuple[int, int]] = ()) -> str:
        """Replace all regions, for the cameras that run and the next start; return a message.

        `texts` is an object with a list of regions for each kind, `shapes` are heights and widths of the frames. Raise
        ParameterError for invalid regions, regions outside the frames, ignored or privacy regions that leave nothing,
        or new mask images (a browser must not find files), SinkError if they cannot be stored.
        """
        if self._save is None:
            raise ParameterError("the regions of this run cannot be stored")
        if not isinstance(texts, dict) or set(texts) != set(KINDS):
            raise ParameterError(f"regions must be an object with {' and '.join(KINDS)}, each a list of texts")
        with self._lock:
            shapes = sorted({*shapes, *(shape for shape, _ in self._followers)})
            checked = {kind: self._checked(kind, texts[kind], shapes) for kind in KINDS}
            for shape in shapes:
                processed(shape, *(Regions.of(checked[kind]) for kind in KINDS))
            place = self._save(checked)
            self._texts, self._replaced = checked, True
            for _, follow in self._followers:
                follow(checked)
            return f"regions saved in {place}; used from {'now on' if self._followers else 'the next start'}"

    def _checked(self, kind: str, texts: Any, shapes: Sequence[tuple[int, int]]) -> tuple[str, ...]:
        if not isinstance(texts, list) or len(texts) > _MAX_REGIONS or not all(isinstance(text, str) for text in texts):
            raise ParameterError(f"{kind} must be a list of at most {_MAX_REGIONS} texts")
        for text in texts:
            if text not in itertools.chain(*self._texts.values()) and set(text.rpartition("=")[2]) - _DRAWN:
                raise ParameterError(f"{kind}: a region must be drawn, got '{text}'")
        if texts:
            try:
                regions = Regions(texts)
                for shape in shapes:
                    regions.masks(shape)
            except ParameterError as error:
                raise ParameterError(f"{kind}: {error}") from None
        return tuple(texts)


def corners(region: Region, width: int, height: int) -> list[list[float]] | None:
    """Return the corners in percent of the frame; None for a mask image, or for pixels without a frame size."""
    pixels = any(not length.percent for point in region.points for length in point)
    if region.path is not None or (pixels and not width * height):
        return None
    points = [[_percent(x, width), _percent(y, height)] for x, y in region.points]
    if region.kind == "rectangle":
        (x, y), (w, h) = points
        points = [[x, y], [x + w, y], [x + w, y + h], [x, y + h]]
    return points


def _percent(length: Length, whole: int) -> float:
    return length.value if length.percent else 100 * length.value / whole


def state_of(broadcasts: Sequence[Broadcast], regions: RegionStore) -> dict[str, Any]:
    """Return the state of all cameras, the names of all views, and the range of each parameter with a slider."""
    settings = [{name: getattr(setting, name) for name in ("name", "low", "high", "step")} for setting in SETTINGS]
    cameras = [_camera(broadcast, regions) for broadcast in broadcasts]
    return {"cameras": cameras, "views": list(LIVE_VIEWS), "settings": settings}


def _camera(broadcast: Broadcast, regions: RegionStore) -> dict[str, Any]:
    name, controls, recent = broadcast.name, broadcast.controls, broadcast.recent
    numbers = controls.statistics.as_dict()
    parameters = controls.parameters
    return {
        "name": name,
        **{key: getattr(controls, key) for key in ("view", "paused", "frozen", "boxes", "busy", "notice")},
        "silent": controls.statistics.is_silent,
        "parameters": {setting.name: parameters[setting.name] for setting in SETTINGS},
        "events": [] if recent is None else recent.describe(),
        "regions": regions.describe(numbers["width"], numbers["height"]),
        **numbers,
    }


def run_command(body: bytes, broadcasts: Sequence[Broadcast], regions: RegionStore) -> None:
    """Run a command, a JSON object for one or all cameras, completely, or raise ParameterError or SinkError."""
    try:
        command = json.loads(body)
    except (ValueError, RecursionError):
        command = None
    if not isinstance(command, dict):
        raise ParameterError("a command must be a JSON object")
    if list(command) == ["regions"]:
        numbers = [broadcast.controls.statistics.as_dict() for broadcast in broadcasts]
        shapes = {(one["height"], one["width"]) for one in numbers if one["width"]}
        notice = regions.replace(command["regions"], sorted(shapes))
        for broadcast in broadcasts:
            broadcast.controls.notice = notice
        return
    chosen, camera = broadcasts, command.pop("camera", None)
    if camera is not None:
        if type(camera) is not int or not 0 <= camera < len(broadcasts):
            raise ParameterError(f"camera must be an integer in [0, {len(broadcasts) - 1}], got {camera!r}")
        chosen = [broadcasts[camera]]
    actions = [_action(name, value) for name, value in command.items()]
    for broadcast in chosen:
        for action in actions:
            action(broadcast.controls)
        broadcast.refresh()


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
