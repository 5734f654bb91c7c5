"""Helpers for tests of sinks: create, feed and read them."""

import os
from contextlib import contextmanager
from fractions import Fraction

import cv2
import numpy as np
from video_fakes import separate

from bgsub.video import ArraySink, Frame, ImageSequenceSink, StillSink, VideoSink
from bgsub.video.sinks.video import Outlet, StreamSink


def feed(sink, images, first=0, fps=None):
    for index, image in enumerate(images, first):
        time = None if fps is None else float(index / fps)
        sink.write(Frame(index, f"in{index + 1:06d}", time, image), separate(image))


def fed(sink, images, **options):
    """Write all images to a sink, close and return it."""
    with sink:
        feed(sink, images, **options)
    return sink


def run(sinks, source):
    """Write the frames of a source to all sinks and close them."""
    for frame in source:
        for sink in sinks:
            sink.write(frame, separate(frame.image))
    for sink in sinks:
        sink.close()


def feed_and_raise(sink, images, error, **options):
    feed(sink, images, **options)
    raise error


@contextmanager
def limited(kind, size):
    """Limit the size of files ("FSIZE") or of the addresses ("AS") of this process."""
    import resource  # noqa: PLC0415 - not on Windows

    number = getattr(resource, f"RLIMIT_{kind}")
    soft, hard = resource.getrlimit(number)
    resource.setrlimit(number, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(number, (soft, hard))


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def random_images(shape, dtype):
    """Return an image, or several, of any type."""
    full = 1 if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max
    return (np.random.default_rng(3).random(shape) * full).astype(dtype)


def make(kind, folder):
    """Return a sink by its kind: a file name, with " stream" for one on a pipe."""
    name, _, by = kind.partition(" ")
    view, dot, _ending = name.partition(".")
    path = folder / name
    if by == "stream":
        folder.mkdir(exist_ok=True)
        outlet = Outlet(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC))
        return StreamSink(outlet, view, Fraction(30))
    if view == "background-image":
        return StillSink(path)
    if not dot:
        return ImageSequenceSink(path, view)
    if path.suffix == ".npz":
        return ArraySink(path, view)
    return VideoSink(path, view, 30)


def read_images(folder):
    return [cv2.imread(str(path), cv2.IMREAD_UNCHANGED) for path in sorted(folder.glob("*.png"))]
