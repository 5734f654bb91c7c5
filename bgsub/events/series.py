"""Values over time with a bounded number of points."""

from __future__ import annotations

from typing import Any

import numpy as np

from bgsub.events._pack import pack, unpack


class Series:
    """Keeps the smallest and the largest value of each stretch of time.

    Stretches begin as single frames; when there are more than `most`, an even number, neighbours are joined, so that no
    peak is lost. Each frame has `columns` values, NaN for none.
    """

    def __init__(self, columns: int, most: int = 2048) -> None:
        self._most = most
        self._step = 1  # frames per stretch
        self._fill = 0  # frames in the newest stretch
        self._count = 0
        self._times: np.ndarray = np.zeros(most + 1)
        self._low: np.ndarray = np.full((most + 1, columns), np.nan)
        self._high: np.ndarray = np.full((most + 1, columns), np.nan)

    @property
    def columns(self) -> int:
        """Values per frame."""
        return int(self._low.shape[1])

    def add(self, time: float, values: np.ndarray) -> None:
        """Append a frame; `values` has shape (columns,), `time` is not before the last one."""
        if self._fill == 0:
            self._begin(time)
        at = self._count - 1
        np.fmin(self._low[at], values, out=self._low[at])
        np.fmax(self._high[at], values, out=self._high[at])
        self._fill = (self._fill + 1) % self._step

    def points(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return times (n,), smallest (n, columns) and largest values (n, columns), float64."""
        return self._times[: self._count], self._low[: self._count], self._high[: self._count]

    def state(self) -> dict[str, Any]:
        """Return what `restored` needs, as types that JSON knows."""
        times, low, high = self.points()
        packed = {"times": pack(times), "low": pack(low), "high": pack(high)}
        return {"most": self._most, "step": self._step, "fill": self._fill, **packed}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Series:
        """Return the series that `state` was taken of."""
        low = unpack(state["low"])
        series = cls(low.shape[1], state["most"])
        series._step, series._fill, series._count = state["step"], state["fill"], len(low)
        series._times[: len(low)] = unpack(state["times"])
        series._low[: len(low)], series._high[: len(low)] = low, unpack(state["high"])
        return series

    def _begin(self, time: float) -> None:
        if self._count == self._most:
            self._halve()
        self._times[self._count] = time
        self._low[self._count] = self._high[self._count] = np.nan
        self._count += 1

    def _halve(self) -> None:
        half = self._count // 2
        self._times[:half] = self._times[: 2 * half : 2]
        self._low[:half] = np.fmin(self._low[: 2 * half : 2], self._low[1 : 2 * half : 2])
        self._high[:half] = np.fmax(self._high[: 2 * half : 2], self._high[1 : 2 * half : 2])
        self._count, self._step = half, 2 * self._step
