"""For how long every pixel's background was seen, and whether another colour was seen for longer.

Of what a pixel shows, only what is stable lasts: leaves before the lens and people in the first frames change from
frame to frame, and what is behind them comes back with the same colour.

References
----------
S. Zeevi, BackgroundSubtractorCNT, 2016: a colour that stays for some frames is background.
K. Kim, T. Chalidabhongse, D. Harwood, L. Davis, Real-time foreground-background segmentation using codebook model,
Real-Time Imaging 11(3), 2005: layers of a pixel. Few of them here, and only until the background is beyond doubt.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bgsub.numerics.state import State, array_of, numbers_of
from bgsub.numerics.threads import bands_for, in_bands
from bgsub.parameters import SubtractorParameters
from bgsub.scene import _support_kernels
from bgsub.scene.frame_format import FrameFormat

_COLOURS = 3  # of a pixel, the background's among them
_SAME = 0.03  # joint distance up to which a pixel shows the same colour
_NOISE = 2.0  # the same, in units of the quarter quantile of the changes from frame to frame
_SAMPLE = 5000  # pixels for that
_DOUBT = 20.0  # seconds for which a background must have been seen to be beyond doubt
_INTERVAL = 0.2  # seconds between two looks
_CLEARLY = 2  # times as long as the background a colour must have been seen to take its place
_MOST = 65535
_WORK = 150_000  # pixels per band, see `bands_for`


class Support:
    """Colours of every pixel, and for how many frames each was seen.

    Parameters
    ----------
    frames : FrameFormat
        What the frames look like.
    parameters : SubtractorParameters
        Of these `fps`, `start_frames` and `threads`.

    Attributes
    ----------
    colours : ndarray, (q, h * w, c), float32
        In the unit of the engine's pixels; the first one is the background's while there is no other model.
    counts : ndarray, (q, h * w), uint16
        The frames; the first one is the support of the background.
    frame : int
        Frames so far.
    """

    def __init__(self, frames: FrameFormat, parameters: SubtractorParameters) -> None:
        h, w, channels = self._shape = frames.cube
        self._bands = bands_for(h * w, _WORK, parameters.threads)
        self._same = _SAME * frames.pixels_full
        self._most = int(min(max(_DOUBT * parameters.fps, parameters.start_frames), _MOST))
        self._interval = max(round(_INTERVAL * parameters.fps), 1)
        self.colours = np.zeros((_COLOURS, h * w, channels), np.float32)
        self.counts = np.zeros((_COLOURS, h * w), np.uint16)
        self._last = np.zeros(h * w, np.uint8)
        self._due = np.zeros(h * w, np.uint8)
        self._everything = np.ones(h * w, np.uint8)
        self.noise, self.frame = 0.0, 0

    def state(self) -> State:
        """Return what the next frame depends on, copied; see `bgsub.numerics.state`."""
        numbers = np.array([self.noise, float(self.frame)])
        return {
            "colours": self.colours.copy(),
            "counts": self.counts.copy(),
            "last": self._last.copy(),
            "numbers": numbers,
        }

    def set_state(self, state: State) -> None:
        """Go on where another one stood; ParameterError when the arrays do not fit."""
        self.colours = array_of(state, "colours", self.colours.shape, "float32")
        self.counts = array_of(state, "counts", self.counts.shape, "uint16")
        self._last = array_of(state, "last", self._last.shape, "uint8")
        self.noise, frame = (float(number) for number in numbers_of(state, "numbers", 2))
        self.frame = int(frame)

    @property
    def background(self) -> np.ndarray:
        """The colour of every pixel that was seen most, (m,), float32."""
        return self.colours[0].reshape(-1)

    @property
    def support(self) -> np.ndarray:
        """For how many frames the background was seen, at most some seconds, (h, w)."""
        return self.counts[0].reshape(self._shape[:2])

    def map(self, change: Callable[[np.ndarray], np.ndarray]) -> None:
        """Replace every picture of colours, (m,), by what `change` makes of it."""
        for picture in self.colours:
            picture.reshape(-1)[:] = change(picture.reshape(-1))

    def see(self, pixels: np.ndarray, before: np.ndarray | None) -> None:
        """Count the colours of a frame of the start, (m,), and learn its noise from the one `before`."""
        self.frame += 1
        if before is not None:
            self._learn_noise(pixels, before)
        self._count(pixels, self._everything, 0, 1, 1)

    def follow(self, pixels: np.ndarray, mask: np.ndarray, over: np.ndarray) -> np.ndarray | None:
        """Count, every few frames, who confirms the background and who stands before it.

        Parameters
        ----------
        pixels : ndarray, (h, w, c)
            Frame.
        mask : ndarray, (h, w), uint8
            Background where it is 0.
        over : ndarray, (h, w), uint8
            Candidates.

        Returns
        -------
        ndarray, (h, w), bool, or None
            Where the frame shows what was seen for longer than the background; None where there is no such pixel.
        """
        self.frame += 1
        if self.frame % self._interval:
            return None
        flags = mask.reshape(-1), over.reshape(-1)

        def confirm(begin: int, end: int, _: int) -> None:
            _support_kernels.confirm(begin, end, *flags, self._interval, self._most, self.counts[0])

        in_bands(confirm, len(self._due), self._bands)
        if not self._count(pixels, flags[1], 1, self._interval, _CLEARLY):
            return None
        return self._due.reshape(self._shape[:2]) > 0

    def _count(self, pixels: np.ndarray, over: np.ndarray, first: int, more: int, clearly: int) -> bool:
        """Count the colours of some pixels; return whether one is due, and in the start, let it be the first."""
        x, found = pixels.reshape(self.colours.shape[1:]), [0] * self._bands
        learned, numbers = (self.colours, self.counts, self._last), (first, self._limit(), more, self._most, clearly)

        def count(begin: int, end: int, band: int) -> None:
            found[band] = _support_kernels.count_colours(begin, end, x, over, *numbers, *learned, self._due)
            if found[band] and first == 0:
                _support_kernels.put_first(begin, end, self._due, *learned)

        in_bands(count, len(x), self._bands)
        return any(found)

    def give_way(self, pixels: np.ndarray, picture: np.ndarray, where: np.ndarray) -> None:
        """Make what a frame shows the background, and what was it a rival.

        Parameters
        ----------
        pixels, picture : ndarray, (h, w, c)
            Frame and background.
        where : ndarray, (h, w), bool
            The pixels.
        """
        chosen = np.flatnonzero(where)
        shape = self.colours.shape[1:]
        x, old = (image.reshape(shape)[chosen].astype(np.float32) for image in (pixels, picture))
        far = np.sum((self.colours[1:, chosen] - x) ** 2, axis=2) >= self._limit()
        seen = np.where(far, 0, self.counts[1:, chosen])
        k = 1 + np.where(seen.any(axis=0), seen.argmax(axis=0), self.counts[1:, chosen].argmin(axis=0))
        support = self.counts[0, chosen]
        self.counts[0, chosen], self.colours[0, chosen] = np.maximum(seen.max(axis=0), 1), x
        self.counts[k, chosen], self.colours[k, chosen] = support, old
        self._last[chosen] = 0

    def _limit(self) -> np.float32:
        return np.float32(max(self._same, _NOISE * self.noise) ** 2)

    def _learn_noise(self, pixels: np.ndarray, before: np.ndarray) -> None:
        step = max(len(self._last) // _SAMPLE, 1)
        x, y = (image.reshape(self.colours.shape[1:])[::step].astype(np.float32) for image in (pixels, before))
        change = float(np.quantile(np.sqrt(np.sum((x - y) ** 2, axis=1)), 0.25))
        if change > 0:  # not a frame that came twice
            self.noise = min(change, self.noise or change)
