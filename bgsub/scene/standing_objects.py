"""Foreground that becomes background: remains of light changes, stopped objects, and ghosts of objects that left.

References
----------
R. Cucchiara, C. Grana, M. Piccardi, A. Prati, Detecting moving objects, ghosts, and shadows in video streams, PAMI
25(10), 2003: stopped objects and ghosts. The test by edges and colours is our own.
"""

import math
from collections.abc import Iterator

import numpy as np

from bgsub._opencv import cv2
from bgsub.numerics.jit import constant
from bgsub.numerics.state import State, array_of, numbers_of
from bgsub.numerics.threads import bands_for, copied, in_bands
from bgsub.parameters import SubtractorParameters
from bgsub.scene import _frame_kernels
from bgsub.scene._frame_kernels import CHUNK, LATE
from bgsub.scene.frame_format import FrameFormat
from bgsub.separation import FOREGROUND

_SAME = 0.06  # joint distance up to which colours are the same (full scale is 1)
_SETTLING = 1.0  # seconds after a light change in which new foreground that stands still is light
_LEFT_OVER = 0.2  # seconds for which it must stand still
_GHOST_AGE = 0.3  # seconds of one colour after which a pixel may belong to a ghost
_STILL = 0.5  # seconds of one colour after which a pixel stays foreground while its residual exceeds the threshold
_PROVEN = 20.0  # seconds up to which the time is counted that a background was visible (`support`)
_RATE = 0.12  # seconds until absorption at a learning rate of 1: 60 s at OpenCV's usual one, 1 / 500
_FORGETS = 15  # half the decrease of `returns` per second, three returns: people who wave or jog are slower
_LASTING = 5  # checks as foreground after which a pixel of changing colours may belong to a ghost
_INTERVAL = 0.2  # seconds between two checks for ghosts and absorption
_RIM = 5  # side of the square that extends a ghost
_OLD_SHARE, _LASTING_SHARE = 0.6, 0.9  # share of a region that must stand still, or last
_PART, _FREE = 0.2, 0.5  # least share of a region for a still part of it; least clear share of the outline of this
_CLEAR, _CHANGING = 0.5, 0.3  # largest ratio (see `_add_ghosts`) of such a part, and of a region of changing colours
_FEW = 0.3  # fast test: least share of old pixels, relative to the area inside the outline of a region
_NEAR, _BINS, _LEAST = 7, 16, 0.05  # pixels around a region; histogram bins per channel; least likeness of colours
_DOUBT = -2.0  # least evidence (sum of logarithms of ratios) that is remembered against a ghost
_SAME_REGION = 0.75  # least overlap of a region with one of the check before, relative to both
_HALF = 100  # pixels of a region of which the colours have half their weight, as an exponent
_SURFACE = 0.5  # least correlation of the edges inside a region that shows the background in other light
_WORK = 300_000  # pixels per band, see `bands_for`
_OLDEST = 65000  # largest age, uint16
_TINY = 1e-9
_RING, _SQUARE = (np.ones((side, side), np.uint8) for side in (3, 2 * _NEAR + 1))


