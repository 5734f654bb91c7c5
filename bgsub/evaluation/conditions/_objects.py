"""Objects that stop, and objects on another background."""

from __future__ import annotations

from collections.abc import Sequence as Ordered
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.evaluation.conditions._moment import Moment, Stream, Transform
from bgsub.evaluation.files import numbered
from bgsub.evaluation.metrics import MOVING, STATIC, UNKNOWN
from bgsub.video.sources.images import read_image

_CYCLE, _STOP = 400, 50
_LEAST_SHARE = 0.005


@dataclass(frozen=True)
class _Patch:
    """An object cut out of a frame."""

    frame: np.ndarray  # the frame it was in
    truth: np.ndarray  # (h, w), uint8: MOVING on the object, UNKNOWN on its edge, STATIC elsewhere
    until: int  # tick at which it is removed


def frozen(ticks: int) -> Transform:
    """Return a transform that lets an object stop for `ticks` frames, then removes it; again every 400 frames.

    The largest whole object of a frame, from tick 50 on, stays where it is while the original moves on.
    It stays labelled as moving; what moves passes in front of it.
    """

    def transform(stream: Stream) -> Stream:
        patch: _Patch | None = None
        done = -1
        for moment in stream:
            cycle, phase = divmod(moment.tick, _CYCLE)
            if patch is not None and moment.tick >= patch.until:
                patch = None
            if patch is None and cycle > done and phase >= _STOP:
                patch = _cut(moment, ticks)
                done = cycle if patch is not None else done
            yield moment if patch is None else _paste(moment, patch)

    return transform


def _cut(moment: Moment, ticks: int) -> _Patch | None:
    """Cut out the largest object that is wholly in the picture, if it is large enough."""
    if moment.truth is None:
        return None
    height, width = moment.truth.shape
    _, labels, stats, _ = cv2.connectedComponentsWithStats((moment.truth == MOVING).astype(np.uint8))
    left, top, wide, high, area = stats.T
    whole = (left > 1) & (top > 1) & (left + wide < width - 1) & (top + high < height - 1)
    areas = np.where(whole, area, 0)
    areas[0] = 0
    if areas.max() < _LEAST_SHARE * height * width:
        return None
    core = (labels == areas.argmax()).astype(np.uint8)
    near = cv2.dilate(core, np.ones((5, 5), np.uint8)) > 0
    truth = np.where(near & (moment.truth == UNKNOWN), UNKNOWN, STATIC).astype(np.uint8)
    truth[core > 0] = MOVING
    return _Patch(moment.frame, truth, moment.tick + ticks)


def _paste(moment: Moment, patch: _Patch) -> Moment:
    where = patch.truth != STATIC
    if moment.truth is not None:
        where &= (moment.truth != MOVING) & (moment.truth != UNKNOWN)
    frame = moment.frame.copy()
    frame[where] = patch.frame[where]
    truth = moment.truth
    if truth is not None:
        truth = np.where(where, patch.truth, truth)
    return replace(moment, frame=frame, truth=truth)


def transplant(background: Ordered[np.ndarray]) -> Transform:
    """Return a transform that puts the moving objects of a stream in front of a background without objects.

    Objects are resized with the whole picture to the size of the background, whose frames run forwards and
    backwards as long as needed. The new mask is exact: 255 where the object covers a pixel, 170 where it
    covers a part of it, 0 elsewhere. Frames that are not scored show the background only.

    Parameters
    ----------
    background : sequence of ndarray, (h, w, 3) BGR or (h, w), uint8
        Frames of a place where nobody is.

    Raises
    ------
    ParameterError
        If there is no frame.
    """
    if not len(background):
        raise ParameterError("background must hold at least one frame, got none")

    def transform(stream: Stream) -> Stream:
        for index, moment in enumerate(stream):
            yield _in_front(moment, background[_to_and_fro(index, len(background))])

    return transform


def _to_and_fro(index: int, count: int) -> int:
    """Return a position that runs 0, 1, .., count - 1, count - 2, .., 0, 1, .. with the index."""
    if count == 1:
        return 0
    place = index % (2 * count - 2)
    return min(place, 2 * count - 2 - place)


def _in_front(moment: Moment, background: np.ndarray) -> Moment:
    if moment.truth is None:
        return replace(moment, frame=background)
    height, width = background.shape[:2]
    # Cut before resizing: an edge pixel mixes the object with the new background, never with the old one.
    cover = (moment.truth == MOVING).astype(np.float32)
    levels = _like(moment.levels, background)
    light = levels * (cover if levels.ndim == 2 else cover[..., np.newaxis])
    how = cv2.INTER_AREA if height <= cover.shape[0] and width <= cover.shape[1] else cv2.INTER_LINEAR
    light, cover = (cv2.resize(image, (width, height), interpolation=how) for image in (light, cover))
    truth = np.where(cover >= 0.95, MOVING, np.where(cover > 0.05, UNKNOWN, STATIC)).astype(np.uint8)
    bare = replace(moment, frame=background, truth=truth)
    rest = 1 - cover
    return bare.seen(light + bare.levels * (rest if light.ndim == 2 else rest[..., np.newaxis]))


def _like(levels: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Return float32 levels with the channels of `background`."""
    if levels.ndim == background.ndim:
        return levels
    return cv2.cvtColor(levels, cv2.COLOR_BGR2GRAY if levels.ndim == 3 else cv2.COLOR_GRAY2BGR)


def load_background(folder: str | Path, count: int | None = None) -> list[np.ndarray]:
    """Read the first `count` numbered pictures of a folder, all of them by default.

    Raises
    ------
    SourceError
        If the folder has no numbered pictures or one cannot be read.
    """
    return [read_image(path) for path in list(numbered(Path(folder)).values())[:count]]
