"""Frames and files for tests; simulated subtractors, sources, sinks, cameras and displays."""

import csv
import io
import os
import struct
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
from av_files import write_av

from bgsub._opencv import cv2
from bgsub.jobs.controls import Controls
from bgsub.separation import Separation
from bgsub.video import FrameSource, Sink, open_source
from bgsub.video.sources.base import Frame, number_name

HEIGHT, WIDTH, COUNT = 32, 48, 12


def make_frames(count: int = COUNT, height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """Dark noise with a bright square that moves: (count, height, width, 3) uint8."""
    frames = np.random.default_rng(7).integers(0, 60, (count, height, width, 3), dtype=np.uint8)
    for index, frame in enumerate(frames):
        frame[4:12, index : index + 8] = 200
    return frames


def write_video(path: Path, frames: np.ndarray, fps: float = 25.0, codec: str = "FFV1") -> Path:
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*codec), fps, frames.shape[2:0:-1])
    assert writer.isOpened()
    for frame in frames:
        writer.write(frame)
    writer.release()
    return path


needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")


def make_png(header: tuple[int, int, int, int], rows: bytes, *more: bytes) -> bytes:
    """Return a PNG from width, height, depth and type of colour, the bytes of all rows, and more chunks before them."""
    chunks = [b"IHDR" + struct.pack(">IIBBBBB", *header, 0, 0, 0), *more, b"IDAT" + zlib.compress(rows), b"IEND"]
    framed = [struct.pack(">I", len(one) - 4) + one + struct.pack(">I", zlib.crc32(one)) for one in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


def streamed(frames):
    """Return frames, (n, h, w, 3) uint8, as the bytes of a lossless video for a pipe, 25 frames per second."""
    video = io.BytesIO()
    write_av(video, frames, codec="ffv1", pix_fmt="bgr0", ticks=25, format="matroska")
    return video.getvalue()


def write_images(folder: Path, frames: np.ndarray, name: str = "in{:06d}.png") -> Path:
    folder.mkdir(exist_ok=True)
    for number, frame in enumerate(frames, 1):
        assert cv2.imwrite(str(folder / name.format(number)), frame)
    return folder


def read_video(path: Path) -> list[np.ndarray]:
    capture = cv2.VideoCapture(str(path))
    frames = []
    while (answer := capture.read())[0]:
        frames.append(answer[1])
    capture.release()
    return frames


def read_frames(source: object, **options: object) -> list[Frame]:
    with open_source(source, **options) as opened:
        return list(opened)


def separate(image: np.ndarray) -> Separation:
    """Threshold at half of full scale."""
    scale = 1.0 if image.dtype.kind == "f" else np.iinfo(image.dtype).max
    level = image.reshape(*image.shape[:2], -1).max(axis=2) / scale
    return Separation(
        frame=image, mask=np.where(level > 0.5, 255, 0).astype(np.uint8), background=np.zeros_like(image),
        residual=level.astype(np.float32), coefficients=np.zeros(0), phase="tracking",
    )  # fmt: skip


class ThresholdSubtractor:
    """A subtractor without memory that records the learning rates; call number `fail_at` raises."""

    def __init__(self, fail_at: int | None = None, error: BaseException | None = None) -> None:
        self.rates: list[float] = []
        self.fail_at, self.error = fail_at, error or RuntimeError("the model broke")

    def process(self, image: np.ndarray, learningRate: float = -1) -> Separation:
        if len(self.rates) == self.fail_at:
            raise self.error
        self.rates.append(learningRate)
        return separate(image)


class FakeSource(FrameSource):
    """Frames from memory; frame number `fail_at` or `close` can raise."""

    size = WIDTH, HEIGHT

    def __init__(self, count: int = COUNT, live: bool = False, fail_at: int | None = None) -> None:
        super().__init__("fake")
        self.live, self.length = live, count
        self.frames = make_frames(count)
        self.fail_at, self.close_error = fail_at, None
        self.error: BaseException = RuntimeError("the source broke")
        self.closed = 0
        self.exhausted = threading.Event()

    def _frames(self):
        for index, image in enumerate(self.frames):
            if index == self.fail_at:
                raise self.error
            yield Frame(index, number_name(index), None, image)
        self.exhausted.set()

    def close(self) -> None:
        super().close()
        self.closed += 1
        if self.close_error is not None:
            raise self.close_error


class ListSink(Sink):
    """Records frames, separations and the kind of end; frame number `fail_at`, or "close", raises."""

    def __init__(self, fail_at: int | str | None = None, error: BaseException | None = None) -> None:
        self.frames: list[Frame] = []
        self.separations: list[Separation] = []
        self.ended: list[str] = []
        self.fail_at, self.error = fail_at, error or RuntimeError("the sink broke")

    def write(self, frame: Frame, separation: Separation) -> None:
        if len(self.frames) == self.fail_at:
            raise self.error
        self.frames.append(frame)
        self.separations.append(separation)

    def close(self) -> None:
        if self.fail_at == "close":
            raise self.error
        self.ended.append("close")

    def abort(self) -> None:
        self.ended.append("abort")


class FakeCapture:
    """`cv2.VideoCapture` of a camera with a few frames; None is a failed read."""

    def __init__(self, frames: list, fps: float = 30.0, opened: bool = True) -> None:
        self.frames, self.fps, self.opened = list(frames), fps, opened
        self.released = False

    def __call__(self, device, *_args):
        self.device = device
        return self

    def isOpened(self) -> bool:
        return self.opened

    def get(self, key: int) -> float:
        size = {cv2.CAP_PROP_FRAME_WIDTH: float(WIDTH), cv2.CAP_PROP_FRAME_HEIGHT: float(HEIGHT)}
        return {**size, cv2.CAP_PROP_FPS: self.fps}.get(key, 0.0)

    def read(self):
        image = self.frames.pop(0) if self.frames else None
        return image is not None, image

    def release(self) -> None:
        self.released = True


def wait_first(monkeypatch, seconds: float) -> None:
    """Set the seconds before a lost camera is tried again."""
    monkeypatch.setattr("bgsub.video.sources.camera.FIRST_WAIT", seconds)


def quit_after(controls: Controls, count: int):
    """Return a progress callback that quits after `count` frames."""
    seen = []

    def progress(frame, _separation) -> None:
        seen.append(frame)
        if len(seen) == count:
            controls.quit()

    return progress


def read_table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))


def content(folder, without=()):
    """Return the bytes of the files in a folder by name, without records of finished runs and names with some words."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    words = (".resume/done-", *without)
    return {name: data for name, data in found.items() if not any(word in name for word in words)}