class StandingObjects:
    """Decide which foreground pixels become background.

    A pixel that shows one colour for seconds must be decided here: the cost of a large residual is flat, so that the
    subspace would never learn it.
    """

    # `age` (h, w) uint16: frames of one colour, ticks from `LATE` on; `anchor` (h * w, c): that colour;
    # `support` (h, w) uint8: checks that showed the background; `_evidence` (h, w) float32: that a region is a ghost, a
    # sum of logarithms, negative, 0 if unknown; `returns` (h, w) uint8: how often one colour comes and goes, see
    # `update_ages`; `_lasting` (h, w) uint8: successive checks as foreground

    def __init__(self, frames: FrameFormat, parameters: SubtractorParameters) -> None:
        h, w, channels = self._shape = frames.cube
        dtype = np.dtype(frames.pixels_dtype)
        self._bands = bands_for(h * w, _WORK, parameters.threads)
        self._fps = parameters.fps
        self._choose(parameters)
        self._still = self._frames(_STILL)
        self._interval = max(round(_INTERVAL * self._fps), 1)
        self._most = np.uint8(min(max(round(_PROVEN * self._fps / self._interval), 1), 254))
        self._full = np.float32(frames.pixels_full)
        self._same, self._half = np.float32(_SAME * frames.pixels_full), np.float32(0.5 if dtype.kind == "u" else 0)
        self.anchor = np.zeros((h * w, channels), dtype)
        self.support, self.returns = np.zeros((2, h, w), np.uint8)
        self._forgets = 2 * round(min(max(_FORGETS * self._interval / self._fps, 1), 80))  # even, per check
        self._work = np.empty((h, w), np.uint8)
        self._lanes, self._states = constant(channels), np.empty((self._bands, CHUNK), np.uint8)
        self.rewind()

    def rewind(self) -> None:
        """Forget the objects, before the first frame; what was seen of the background is kept."""
        self.age = np.zeros(self._shape[:2], np.uint16)
        self._aged = np.zeros(-(-self.age.size // CHUNK), np.uint8)  # 0 where a chunk has no age
        self._oldest = self.frame = 0
        self._is_clear = False  # whether the newest frame had no candidates
        self._leftovers: np.ndarray | None = None
        self._evidence, self._lasting = np.zeros(self._shape[:2], np.float32), np.zeros(self._shape[:2], np.uint8)
        self._objects = np.zeros(self._shape[:2], np.uint8)  # mask of the objects from before a change of the light
        self.settling = 0  # frames left in which the light may go on changing, as lamps come on one by one

    def state(self) -> State:
        """Return what the next frame depends on, copied; see `bgsub.numerics.state`."""
        state: State = {
            "age": copied(self.age),
            "anchor": copied(self.anchor),
            "support": copied(self.support),
            "returns": copied(self.returns),
            "objects": self._objects.copy(),
            "evidence": self._evidence.copy(),
            "lasting": copied(self._lasting),
            "numbers": np.array([float(n) for n in (self.frame, self._oldest, self.settling, self._is_clear)]),
        }
        return state if self._leftovers is None else {**state, "leftovers": self._leftovers.copy()}

    def set_state(self, state: State) -> None:
        """Restore a state; ParameterError if the arrays do not fit."""
        shape = self._shape[:2]
        self.age = array_of(state, "age", shape, "uint16")
        self._aged[:] = 1
        self.anchor = array_of(state, "anchor", self.anchor.shape, self.anchor.dtype.name)
        self.support = array_of(state, "support", shape, "uint8")
        self.returns = array_of(state, "returns", shape, "uint8")
        self._objects = array_of(state, "objects", shape, "uint8")
        self._evidence = array_of(state, "evidence", shape, "float32", _DOUBT, 0)
        self._lasting = array_of(state, "lasting", shape, "uint8")
        self._leftovers = array_of(state, "leftovers", shape, "bool") if "leftovers" in state else None
        self.frame, self._oldest, self.settling, is_clear = (int(n) for n in numbers_of(state, "numbers", 4))
        self._is_clear = bool(is_clear)

    def move(self, places: np.ndarray) -> None:
        """Move pixel ``places[i]``, (h * w,) indices, to pixel i."""
        for name in ("age", "support", "returns", "_objects", "_leftovers", "_evidence", "_lasting"):
            image = getattr(self, name)
            if image is not None:
                setattr(self, name, image.take(places).reshape(image.shape))
        self.anchor, self._aged[:] = self.anchor.take(places, axis=0), 1

    def _choose(self, parameters: SubtractorParameters) -> None:
        self._ghosts, seconds = parameters.ghosts, parameters.absorb_after
        self._absorb = math.inf if math.isinf(seconds) else max(seconds * self._fps, 1)
        # frames per tick, such that an age of `absorb_after` fits into uint16
        late = 0 if math.isinf(self._absorb) else self._absorb - LATE
        self._tick = max(math.ceil(late / (_OLDEST - LATE)), 1)

    def tune(self, parameters: SubtractorParameters) -> None:
        """Change `absorb_after` and `ghosts`; ages are kept."""
        before = self._tick
        self._choose(parameters)
        if self._tick != before:
            late = np.maximum(self.age.astype(np.int64) - LATE, 0) * before // self._tick
            self.age = np.minimum(np.minimum(self.age, LATE) + late, _OLDEST).astype(np.uint16)
            self._oldest = int(self.age.max(initial=0))

    def _frames(self, seconds: float) -> int:
        return max(round(seconds * self._fps), 2)

    def light_changed(self, before: np.ndarray, after: np.ndarray, explained: bool = True) -> None:
        """Note new foreground of the mask `after`, (h, w) uint8, not near `before`: it is light if it stands still."""
        # a pixel is noted until it is background once; only an explained change extends the settling time
        self._objects = before.copy() if self.settling == 0 else self._known(before)
        fresh = (self.around(self._objects) != FOREGROUND) & (after == FOREGROUND)
        self.age[fresh if self._leftovers is None else fresh & ~self._leftovers] = 0
        self._leftovers = fresh if self._leftovers is None else self._leftovers & (after == FOREGROUND) | fresh
        if explained:
            self.settling = self._frames(_SETTLING)

    def light_returned(self) -> None:
        """Forget the newest light change, which was undone: foreground that stands still is no light."""
        self.settling, self._leftovers = 0, None

    def follow_light(self, before: np.ndarray, after: np.ndarray) -> None:
        """Multiply the anchors of standing pixels as the background changed from `before` to `after`, (h, w, c)."""
        where = np.flatnonzero(self.age) if self._oldest else np.empty(0, np.int64)
        if where.size:
            level, most = self._full / 16, np.maximum(self.anchor[where], self._full)  # no gain by rounding
            old, new = (picture.reshape(self.anchor.shape)[where].clip(0) + level for picture in (before, after))
            self.anchor[where] = np.minimum(self.anchor[where] * (new / old) + self._half, most)

    def around(self, mask: np.ndarray) -> np.ndarray:
        """Return a mask, (h, w) uint8, dilated by 3 % of the shorter side."""
        reach = 2 * max(2, round(0.03 * min(self._shape[:2]))) + 1
        around: np.ndarray = cv2.dilate(mask, np.ones((reach, reach), np.uint8))
        return around

    def _known(self, mask: np.ndarray) -> np.ndarray:
        """Return the parts of a mask near the objects from before the light change, (h, w) uint8."""
        return np.where(self.around(self._objects) == FOREGROUND, mask, np.uint8(0))

    def hidden_pixels(self) -> np.ndarray | None:
        """Return the pixels that the background must not learn (not 0), (h, w) uint16; None if there are none."""
        return self.age if self._oldest else None

    def still(self, strong: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, int] | None:
        """Return the input of `keep_still` for `strong` residuals, (h, w) uint8; None if nothing has stood still."""
        # else the majority filter and the sample memory would erode an object with colours of the background
        return (strong, self.age, self._aged, self._still) if self._oldest >= self._still else None

    def standing(self, seconds: float) -> float:
        """Return the share of the frame that has been foreground of one colour for some seconds."""
        return float(np.count_nonzero(self.age >= self._frames(seconds))) / self.age.size

    def released(
        self,
        x: np.ndarray,
        background: np.ndarray,
        mask: np.ndarray,
        filled: np.ndarray,
        strong: np.ndarray,
        over: np.ndarray,
        lit: np.ndarray,
        returned: np.ndarray,
        rate: float | None = None,
        elapsed: int = 1,
        is_hidden: bool = False,
    ) -> np.ndarray | None:
        """Return which pixels become background now, (h, w) bool, or None, and reset their ages."""
        # `filled` (chunks,) uint8: 0 where a chunk of the mask is empty; `strong` (h, w) uint8: 1 where the residual
        # exceeds the threshold, `over` (chunks,) uint8: 0 where a chunk has no such pixel; `lit` (h, w) uint8: `LIGHT`
        # at light on a part of the scene; `returned` (n,): indices of pixels that show background hidden at first;
        # `rate` shortens the absorption; `elapsed`: frames since the last one; none become background while most of it
        # `is_hidden`
        before, self.frame = self.frame, self.frame + elapsed
        was_clear, self._is_clear = self._is_clear, not over.any()
        if self._oldest or not (was_clear and self._is_clear):
            older = elapsed, self.frame // self._tick - before // self._tick
            self._update_ages(x, mask, filled, strong, lit, *older)
        self.settling = max(self.settling - elapsed, 0)
        if is_hidden:
            return None
        absorb = self._absorb if rate is None else min(self._absorb, max(_RATE / rate * self._fps, 1))
        checks = self.frame // self._interval - before // self._interval  # due since the last frame
        chosen = self._chosen(x, background, mask, strong, absorb, checks)
        if returned.size:
            chosen = np.zeros(mask.shape, bool) if chosen is None else chosen
            chosen.reshape(-1)[returned] |= strong.reshape(-1)[returned] != 0
        if chosen is None or not chosen.any():
            return None
        self.age[chosen] = self.support[chosen] = self._lasting[chosen] = 0
        return chosen

    def _update_ages(
        self,
        x: np.ndarray,
        mask: np.ndarray,
        filled: np.ndarray,
        strong: np.ndarray,
        lit: np.ndarray,
        older: int,
        late: int,
    ) -> None:
        ages = self.anchor, self.age, self._aged, self.returns
        inputs = self._lanes, x, mask, filled, strong, lit, self._same, older, late, self._half, *ages
        if self._bands == 1:
            self._oldest = _frame_kernels.update_ages(0, mask.size, *inputs, self._states[0])
            return
        oldest = [0] * self._bands

        def grow(begin: int, end: int, band: int) -> None:
            oldest[band] = _frame_kernels.update_ages(begin, end, *inputs, self._states[band])

        in_bands(grow, mask.size, self._bands, CHUNK)
        self._oldest = max(oldest)

    def _chosen(
        self, x: np.ndarray, background: np.ndarray, mask: np.ndarray, strong: np.ndarray, absorb: float, checks: int
    ) -> np.ndarray | None:
        """Return the pixels to release, (h, w) bool; None, fast, if nothing is old enough or no check is due."""
        chosen: np.ndarray | None = None
        if self._leftovers is not None:
            self._leftovers &= mask == FOREGROUND
            chosen = self._leftovers & (self.age >= self._frames(_LEFT_OVER))
            if self.settling == 0:
                self._leftovers = None
        if checks:
            if self.settling:
                self._objects = self._known(mask)
            self._count_checks(mask, strong, float(checks))
            old = min(absorb, LATE) + max(absorb - LATE, 0) / self._tick
            if self._oldest >= old:
                due = self.age >= math.ceil(old)
                chosen = due if chosen is None else chosen | due
            if self._ghosts and (self._oldest >= self._frames(_GHOST_AGE) or self._lasting.max() >= _LASTING):
                chosen = np.zeros(mask.shape, bool) if chosen is None else chosen
                self._add_ghosts(x, background, mask, chosen)
            else:
                self._evidence.fill(0)
        return chosen

    def _count_checks(self, mask: np.ndarray, strong: np.ndarray, checks: float) -> None:
        """Add `checks` to `support` where the background shows and to `_lasting` at foreground; lower `returns`."""
        # OpenCV's sums saturate at 0 and 255; one row each, as it takes a 4x1 array for a scalar
        support, lasting, returns = (image.reshape(1, -1) for image in (self.support, self._lasting, self.returns))
        shown = np.bitwise_or(mask, strong, out=self._work) == 0
        cv2.add(support, checks, dst=support, mask=shown.view(np.uint8).reshape(1, -1))
        np.minimum(self.support, self._most, out=self.support)
        cv2.add(lasting, checks, dst=lasting)
        np.multiply(self._lasting, np.equal(mask, FOREGROUND, out=shown), out=self._lasting)
        odd = np.bitwise_and(self.returns, 1, out=self._work)
        cv2.subtract(returns, self._forgets * checks, dst=returns)
        np.maximum(self.returns, odd, out=self.returns)

    def _add_ghosts(self, x: np.ndarray, background: np.ndarray, mask: np.ndarray, chosen: np.ndarray) -> None:
        """Choose standing regions that show the background in other light, or stand out in the background only."""
        # a region stands out by edges along its outline and by colours unlike those around it: less so in the frame
        # than in the background, by the factor `odds`, the age of the region relative to that of the background; a
        # person is tested many times, and one error would make them background: earlier evidence counts, too
        evidence, self._evidence = self._evidence, np.zeros_like(self._evidence)
        for box, region, most in self._standing_regions(mask):
            clear, inside, images = (mask[box] == 0).view(np.uint8), region != 0, (x[box], background[box])
            ages = self.age[box] if most == 1 else np.maximum(self.age[box], float(self._interval) * self._lasting[box])
            odds = ages[inside].mean() / max(self._interval * self.support[box][inside].mean(), 1)
            steps = edges_along(images, region, clear)
            around = cv2.dilate(region, _SQUARE) & clear
            alike = [likeness(image, region, around, float(self._full)) for image in images]
            colours = (alike[0] / alike[1]) ** (1 / (1 + _HALF / np.count_nonzero(region)))
            is_relit = most == 1 and edges_inside(*images, region) > _SURFACE
            found = math.log(max(steps[1] * colours, _TINY) / max(steps[0], _TINY))
            before = evidence[box]
            known = (before != 0) & (inside | (mask[box] == 0))  # evidence about other objects does not count
            if np.count_nonzero(known & inside) >= _SAME_REGION * np.count_nonzero(known | inside):
                found += float(before[known & inside].mean())
            if is_relit or found + math.log(min(odds, most)) > 0:
                rim = cv2.dilate(region, np.ones((_RIM, _RIM), np.uint8)) != 0  # the majority filter removed these
                chosen[box] |= inside | (rim & (mask[box] == 0))
            else:
                self._evidence[box][inside] = min(max(found, _DOUBT), 0)

    def _standing_regions(self, mask: np.ndarray) -> Iterator[tuple[tuple[slice, slice], np.ndarray, float]]:
        """Yield regions of a mask that may be ghosts: box (slices), pixels in it (0 or 1), largest ratio."""
        # regions that stand still, that last while their colours change, as water, or still parts beside moving objects
        same = (self.age >= self._frames(_GHOST_AGE)).view(np.uint8)
        lasting = (self._lasting >= _LASTING).view(np.uint8)
        old = same | lasting
        foreground = (mask == FOREGROUND).view(np.uint8)
        outlines, _ = cv2.findContours(foreground, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        for outline in outlines:
            left, top, width, height = cv2.boundingRect(outline)
            box = np.s_[max(top - _NEAR, 0) : top + height + _NEAR, max(left - _NEAR, 0) : left + width + _NEAR]
            if cv2.countNonZero(old[box]) < _FEW * cv2.contourArea(outline):  # true of most, and fast
                continue
            region = np.zeros(mask[box].shape, np.uint8)
            cv2.drawContours(region, [outline], -1, 1, cv2.FILLED, offset=(-box[1].start, -box[0].start))
            region &= foreground[box]
            still, size = same[box] & region, cv2.countNonZero(region)
            if cv2.countNonZero(still) >= _OLD_SHARE * size:
                yield box, region, 1.0
                continue
            if cv2.countNonZero(lasting[box] & region) >= _LASTING_SHARE * size:
                yield box, region, _CHANGING
                continue
            part = largest_part(still, region)
            outside = cv2.dilate(part, _RING) - part
            clear = (mask[box] == 0).view(np.uint8)
            is_free = cv2.countNonZero(outside & clear) >= _FREE * cv2.countNonZero(outside)
            if is_free and cv2.countNonZero(part) >= _PART * size:
                yield box, part, _CLEAR


def largest_part(found: np.ndarray, region: np.ndarray) -> np.ndarray:
    """Return the largest connected part of `found` in a region, (h, w) of 0 and 1, after closing and opening."""
    part = cv2.morphologyEx(cv2.morphologyEx(found, cv2.MORPH_CLOSE, _RING) & region, cv2.MORPH_OPEN, _RING)
    _, labels, stats, _ = cv2.connectedComponentsWithStats(part, connectivity=4)
    largest = 1 + int(np.argmax(stats[1:, cv2.CC_STAT_AREA])) if len(stats) > 1 else 1
    return (labels == largest).view(np.uint8)


def likeness(image: np.ndarray, region: np.ndarray, around: np.ndarray, full: float) -> float:
    """Return the Bhattacharyya coefficient of the colours of two regions, (h, w) of 0 and 1, plus `_LEAST`."""
    channels = list(range(min(image.shape[2], 3)))
    sizes, ranges = [_BINS] * len(channels), [0, full * (1 + 1e-6)] * len(channels)  # the end is excluded
    one, other = (cv2.calcHist([image], channels, part, sizes, ranges) for part in (region, around))
    return _LEAST + 1 - cv2.compareHist(one, other, cv2.HISTCMP_BHATTACHARYYA) ** 2


def edges_inside(one: np.ndarray, other: np.ndarray, region: np.ndarray) -> float:
    """Return the correlation of the edges of two images, (h, w, c), inside a region, (h, w) of 0 and 1."""
    inside = cv2.erode(region, _RING)
    a, b = (gradients(image) * inside for image in (one, other))
    return float(np.vdot(a, b)) / max(float(np.sqrt(np.vdot(a, a) * np.vdot(b, b))), 1e-9)


def gradients(picture: np.ndarray) -> np.ndarray:
    """Return the horizontal and the vertical change of the brightness of a picture, (2, h, w) float32."""
    channels = picture.shape[2]
    brightness = cv2.transform(picture.astype(np.float32), np.full((1, channels), 1 / channels, np.float32))
    return np.stack([cv2.Sobel(brightness, cv2.CV_32F, *order) for order in ((1, 0), (0, 1))])


def edges_along(images: tuple[np.ndarray, ...], region: np.ndarray, clear: np.ndarray) -> list[float]:
    """Return for each image, (h, w, c), the mean colour step from a region to the `clear` pixels around it (0, 1)."""
    grown = cv2.dilate(region, _RING)
    parts = region - cv2.erode(region, _RING), (cv2.dilate(grown, _RING) - grown) & clear
    counts = [cv2.boxFilter(part, cv2.CV_32F, (7, 7), normalize=False).reshape(-1) for part in parts]
    where = np.flatnonzero((parts[0].reshape(-1) != 0) & (counts[1] > 0))
    if not where.size:
        return [0.0 for _ in images]
    steps = []
    for image in images:
        means = []
        for part, count in zip(parts, counts, strict=True):
            seen = cv2.bitwise_and(image, image, mask=part)
            total = cv2.boxFilter(seen, cv2.CV_32F, (7, 7), normalize=False).reshape(region.size, -1)
            means.append(total.take(where, axis=0) / count.take(where)[:, np.newaxis])
        steps.append(float(np.linalg.norm(means[0] - means[1], axis=1).mean()))
    return steps
