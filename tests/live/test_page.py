"""The page of a live run in a headless browser."""

import re
import shutil
import threading
from contextlib import closing, contextmanager

import numpy as np
import pytest
from live_fakes import Saved, Tunable, WalkingSquare, wait_until

from bgsub.jobs.controls import Controls
from bgsub.jobs.pipeline import Pipeline
from bgsub.live.page_commands import RegionStore
from bgsub.live.server import LiveServer
from bgsub.numerics import compilation
from bgsub.numerics.compilation import Progress

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
sync_api = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(BROWSER is None, reason="needs chromium")]

ARGUMENTS = "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync"
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


class Run:
    """A camera in a pipeline in a thread, on a page."""

    def __init__(self, **options: object) -> None:
        self.controls, self.subtractor, self.camera = Controls(), Tunable(), WalkingSquare()
        self.server = LiveServer(self.controls, port=0, **options)
        pipeline = Pipeline(self.camera, self.subtractor, self.server.broadcasts, controls=self.controls)
        self.thread = threading.Thread(target=pipeline.run)
        self.thread.start()

    def close(self) -> None:
        self.controls.quit()
        self.thread.join()
        self.server.close()


@contextmanager
def browsing(refused: bool = False, **options):
    """A page of Chromium; its errors fail the test, except refused requests if they are expected."""
    if BROWSER is None:
        pytest.skip("needs chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=[*ARGUMENTS.split(), "--no-first-run"])
        try:
            page = browser.new_page(**options)
            page.set_default_timeout(15000)
            complaints: list[str] = []
            page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            yield page
            assert [text for text in complaints if not (refused and text.startswith("Failed to load resource"))] == []
        finally:
            browser.close()
    # The process of playwright is waited for in a thread.
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("asyncio-waitpid")])


def natural_size(page, width: int, height: int, number: int = 0) -> None:
    """Wait until a picture of the stream has that size."""
    page.wait_for_function(
        "([n, w, h]) => { const i = document.images[n]; return i && i.naturalWidth === w && i.naturalHeight === h; }",
        arg=[number, width, height],
    )


def test_page_shows_and_controls_the_run(monkeypatch):
    with closing(Run()) as run, browsing(viewport=DESKTOP) as page:
        page.goto(run.server.address)
        natural_size(page, 640, 480)  # the panel
        number = page.locator("[data-number='foreground']")
        share = 100 * 60 * 60 / (320 * 240)
        sync_api.expect(number).to_have_text(f"{share:.1f} %")
        fps = page.locator("[data-number='frames/s']")
        wait_for(page, lambda: float(fps.inner_text()) > 5)

        page.get_by_label("View").select_option("contours")
        natural_size(page, 320, 240)
        assert page.locator("a.snapshot").get_attribute("href") == "snapshot.png?camera=0&view=contours"

        slider = page.get_by_label("Threshold")
        slider.focus()
        slider.press("ArrowRight")
        wait_for(page, lambda: run.subtractor.changes.get("threshold") == 0.09)
        sync_api.expect(page.locator(".setting output").first).to_have_text("0.09")
        run.controls.tune(threshold=0.3)
        wait_for(page, lambda: slider.input_value() == "0.3")

        freeze = page.get_by_role("button", name="Freeze")
        freeze.click()
        sync_api.expect(freeze).to_have_attribute("aria-pressed", "true")
        wait_for(page, lambda: run.subtractor.rates[-1] == 0)
        sync_api.expect(page.locator(".states")).to_have_text("frozen")
        freeze.click()
        sync_api.expect(freeze).to_have_attribute("aria-pressed", "false")
        boxes = page.get_by_role("button", name="Boxes")
        boxes.click()
        sync_api.expect(boxes).to_have_attribute("aria-pressed", "true")
        assert run.controls.boxes
        page.get_by_role("button", name="Reset").click()
        wait_for(page, lambda: 1 in run.subtractor.rates)

        page.get_by_role("button", name="Pause").click()
        wait_for(page, lambda: run.controls.paused)
        sync_api.expect(page.locator(".states")).to_have_text("paused")
        with page.expect_download() as download:
            page.get_by_text("Snapshot").click()
        assert download.value.suggested_filename == "snapshot-contours.png"
        page.get_by_role("button", name="Pause").click()
        wait_for(page, lambda: not run.controls.paused)

        late = run.subtractor.late
        late.clear()
        sync_api.expect(page.locator(".states")).to_have_text("the mask is late")
        encoded = run.server.broadcasts[0].count
        wait_for(page, lambda: run.server.broadcasts[0].count > encoded + 5)  # the picture goes on
        monkeypatch.setattr(compilation, "progress", lambda: Progress(31, 62))
        sync_api.expect(page.locator(".states")).to_have_text("compiling kernels 31 of 62")
        monkeypatch.undo()
        late.set()
        sync_api.expect(page.locator(".states")).to_have_text("")

        run.camera.silent.set()
        sync_api.expect(page.locator(".states")).to_have_text("waiting for the camera ...")


