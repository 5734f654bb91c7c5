"""A number and a time written into a picture, to be read by a program at the other end."""

from __future__ import annotations

import time

import numpy as np

from bgsub.errors import ParameterError

# Squares of 4 pixels, black or white, survive JPEG and other codecs.
_SIDE = 4
_NUMBER_BITS, _TIME_BITS, _CHECK_BITS = 32, 32, 8
_BITS = _NUMBER_BITS + _TIME_BITS + _CHECK_BITS
_CHECK = 251


def milliseconds() -> int:
    """Return the time of the clock that all programs of this computer share, in ms, modulo 2**32."""
    return time.monotonic_ns() // 1_000_000 % (1 << _TIME_BITS)


def stamp(image: np.ndarray, number: int, moment: int) -> None:
    """Write a number and a time into the upper left corner, in place, as rows of black and white squares.

    Parameters
    ----------
    image : ndarray, (h, w) or (h, w, 3), uint8
        At least 72 squares of 4 x 4 pixels must have room.
    number, moment : int
        Taken modulo 2**32.

    Raises
    ------
    ParameterError
        If the picture is too small.
    """
    columns = _columns(image)
    if not columns:
        raise ParameterError(f"a stamp needs room for {_BITS} squares of {_SIDE} pixels, got shape {image.shape}")
    number, moment = number % (1 << _NUMBER_BITS), moment % (1 << _TIME_BITS)
    word = (number << _TIME_BITS | moment) << _CHECK_BITS | _checksum(number, moment)
    for place in range(_BITS):
        y, x = (_SIDE * part for part in divmod(place, columns))
        image[y : y + _SIDE, x : x + _SIDE] = 255 if word >> place & 1 else 0


def read_stamp(image: np.ndarray) -> tuple[int, int] | None:
    """Return the number and the time that `stamp` wrote into a picture, or None if there is no stamp."""
    columns = _columns(image)
    if not columns:
        return None
    word = 0
    for place in range(_BITS):
        y, x = (_SIDE * part for part in divmod(place, columns))
        word |= int(image[y : y + _SIDE, x : x + _SIDE].mean() > 127) << place
    check = word & ((1 << _CHECK_BITS) - 1)
    number, moment = divmod(word >> _CHECK_BITS, 1 << _TIME_BITS)
    return (number, moment) if check == _checksum(number, moment) else None


def age(moment: int) -> float:
    """Return the seconds since a stamped time; up to 24 days."""
    half = 1 << (_TIME_BITS - 1)
    return ((milliseconds() - moment + half) % (1 << _TIME_BITS) - half) / 1000


def _checksum(number: int, moment: int) -> int:
    # Neither an all-black nor an all-white corner may pass for a stamp.
    return 1 + (number * 31 + moment) % _CHECK


def _columns(image: np.ndarray) -> int:
    """Return how many squares fit side by side; 0 if the picture has no room for all."""
    columns = int(image.shape[1]) // _SIDE
    return columns if columns and -(-_BITS // columns) * _SIDE <= image.shape[0] else 0
