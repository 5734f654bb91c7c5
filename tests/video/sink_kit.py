"""What the tests of the outputs share: feeding a sink, reading what it made."""

from __future__ import annotations

import numpy as np
from video_fakes import make_frames, separate

from bgsub._opencv import cv2
from bgsub.video import ArraySink, AvVideoSink, Frame, ImageSequenceSink, StillSink, VideoSink


def feed(sink, images, first=0, rate=None):
    for index, image in enumerate(images, first):
        time = None if rate is None else float(index / rate)
        sink.write(Frame(index, f"in{index + 1:06d}", time, image), separate(image))


def feed_and_raise(sink, images, error):
    feed(sink, images)
    raise error


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def contents(folder):
    return {name: (folder / name).read_bytes() for name in files(folder)}


def read_images(folder):
    return [cv2.imread(str(path), cv2.IMREAD_UNCHANGED) for path in sorted(folder.glob("*.png"))]


def small_frames(count, height=12, width=16):
    """A few pictures over and over, as many as asked for."""
    few = make_frames(7, 32, 48)[:, :height, :width]
    return [np.ascontiguousarray(few[index % 7]) for index in range(count)]


def make(kind, folder):
    """Return a sink by its kind, and where its result will be."""
    name, _, by = kind.partition(" ")
    view, dot, _ending = name.partition(".")
    path = folder / name
    if view == "background-image":
        return StillSink(path)
    if not dot:
        return ImageSequenceSink(path, view)
    if path.suffix == ".npz":
        return ArraySink(path, view)
    return VideoSink(path, view) if by == "opencv" else AvVideoSink(path, view, 30)
