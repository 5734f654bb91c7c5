"""The virtual camera with a fake backend of the real package, and without a device."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from video_fakes import ThresholdSubtractor, make_frames

from bgsub._opencv import cv2
from bgsub.errors import DependencyError, ParameterError, SinkError
from bgsub.jobs.simple import process_video
from bgsub.live.viewer import compose, make_backdrop
from bgsub.live.virtual_camera import VirtualCameraSink
from bgsub.separation import Separation
from bgsub.video import ArraySource, Frame

HEIGHT, WIDTH = 32, 48
FRAME = Frame(0, "000001", None, np.zeros((HEIGHT, WIDTH, 3), np.uint8))


def separation(channels=(3,)):
    """The left half is foreground."""
    frame = np.full((HEIGHT, WIDTH, *channels), 200, np.uint8)
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[:, : WIDTH // 2] = 255
    mask[0, WIDTH - 5 :] = 127
    return Separation(frame, mask, frame // 4, np.zeros(mask.shape, np.float32), np.zeros(0), "tracking")


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""

    class Clock:
        now = 100.0

    monkeypatch.setattr("bgsub.live.virtual_camera.time.monotonic", lambda: Clock.now)
    return Clock


@pytest.fixture
def backend(monkeypatch):
    """The real package with a fake device that records pictures."""
    package = pytest.importorskip("pyvirtualcam")

    class Device:
        made: ClassVar[list] = []
        fail = False

        def __init__(self, *, width, height, fps, fourcc, device, **_rest) -> None:
            self.size, self.fps, self.name, self.sent, self.closed = (width, height), fps, device, [], 0
            Device.made.append(self)

        def send(self, picture) -> None:
            if Device.fail:
                raise RuntimeError("device\nunplugged.")
            self.sent.append(picture.reshape(self.size[1], self.size[0], 3).copy())

        def close(self) -> None:
            self.closed += 1

        def device(self) -> str:
            return self.name or "/dev/video9"

        def native_fourcc(self) -> None:
            return None

    monkeypatch.setattr(package.camera, "BACKENDS", {"fake": Device})
    return Device


@pytest.mark.parametrize("channels", [(3,), ()])
def test_foreground_before_a_colour_in_rgb(backend, channels):
    sink = VirtualCameraSink("#10f020")
    sink.idle()
    assert backend.made == []  # nothing before the first frame
    with sink:
        sink.write(FRAME, separation(channels))
    sink.close()
    sink.idle()
    (device,) = backend.made
    (picture,) = device.sent
    assert (device.size, device.fps, device.closed) == ((WIDTH, HEIGHT), 25, 1)
    assert sink.device == "/dev/video9"
    np.testing.assert_array_equal(picture[5, 5], [200, 200, 200])
    np.testing.assert_array_equal(picture[5, -5], [0x10, 0xF0, 0x20])  # red first


def test_edge_is_soft_and_narrow_and_shadow_is_background():
    picture = compose(separation(), make_backdrop("#0a0a0a"))[..., 0].astype(int)
    assert (np.diff(picture[5]) <= 0).all()
    soft = np.flatnonzero((picture[5] > 10) & (picture[5] < 200))
    assert 2 <= len(soft) <= 8
    assert abs(soft.mean() - (WIDTH / 2 - 0.5)) < 1
    assert picture[0, -1] == 10


def test_blur_shows_the_background_only():
    one = separation()
    one.background[:, ::2] = 90
    picture = make_backdrop("blur")(one)
    assert picture.shape == (HEIGHT, WIDTH, 3)
    assert picture.std() < 5
    assert picture.mean() == pytest.approx(70, abs=3)


def test_image_covers_the_picture(tmp_path):
    for width, height in ((96, 64), (30, 90), (200, 20), (48, 32)):
        cv2.imwrite(str(tmp_path / "wall.png"), np.full((height, width, 3), (1, 2, 3), np.uint8))
        picture = make_backdrop(tmp_path / "wall.png")(separation())
        np.testing.assert_array_equal(picture, np.tile(np.uint8([1, 2, 3]), (HEIGHT, WIDTH, 1)))


def test_rate_is_kept_without_waiting(backend, clock):
    sink = VirtualCameraSink("#000000", fps=10, size=(WIDTH, HEIGHT))
    counts = [0]
    for call, step in ((lambda: sink.write(FRAME, separation()), 1 / 30), (sink.idle, 1 / 30)):  # then nothing comes
        for _ in range(30):
            call()
            clock.now += step
        counts.append(len(backend.made[0].sent))
    assert 10 <= counts[1] <= 11
    assert 8 <= counts[2] - counts[1] <= 11
    clock.now += 60  # delays are not made up for
    for _ in range(5):
        sink.idle()
    assert len(backend.made[0].sent) - counts[2] == 1
    sink.close()


def test_frames_with_jitter_are_all_sent(backend, clock):
    sink = VirtualCameraSink("#000000", fps=25, size=(WIDTH, HEIGHT))
    for index, jitter in enumerate(np.random.default_rng(1).uniform(-0.01, 0.01, 100)):
        clock.now = 200 + index / 25 + jitter
        sink.write(FRAME, separation())
    assert len(backend.made[0].sent) >= 98
    sink.close()


def test_whole_run(backend):
    sink = VirtualCameraSink("#0000ff", fps=1000)
    process_video(ArraySource(make_frames(10)), sink, subtractor=ThresholdSubtractor())
    assert backend.made[0].sent
    assert backend.made[0].closed == 1


def test_device_error_is_one_line(backend):
    sink = VirtualCameraSink(device="/dev/video7", size=(WIDTH, HEIGHT))
    backend.fail = True
    with pytest.raises(SinkError, match=r"^the virtual camera /dev/video7 failed: device unplugged$"):
        sink.write(FRAME, separation())
    sink.abort()
    assert backend.made[0].closed == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the message is that of Linux")
@pytest.mark.skipif(bool(list(Path("/dev").glob("video*"))), reason="there are video devices here")
def test_no_device():
    pytest.importorskip("pyvirtualcam")
    with pytest.raises(SinkError, match=r"^there is no virtual camera: .*modprobe v4l2loopback'\Z"):
        VirtualCameraSink(size=(64, 48))
    with pytest.raises(SinkError, match=r"^no virtual camera '/dev/video42': "):
        VirtualCameraSink(device="/dev/video42", size=(64, 48))


def test_no_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyvirtualcam", None)
    with pytest.raises(DependencyError, match=r"pip install 'bgsub\[virtual-camera\]'"):
        VirtualCameraSink()


def test_wrong_backdrops_and_rates():
    for name in ("blurr", "#12345", "#gg0000", "missing.png"):
        with pytest.raises(ParameterError, match=f"backdrop must be 'blur', .*, got '{name}'"):
            make_backdrop(name)
    with pytest.raises(ParameterError, match=r"fps must be a positive .*, got 0"):
        VirtualCameraSink(fps=0)
