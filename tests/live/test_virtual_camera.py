"""The virtual camera with a fake backend of the real package, and without a device."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from saying import says
from video_fakes import make_frames

from bgsub._opencv import cv2
from bgsub.errors import DependencyError, ParameterError, SinkError
from bgsub.jobs.simple import process_video
from bgsub.live.viewer import compose, make_backdrop
from bgsub.live.virtual_camera import VirtualCameraSink
from bgsub.separation import Separation
from bgsub.video import ArraySource, Frame

HEIGHT, WIDTH = 32, 48


def separation(frame_level=200, background_level=50):
    """The left half is foreground."""
    frame = np.full((HEIGHT, WIDTH, 3), frame_level, np.uint8)
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[:, : WIDTH // 2] = 255
    mask[0, WIDTH - 5 :] = 127
    background = np.full_like(frame, background_level)
    return Separation(frame, mask, background, np.zeros(mask.shape, np.float32), np.zeros(0), "tracking")


class Clock:
    """A clock that the test sets."""

    def __init__(self, monkeypatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("bgsub.live.virtual_camera.time.monotonic", lambda: self.now)


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


def frame(index=0):
    return Frame(index, f"{index + 1:06d}", None, np.zeros((HEIGHT, WIDTH, 3), np.uint8))


def test_foreground_before_a_colour_in_rgb(backend):
    with VirtualCameraSink("#10f020") as sink:
        sink.write(frame(), separation())
    (device,) = backend.made
    (picture,) = device.sent
    assert (device.size, device.fps, device.closed) == ((WIDTH, HEIGHT), 25, 1)
    assert sink.device == "/dev/video9"
    np.testing.assert_array_equal(picture[5, 5], [200, 200, 200])
    np.testing.assert_array_equal(picture[5, -5], [0x10, 0xF0, 0x20])  # red first


def test_edge_is_soft_and_narrow():
    picture = compose(separation(), make_backdrop("#000000"))[5, :, 0].astype(int)
    assert (np.diff(picture) <= 0).all()
    soft = np.flatnonzero((picture > 0) & (picture < 200))
    assert 2 <= len(soft) <= 8
    assert abs(soft.mean() - (WIDTH / 2 - 0.5)) < 1


def test_shadow_is_background():
    assert compose(separation(), make_backdrop("#0a0a0a"))[0, -1, 0] == 10


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
        assert picture.shape == (HEIGHT, WIDTH, 3)
        np.testing.assert_array_equal(picture.reshape(-1, 3), [[1, 2, 3]] * (HEIGHT * WIDTH))


def test_grey_frames(backend):
    one = separation()
    grey = Separation(one.frame[..., 0], one.mask, one.background[..., 0], one.residual, one.coefficients, "tracking")
    with VirtualCameraSink("blur") as sink:
        sink.write(frame(), grey)
    np.testing.assert_array_equal(backend.made[0].sent[0][5, 5], [200] * 3)


def test_rate_is_kept_without_waiting(backend, monkeypatch):
    clock = Clock(monkeypatch)
    sink = VirtualCameraSink("#000000", fps=10, size=(WIDTH, HEIGHT))
    sent = backend.made[0].sent
    for _ in range(30):  # three times too fast, for a second
        sink.write(frame(), separation())
        clock.now += 1 / 30
    assert 10 <= len(sent) <= 11
    count = len(sent)
    for _ in range(30):  # nothing comes for a second
        sink.idle()
        clock.now += 1 / 30
    assert 8 <= len(sent) - count <= 11
    count = len(sent)
    clock.now += 60  # delays are not made up for
    for _ in range(5):
        sink.idle()
    assert len(sent) - count == 1
    sink.close()


def test_frames_with_jitter_are_all_sent(backend, monkeypatch):
    clock = Clock(monkeypatch)
    sink = VirtualCameraSink("#000000", fps=25, size=(WIDTH, HEIGHT))
    jitter = np.random.default_rng(1).uniform(-0.01, 0.01, 100)
    for index in range(100):
        clock.now = 200 + index / 25 + jitter[index]
        sink.write(frame(), separation())
    assert len(backend.made[0].sent) >= 98
    sink.close()


def test_nothing_is_sent_before_the_first_frame_and_after_close(backend):
    sink = VirtualCameraSink()
    sink.idle()
    assert backend.made == []
    sink.write(frame(), separation())
    sink.close()
    sink.close()
    sink.idle()
    assert len(backend.made[0].sent) == 1


def test_whole_run(backend):
    from video_fakes import ThresholdSubtractor  # noqa: PLC0415

    sink = VirtualCameraSink("#0000ff", fps=1000)
    process_video(ArraySource(make_frames(10)), sink, subtractor=ThresholdSubtractor())
    assert backend.made[0].sent
    assert backend.made[0].closed == 1


def test_device_error_is_one_line(backend):
    sink = VirtualCameraSink(device="/dev/video7", size=(WIDTH, HEIGHT))
    backend.fail = True
    with says(SinkError, "the virtual camera /dev/video7 failed: device unplugged"):
        sink.write(frame(), separation())
    sink.abort()
    assert backend.made[0].closed == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the message is that of Linux")
@pytest.mark.skipif(bool(list(Path("/dev").glob("video*"))), reason="there are video devices here")
def test_no_device():
    pytest.importorskip("pyvirtualcam")
    with pytest.raises(
        SinkError, match=r"^there is no virtual camera: .*v4l2loopback.*modprobe v4l2loopback'$"
    ) as caught:
        VirtualCameraSink(size=(64, 48))
    assert "\n" not in str(caught.value)
    with pytest.raises(SinkError, match=r"^no virtual camera '/dev/video42': "):
        VirtualCameraSink(device="/dev/video42", size=(64, 48))


def test_no_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyvirtualcam", None)
    with pytest.raises(DependencyError, match=r"^a virtual camera needs .* pip install 'bgsub\[virtual-camera\]'$"):
        VirtualCameraSink()


@pytest.mark.parametrize("spec", ["blurr", "#12345", "#gg0000", "missing.png"])
def test_wrong_backdrops_and_rates(spec):
    with says(ParameterError, f"backdrop must be 'blur', a colour such as '#00b140' or an image file, got '{spec}'"):
        make_backdrop(spec)
    with says(ParameterError, "fps must be a positive number of pictures per second, got 0"):
        VirtualCameraSink(fps=0)
