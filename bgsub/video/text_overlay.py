"""Text on a picture: captions, labels, boxes and bars, in a size that fits the picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bgsub._opencv import cv2

_FONT = cv2.FONT_HERSHEY_SIMPLEX
_WHITE, _GREY = (255, 255, 255), (190, 190, 190)
_LIGHT = 110  # brightness from which on the text is black
LEAST_SIZE = 320, 240
"""Width and height below which a picture with text is enlarged."""

_LEAST_SCALE = 0.4  # smaller text of OpenCV is unreadable
_LINE = 30  # height of a line at scale 1, in pixels
_LINES_OF_BOX = 16  # minimum number of lines that must fit


def text_scale(image: np.ndarray) -> float:
    """Return the text scale of OpenCV for a picture: 36 lines fit its height."""
    return max(_LEAST_SCALE, image.shape[0] / 36 / _LINE)


def _thickness(scale: float) -> int:
    return max(1, round(scale * 1.4))


def _width(text: str, scale: float) -> int:
    return int(cv2.getTextSize(text, _FONT, scale, _thickness(scale))[0][0])


def _write(
    image: np.ndarray, text: str, left: float, base: float, scale: float, colour: Sequence[int] = _WHITE
) -> None:
    place = round(left), round(base)
    cv2.putText(image, text, place, _FONT, scale, tuple(colour), _thickness(scale), cv2.LINE_AA)


def enlarged(image: np.ndarray) -> np.ndarray:
    """Return a picture enlarged by a whole factor until one side reaches `LEAST_SIZE`."""
    factor = min(-(-least // side) for least, side in zip(LEAST_SIZE, image.shape[1::-1], strict=True))
    return image.repeat(factor, axis=0).repeat(factor, axis=1) if factor > 1 else image


def label_size(text: str, scale: float) -> tuple[int, int]:
    """Return the width and height of a label of `put_label`."""
    margin = round(scale * 10)
    return _width(text, scale) + margin, round(_LINE * scale) + margin // 2


def put_label(
    image: np.ndarray, text: str, left: int, top: int, scale: float, ground: Sequence[int] = (0, 0, 0)
) -> None:
    """Write a line on a background colour, blue first, into a picture, (h, w, 3) uint8, in place."""
    width, height = label_size(text, scale)
    is_light = 0.11 * ground[0] + 0.59 * ground[1] + 0.3 * ground[2] > _LIGHT
    cv2.rectangle(image, (left, top), (left + width - 1, top + height - 1), tuple(ground), cv2.FILLED)
    _write(image, text, left + scale * 5, top + 0.8 * height, scale, (0, 0, 0) if is_light else _WHITE)


def add_caption(image: np.ndarray, text: str, scale: float) -> np.ndarray:
    """Return a copy of a picture, (h, w, 3) uint8, with a line in the upper left corner, white on black."""
    (width, height), below = cv2.getTextSize(text, _FONT, scale, _thickness(scale))
    margin = 2 + below // 2
    image = image.copy()
    image[: height + 2 * margin, : width + 2 * margin] = 0
    _write(image, text, margin, height + margin, scale)
    return image


def add_label(image: np.ndarray, text: str, scale: float | None = None) -> np.ndarray:
    """Return a copy of a picture, (h, w, 3) uint8, with a line in the lower left corner, white on black.

    A line that is too long is made smaller.
    """
    scale = text_scale(image) if scale is None else scale
    image = image.copy()
    room = image.shape[1] - scale * 20
    scale = min(scale, scale * room / max(_width(text, scale), 1)) if room > 0 else scale
    line = max(round(_LINE * scale * 1.2), 2)
    image[-line:, : _width(text, scale) + round(scale * 20)] = 0
    _write(image, text, scale * 10, image.shape[0] - line * 0.3, scale)
    return image


def add_bar(image: np.ndarray, words: Sequence[str], scale: float) -> np.ndarray:
    """Return a picture, (h, w, 3) uint8, with the words in a black bar below, in one or more lines.

    Equal word lengths give an equal height of the bar, because spaces are as wide as digits.
    """
    gap, margin = scale * 14, scale * 10
    # A space is narrower than a digit; a growing number must not move the other words.
    wide = [_width(word.replace(" ", "0"), scale) for word in words]
    lines: list[list[tuple[float, str]]] = [[]]
    left = margin
    for word, width in zip(words, wide, strict=True):
        if lines[-1] and left + width > image.shape[1] - margin:
            lines.append([])
            left = margin
        lines[-1].append((left, word.strip()))
        left += width + gap
    line = round(_LINE * scale * 1.3)
    bar = np.zeros((line * len(lines), *image.shape[1:]), np.uint8)
    for row, places in enumerate(lines):
        for place, word in places:
            _write(bar, word, place, (row + 0.72) * line, scale, _GREY)
    return np.vstack([image, bar])


def add_box(image: np.ndarray, rows: Sequence[tuple[str, str]], scale: float) -> np.ndarray:
    """Return a copy of a picture, (h, w, 3) uint8, with two columns of text on a dark box in the middle."""
    scale = min(1.4 * scale, image.shape[0] / (max(len(rows), _LINES_OF_BOX) * _LINE))
    left = max(_width(row[0], scale) for row in rows)
    right = max(_width(row[1], scale) for row in rows)
    gap, line = round(30 * scale), round(_LINE * scale)
    width, height = min(left + right + 3 * gap, image.shape[1]), min((len(rows) + 1) * line, image.shape[0])
    x, y = (image.shape[1] - width) // 2, (image.shape[0] - height) // 2
    image = image.copy()
    image[y : y + height, x : x + width] //= 5
    for index, (key, meaning) in enumerate(rows):
        base = y + (index + 1.2) * line
        _write(image, key, x + gap, base, scale)
        _write(image, meaning, x + left + 2 * gap, base, scale, _GREY)
    return image
