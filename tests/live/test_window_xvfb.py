"""The window on a virtual screen (Xvfb): picture and keys."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from cli_inputs import make_scene
from live_fakes import wait_until
from video_fakes import write_video

from bgsub._opencv import cv2

MISSING = [tool for tool in ("Xvfb", "xdotool", "import") if shutil.which(tool) is None]
pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}")]


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


def test_keys_of_the_window(screen, window, tmp_path):
    def press(*keys):
        for key in keys:  # OpenCV keeps only the last key between two frames
            screen("xdotool", "key", key, "sleep", "0.5")

    def check(key, view):
        wait_until(lambda: press(key, "s") or list(tmp_path.glob(f"snapshot-*-{view}.png")))

    check("s", "background")
    check("5", "contours")
    press("p")
    check("6", "foreground")  # the keys work without new frames
    press("Escape")
    assert window.wait(20) == 0
    assert window.stderr.read() == b""
