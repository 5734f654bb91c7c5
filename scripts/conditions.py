"""Conditions with exact masks, derived from any labelled sequence: light, noise, camera shake, stopped objects.

A known change of the frame changes the mask in a known way: a light change keeps it, a moved camera moves it.
Timed events count from the first scored frame.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.evaluation.metrics import MOVING, OUTSIDE, STATIC, UNKNOWN
from bgsub.evaluation.sequences import numbered
from bgsub.synthetic.scenes import Scene, scene
from bgsub.video.sources.images import read_image


@dataclass(frozen=True)
class Moment:
    """One frame, its mask and its time."""

    number: int  # of the frame in its sequence
    tick: int  # frames since the first scored one; 0 before it
    frame: np.ndarray  # (h, w, 3) BGR or (h, w), uint8 or uint16
    truth: np.ndarray | None  # (h, w), uint8, in the codes of changedetection.net; None where it is not scored
    seed: int
    index: int = 0  # of the frame in the stream

    @property
    def rng(self) -> np.random.Generator:
        """The random generator of this frame, the same at every call."""
        return np.random.default_rng((self.seed, self.number))

    @property
    def levels(self) -> np.ndarray:
        """The frame in grey levels from 0 to 255, float32, for any depth."""
        return self.frame.astype(np.float32) * np.float32(255 / np.iinfo(self.frame.dtype).max)

    @property
    def switched(self) -> bool:
        """Whether the changed light is on: from tick 100, then toggled every 200 frames."""
        return (self.tick + 100) // 200 % 2 == 1

    def with_levels(self, levels: np.ndarray) -> Moment:
        """Return the moment with other grey levels (0 to 255), clipped and rounded as a sensor does."""
        full = int(np.iinfo(self.frame.dtype).max)
        values = np.clip(np.rint(levels * np.float32(full / 255)), 0, full)
        return replace(self, frame=values.astype(self.frame.dtype))


_CLOTHES = (205, 205, 200), (50, 50, 160), (130, 160, 175), (45, 40, 40)  # BGR: white, red, beige, dark
Change = Callable[[Moment], Moment]
Transform = Callable[[Iterator[Moment]], Iterator[Moment]]


# -- light ------------------------------------------------------------------------------------------------------------


def light(moment: Moment, gain: float = 1.0, offset: float = 0.0, gamma: float = 1.0) -> Moment:
    """Change gain, offset and gamma while the light is switched."""
    if not moment.switched:
        return moment
    levels = 255 * (moment.levels / 255) ** np.float32(gamma) if gamma != 1 else moment.levels
    return moment.with_levels(levels * np.float32(gain) + np.float32(offset))


def ramp(moment: Moment, swing: float) -> Moment:
    """Vary the gain as a sine of 250 frames between 1 - swing and 1 + swing."""
    gain = 1 + swing * math.sin(2 * math.pi * moment.tick / 250)
    return moment.with_levels(moment.levels * np.float32(gain))


def lamp(moment: Moment, gains: tuple[float, float, float]) -> Moment:
    """Light the left half by gains of blue, green and red while the light is switched, with a soft edge."""
    if not moment.switched:
        return moment
    width = moment.frame.shape[1]
    share = 1 / (1 + np.exp((np.arange(width, dtype=np.float32) - width / 2) / np.float32(0.05 * width)))
    if moment.frame.ndim == 2:
        return moment.with_levels(moment.levels * (1 + share * np.float32(np.mean(gains) - 1)))
    return moment.with_levels(moment.levels * (1 + share[:, np.newaxis] * (np.array(gains, np.float32) - 1)))


def beam(moment: Moment) -> Moment:
    """Let the soft beam of a torch wander over a picture of less light."""
    height, width = moment.frame.shape[:2]
    rows, columns = np.ogrid[:height, :width]
    row, column = (0.5 + 0.4 * math.sin(0.037 * moment.index + 1)) * height, 0.5 + 0.4 * math.sin(0.05 * moment.index)
    gain = 0.45 + 0.54 * np.exp(-((rows - row) ** 2 + (columns - column * width) ** 2) / (0.12 * width) ** 2)
    return lit(moment, gain)


def door(moment: Moment) -> Moment:
    """Open a door for 75 of 150 frames: its light falls on the floor of a darker room."""
    height, width = moment.frame.shape[:2]
    corners = np.array([(0.3, 0.5), (0.55, 0.5), (0.75, 0.95), (0.2, 0.95)]) * (width, height)
    floor = np.zeros((height, width), np.float32)
    cv2.fillConvexPoly(floor, corners.astype(np.int32), float((moment.index + 90) % 150 < 75 and moment.index >= 60))
    return lit(moment, 0.6 + 0.36 * cv2.GaussianBlur(floor, (0, 0), 2))


def headlights(moment: Moment) -> Moment:
    """Light the ground in front of all large objects, below them in the picture, at dusk."""
    height, width = moment.frame.shape[:2]
    gain, (rows, columns) = np.zeros((height, width)), np.ogrid[:height, :width]
    objects = np.zeros((height, width), np.uint8) if moment.truth is None else (moment.truth == MOVING).view(np.uint8)
    _, _, boxes, centres = cv2.connectedComponentsWithStats(objects)
    for (_, top, across, down, area), centre in zip(boxes[1:], centres[1:], strict=True):
        if area >= 0.002 * height * width:
            row, column = (rows - top - 1.3 * down) / max(0.6 * down, 6), (columns - centre[0]) / max(0.9 * across, 6)
            gain = np.maximum(gain, np.exp(-(row**2) - column**2))
    return lit(moment, 0.8 + 0.48 * gain * (objects == 0))


def lit(moment: Moment, gain: np.ndarray) -> Moment:
    """Multiply the levels by a gain for each pixel, (h, w)."""
    return moment.with_levels(moment.levels * (gain if moment.frame.ndim == 2 else gain[..., np.newaxis]))


def clouds(moment: Moment, depth: float) -> Moment:
    """Let shadows of clouds, which take up to a share `depth` of the light, drift over the picture."""
    height, width = moment.frame.shape[:2]
    coarse = np.random.default_rng(moment.seed).uniform(0, 1, (5, 24)).astype(np.float32)
    sky = cv2.resize(np.tile(coarse, 3), (15 * width, height), interpolation=cv2.INTER_CUBIC)[:, 5 * width : 10 * width]
    sky = np.roll(sky, moment.index, axis=1)  # without an edge where it repeats
    gain = 1 - np.float32(depth) * np.clip(sky[:, :width], 0, 1)
    return lit(moment, gain)


def cast(moment: Moment, gains: tuple[float, float, float]) -> Moment:
    """Cast a shadow beside all objects that is lit by the sky, with gains of blue, green and red."""
    height, width = moment.frame.shape[:2]
    if moment.truth is None:
        return moment
    shadow, far = np.zeros((height, width), np.float32), max(width // 14, 4)
    shadow[:, far:] = moment.truth[:, :-far] == MOVING
    soft = cv2.GaussianBlur(shadow * (moment.truth == STATIC), (5, 5), 0)
    if moment.frame.ndim == 2:
        return lit(moment, 1 + soft * np.float32(np.mean(gains) - 1))
    return moment.with_levels(moment.levels * (1 + soft[..., np.newaxis] * (np.array(gains, np.float32) - 1)))


def infrared(moment: Moment) -> Moment:
    """Show the picture of an infrared camera while the light is switched: grey, of less contrast, and noisy."""
    if not moment.switched or moment.frame.ndim == 2:
        return moment
    levels = 25 + 0.55 * moment.levels.mean(axis=2) + 2 * moment.rng.standard_normal(moment.frame.shape[:2])
    return moment.with_levels(np.repeat(levels.astype(np.float32)[..., np.newaxis], 3, axis=2))


def start_light(moment: Moment, times: tuple[int, ...], gains: Sequence[float | tuple[float, float, float]]) -> Moment:
    """Change the gain, or those of blue, green and red, during the first frames: linear between `times`, in frames."""
    each_channel = np.broadcast_to(np.array(gains, np.float32).T, (3, len(times)))
    gain = np.array([np.interp(moment.index, times, channel) for channel in each_channel], np.float32)
    return moment.with_levels(moment.levels * (gain.mean() if moment.frame.ndim == 2 else gain))


def haze(moment: Moment, left: float, veil: float = 180) -> Moment:
    """Reduce the contrast to a share, with a veil of grey."""
    return moment.with_levels(moment.levels * np.float32(left) + np.float32(veil * (1 - left)))


def flicker(moment: Moment, swing: float) -> Moment:
    """Change the gain at random by at most `swing` from frame to frame, as lamps do."""
    return moment.with_levels(moment.levels * np.float32(1 + swing * moment.rng.uniform(-1, 1)))


# -- camera -----------------------------------------------------------------------------------------------------------


def shake(moment: Moment, rms: float, degrees: float = 0.0) -> Moment:
    """Move and turn frame and mask at random by `rms` pixels and `degrees`, and crop the border that may be missing."""
    height, width = moment.frame.shape[:2]
    limit = 2.5  # of the standard deviation
    dx, dy, turn = np.clip(moment.rng.standard_normal(3), -limit, limit) * (rms, rms, degrees)
    move = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), turn, 1.0)
    move[:, 2] += dx, dy
    lever = math.sin(math.radians(limit * degrees)) * max(height, width) / 2
    return _moved(moment, move, math.ceil(limit * rms + lever) + 1)


def bump(moment: Moment, dx: float, dy: float, first: int = 100) -> Moment:
    """Move the camera by some pixels from frame `first` of the stream on, and crop the border that may be missing."""
    shift = np.array([dx, dy]) * (moment.index >= first)
    return _moved(moment, np.column_stack([np.eye(2), shift]), math.ceil(max(abs(dx), abs(dy))) + 1)


def zoom(moment: Moment, growth: float, first: int = 100) -> Moment:
    """Zoom in about the centre from frame `first` of the stream on."""
    if moment.index < first:
        return moment
    rows, columns = moment.frame.shape[:2]
    scale = 1 + growth
    return _moved(moment, np.array([[scale, 0, -growth * (columns - 1) / 2], [0, scale, -growth * (rows - 1) / 2]]), 0)


def _moved(moment: Moment, move: np.ndarray, margin: int) -> Moment:
    height, width = moment.frame.shape[:2]

    def moved(image: np.ndarray, **how: int) -> np.ndarray:
        whole = cv2.warpAffine(image, move, (width, height), **how)
        return np.ascontiguousarray(whole[margin : height - margin, margin : width - margin])

    truth = moment.truth
    if truth is not None:
        truth = moved(truth, flags=cv2.INTER_NEAREST, borderMode=cv2.BORDER_CONSTANT, borderValue=OUTSIDE)
    # Linear interpolation would blur by an amount that changes from frame to frame.
    return replace(
        moment, frame=moved(moment.frame, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE), truth=truth
    )


def black_frames(moment: Moment) -> Moment:
    """Make one frame in 100 black, from tick 50; it is not scored."""
    return _blind(moment, np.zeros_like(moment.levels)) if moment.tick % 100 == 50 else moment


def broken_frames(moment: Moment) -> Moment:
    """Make the lower half of one frame in 40 grey, as after a lost packet; it is not scored."""
    levels = moment.levels
    levels[len(levels) // 2 :] = 128
    return _blind(moment, levels) if moment.tick % 40 == 20 else moment


def flash(moment: Moment) -> Moment:
    """Overexpose one frame in 40, as by lightning."""
    return moment.with_levels(1.8 * moment.levels + 30) if moment.tick % 40 == 20 else moment


def snow(moment: Moment, flakes: int = 200) -> Moment:
    """Let bright streaks, new ones in each frame, hide some of the light."""
    height, width = moment.frame.shape[:2]
    veil, rng, unit = np.zeros((height, width), np.float32), moment.rng, width / 320
    for x, y, size, share in rng.uniform((0, 0, 1, 0.2), (width, height, 6, 0.8), (flakes, 4)):
        begin, end = (x, y), (x + 0.3 * size * unit, y + 1.5 * size * unit)
        ends = [[round(8 * float(value)) for value in point] for point in (begin, end)]
        cv2.line(veil, *ends, float(share), max(round(size * unit), 1), cv2.LINE_AA, 3)
    veil = cv2.GaussianBlur(veil, (3, 3), 0.7)
    return moment.with_levels(
        moment.levels + (veil if moment.frame.ndim == 2 else veil[..., None]) * (225 - moment.levels)
    )


def covered(moment: Moment) -> Moment:
    """Cover the lens for 25 of 300 frames, from tick 100; they are not scored."""
    if not 100 <= moment.tick % 300 < 125:
        return moment
    return _blind(moment, 12 + 2 * moment.rng.standard_normal(moment.frame.shape, dtype=np.float32))


def _blind(moment: Moment, levels: np.ndarray) -> Moment:
    truth = None if moment.truth is None else np.full_like(moment.truth, UNKNOWN)
    return replace(moment.with_levels(levels), truth=truth)


# -- sensor -----------------------------------------------------------------------------------------------------------


def noise(moment: Moment, sigma: float, gain: float = 1.0) -> Moment:
    """Darken by `gain`, then add Gaussian noise of `sigma` grey levels."""
    scatter = moment.rng.standard_normal(moment.frame.shape, dtype=np.float32)
    return moment.with_levels(moment.levels * np.float32(gain) + np.float32(sigma) * scatter)


def night(moment: Moment, sigma: float, gain: float = 1.0) -> Moment:
    """Darken and add noise, see `noise`, while the light is switched."""
    return noise(moment, sigma, gain) if moment.switched else moment


def jpeg(moment: Moment, quality: int) -> Moment:
    """Compress to 8-bit JPEG and decode."""
    _, data = cv2.imencode(".jpg", np.rint(moment.levels).astype(np.uint8), [cv2.IMWRITE_JPEG_QUALITY, quality])
    return replace(moment, frame=cv2.imdecode(data, cv2.IMREAD_UNCHANGED))


def half_size(moment: Moment) -> Moment:
    """Average blocks of 2x2 pixels; a block that moves in part is unknown. An odd last row or column is dropped."""
    height, width = (side // 2 for side in moment.frame.shape[:2])
    frame = cv2.resize(moment.frame[: 2 * height, : 2 * width], (width, height), interpolation=cv2.INTER_AREA)
    truth = moment.truth
    if truth is not None:
        four = np.stack([truth[i : 2 * height : 2, j : 2 * width : 2] for i in (0, 1) for j in (0, 1)])
        moving = (four == MOVING).sum(axis=0)
        truth = np.where((moving > 0) & (moving < 4), UNKNOWN, four[0]).astype(np.uint8)
    return replace(moment, frame=frame, truth=truth)


def grey(moment: Moment, is_deep: bool = False) -> Moment:
    """Drop the colour; with `is_deep` extend 8 bits to 16."""
    frame = moment.frame
    if frame.ndim == 3:
        frame = cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY)
    if is_deep and frame.dtype == np.uint8:
        frame = frame.astype(np.uint16) * np.uint16(257)
    return replace(moment, frame=frame)


# -- objects ----------------------------------------------------------------------------------------------------------


def close(moment: Moment, share: float) -> Moment:
    """Put a moving object over the right `share` of the frame, for 50 of 300 frames from tick 100."""
    if not 100 <= moment.tick % 300 < 150:
        return moment
    height, width = moment.frame.shape[:2]
    first = round((1 - share) * width)
    coarse = np.random.default_rng(moment.seed).uniform(0, 255, (6, 8, *moment.frame.shape[2:])).astype(np.float32)
    pattern = np.roll(cv2.resize(coarse, (width, height)), 5 * moment.tick, axis=1)
    levels, truth = moment.levels, moment.truth
    levels[:, first:] = pattern[:, first:]
    if truth is not None:
        truth = truth.copy()
        truth[:, first:] = MOVING
    return replace(moment.with_levels(levels), truth=truth)


def figure(moment: Moment) -> Moment:
    """Let a figure a fifth of the frame high walk through its middle, in 300 frames, each time in another colour."""
    height, width = moment.frame.shape[:2]
    walk, step = divmod(moment.index, 300)
    colour = np.array(_CLOTHES[walk % len(_CLOTHES)], np.float32)
    if moment.frame.ndim == 2:
        colour = colour.mean()
    size = max(height // 28, 2), max(height // 10, 4)
    shape = np.zeros((height, width), np.uint8)
    cv2.ellipse(shape, (step * width // 300, height // 2), size, 0, 0, 360, MOVING, cv2.FILLED)
    share = cv2.GaussianBlur(shape, (0, 0), 0.7).astype(np.float32) / MOVING
    share = share if moment.frame.ndim == 2 else share[..., np.newaxis]
    truth = moment.truth
    if truth is not None:
        edge = cv2.dilate(shape, np.ones((3, 3))) != cv2.erode(shape, np.ones((3, 3)))
        truth = np.where(shape, np.uint8(MOVING), truth)
        truth[edge] = UNKNOWN
    return replace(moment.with_levels(moment.levels * (1 - share) + colour * share), truth=truth)


def frozen(stream: Iterator[Moment], ticks: int) -> Iterator[Moment]:
    """Stop the largest whole object for `ticks` frames from tick 50, then remove it; again every 400 frames.

    The object stays labelled as moving; other moving objects pass in front of it.
    """
    patch: tuple[np.ndarray, np.ndarray] | None = None  # frame and mask
    until, done = 0, -1
    for moment in stream:
        cycle, phase = divmod(moment.tick, 400)
        if patch is not None and moment.tick >= until:
            patch = None
        if patch is None and cycle > done and phase >= 50 and (mask := _largest(moment)) is not None:
            patch, until, done = (moment.frame, mask), moment.tick + ticks, cycle
        yield moment if patch is None else _pasted(moment, *patch)


def _largest(moment: Moment) -> np.ndarray | None:
    """Return the mask, (h, w) uint8, of the largest object that is wholly in the frame and large enough."""
    if moment.truth is None:
        return None
    height, width = moment.truth.shape
    _, labels, stats, _ = cv2.connectedComponentsWithStats((moment.truth == MOVING).astype(np.uint8))
    left, top, wide, high, area = stats.T
    whole = (left > 1) & (top > 1) & (left + wide < width - 1) & (top + high < height - 1)
    areas = np.where(whole, area, 0)
    areas[0] = 0
    if areas.max() < 0.005 * height * width:
        return None
    core = (labels == areas.argmax()).astype(np.uint8)
    near = cv2.dilate(core, np.ones((5, 5), np.uint8)) > 0
    mask = np.where(near & (moment.truth == UNKNOWN), UNKNOWN, STATIC).astype(np.uint8)
    mask[core > 0] = MOVING
    return mask


def _pasted(moment: Moment, image: np.ndarray, mask: np.ndarray) -> Moment:
    where = mask != STATIC
    if moment.truth is not None:
        where &= (moment.truth != MOVING) & (moment.truth != UNKNOWN)
    frame = moment.frame.copy()
    frame[where] = image[where]
    return replace(moment, frame=frame, truth=None if moment.truth is None else np.where(where, mask, moment.truth))


def in_front(stream: Iterator[Moment], background: Sequence[np.ndarray]) -> Iterator[Moment]:
    """Put moving objects in front of empty frames, which run forwards and backwards; unscored frames have no objects.

    The mask is exact: 255 where the object covers a pixel, 170 where it covers a part of it, 0 elsewhere.
    """
    count = len(background)
    for index, moment in enumerate(stream):
        place = index % max(2 * count - 2, 1)
        yield _composed(moment, background[min(place, 2 * count - 2 - place)])


def _composed(moment: Moment, background: np.ndarray) -> Moment:
    if moment.truth is None:
        return replace(moment, frame=background)
    height, width = background.shape[:2]
    # Cut before resizing: an edge pixel mixes the object with the new background, never with the old one.
    cover = (moment.truth == MOVING).astype(np.float32)
    levels = moment.levels
    if levels.ndim != background.ndim:
        levels = cv2.cvtColor(levels, cv2.COLOR_BGR2GRAY if levels.ndim == 3 else cv2.COLOR_GRAY2BGR)
    objects = levels * (cover if levels.ndim == 2 else cover[..., np.newaxis])
    how = cv2.INTER_AREA if height <= cover.shape[0] and width <= cover.shape[1] else cv2.INTER_LINEAR
    objects, cover = (cv2.resize(image, (width, height), interpolation=how) for image in (objects, cover))
    truth = np.where(cover >= 0.95, MOVING, np.where(cover > 0.05, UNKNOWN, STATIC)).astype(np.uint8)
    bare = replace(moment, frame=background, truth=truth)
    rest = 1 - cover
    return bare.with_levels(objects + bare.levels * (rest if objects.ndim == 2 else rest[..., np.newaxis]))


# -- sequences --------------------------------------------------------------------------------------------------------


class SceneSequence:
    """A synthetic scene as a labelled sequence, whose frames are numbered from 1 and all scored."""

    roi: np.ndarray | None = None

    def __init__(self, scene: Scene) -> None:
        self.name = scene.name
        self._scene = scene
        self._latest: tuple[int, np.ndarray | None] = (0, None)

    def __len__(self) -> int:
        return len(self._scene)

    def frames(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield number and picture of all frames in order."""
        for number, (frame, mask) in enumerate(self._scene, start=1):
            self._latest = (number, mask)
            yield number, frame

    def truth(self, number: int) -> np.ndarray | None:
        """Return the mask of a frame, (h, w), uint8."""
        latest, mask = self._latest
        return mask if latest == number else self._scene[number - 1][1]


