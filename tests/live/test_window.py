"""Pictures and window of a live run, on a fake and a virtual screen: views, sizes, keys, snapshots, errors."""

import dataclasses
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from unittest import mock

import numpy as np
import pytest
from cli_inputs import make_scene
from live_fakes import FakeDisplay, wait_until
from sink_kit import feed, random_images
from video_fakes import COUNT, FakeSource, ListSink, ThresholdSubtractor, make_frames, separate, write_video

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SinkError
from bgsub.jobs.controls import LIVE_VIEWS, SETTINGS, Controls
from bgsub.jobs.pipeline import Pipeline
from bgsub.live.viewer import KEYS, Viewer
from bgsub.live.window import CvDisplay, WindowSink, check_display, press
from bgsub.numerics import compilation
from bgsub.numerics.compilation import Progress
from bgsub.parameters import SUBTRACTOR
from bgsub.video import Frame
from bgsub.video.views import VIEWS, to_bgr8

IMAGE, NEXT = make_frames(2, 240, 320)
LATE = Frame(1, "000002", None, NEXT)


@pytest.fixture
def separation():
    return separate(IMAGE.copy())


@pytest.fixture
def shown(separation):
    """Controls that know the first frame."""
    controls = Controls()
    controls.statistics.update(Frame(0, "000001", None, separation.frame), separation)
    return controls


def picture(separation, view="panel", **options):
    return Viewer(Controls(), words=False, **options).picture(separation, view=view)


def test_views_equal_those_of_the_outputs(separation):
    for view in set(LIVE_VIEWS) - {"input"}:
        expected = to_bgr8(VIEWS[view](separation))
        np.testing.assert_array_equal(Viewer(Controls(view), words=False).picture(separation), expected)
    np.testing.assert_array_equal(picture(separation, "input"), separation.frame)
    with pytest.raises(ParameterError, match="view must be one of panel, input"):
        picture(separation, "nothing")


def test_large_pictures_are_reduced_and_frames_without_mask_shown(separation):
    for view in LIVE_VIEWS:
        np.testing.assert_array_equal(picture(LATE, view), NEXT)  # without a mask
        assert picture(LATE, view, longest_side=100).shape == (75, 100, 3)
        made = picture(separation, view, longest_side=100)
        assert made.shape == ((76, 100, 3) if view == "panel" else (75, 100, 3))
    assert set(np.unique(picture(separation, "mask", longest_side=100))) == {0, 255}


@pytest.mark.parametrize(("dtype", "channels"), [("u1", ()), ("u2", (3,)), ("f2", (3,)), ("f4", ()), ("f8", (3,))])
def test_all_frame_formats(dtype, channels):
    separation = separate(random_images((30, 40, *channels), dtype))
    for view in LIVE_VIEWS:
        for longest in (None, 20):
            made = picture(separation, view, longest_side=longest)
            assert (made.ndim, made.shape[2], made.dtype) == (3, 3, np.uint8)


def outlined(picture, tiles):
    """Replace `bgsub.events.annotation.annotate`."""
    marked = picture.copy()
    marked[::2, ::2] = tiles
    return marked


def test_boxes_on_each_view(separation, shown):
    annotated = dataclasses.replace(separation, annotate=outlined)
    viewer = Viewer(shown, words=False)
    for view in LIVE_VIEWS:
        plain = picture(separation, view)
        expected = outlined(plain, 2 if view == "panel" else 1)
        assert (expected != plain).any()
        shown.boxes = False
        np.testing.assert_array_equal(viewer.picture(annotated, view), expected if view == "boxes" else plain)
        shown.boxes = True
        np.testing.assert_array_equal(viewer.picture(annotated, view), expected)
        np.testing.assert_array_equal(viewer.picture(separation, view), plain)  # no tracking


