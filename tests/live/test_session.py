"""Several cameras, each in a thread, with windows in the main thread and one page."""

import threading
import time
from collections import Counter

import pytest
from live_fakes import HEIGHT, WIDTH, FakeDisplay, Saved, WalkingSquare, beside, wait_until
from receiver import Memory
from test_server import Client
from video_fakes import make_frames, write_video

from bgsub import BackgroundSubtractor
from bgsub.errors import ParameterError, SourceError, StoppedError
from bgsub.events.feed import EventFeed
from bgsub.events.linking import ObjectLinker
from bgsub.events.notifications.sink import NotificationSink
from bgsub.jobs.job import Job
from bgsub.live import session as sessions
from bgsub.live.page_commands import RegionStore
from bgsub.live.session import LiveSession, PacedSource
from bgsub.video import ArraySource, Sink

pytestmark = pytest.mark.large
QUICK = {"start_frames": 3, "threads": 1}
ON_PAGE = {"window": False, "page": {"port": 0}}


class Counting(Sink):
    """Count frames, keep the newest separation and call `after` with each count."""

    def __init__(self, after=lambda count: None):
        self.count, self.threads, self.ended, self._after = 0, set(), False, after

    def write(self, frame, separation):
        self.newest = separation
        self.count += 1
        self.threads.add(threading.current_thread())
        self._after(self.count)

    def close(self):
        self.ended = True


@pytest.fixture
def display(monkeypatch):
    display = FakeDisplay()
    monkeypatch.setattr("bgsub.live.window.CvDisplay", lambda: display)
    return display


@pytest.fixture
def cameras(monkeypatch):
    """Cameras "0", "1" and "2", which breaks at its fifth frame."""
    sources = {name: WalkingSquare(f"camera {name}", fail_at=4 if name == "2" else None) for name in "012"}

    def open_source(name, **options):
        if name not in sources:
            raise SourceError(f"camera {name} cannot be opened")
        return sources[name]

    monkeypatch.setattr("bgsub.live.session.open_source", open_source)


EXTRA = {}  # sinks by camera


@pytest.fixture(autouse=True)
def extra_sinks(monkeypatch):
    plain = sessions.make_sinks
    monkeypatch.setattr(sessions, "make_sinks", lambda job, *rest: [*plain(job, *rest), *EXTRA.pop(job.source, ())])
    EXTRA.clear()


def camera(name, *sinks, **options):
    EXTRA[name] = sinks
    return Job(name, ".", save=(), **{"parameters": QUICK, **options})


def test_one_camera_runs_in_the_calling_thread(cameras, display, monkeypatch):
    shared = []
    monkeypatch.setattr("bgsub.live.session.share_heaps", lambda: shared.append(1))
    counting = Counting(lambda count: count == 5 and session.quit())
    with LiveSession([camera("0", counting)], page={"port": 0}) as session:
        (outcome,) = session.run()
        assert session.server.broadcasts[0].number >= counting.count
    assert (outcome.name, outcome.error, shared) == ("camera 0", None, [1])
    assert outcome.result.summary.frames == counting.count >= 5
    assert outcome.result.summary.stopped == "user"
    assert counting.threads == {threading.current_thread()}
    assert display.titles == display.closed == ["bgsub: 0"]


def test_failed_camera_does_not_stop_the_others(cameras, display):
    def after(_count):
        if min(countings[name].count for name in "01") >= 8 and countings["2"].ended:
            session.quit()

    countings = {name: Counting(after) for name in "0217"}
    with LiveSession([camera(*item) for item in countings.items()], view="mask") as session:
        outcomes = session.run()
    assert [outcome.name for outcome in outcomes] == [f"camera {name}" for name in "0217"]
    assert min(outcomes[place].result.summary.frames for place in (0, 2)) >= 8
    assert [str(outcomes[place].error) for place in (1, 3)] == ["camera 2 broke", "camera 7 cannot be opened"]
    assert 1 <= countings["2"].count <= 4  # a busy machine drops frames
    # All windows belong to the main thread and are closed.
    assert display.threads == {threading.current_thread()}
    assert set(display.titles) == set(display.closed) == {f"bgsub: {name}" for name in "0217"}


