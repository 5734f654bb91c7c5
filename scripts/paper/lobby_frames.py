"""Frames for the lobby figures: a folder of images, or the project's own lobby with exact masks and the empty room."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

from bgsub.synthetic import scene
from bgsub.video.sources.images import ImageSequenceSource

GREY = 255
_SEARCHED = 600  # frames of the made scene, two rounds of its lamps and more
_SWITCH = (0.02, 5.0)  # a switch moves the picture by more than both: intensity, times the median change


class Material(NamedTuple):
    """Frames and what is known of them.

    Parameters
    ----------
    frames : ndarray, (n, h, w), float32
        Intensities in [0, 1].
    masks : ndarray, (n, h, w), uint8, or None
        Exact masks with the codes of changedetection.net.
    empty : ndarray, (n, h, w), float32, or None
        The room without people, shadows and noise.
    lamps : tuple of int
        First frames under other lamps.
    name : str
        Where the frames come from.
    """

    frames: np.ndarray
    masks: np.ndarray | None
    empty: np.ndarray | None
    lamps: tuple[int, ...]
    name: str


class Track(NamedTuple):
    """Backgrounds of the tracked frames, (n, h, w), float32, and their figures, one row per frame."""

    backgrounds: np.ndarray
    rows: list[dict[str, object]]


def made(size: tuple[int, int], length: int, seed: int) -> Material:
    """Return `length` frames of the own lobby, from the lamp switch on after which the light stays longest."""
    switches = (0, *scene("lobby", size=size, length=_SEARCHED, seed=seed).lamp_frames)
    first = max(pairwise(switches), key=lambda pair: pair[1] - pair[0])[0]
    lobby = scene("lobby", size=size, length=first + length, seed=seed, channels=1)
    shots = [lobby[i] for i in range(first, first + length)]
    empty = np.stack([lobby.background(i) for i in range(first, first + length)])
    lamps = tuple(at - first for at in lobby.lamp_frames if at > first)
    masks = np.stack([mask for _, mask in shots])
    return Material(_scaled(np.stack([frame for frame, _ in shots])), masks, _scaled(empty), lamps, "made")


def taken(folder: Path) -> Material:
    """Return the images of a folder in natural order, grey; lamps switch where the whole picture jumps.

    Raises
    ------
    SourceError
        If there are none, or one cannot be read.
    click.ClickException
        If they differ in size.
    """
    images = [_grey(frame.image) for frame in ImageSequenceSource(folder)]
    if len({image.shape for image in images}) > 1:
        raise click.ClickException(f"the images in '{folder}' must have one size")
    frames = np.stack(images)
    return Material(frames, None, None, lamp_switches(frames), folder.name)


def lamp_switches(frames: np.ndarray) -> tuple[int, ...]:
    """Return the frames, (n, h, w), that differ from the one before at more than half of the pixels by a jump."""
    change = np.array([np.median(np.abs(b - a)) for a, b in pairwise(frames)])
    least, times = _SWITCH
    return tuple(int(i) + 1 for i in np.flatnonzero(change > max(least, times * float(np.median(change)))))


def _grey(image: np.ndarray) -> np.ndarray:
    full = np.iinfo(image.dtype).max if image.dtype.kind in "ui" else 1.0
    grey = image if image.ndim == 2 else image @ np.array([0.114, 0.587, 0.299], np.float32)
    return (grey / full).astype(np.float32)


def _scaled(frames: np.ndarray) -> np.ndarray:
    return (frames / np.float32(GREY)).astype(np.float32)