def test_label_gives_the_reason(shown, separation, monkeypatch):
    texts = [""]
    monkeypatch.setattr("bgsub.video.views.add_label", lambda image, text, scale: texts.append(text) or image)
    Viewer(Controls()).picture(None)
    assert texts[-1] == "waiting for camera ..."
    viewer = Viewer(shown)
    viewer.picture(separation)
    shown.statistics.note_preview()
    viewer.picture(LATE)
    assert texts[-1] == "the mask is late"
    monkeypatch.setattr(compilation, "progress", lambda: Progress(31, 62))
    viewer.picture(LATE)
    assert texts[-1] == "compiling kernels 31 of 62"
    shown.frozen = True
    viewer.picture(LATE)
    assert texts[-1] == "frozen, compiling kernels 31 of 62"


def test_window_shows_the_frame_until_the_next_mask(shown):
    shown.show_statistics = False
    display = FakeDisplay()
    with WindowSink("mask", controls=shown, display=display) as window:
        window.preview(LATE)
        for _ in range(2):
            window.idle()
            np.testing.assert_array_equal(display.shown[-1], NEXT)
        window.write(LATE, separate(NEXT))
        assert set(np.unique(display.shown[-1])) == {0, 255}


def test_quit_and_other_keys():
    for key in (ord("q"), 27, 0x100000 | ord("q"), -1, ord("x"), 255, 0):
        controls = Controls()
        known = key & 0xFF in (ord("q"), 27)
        assert press(key, [controls]) is known
        assert controls.quitting is known
        assert not any((controls.paused, controls.frozen, controls.take_snapshot_request()))


def test_switch_keys(controls):
    switches = {" ": "paused", "p": "paused", "f": "frozen", "b": "boxes", "h": "show_help", "i": "show_statistics"}
    for key, switch in switches.items():
        before = getattr(controls, switch)
        for after in (not before, before):
            assert press(ord(key), [controls])
            assert getattr(controls, switch) is after


def test_snapshot_reset_and_view_keys(controls):
    assert press(ord("s"), [controls])
    assert [controls.take_snapshot_request() for _ in range(2)] == [True, False]
    controls.frozen = True
    assert press(ord("r"), [controls])  # overrides the freeze once
    assert [controls.take_learning_rate() for _ in range(3)] == [1, 0, 0]
    for key, view in zip("1234567890", LIVE_VIEWS, strict=False):
        assert press(ord(key), [controls])
        assert controls.view == view
    for view in (LIVE_VIEWS[0], LIVE_VIEWS[1]):
        assert press(ord("v"), [controls])
        assert controls.view == view


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_setting_keys_also_without_shift(controls, setting):
    other, start = Controls(), SUBTRACTOR[setting.name].default
    unshifted = {"+": "=", "<": ",", ">": ".", "-": "_"}
    for _ in range(2):
        assert press(ord(setting.keys[1]), [controls])
        press(ord(unshifted.get(setting.keys[1], setting.keys[1])), [other])
    assert controls.parameters[setting.name] == pytest.approx(start + 2 * setting.step)
    assert controls.parameters == other.parameters
    for _ in range(round(setting.high / setting.step) + 5):
        assert press(ord(unshifted.get(setting.keys[0], setting.keys[0])), [controls])
    assert controls.parameters[setting.name] == setting.low
    beyond = Controls()
    beyond.follow({setting.name: 2 * setting.high})  # beyond the slider, a value does not move against the key
    for steps, expected in ((1, 2 * setting.high), (-1, 2 * setting.high - setting.step)):
        beyond.nudge(setting, steps)
        assert beyond.parameters[setting.name] == pytest.approx(expected)


def test_each_key_of_the_help_has_a_command(controls):
    for names, _ in KEYS:
        for name in names.replace("0..9", "0 9").replace(",", " ").split():
            assert press({"Esc": 27, "space": 32}.get(name) or ord(name), [controls]), name


def test_shows_every_frame_and_the_state(controls):
    display = FakeDisplay()
    controls.show_statistics = False
    with WindowSink("mask", display=display, controls=controls) as sink:
        assert len(display.shown) == 1  # the waiting picture
        feed(sink, make_frames(3))
        controls.paused = True
        sink.idle()
        controls.paused = False
        sink.idle()
        assert display.is_open
    sink.close()
    assert not display.is_open
    assert len(display.shown) == 6
    mask = separate(make_frames(1)[0]).mask.repeat(7, axis=0).repeat(7, axis=1)
    # A tiny frame is enlarged.
    np.testing.assert_array_equal(display.shown[1][:180, :336, 0], mask[:180])
    assert (display.shown[4] != display.shown[3]).any()
    np.testing.assert_array_equal(display.shown[5], display.shown[3])