def point_of(page, x: float, y: float) -> tuple[float, float]:
    """A place of the picture, in percent, on the page."""
    box = page.locator("svg.drawing").bounding_box()
    return box["x"] + x / 100 * box["width"], box["y"] + y / 100 * box["height"]


def edit(page, run) -> None:
    """Open the page and the editor of regions, which shows the input."""
    page.goto(run.server.address)
    natural_size(page, 640, 480)
    page.locator("summary").click()
    natural_size(page, 320, 240)


def drag(page, *places) -> None:
    page.locator("svg.drawing").scroll_into_view_if_needed()
    page.mouse.move(*point_of(page, *places[0]))
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*point_of(page, *place), steps=3)
    page.mouse.up()


def near(text: str, *points) -> bool:
    """Whether a region has these corners, in percent."""
    drawn = [[float(value.rstrip("%")) for value in point.split(",")] for point in text.partition("=")[2].split(";")]
    return np.allclose(drawn, points, atol=0.8)


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_regions_are_edited_and_saved(viewport):
    saved = Saved()
    store = RegionStore({"roi": ["door=32,24,64,48"], "privacy": ["10%,80%;30%,80%;20%,95%"]}, saved.save)
    with closing(Run(regions=store)) as run, browsing(viewport=viewport) as page:
        edit(page, run)
        polygons = page.locator("svg.drawing polygon")
        sync_api.expect(polygons).to_have_count(2)
        box, image = page.locator("svg.drawing").bounding_box(), page.locator(".picture").bounding_box()
        assert abs(box["width"] / box["height"] - 4 / 3) < 0.02
        assert box["x"] >= image["x"] - 1

        drag(page, (50, 20), (60, 30), (80, 50))  # a new region
        sync_api.expect(polygons).to_have_count(3)
        page.get_by_label("Name").fill("gate")
        drag(page, (80, 50), (85, 60))  # its lower right corner
        drag(page, (50, 35), (45, 36))  # the middle of its left side
        page.locator(".which").select_option("door")
        drag(page, (20, 20), (30, 30))  # the whole region
        page.get_by_role("button", name="Save").click()
        wait_for(page, lambda: saved)
        roi = saved[0]["roi"]
        assert [text.partition("=")[0] for text in roi] == ["door", "gate"]
        assert near(roi[0], (20, 20), (40, 20), (40, 40), (20, 40))
        assert near(roi[1], (50, 20), (80, 20), (85, 60), (50, 50), (45, 36))
        assert saved[0]["privacy"] == ("10%,80%;30%,80%;20%,95%",)  # the text is kept
        sync_api.expect(page.locator(".notice")).to_have_text("regions saved in bgsub.toml; used from the next start")

        sync_api.expect(page.locator("svg.drawing")).to_be_hidden()  # the editor has closed
        page.locator("summary").click()
        sync_api.expect(page.locator("svg.drawing")).to_be_visible()
        page.locator(".which").select_option("gate")
        sync_api.expect(page.locator("svg.drawing circle")).to_have_count(10)  # corners and middles of the sides
        drag(page, (45, 36), (50, 49.5))  # onto the next corner
        page.get_by_label("Purpose").select_option("never show")
        page.locator(".which").select_option("door")
        page.get_by_role("button", name="Delete").click()
        drag(page, (2, 2), (2.4, 2.4))  # too small
        page.get_by_role("button", name="Save").click()
        wait_for(page, lambda: len(saved) == 2)
        assert saved[1]["roi"] == ()
        gate = next(text for text in saved[1]["privacy"] if text.startswith("gate="))
        assert near(gate, (50, 20), (80, 20), (85, 60), (50, 50))
        assert store.texts["privacy"] == saved[1]["privacy"]


