"""Frames for the lobby figures: a folder of images, or the project's own lobby with exact masks and the empty room."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

from bgsub.synthetic import scene
from bgsub.video.sources.images import ImageSequenceSource, find_images

GREY = 255
MEMORY = 20  # frames that count, 1 / w; jumps that follow each other within them are one switch
_SEARCHED = 600  # frames of the made scene, two rounds of its lamps and more
_JUMP = (0.01, 5.0)  # a jump moves the picture by more than both: intensity, times the median change

Switch = tuple[int, int]  # the first and the last jump of one lamp switch


class Material(NamedTuple):
    """Frames and their ground truth.

    Parameters
    ----------
    frames : ndarray, (n, h, w), float32
        Intensities in [0, 1].
    masks : ndarray, (n, h, w), uint8, or None
        Exact masks with the codes of changedetection.net.
    empty : ndarray, (n, h, w), float32, or None
        The room without people, shadows and noise.
    switches : tuple of Switch
        Where lamps switch, as positions in `frames`.
    numbers : range or tuple of int
        What the frames are called.
    name : str
        Where the frames come from.
    """

    frames: np.ndarray
    masks: np.ndarray | None
    empty: np.ndarray | None
    switches: tuple[Switch, ...]
    numbers: range | tuple[int, ...]
    name: str


def made(size: tuple[int, int], length: int, seed: int) -> Material:
    """Return `length` frames of the own lobby, from the lamp switch on after which the light stays longest."""
    cuts = (0, *scene("lobby", size=size, length=_SEARCHED, seed=seed).lamp_frames)
    first = max(pairwise(cuts), key=lambda pair: pair[1] - pair[0])[0]
    lobby = scene("lobby", size=size, length=first + length, seed=seed, channels=1)
    shots = [lobby[i] for i in range(first, first + length)]
    empty = np.stack([lobby.background(i) for i in range(first, first + length)])
    switches = tuple((at - first, at - first) for at in lobby.lamp_frames if at > first)
    masks = np.stack([mask for _, mask in shots])
    frames = _scaled(np.stack([frame for frame, _ in shots]))
    return Material(frames, masks, _scaled(empty), switches, range(length), "made")


def taken(folder: Path) -> Material:
    """Return the images of a folder in natural order, grey; their numbers are those at the end of the names, if any.

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
    found = [re.search(r"\d+$", path.stem) for path in find_images(folder)]
    named = tuple(int(match[0]) for match in found if match)
    numbers = named if len(set(named)) == len(frames) else range(len(frames))
    name = (folder.resolve().parent if folder.name == "input" else folder).name
    return Material(frames, None, None, lamp_switches(frames), numbers, name)


def lamp_switches(frames: np.ndarray) -> tuple[Switch, ...]:
    """Return where lamps switch, one after another or at once.

    Parameters
    ----------
    frames : ndarray, (n, h, w), float32
        Intensities in [0, 1].

    Returns
    -------
    tuple of Switch
        A jump is a frame that differs from the one before at half of the pixels or more; jumps that are less than
        `MEMORY` frames apart are one switch.
    """
    change = np.array([np.median(np.abs(b - a)) for a, b in pairwise(frames)])
    least, times = _JUMP
    jumps = np.flatnonzero(change > max(least, times * float(np.median(change)))) + 1
    runs = np.split(jumps, np.flatnonzero(np.diff(jumps) >= MEMORY) + 1)
    return tuple((int(run[0]), int(run[-1])) for run in runs if len(run))


def _grey(image: np.ndarray) -> np.ndarray:
    full = np.iinfo(image.dtype).max if image.dtype.kind in "ui" else 1.0
    grey = image if image.ndim == 2 else image @ np.array([0.114, 0.587, 0.299], np.float32)
    return (grey / full).astype(np.float32)


def _scaled(frames: np.ndarray) -> np.ndarray:
    return (frames / np.float32(GREY)).astype(np.float32)