def test_keys_control_all_cameras(cameras, display):
    countings = [Counting(), Counting()]
    with LiveSession([camera("0", countings[0]), camera("1", countings[1])]) as session:
        first, second = session.controls.values()

        def work():
            wait_until(lambda: min(counting.count for counting in countings) > 3)
            display.keys.append(ord("p"))
            wait_until(lambda: first.paused and second.paused)
            paused = [counting.count for counting in countings]
            display.keys.append(ord("+"))
            wait_until(lambda: first.parameters["threshold"] == second.parameters["threshold"] == 0.09)
            # A frame that is being written at the key press is finished.
            assert all(counting.count <= count + 1 for counting, count in zip(countings, paused, strict=True))
            display.keys.append(ord("p"))
            wait_until(lambda: min(counting.count for counting in countings) > max(paused) + 3)
            display.keys.append(ord("q"))

        with beside(work):
            outcomes = session.run()
    assert [outcome.result.summary.stopped for outcome in outcomes] == ["user", "user"]


def test_parameters_reach_the_subtractor(cameras, tmp_path):
    def after(count):
        controls = session.controls["camera 0"]
        assert controls.parameters["threshold"] == 0.2
        if count == 10:
            controls.tune(min_area=0.01, noise_factor=4)
        if count == 20:
            session.quit()

    job = camera("0", Counting(after), parameters={**QUICK, "threshold": 0.2}, save_model=tmp_path / "m.npz")
    with LiveSession([job], **ON_PAGE) as session:
        session.run()
    parameters = BackgroundSubtractor.load(tmp_path / "m.npz").get_params()
    assert [parameters[name] for name in ("threshold", "min_area", "noise_factor")] == [0.2, 0.01, 4]


def test_window_works_while_the_camera_opens(display, monkeypatch):
    display.keys = [-1, -1, ord("q")]
    quitting = threading.Event()

    def open_source(name, **options):
        assert quitting.wait(10)
        return WalkingSquare(name)

    monkeypatch.setattr("bgsub.live.session.open_source", open_source)
    with LiveSession([camera("http://nobody/")]) as session:
        with pytest.raises(StoppedError, match="before the camera responded"):
            session.run()
        quitting.set()
    assert display.looks == 3
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name == "bgsub-open"])


def test_page_and_snapshots_of_several_cameras(cameras, here):
    with LiveSession([camera("0"), camera("1")], **ON_PAGE) as session:

        def work():
            wait_until(lambda: all(c.statistics.as_dict()["frames"] > 4 for c in session.controls.values()))
            answer = Client(session.server).command({"snapshot": True, "view": "overlay"})[1]
            assert [c["name"] for c in answer["cameras"]] == ["camera 0", "camera 1"]
            wait_until(lambda: len(list(here.iterdir())) == 6)
            session.quit()

        with beside(work):
            session.run()
    names = Counter("-".join(path.stem.split("-")[:3]) for path in here.iterdir())
    assert names == {"snapshot-camera-0": 3, "snapshot-camera-1": 3}


def test_requested_snapshot_is_notified(cameras, here):
    memory = Memory()

    def after(count):
        if count == 3:
            session.controls["camera 0"].request_snapshot()
        if count == 6:
            session.quit()

    sink = NotificationSink(EventFeed(ObjectLinker()), [memory], source="gate")
    with LiveSession([camera("0", sink, Counting(after))], **ON_PAGE) as session:
        (outcome,) = session.run()
    (sent,) = [one for one in memory.got if one.event == "request"]
    assert (sent.type, sent.number, sent.source) == ("snapshot", 1, "gate")
    assert here / sent.snapshot in here.glob("snapshot-*-panel.png")
    assert outcome.result.notifications.delivered == len(memory.got)