def test_unsaved_regions_stay_on_the_page():
    saved = Saved("the disk is full")
    with closing(Run(regions=RegionStore({}, saved.save))) as run, browsing(refused=True) as page:
        edit(page, run)
        drag(page, (10, 10), (40, 40))
        page.get_by_role("button", name="Save").click()
        sync_api.expect(page.locator(".error")).to_have_text("the disk is full")
        sync_api.expect(page.locator("svg.drawing polygon")).to_have_count(1)
        page.get_by_label("Name").fill("a=b;c")
        page.get_by_role("button", name="Save").click()
        sync_api.expect(page.locator(".error")).to_have_text(re.compile("a region must be"))


def test_hidden_page_ends_its_streams_and_a_refused_one_is_retried(monkeypatch):
    monkeypatch.setattr("bgsub.live.server.MAX_STREAMS", 1)
    hide = "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true}); "
    hide += "document.dispatchEvent(new Event('visibilitychange')); }"
    with closing(Run()) as run, browsing(refused=True) as page:
        page.goto(run.server.address)
        natural_size(page, 640, 480)
        page.evaluate(hide, True)
        wait_for(page, lambda: run.server.streams._value == 1)
        run.server.streams.acquire()
        page.evaluate(hide, False)
        sync_api.expect(page.locator(".states")).to_have_text("no picture, trying again ...")
        run.server.streams.release()
        natural_size(page, 640, 480)
        sync_api.expect(page.locator(".states")).to_have_text("")


def test_token_in_the_browser():
    with closing(Run(token="correct-horse")) as run, browsing(refused=True) as page:
        plain = run.server.address.split("?")[0]
        assert page.goto(f"{plain}?token=wrong-horse").status == 403
        assert page.goto(plain).status == 403
        assert page.goto(run.server.address).status == 200
        assert page.url == plain
        natural_size(page, 640, 480)
        page.get_by_role("button", name="Pause").click()
        wait_for(page, lambda: run.controls.paused)


def wait_for(page, condition) -> None:
    """Wait for a condition here while the page goes on."""
    wait_until(lambda: page.wait_for_timeout(20) or condition())


def test_keys_of_the_page():
    with closing(Run()) as run, browsing(viewport=DESKTOP) as page:
        page.goto(run.server.address)
        natural_size(page, 640, 480)
        page.keyboard.press("f")
        wait_for(page, lambda: run.controls.frozen)
        page.keyboard.press("b")
        wait_for(page, lambda: run.controls.boxes)
        page.keyboard.press("Space")
        sync_api.expect(page.locator(".states")).to_have_text("paused, frozen")
        page.keyboard.press("v")
        natural_size(page, 320, 240)  # also while it waits
        slider = page.get_by_label("Threshold")
        slider.focus()
        slider.press("f")  # keys of a control are its own
        page.locator("h1").click()
        page.keyboard.press("Space")
        wait_for(page, lambda: not run.controls.paused)
        assert run.controls.frozen
        with page.expect_download():
            page.keyboard.press("s")
        for name in ("paused", "frozen", "boxes"):
            assert page.locator(f"[data-switch={name}]").get_attribute("title"), name
