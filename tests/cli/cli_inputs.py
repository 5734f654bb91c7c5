"""Tiny scenes and cameras for the command line."""

from __future__ import annotations

import itertools
import threading

import numpy as np

HEIGHT, WIDTH, SQUARE = 32, 48, 10


def make_scene(
    count: int,
    height: int = HEIGHT,
    width: int = WIDTH,
    channels: int = 3,
    dtype: type = np.uint8,
    empty: int = 0,
) -> np.ndarray:
    """A still, slightly noisy picture; after `empty` frames a bright square crosses it.

    Returns (count, height, width, channels), or (count, height, width) for one channel.
    """
    rng = np.random.default_rng(3)
    top = np.iinfo(dtype).max
    picture = rng.uniform(0.1, 0.4, (height, width, channels))
    frames = picture + rng.normal(0, 0.005, (count, height, width, channels))
    for index in range(empty, count):
        left = 2 * (index - empty) % max(width - SQUARE, 1)
        frames[index, height // 4 : height // 4 + SQUARE, left : left + SQUARE] = 0.9
    frames = (frames.clip(0, 1) * top).astype(dtype)
    return frames[..., 0] if channels == 1 else frames


class Endless:
    """The images of a network camera, again and again, until `ended` is set."""

    def __init__(self, images: list[bytes]) -> None:
        self.images, self.ended = images, threading.Event()

    def __iter__(self):
        for image in itertools.cycle(self.images):
            if self.ended.wait(0.005):
                return
            yield image