def test_pause_lasts_until_the_next_key():
    display, others, looks = FakeDisplay(["p", -1, -1, -1, "p", -1]), ListSink(), []
    sinks = [WindowSink("mask", display=display), others]
    Pipeline(FakeSource(3), ThresholdSubtractor(), sinks, progress=lambda *_: looks.append(display.looks)).run()
    # One look per frame, and four more in the pause after the first.
    assert looks == [1, 6, 7]
    assert len(others.frames) == 3


@pytest.mark.parametrize(("display", "frames"), [(FakeDisplay(["p", -1, "q"]), 1), (FakeDisplay(cross=4), 4)])
def test_quit_in_a_pause_and_close_button_end_the_pipeline(display, frames):
    summary = Pipeline(FakeSource(COUNT), ThresholdSubtractor(), [WindowSink(display=display)]).run()
    assert (summary.stopped, summary.frames) == ("user", frames)


@pytest.mark.parametrize("keys", ["", "p"])
def test_closed_window_is_not_shown_again(controls, keys):
    display = FakeDisplay(keys, cross=2)
    with WindowSink(display=display, controls=controls) as sink:
        feed(sink, make_frames(2))
        assert controls.quitting
        shown = len(display.shown)
        sink.idle()
        assert len(display.shown) == shown


def test_snapshot_has_view_mask_and_background_also_in_a_pause(tmp_path, monkeypatch, caplog):
    (tmp_path / "none").mkdir()
    monkeypatch.chdir(tmp_path / "none")
    (tmp_path / "none").rmdir()
    with WindowSink(display=FakeDisplay("s")) as sink:
        feed(sink, make_frames(2))
    monkeypatch.chdir(tmp_path)
    assert [message.partition(": ")[0] for message in caplog.messages] == ["no snapshot"]
    with WindowSink("input", display=FakeDisplay(["h", "s"])) as sink:
        feed(sink, make_frames(2))
        assert "snapshot" in sink.controls.notice
    (tmp_path / "pause").mkdir()
    monkeypatch.chdir(tmp_path / "pause")
    with WindowSink("mask", display=FakeDisplay([-1, "s"])) as sink:
        feed(sink, make_frames(1))
        sink.idle()
    assert sorted(path.stem.split("-")[-1] for path in (tmp_path / "pause").iterdir()) == ["background", "mask"]
    frame = make_frames(2)[1]
    expected = {"input": frame, "mask": separate(frame).mask, "background": np.zeros_like(frame)}
    assert len(list(tmp_path.glob("*.png"))) == 3
    for view, image in expected.items():
        (path,) = tmp_path.glob(f"snapshot-*-in000002-{view}.png")
        np.testing.assert_array_equal(cv2.imread(str(path), cv2.IMREAD_UNCHANGED), image)


linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="screens of Linux")


@linux_only
def test_no_window_without_a_screen_or_with_a_headless_opencv(monkeypatch):
    with pytest.raises(SinkError, match="neither DISPLAY nor WAYLAND_DISPLAY"):
        WindowSink()
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(cv2, "getBuildInformation", lambda: "  GUI:                           NONE\n")
    with pytest.raises(SinkError, match=r"this OpenCV is headless; install one with windows: .*opencv-python"):
        WindowSink()