def test_files_play_in_real_time_unless_fast(tmp_path, monkeypatch):
    path, paced = write_video(tmp_path / "video.avi", make_frames(5)), []
    monkeypatch.setattr("bgsub.live.session.PacedSource", lambda source: paced.append(source) or source)
    for fast in (True, False):
        with LiveSession([camera(str(path))], window=False, fast=fast) as session:
            (outcome,) = session.run()
        assert outcome.result.summary.frames == 5
        assert len(paced) == (not fast)
    begin = time.monotonic()
    assert len(list(PacedSource(ArraySource(make_frames(6), fps=40)))) == 6
    assert time.monotonic() - begin >= 0.12
    assert len(list(PacedSource(ArraySource(make_frames(6))))) == 6  # without times


def test_conflicting_arguments_leave_no_window_open(display):
    for described, options, message in (
        ([], {}, "at least one camera"),
        ([camera("0"), camera("0")], {}, "each camera can be given once, got camera 0 twice"),
        ([camera("0"), camera("1", save_model="m.npz")], {}, "a model file is for one camera"),
        ([camera("0", parameters={"rank": 0})], {}, "rank must be"),
        ([camera("0")], {"view": "masks"}, "view must be one of"),
        ([camera("0")], {"page": {"port": -1}}, "port must be"),
    ):
        with pytest.raises(ParameterError, match=message):
            LiveSession(described, **options)
    assert display.titles == display.closed == ["bgsub: 0"]


def test_quit_does_not_wait_for_a_slow_file(tmp_path):
    path = write_video(tmp_path / "video.avi", make_frames(3), fps=0.02)
    with LiveSession([camera(str(path), Counting(lambda count: session.quit()))], window=False) as session:
        (outcome,) = session.run()
    assert outcome.result.summary.frames == 1
    assert outcome.result.summary.seconds < 20


def test_drawn_regions_hold_at_once(cameras):
    """The square moves in rows 90 to 150; its mask and its colour follow the regions that are drawn."""
    store, seen = RegionStore({}, Saved().save), []
    nothing = {"roi": [], "ignore": [], "privacy": []}
    lower, upper = "low=0%,50%;100%,50%;100%,100%;0%,100%", "high=0%,0%;100%,0%;100%,50%;0%,50%"
    steps = {25: {"roi": [lower]}, 40: {"ignore": [lower]}, 55: {}, 70: {"privacy": [upper]}}

    def after(count):
        if count == 1:
            with pytest.raises(ParameterError, match="lies outside of the frame"):
                store.replace({**nothing, "roi": ["far=400,10,20,20"]})
        if count in steps or count == 90:
            found = counting.newest.mask == 255
            seen.append([found[:120].any(), found[120:].any(), bool(counting.newest.frame[:115].any())])
        if count in steps:
            seen.append(store.replace({**nothing, **steps[count]}, [(HEIGHT, WIDTH)]))
        if count == 90:
            session.quit()

    counting = Counting(after)
    with LiveSession([camera("0", counting, roi=())], **ON_PAGE, regions=store) as session:
        session.run()
    assert seen[1::2] == ["regions saved in bgsub.toml; used from now on"] * 4
    assert seen[::2] == [[1, 1, 1], [0, 1, 1], [1, 0, 1], [1, 1, 1], [0, 1, 0]]
    assert not store._followers


def test_a_camera_that_opens_later_uses_the_drawn_regions(cameras, monkeypatch):
    """The second camera opens after a privacy region was drawn over the whole picture."""
    store, opened, seen = RegionStore({}, Saved().save), sessions.open_source, []
    everything = "all=0%,0%;100%,0%;100%,100%;0%,100%"

    def open_late(name, **options):
        if name == "1":
            wait_until(lambda: seen)
        return opened(name, **options)

    monkeypatch.setattr("bgsub.live.session.open_source", open_late)

    def first(count):
        if count == 5:
            seen.append(store.replace({"roi": [], "ignore": [], "privacy": [everything]}))

    late = Counting(lambda count: count == 5 and session.quit())
    with LiveSession([camera("0", Counting(first)), camera("1", late)], **ON_PAGE, regions=store) as session:
        session.run()
    assert seen == ["regions saved in bgsub.toml; used from now on"]
    assert not late.newest.frame.any()
