"""The live state of a run: commands, changes of parameters, sliders, statistics."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from video_fakes import FakeSource, ListSink, ThresholdSubtractor, make_frames, separate

from bgsub.errors import ParameterError
from bgsub.jobs.controls import SETTINGS, Controls, LiveStatistics
from bgsub.jobs.pipeline import Pipeline
from bgsub.parameters import SUBTRACTOR
from bgsub.video import Frame


class Tunable(ThresholdSubtractor):
    def __init__(self):
        super().__init__()
        self.changes = []

    def tune(self, **parameters):
        self.changes.append((len(self.rates), parameters, threading.current_thread().name))


def test_changes_are_applied_once_in_the_tracking_thread():
    controls, subtractor = Controls(), Tunable()
    controls.tune(threshold=0.2)
    controls.tune(threshold=0.3, shadows="off")
    assert subtractor.changes == []
    Pipeline(FakeSource(), subtractor, [ListSink()], controls=controls).run()
    assert controls.statistics.as_dict()["frame"] == "000011"
    assert subtractor.changes == [(0, {"threshold": 0.3, "shadows": "off"}, "bgsub-track")]
    assert controls.parameters["threshold"] == 0.3


def test_subtractor_without_tune_continues(caplog):
    controls = Controls()
    controls.tune(threshold=0.2)
    summary = Pipeline(FakeSource(), ThresholdSubtractor(), [], controls=controls).run()
    assert summary.frames == 12
    assert caplog.messages == ["ThresholdSubtractor cannot change threshold while it runs"]


def test_changes_before_the_start_and_wrong_changes():
    controls = Controls()
    with pytest.raises(ParameterError, match="rank cannot change while the subtractor runs"):
        controls.tune(threshold=0.5, rank=2)
    with pytest.raises(ParameterError, match="view must be one of"):
        Controls("nothing")
    with pytest.raises(ParameterError, match="threshold must be"):
        controls.tune(threshold="high")
    assert controls.parameters["threshold"] == SUBTRACTOR["threshold"].default
    controls.tune(threshold=0.5)
    controls.follow({"threshold": 0.1, "rank": 5})
    assert (controls.parameters["threshold"], controls.parameters["rank"]) == (0.5, 5)


def test_settings():
    for setting in SETTINGS:
        parameter = SUBTRACTOR[setting.name]
        assert parameter.live
        values = [setting.value(position) for position in range(setting.positions + 1)]
        assert (values[0], values[-1]) == (setting.low, setting.high)
        for value in values:
            assert parameter.check(setting.name, value) == value
            assert setting.value(setting.position(value)) == value
        assert setting.value(setting.position(parameter.default)) == parameter.default


def test_wait_ends_with_quit():
    controls = Controls()
    assert controls.wait(0.001) is False
    threading.Timer(0.01, controls.quit).start()
    assert controls.wait(10) is True


def test_notice_expires(monkeypatch):
    controls = Controls()
    controls.notice = "snapshot: x"
    assert controls.notice == "snapshot: x"
    monkeypatch.setattr("bgsub.jobs.controls._NOTICE_SECONDS", -1)
    controls.notice = "snapshot: y"
    assert controls.notice == ""


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


IMAGE = make_frames(1)[0]
SEPARATION = separate(IMAGE)


def update(statistics, index=0, separation=SEPARATION):
    statistics.update(Frame(index, "a", None, IMAGE), separation)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def statistics(clock):
    return LiveStatistics(clock)


def test_statistics(clock, statistics):
    assert statistics.newest is None
    empty = statistics.as_dict()
    assert (empty["frames"], empty["frames_per_second"], empty["latency_ms"], empty["phase"]) == (0, 0, None, "start")
    images = make_frames(40)
    for index, image in enumerate(images):
        clock.now += 0.1
        statistics.update(Frame(index, f"{index + 1:06d}", None, image, clock.now - 0.03), separate(image), dropped=7)
    numbers = statistics.as_dict()
    assert (numbers["frames"], numbers["dropped"]) == (40, 7)
    assert numbers["frames_per_second"] == pytest.approx(10, abs=0.1)
    assert numbers["latency_ms"] == pytest.approx(30)
    assert numbers["foreground"] == pytest.approx((separate(images[-1]).mask == 255).mean(), abs=1e-6)
    assert (numbers["width"], numbers["height"], numbers["phase"], numbers["frame"]) == (48, 32, "tracking", "000040")
    assert statistics.silence == 0
    clock.now += 8
    assert statistics.silence == pytest.approx(8)
    assert statistics.as_dict()["frames_per_second"] < 3  # a silent camera counts down


@pytest.mark.parametrize(("apart", "late"), [(0.04, 1.6), (3.0, 6.1)])
def test_silent_camera(clock, statistics, apart, late):
    assert statistics.is_silent
    for index in range(80):
        clock.now += apart
        update(statistics, index)
        assert not statistics.is_silent
    for share in (0, 0.5, 0.99):  # it is in time until then
        clock.now = 100 + apart * (80 + share)
        assert statistics.as_dict()["frames_per_second"] == pytest.approx(1 / apart, abs=0.01)
    clock.now = 100 + apart * 80 + late
    assert statistics.is_silent
    clock.now += 10 * apart
    assert statistics.as_dict()["frames_per_second"] < 0.7 / apart


def test_preview_ends_the_silence(clock, statistics):
    statistics.note_preview()
    assert (statistics.is_silent, statistics.is_late) == (False, True)
    clock.now += 2
    assert (statistics.is_silent, statistics.silence) == (True, 2)
    update(statistics)
    assert (statistics.is_silent, statistics.is_late, statistics.silence) == (False, False, 0)


def test_rate_excludes_the_wait_for_kernels(clock, monkeypatch):
    lost, rates = [0.0], []
    monkeypatch.setattr("bgsub.jobs.controls.compilation.waited", lambda: lost[0])
    statistics = LiveStatistics(clock)
    for index in range(60):
        if index == 30:
            clock.now, lost[0] = clock.now + 1, lost[0] + 1
            rates.append(statistics.as_dict()["frames_per_second"])  # during the wait
        clock.now += 0.1
        update(statistics, index)
        rates.append(statistics.as_dict()["frames_per_second"])
    assert {fps for index, fps in enumerate(rates) if index not in (0, 31)} == {10}


def test_event_stays_for_some_seconds(clock, statistics):
    update(statistics, 0, replace(SEPARATION, event="light-change"))
    update(statistics, 1)
    assert statistics.as_dict()["event"] == "light-change"
    clock.now += 10
    assert statistics.as_dict()["event"] is None