class Derived:
    """A labelled sequence, transformed while it is read; every pass over its frames gives the same.

    The region of interest becomes part of the masks (code 85), since it may move with the frame.
    """

    roi: np.ndarray | None = None

    def __init__(self, sequence: Any, name: str, transform: Transform, seed: int = 0, every: int = 1) -> None:
        self.name = name
        self._sequence, self._transform, self._seed, self._every = sequence, transform, seed, every
        self._latest: tuple[int, np.ndarray | None] | None = None

    def __len__(self) -> int:
        return math.ceil(len(self._sequence) / self._every)

    def frames(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield number and frame."""
        for moment in self._transform(self._originals()):
            self._latest = (moment.number, moment.truth)
            yield moment.number, moment.frame

    def truth(self, number: int) -> np.ndarray | None:
        """Return the mask of a frame; fast for the frame that `frames` gave last."""
        if self._latest is None or self._latest[0] != number:
            moments = self._transform(self._originals())
            return next((moment.truth for moment in moments if moment.number == number), None)
        return self._latest[1]

    def _originals(self) -> Iterator[Moment]:
        tick, has_begun = 0, False
        roi = self._sequence.roi
        for index, (number, frame) in enumerate(islice(self._sequence.frames(), 0, None, self._every)):
            truth = self._sequence.truth(number)
            if truth is not None and roi is not None:
                truth = np.where(roi, truth, OUTSIDE).astype(np.uint8)
            has_begun = has_begun or truth is not None
            yield Moment(number, tick, frame, truth, self._seed, index)
            tick += has_begun


class Recording:
    """The first `count` frames of a labelled sequence, or all, in memory."""

    def __init__(self, sequence: Any, count: int | None = None) -> None:
        self.name, self.roi = sequence.name, sequence.roi
        self._frames: dict[int, np.ndarray] = {}
        self._truths: dict[int, np.ndarray | None] = {}
        for number, frame in islice(sequence.frames(), count):
            self._frames[number], self._truths[number] = frame, sequence.truth(number)

    def __len__(self) -> int:
        return len(self._frames)

    def frames(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield number and frame."""
        return iter(self._frames.items())

    def truth(self, number: int) -> np.ndarray | None:
        """Return the mask of a frame, (h, w), uint8, or None if it is not scored."""
        return self._truths.get(number)


def each(change: Callable[..., Moment], *arguments: Any, **more: Any) -> Transform:
    """Return the transform that changes each frame by itself."""
    return lambda stream: (change(moment, *arguments, **more) for moment in stream)


CONDITIONS: dict[str, Transform] = {
    "unchanged": iter,
    "gain": each(light, gain=1.3),
    "dim": each(light, gain=0.6),
    "haze": each(haze, 0.5),
    "pale": each(haze, 0.4, veil=115),
    "offset": each(light, offset=40),
    "gamma": each(light, gamma=0.7),
    "ramp": each(ramp, 0.25),
    "lamp": each(lamp, (1.1, 1.3, 1.5)),
    "flicker": each(flicker, 0.1),
    "start-step": each(start_light, (29, 30), (1.0, 1.35)),
    "start-bump": each(start_light, (30, 37, 45), (1.0, 1.45, 1.0)),
    "clouds": each(clouds, 0.4),
    "beam": each(beam),
    "door": each(door),
    "headlights": each(headlights),
    "cast": each(cast, (0.68, 0.6, 0.52)),
    "infrared": each(infrared),
    "white-balance": each(start_light, (20, 45), ((1, 1, 1), (1.12, 1.0, 0.9))),
    "start-fade": each(start_light, (20, 50), (1.0, 0.6)),
    "shake1": each(shake, 1),
    "shake2": each(shake, 2),
    "shake4": each(shake, 4),
    "shake8": each(shake, 8),
    "turns": each(shake, 5, 0.7),
    "rotation": each(shake, 2, 0.3),
    "bump": each(bump, 4, -3),
    "zoom": each(zoom, 0.04),
    "noise": each(noise, 10),
    "night": each(night, 8),
    "lamps-out": each(night, 0.8, 0.15),
    "lowlight": each(noise, 5, 0.3),
    "jpeg": each(jpeg, 20),
    "frozen": partial(frozen, ticks=200),
    "half": each(half_size),
    "grey": each(grey),
    "grey16": each(grey, is_deep=True),
    "15fps": iter,
    "3fps": iter,
    "1fps": iter,
    "black": each(black_frames),
    "covered": each(covered),
    "broken": each(broken_frames),
    "flash": each(flash),
    "snow": each(snow),
    "close": each(close, share=0.8),
    "figure": each(figure),
}
EVERY = {"15fps": 2, "3fps": 10, "1fps": 25}
"""Conditions that skip frames: one frame in so many remains."""

SCENES: dict[str, tuple[str, dict[str, Any]]] = {
    "lobby": ("lobby", {"lamps": False, "shadows": False}),
    "lobby lamps": ("lobby", {"lamps": True, "shadows": False}),
    "lobby shadows": ("lobby", {"lamps": False, "shadows": True}),
    "lobby crowd": ("lobby", {"lamps": False, "walkers": 8, "empty_start": 0}),
    "lobby empty": ("lobby", {"lamps": False, "walkers": 0}),
    "lobby empty lamps": ("lobby", {"lamps": True, "walkers": 0}),
    "street sway2": ("street", {"lamps": False, "sway": 2.0}),
    "street clouds": ("street", {"lamps": True}),
    "street shake1": ("street", {"lamps": False, "shake": 1.0}),
    "street shake3": ("street", {"lamps": False, "shake": 3.0}),
    "street empty": ("street", {"lamps": True, "walkers": 0, "sway": 2.0}),
}


def derive(sequence: Any, name: str, seed: int = 0) -> Derived:
    """Return a labelled sequence under one of `CONDITIONS`; the same seed gives the same frames."""
    if name not in CONDITIONS:
        raise ParameterError(f"condition must be one of {', '.join(CONDITIONS)}, got {name!r}")
    return Derived(sequence, f"{sequence.name} {name}", CONDITIONS[name], seed, EVERY.get(name, 1))


def transplant(sequence: Any, background: str | Path, count: int | None = None) -> Derived:
    """Put the moving objects of a labelled sequence in front of the (first) pictures of a folder."""
    pictures = [read_image(path) for path in list(numbered(Path(background)).values())[:count]]
    return Derived(sequence, f"{sequence.name} transplant", partial(in_front, background=pictures))


def synthetic(name: str, length: int = 500, seed: int = 0) -> SceneSequence:
    """Return one of `SCENES`, 160x128, as a labelled sequence whose frames are all scored."""
    if name not in SCENES:
        raise ParameterError(f"scene must be one of {', '.join(SCENES)}, got {name!r}")
    place, options = SCENES[name]
    sequence = SceneSequence(scene(place, length=length, seed=seed, **options))
    sequence.name = name
    return sequence
