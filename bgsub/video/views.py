"""Views: pictures of a separation for outputs and windows, and text on them that fits their size."""

from collections.abc import Callable, Sequence

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, check_choice
from bgsub.separation import FOREGROUND, SHADOW, Separation

_FONT = cv2.FONT_HERSHEY_SIMPLEX
_WHITE, _GREY = (255, 255, 255), (190, 190, 190)
_LIGHT = 110  # brightness from which on the text is black
LEAST_SIZE = 320, 240  # width and height below which a picture with text is enlarged

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


def add_label(image: np.ndarray, text: str, scale: float | None = None) -> np.ndarray:
    """Return a copy of a picture, (h, w, 3) uint8, with a line in the lower left corner, made smaller if too long."""
    scale = text_scale(image) if scale is None else scale
    image = image.copy()
    room = image.shape[1] - scale * 20
    scale = min(scale, scale * room / max(_width(text, scale), 1)) if room > 0 else scale
    line = max(round(_LINE * scale * 1.2), 2)
    image[-line:, : _width(text, scale) + round(scale * 20)] = 0
    _write(image, text, scale * 10, image.shape[0] - line * 0.3, scale)
    return image


def add_bar(image: np.ndarray, words: Sequence[str], scale: float) -> np.ndarray:
    """Return a picture, (h, w, 3) uint8, with the words in a black bar below, in one or more lines."""
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


RESIDUAL_GAIN = 4.0  # residuals of interest lie between the noise, about 0.02 of full scale, and 0.25

PANEL_TILES = 2  # per row and column

_CAPTION_MIN_WIDTH = 80
_FOREGROUND_COLOUR, _SHADOW_COLOUR = (80, 80, 255), (255, 160, 80)  # blue first
_TINT = 0.45


def to_uint8(image: np.ndarray) -> np.ndarray:
    """Convert uint8, uint16 or floating with full scale 1.0 to 8 bit, clipped, NaN to 0; ParameterError for others."""
    if image.dtype == np.uint8:
        return image
    if image.dtype == np.uint16:
        return ((image.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if np.issubdtype(image.dtype, np.floating):
        scaled = np.nan_to_num(image, nan=0.0, posinf=1.0, neginf=0.0).clip(0, 1) * 255
        return np.rint(scaled).astype(np.uint8)
    raise ParameterError(f"an image must be uint8, uint16 or floating, got {image.dtype}")


def to_bgr8(image: np.ndarray) -> np.ndarray:
    """Convert an image, (h, w) or (h, w, 1, 3 or 4), as in `to_uint8`, to colour, (h, w, 3) uint8, without alpha."""
    image = to_uint8(image)
    if image.ndim == 2 or image.shape[2] == 1:
        return cv2.cvtColor(image, cv2.COLOR_GRAY2BGR)
    return np.ascontiguousarray(image[:, :, :3])


def _probability(separation: Separation) -> np.ndarray:
    """Return the probability times 255, rounded so that foreground, above 0.5, is above 127."""
    return np.ceil(separation.probability * np.float32(255) - np.float32(0.5)).astype(np.uint8)


def _cutout(separation: Separation) -> np.ndarray:
    """Return the frame in 8 bit colour with the foreground as alpha channel."""
    alpha = np.where(separation.mask == FOREGROUND, np.uint8(255), np.uint8(0))
    return np.dstack([to_bgr8(separation.frame), alpha])


def annotated(separation: Separation, picture: np.ndarray, tiles: int = 1) -> np.ndarray:
    """Draw the known objects onto a picture, (h, w, 3) uint8, that has `tiles` x `tiles` pictures of the frame."""
    return picture if separation.annotate is None else separation.annotate(picture, tiles)


def _overlay(separation: Separation) -> np.ndarray:
    """Return the frame with foreground tinted red and shadow blue."""
    image = to_bgr8(separation.frame).copy()
    for label, colour in ((FOREGROUND, _FOREGROUND_COLOUR), (SHADOW, _SHADOW_COLOUR)):
        where = separation.mask == label
        image[where] = np.rint((1 - _TINT) * image[where] + _TINT * np.array(colour)).astype(np.uint8)
    return annotated(separation, image)


def _contours(separation: Separation) -> np.ndarray:
    """Return the frame with the outlines of the foreground."""
    image = to_bgr8(separation.frame).copy()
    foreground = np.equal(separation.mask, FOREGROUND).astype(np.uint8)
    outlines, _ = cv2.findContours(foreground, cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(image, outlines, -1, _FOREGROUND_COLOUR, max(1, round(image.shape[1] / 640)))
    return annotated(separation, image)


def _panel(separation: Separation) -> np.ndarray:
    """Return input and background above foreground and mask, with captions if there is room."""
    names = "input", "background", "foreground", "mask"
    images = [_captioned(to_bgr8(VIEWS[name](separation)), name) for name in names]
    return annotated(separation, np.vstack([np.hstack(images[:2]), np.hstack(images[2:])]), PANEL_TILES)


def _captioned(image: np.ndarray, caption: str) -> np.ndarray:
    width = image.shape[1]
    if width >= _CAPTION_MIN_WIDTH:
        image = image.copy()
        put_label(image, caption, 0, 0, max(0.35, width / 1000))
    return image


#: The views by name, each a function of a `Separation`.
#:
#: ``mask`` (h, w) uint8; ``input``, ``background`` and ``foreground`` in shape and dtype of the frame; ``residual``
#: (h, w) uint8, 4 times the residual of full scale 1.0, saturating at 255; ``probability`` (h, w) uint8, times 255;
#: ``cutout`` (h, w, 4) uint8, the frame with the foreground as alpha channel (0 or 255); ``overlay`` (foreground
#: tinted) and ``contours`` (outlined) (h, w, 3) uint8; ``panel`` (2h, 2w, 3) uint8; ``boxes`` the frame with the
#: detected objects, (h, w, 3) uint8. The last four show boxes if the separation can `annotate`, and small frames are
#: then enlarged.
VIEWS: dict[str, Callable[[Separation], np.ndarray]] = {
    "mask": lambda separation: separation.mask,
    "background": lambda separation: separation.background,
    "foreground": lambda separation: separation.foreground,
    "residual": lambda separation: to_uint8(separation.residual * RESIDUAL_GAIN),
    "probability": _probability,
    "cutout": _cutout,
    "overlay": _overlay,
    "contours": _contours,
    "panel": _panel,
    "boxes": lambda separation: annotated(separation, to_bgr8(separation.frame)),
    "input": lambda separation: separation.frame,
}


def get_view(name: str) -> Callable[[Separation], np.ndarray]:
    """Return the view of that name; `ParameterError` lists the allowed ones."""
    check_choice("view", name, VIEWS)
    return VIEWS[name]
