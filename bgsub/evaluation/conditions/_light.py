"""Changes of the light; the masks stay."""

from __future__ import annotations

import math

import numpy as np

from bgsub.evaluation.conditions._moment import Moment, per_frame

_HALF_PERIOD = 200
_RAMP_PERIOD = 250


def is_switched(tick: int) -> bool:
    """Return whether the changed light is on: for the first time at tick 100, then it turns every 200 frames."""
    return (tick + _HALF_PERIOD // 2) // _HALF_PERIOD % 2 == 1


@per_frame
def gain_step(moment: Moment, gain: float) -> Moment:
    """Multiply by `gain` while the light is switched."""
    return moment.seen(moment.levels * np.float32(gain)) if is_switched(moment.tick) else moment


@per_frame
def offset_step(moment: Moment, offset: float) -> Moment:
    """Add `offset` grey levels while the light is switched."""
    return moment.seen(moment.levels + np.float32(offset)) if is_switched(moment.tick) else moment


@per_frame
def gamma_step(moment: Moment, gamma: float) -> Moment:
    """Bend the response by the exponent `gamma` while the light is switched."""
    if not is_switched(moment.tick):
        return moment
    return moment.seen(255 * (moment.levels / 255) ** np.float32(gamma))


@per_frame
def ramp(moment: Moment, swing: float) -> Moment:
    """Let the gain follow a sine of 250 frames (10 s at 25 frames per second) between 1 - swing and 1 + swing."""
    gain = 1 + swing * math.sin(2 * math.pi * moment.tick / _RAMP_PERIOD)
    return moment.seen(moment.levels * np.float32(gain))


@per_frame
def lamp(moment: Moment, gains: tuple[float, float, float]) -> Moment:
    """Light the left half by gains of blue, green and red while the light is switched.

    The light falls off smoothly over the middle fifth of the picture; a grey camera sees the mean of the gains.
    """
    if not is_switched(moment.tick):
        return moment
    width = moment.frame.shape[1]
    share = 1 / (1 + np.exp((np.arange(width, dtype=np.float32) - width / 2) / np.float32(0.05 * width)))
    if moment.frame.ndim == 2:
        return moment.seen(moment.levels * (1 + share * np.float32(np.mean(gains) - 1)))
    colour = np.array(gains, np.float32) - 1
    return moment.seen(moment.levels * (1 + share[:, np.newaxis] * colour))