@linux_only
@pytest.mark.slow
def test_missing_screen_does_not_abort_the_process():
    script = "from bgsub.live.window import WindowSink\ntry: WindowSink()\nexcept Exception as e: print(repr(e))"
    command, environment = [sys.executable, "-c", script], {**os.environ, "DISPLAY": ":7777"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert "NoWindowError(\"no window can be shown: screen ':7777' does not respond" in result.stdout
    assert result.stderr == ""


@linux_only
@pytest.mark.parametrize("answer", [mock.Mock(returncode=0), mock.Mock(returncode=1), subprocess.TimeoutExpired("", 1)])
def test_screen_is_tried_in_another_process(monkeypatch, answer):
    monkeypatch.setenv("DISPLAY", ":7777")
    monkeypatch.setattr(cv2, "getBuildInformation", lambda: "  GUI:                           QT5\n")
    monkeypatch.setattr(subprocess, "run", probe := mock.Mock(side_effect=[answer]))
    works = getattr(answer, "returncode", None) == 0
    with nullcontext() if works else pytest.raises(SinkError, match="screen ':7777' does not respond"):
        check_display()
    assert probe.call_args.kwargs["timeout"] > 0


def test_window_of_opencv_grows_with_the_pictures_and_may_be_gone(monkeypatch):
    sizes, display = [], CvDisplay()
    monkeypatch.setattr(cv2, "imshow", lambda *_: None)
    monkeypatch.setattr(cv2, "resizeWindow", lambda _title, *size: sizes.append(size))
    monkeypatch.setattr(cv2, "getWindowProperty", mock.Mock(side_effect=cv2.error))
    for shape in ((20, 30, 3), (10, 30, 3), (10, 40, 3), (1080, 1920, 3), (1080, 1920, 3)):
        display.show("a", np.zeros(shape, np.uint8))
    assert sizes == [(30, 20), (40, 20), (1209, 680)]  # the last one is reduced
    assert not display.visible("a")


MISSING = [tool for tool in ("Xvfb", "xdotool", "import") if shutil.which(tool) is None]


@pytest.fixture
def screen():
    """Return a function that runs a tool on a virtual screen and returns its output; its variables are `screen.env`."""
    command = ["Xvfb", "-displayfd", "1", "-screen", "0", "1280x1024x24", "-nolisten", "tcp", "-noreset"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        number = server.stdout.readline().decode().strip()
        if not number:
            pytest.skip("Xvfb does not start")

        def run(*words):
            return subprocess.run(words, env=run.env, capture_output=True, check=False).stdout

        run.env = {**os.environ, "DISPLAY": f":{number}"}
        yield run
        server.terminate()


@pytest.fixture
def window(screen, tmp_path):
    """Start a live run of a video; return its process when its window has a picture and the keys."""
    video = write_video(tmp_path / "a.avi", np.tile(make_scene(100), (20, 1, 1, 1)))
    command = [sys.executable, "-m", "bgsub", "live", video, "--quiet", "--start-frames", "10"]

    def find():
        """Return the visible window, None if the process has ended."""
        numbers = []

        def is_decided():
            numbers[:] = screen("xdotool", "search", "--onlyvisible", "--name", "bgsub").split()
            return numbers or process.poll() is not None

        wait_until(is_decided)
        return next(iter(numbers), None)

    def is_painted():
        png = screen("import", "-window", "root", "png:-")
        return cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR).any()

    with subprocess.Popen(command, env=screen.env, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        try:
            assert find() is not None, process.stderr.read()
            # Without a window manager, Qt may miss on a busy machine that its window is visible, and paint nothing.
            for _ in range(5):
                if is_painted():
                    break
                screen("xdotool", "windowunmap", "--sync", find(), "windowmap", "--sync", find(), "sleep", "5")
            screen("xdotool", "windowfocus", "--sync", find())
            yield process
        finally:
            process.kill()


@pytest.mark.browser
@pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}")
def test_keys_of_the_window(screen, window, tmp_path):
    def strike(*keys):
        for key in keys:  # OpenCV keeps only the last key between two frames
            screen("xdotool", "key", key, "sleep", "0.5")

    def check(key, view):
        wait_until(lambda: strike(key, "s") or list(tmp_path.glob(f"snapshot-*-{view}.png")))

    check("s", "background")
    check("5", "contours")
    strike("p")
    check("6", "foreground")  # the keys work without new frames
    strike("Escape")
    assert window.wait(20) == 0
    assert window.stderr.read() == b""
