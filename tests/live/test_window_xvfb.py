"""The window on a virtual screen (Xvfb): picture, keys, close button."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from live_fakes import SQUARE, wait_until

from bgsub._opencv import cv2

MISSING = [tool for tool in ("Xvfb", "xdotool", "import") if shutil.which(tool) is None]
pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}")]


@pytest.fixture(scope="module")
def screen():
    """The environment of a program on a virtual screen."""
    command = ["Xvfb", "-displayfd", "1", "-screen", "0", "1280x1024x24", "-nolisten", "tcp", "-noreset"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        number = server.stdout.readline().decode().strip()
        if not number:
            pytest.skip("Xvfb does not start")
        python_path = os.pathsep.join(str(Path(__file__).parents[1] / name) for name in ("live", "video"))
        yield {**os.environ, "DISPLAY": f":{number}", "PYTHONSAFEPATH": "", "PYTHONPATH": python_path}
        server.terminate()


class Program:
    """The program in a window, its state, and means to use it."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self._out = folder / "out"
        with self._out.open("w") as out, (folder / "errors").open("w") as errors:
            command = [sys.executable, str(Path(__file__).with_name("window_program.py")), str(folder)]
            self.process = subprocess.Popen(command, env=environment, stdout=out, stderr=errors)

    def xdotool(self, *words: object) -> str:
        command = ["xdotool", *map(str, words)]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False).stdout.strip()

    @property
    def window(self) -> str:
        return next(iter(self.xdotool("search", "--onlyvisible", "--name", "bgsub test").split()[-1:]), "")

    @property
    def state(self) -> dict:
        lines = self._out.read_text().splitlines()
        return json.loads(lines[-1]) if lines else {}

    def press(self, key: str, **state: object) -> None:
        """Press a key and wait for a state."""
        self.xdotool("key", key)
        wait_until(lambda: state.items() <= self.state.items())

    def is_painted(self, timeout: float) -> bool:
        end = time.monotonic() + timeout
        while not self.screenshot().any():
            if time.monotonic() > end:
                return False
        return True

    def screenshot(self) -> np.ndarray:
        command = ["import", "-window", "root", "png:-"]
        png = subprocess.run(command, env=self.environment, capture_output=True, check=True).stdout
        return cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)

    @property
    def squares(self) -> int:
        """Number of regions on the screen that have the colour of the square."""
        near = (np.abs(self.screenshot().astype(int) - SQUARE).max(axis=2) < 12).astype(np.uint8)
        areas = cv2.connectedComponentsWithStats(near)[2][1:, cv2.CC_STAT_AREA]
        return int(np.count_nonzero(areas > 1000))


@pytest.fixture
def program(tmp_path, screen):
    program = Program(tmp_path, screen)
    try:
        wait_until(lambda: program.window or program.process.poll())
        assert program.process.poll() is None, (tmp_path / "errors").read_text()
        window = program.window
        # Without a window manager, Qt may miss on a busy machine that its window is visible, and paint nothing.
        for _ in range(5):
            if program.is_painted(5.0):
                break
            program.xdotool("windowunmap", "--sync", window, "windowmap", "--sync", window)
        program.xdotool("windowfocus", "--sync", window)
        wait_until(lambda: program.state)
        yield program
    finally:
        program.process.kill()
        program.process.wait()


def test_keys_of_the_window(program):
    wait_until(lambda: program.squares == 2)  # input and foreground of the panel
    bright = program.screenshot().mean()
    program.press("h", show_help=True)
    wait_until(lambda: program.screenshot().mean() < bright - 0.3)  # the box of the help is dark
    program.press("h", show_help=False)
    program.press("5", view="contours")
    wait_until(lambda: program.squares == 1)
    program.press("v", view="foreground")
    program.press("f", frozen=True)
    program.press("plus", threshold=0.09)
    program.press("minus", threshold=0.08)
    program.press("less", min_area=0.0001)

    program.press("p", paused=True)
    program.xdotool("key", "s")
    wait_until(lambda: "snapshot" in program.state["notice"])
    views = sorted(path.stem.split("-")[-1] for path in program.folder.glob("snapshot-*.png"))
    assert views == ["background", "foreground", "mask"]
    program.press("space", paused=False)

    (program.folder / "silent").touch()  # the keys work without new frames
    program.press("1", view="panel")
    program.press("Escape", quitting=True)
    assert program.process.wait(20) == 0
    assert (program.folder / "errors").read_text() == ""
