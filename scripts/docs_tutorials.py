"""Make the pictures of the tutorials and of some how-tos: run the code of the pages and draw the results.

python scripts/docs_tutorials.py writes docs/pictures/tutorial-*.webp and howto-matrices-*.webp. Those of a page in a
browser take playwright and chromium, that of a window Xvfb, xdotool and ImageMagick. What cannot be had is said, and
left as it is.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import bgsub
from bgsub._opencv import cv2
from bgsub.video.views import add_label

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "docs"))
from pages import blocks  # noqa: E402 - it stands beside the tests of the pages

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WINDOW_TOOLS = ("Xvfb", "xdotool", "import")
MOST = 150_000  # bytes of a picture
PAST_THE_START = 30  # seconds of a live run
BGSUB = [sys.executable, "-m", "bgsub"]
CAMERA = [sys.executable, "-u", str(ROOT / "scripts" / "serve_camera.py")]


class CannotError(Exception):
    """A requirement of a picture is missing."""


def run_page(page: str, length: str | None) -> dict[str, Any]:
    """Run the blocks of a page in the working folder; return the names of its Python."""
    names: dict[str, Any] = {"__name__": "page"}
    programs = Path(tempfile.mkdtemp(dir=".", prefix=".programs"))
    (programs / "bgsub").write_text(f'#!/bin/sh\nexec {" ".join(BGSUB)} "$@"\n')
    (programs / "bgsub").chmod(0o755)
    path = os.pathsep.join([str(programs.resolve()), os.environ["PATH"]])
    for block in blocks(page):
        if block.reason is None and block.language == "sh":
            code = block.code if length is None else _shorter(block.code, length)
            subprocess.run(["bash", "-euc", code], check=True, env={**os.environ, "PATH": path})
        elif block.reason is None and block.language == "python":
            exec(compile(block.code, page, "exec"), names)
    return names


def _shorter(code: str, length: str) -> str:
    """Return the code with a scene of another length."""
    return re.sub(r"(bgsub demo.*?)(?: --duration \w+)?( -o .*)", rf"\1 --duration {length}\2", code)


def frame_of(path: str, index: int = -1) -> np.ndarray:
    """Return a frame of a video, by default the one with most bright pixels, which shows most."""
    with bgsub.open_source(path) as source:
        images = [frame.image for frame in source]
    if index >= 0:
        return images[min(index, len(images) - 1)]
    return images[int(np.argmax([(image == 255).sum() for image in images]))]


def busiest(mask: str) -> int:
    """Return the number of the frame with most foreground, within the second half."""
    with bgsub.open_source(mask) as source:
        shares = [float((frame.image == 255).mean()) for frame in source]
    return len(shares) // 2 + int(np.argmax(shares[len(shares) // 2 :]))


def colour(image: np.ndarray) -> np.ndarray:
    """Return an image in three channels of bytes; floating point is from 0 to 1."""
    image = image if image.dtype == np.uint8 else np.uint8(np.clip(image, 0, 1) * 255)
    return image if image.ndim == 3 else cv2.cvtColor(image, cv2.COLOR_GRAY2BGR)


def tiles(*named: tuple[str, np.ndarray], columns: int = 2) -> np.ndarray:
    """Return images of one size with their names in a grid."""
    named_images = []
    for name, image in named:
        tile = cv2.resize(colour(image), None, fx=1.5, fy=1.5, interpolation=cv2.INTER_AREA)
        tile = add_label(tile, name, 0.5)
        named_images.append(cv2.copyMakeBorder(tile, 2, 2, 2, 2, cv2.BORDER_CONSTANT, value=(90, 90, 90)))
    rows = [np.hstack(named_images[start : start + columns]) for start in range(0, len(named), columns)]
    return np.vstack(rows)


def boxed(image: np.ndarray, objects: bgsub.events.Detections) -> np.ndarray:
    """Return the image with the boxes of objects."""
    image = image.copy()
    for left, top, right, bottom in objects.xyxy.astype(int):
        cv2.rectangle(image, (left, top), (right - 1, bottom - 1), (0, 200, 255), 1)
    return image


# --- the pages --------------------------------------------------------------------------------------------------------


def files_pictures(_names: dict[str, Any]) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
    yield "panel", lambda: frame_of("out/panel.mp4", busiest("out/mask.mkv"))
    yield "summary", lambda: screenshot(Path("events/summary.html").resolve().as_uri(), 700)
    yield (
        "clips",
        lambda: tiles(*((path.name, cv2.imread(str(path))) for path in sorted(Path("clips").glob("*.jpg"))[:2])),
    )
    yield "worst", lambda: screenshot(Path("worst.html").resolve().as_uri(), 560)


def live_pictures(_names: dict[str, Any]) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
    yield "window", window
    yield "page", page_of_a_run
    yield "regions", lambda: frame_of("watched/boxes.mp4", busiest("street/mask.mkv"))
    yield "snapshot", lambda: cv2.imread(str(max(Path("pictures").glob("*.jpg"))))


def python_pictures(names: dict[str, Any]) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
    busy = names["busy"]
    views = {"frame": busy.frame, "mask": busy.mask, "background": busy.background, "probability": busy.probability}
    yield "frame", lambda: tiles(*views.items())
    yield "objects", lambda: tiles(("objects", boxed(busy.frame, names["objects"])), columns=1)
    yield "tune", lambda: tiles(("by default", busy.mask), ("threshold=0.2", names["strict_mask"]))


PICTURES = {"tutorial-files": files_pictures, "tutorial-live": live_pictures, "tutorial-python": python_pictures}


# --- windows and browsers ---------------------------------------------------------------------------------------------


def screenshot(address: str, height: int, ready: Callable[[Any], None] | None = None) -> np.ndarray:
    """Return a screenshot of an address; `ready` waits for the page of playwright."""
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it may be missing
    except ImportError:
        raise CannotError("needs playwright") from None
    if BROWSER is None:
        raise CannotError("needs chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1100, "height": height})
        page.goto(address)
        if ready is not None:
            ready(page)
        png = page.screenshot()
        browser.close()
    return cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)


@contextmanager
def running(program: list[str], *words: str, **environment: str) -> Iterator[str]:
    """Run a program until the end of the block; yield the address that it prints, or an empty string."""
    process = subprocess.Popen(
        [*program, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert process.stdout is not None
        lines = () if environment else process.stdout
        yield next((found[0] for line in lines if (found := re.search(r"http://\S+", line))), "")
    finally:
        process.terminate()
        process.wait()


def page_of_a_run() -> np.ndarray:
    """Return the page of a live run of the synthetic camera, past its start."""

    def ready(page: Any) -> None:
        page.wait_for_function("() => document.images[0]?.naturalWidth > 0", timeout=120_000)
        page.wait_for_timeout(PAST_THE_START * 1000)

    with running(CAMERA) as camera, running(BGSUB, "live", camera, "--no-window", "--serve", "0") as page:
        return screenshot(page, 560, ready)


def window() -> np.ndarray:
    """Return the window of a live run on a virtual screen."""
    missing = [tool for tool in WINDOW_TOOLS if shutil.which(tool) is None]
    if missing:
        raise CannotError(f"needs {', '.join(missing)}")
    command = ["Xvfb", "-displayfd", "1", "-screen", "0", "1280x1024x24", "-nolisten", "tcp", "-noreset"]
    screen = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert screen.stdout is not None
        display = f":{screen.stdout.readline().strip()}"
        with running(CAMERA) as camera, running(BGSUB, "live", camera, DISPLAY=display):
            return _picture_of_the_window({**os.environ, "DISPLAY": display})
    finally:
        screen.terminate()
        screen.wait()


def _picture_of_the_window(environment: dict[str, str]) -> np.ndarray:
    """Return the content of the window some time after it is no longer empty."""

    def answer(*words: str) -> bytes:
        return subprocess.run(words, env=environment, capture_output=True, check=False).stdout

    end = time.monotonic() + 180
    seen: float | None = None
    while time.monotonic() < end:
        names = answer("xdotool", "search", "--onlyvisible", "--name", "bgsub").decode().split()
        png = answer("import", "-window", names[-1], "png:-") if names else b""
        image = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR) if png else None
        if image is not None and image.shape[0] > 400 and image.std() > 30:
            seen = seen or time.monotonic()
            if time.monotonic() - seen > PAST_THE_START:
                return image
        time.sleep(1)
    raise CannotError("no window came up")


# --- files ------------------------------------------------------------------------------------------------------------


def write(path: Path, image: np.ndarray) -> None:
    """Write a picture in the best quality that its size limit allows."""
    for quality in (90, 80, 70, 60, 50):
        written, data = cv2.imencode(".webp", image, [cv2.IMWRITE_WEBP_QUALITY, quality])
        if written and len(data) < MOST:
            path.write_bytes(data.tobytes())
            return
    raise ValueError(f"{path} would be larger than {MOST} bytes")


def make(page: str, folder: Path, length: str | None = None) -> list[str]:
    """Run a page in a new folder and write its pictures; return the failed ones with the reasons."""
    left = []
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as desk:
        os.chdir(desk)
        Path("datasets").symlink_to(ROOT / "datasets")
        try:
            for name, draw in PICTURES[page](run_page(f"{page}.md", length)):
                try:
                    write(folder / f"{page}-{name}.webp", draw())
                except CannotError as error:
                    left.append(f"{page}-{name}: {error}")
        finally:
            os.chdir(before)
    return left


def main(arguments: list[str] | None = None) -> None:
    """Make the pictures of all pages, or of the given ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=f"of {', '.join(PICTURES)}; all by default")
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "pictures")
    parser.add_argument("--length", help="of the scenes, such as 8s; by default that of the pages")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    for page in options.pages or PICTURES:
        for line in make(page, options.folder.resolve(), options.length):
            print(line)


if __name__ == "__main__":
    main()
