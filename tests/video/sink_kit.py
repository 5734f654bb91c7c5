"""What the tests of the outputs share: feeding a sink, reading what it made."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from fractions import Fraction
from pathlib import Path

import numpy as np
from video_fakes import make_frames, separate

from bgsub._opencv import cv2
from bgsub.video import ArraySink, Frame, ImageSequenceSink, StillSink, VideoSink
from bgsub.video.sinks.stream import EncodedStreamSink, Outlet, RawStreamSink


def feed(sink, images, first=0, fps=None):
    for index, image in enumerate(images, first):
        time = None if fps is None else float(index / fps)
        sink.write(Frame(index, f"in{index + 1:06d}", time, image), separate(image))


def fed(sink, images, **options):
    """Return a sink that has taken all images and is closed."""
    with sink:
        feed(sink, images, **options)
    return sink


def run(sinks, source):
    """Send a source to all sinks and close them."""
    for frame in source:
        for sink in sinks:
            sink.write(frame, separate(frame.image))
    for sink in sinks:
        sink.close()


def feed_and_raise(sink, images, error):
    feed(sink, images)
    raise error


def starved(kind, folder, limit, count, checked=False):
    """Run a process that writes `count` frames of noise while no file can grow beyond `limit` bytes."""
    script = f"""
        import resource, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from pathlib import Path
        import numpy as np
        from sink_kit import fed, make
        from bgsub.errors import SinkError
        noise = np.random.default_rng(0).integers(0, 256, ({count}, 64, 64), dtype=np.uint8)
        sink = make({kind!r}, Path({str(folder)!r}))
        {"sink.checkpoint()" if checked else ""}
        resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
        try:
            fed(sink, noise)
        except SinkError as error:
            print("SinkError", error)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


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
    if by == "stream":
        folder.mkdir(exist_ok=True)
        outlet = Outlet(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC))
        return (RawStreamSink if path.suffix == ".raw" else EncodedStreamSink)(outlet, view, Fraction(30))
    if view == "background-image":
        return StillSink(path)
    if not dot:
        return ImageSequenceSink(path, view)
    if path.suffix == ".npz":
        return ArraySink(path, view)
    return VideoSink(path, view, 30)
