"""Notifications of a stream."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import cv2
import numpy as np
import pytest
from event_scenes import RATE, frame_of, mask_of, separated, write

from bgsub.errors import SinkError
from bgsub.events.feed import EventFeed
from bgsub.events.linking import ObjectLinker
from bgsub.events.notifications.notification import DeliveryCounts, Destination
from bgsub.events.notifications.sink import NotificationSink
from bgsub.events.recorder import RecorderSink
from bgsub.video.regions import Regions

GAP = 3.0  # seconds without motion after which it has ended


class Memory(Destination):
    """Stores the notifications."""

    name = "memory"

    def __init__(self):
        self.notifications, self.wanted = [], []

    def wants(self, notification):
        self.wanted.append(notification)  # in the thread of the stream
        return True

    def send(self, notification):
        self.notifications.append(notification)

    def cancel(self):
        pass


def boxes_of(index, moving=range(100, 140)):
    """Return a box that moves to the right, largest in frame 120."""
    return [(10 + (index - moving[0]), 10, 20 if index == 120 else 12, 12)] if index in moving else []


def stream(count=250, fps=RATE, received=None, events=None, boxes=boxes_of):
    """Yield frames whose grey level is their index, and separations."""
    for index in range(count):
        frame = frame_of(index, fps)
        if received is not None:
            frame = replace(frame, received=received + index / RATE)
        one = separated(mask_of(boxes(index)), (events or {}).get(index), (1.0, 2.0))
        yield frame, replace(one, frame=np.full(one.mask.shape, index % 256, np.uint8))


def run(pairs, end="close", fps=RATE, regions=None, **options):
    """Return the notifications of a stream, or of a function that returns it."""
    memory = Memory()
    sink = NotificationSink(EventFeed(ObjectLinker(fps, regions=regions)), [memory], source="gate", **options)
    write(pairs(memory) if callable(pairs) else pairs, sink)
    getattr(sink, end)()
    assert sink.counts == DeliveryCounts(len(memory.notifications), 0, 0)
    return memory.notifications


def brief(notifications):
    return [(one.type, one.event, one.number, one.frame) for one in notifications]


def test_start_and_end():
    regions, sent = Regions(["left=0,0,35,48", "right=35,0,61,48", "nothing=0,40,9,8"]), {}

    def counting(memory):
        for frame, separation in stream():
            yield frame, separation
            sent.setdefault(len(memory.wanted), frame.index)

    start, end = run(counting, regions=regions)
    assert brief([start, end]) == [("start", "motion", 1, 100), ("end", "motion", 1, 139)]
    assert (start.seconds, start.duration, start.time) == (4.0, 0.0, None)
    assert (end.seconds, end.duration) == (5.56, pytest.approx(1.56))
    assert (start.source, start.regions, end.regions) == ("gate", ("left",), ("left", "right"))
    (now,), (largest,) = start.objects, end.objects
    assert (now.id, now.box, now.frame) == (1, (18, 10, 12, 12), 108)  # certain after 0.3 s
    assert (largest.id, largest.box, largest.frame) == (1, (30, 10, 20, 12), 120)
    assert sent == {0: 0, 1: 108, 2: 139 + GAP * RATE + 1}


def test_the_snapshot_is_the_peak_of_two_seconds(tmp_path):
    start, snapshot, end = run(stream(), snapshots=tmp_path / "new" / "pictures")
    assert brief([snapshot]) == [("snapshot", "motion", 1, 120)]
    assert (start.snapshot, end.snapshot) == (None, snapshot.snapshot)
    assert [one.box for one in snapshot.objects] == [(30, 10, 20, 12)]
    assert snapshot.snapshot == tmp_path / "new" / "pictures" / "gate-snapshot-0001.jpg"
    assert abs(cv2.imread(str(snapshot.snapshot), cv2.IMREAD_GRAYSCALE).astype(int) - 120).max() <= 2
    late = run(stream(boxes=lambda index: [(5, 5, 12 + index // 10, 12)] if index >= 100 else []), snapshots=tmp_path)
    assert [one.type for one in late] == ["start", "snapshot", "end"]
    assert 150 <= late[1].frame <= 108 + 2 * RATE


def test_complete_clips_are_notified(tmp_path):
    for count, expected in ((450, 6), (140, 3)):  # the second one ends in the middle of it
        folder, memory = tmp_path / str(count), Memory()
        feed = EventFeed(ObjectLinker(RATE))
        with RecorderSink(folder, feed=feed, source="gate") as recorder:
            sink = NotificationSink(feed, [memory], clips=True)
            write(stream(count, boxes=lambda i: boxes_of(i) or boxes_of(i, range(300, 340))), recorder, sink)
        sink.close()
        first, second = (100, 139), (300, 339)
        whole = [(kind, moment[kind != "start"]) for moment in (first, second) for kind in ("start", "end", "clip")]
        assert [(one.type, one.frame) for one in memory.notifications] == whole[:expected]
        told = [one.clip for one in memory.notifications if one.type == "clip"]
        assert told == [clip.path for clip in recorder.clips]
        assert all(path.exists() for path in told)


def test_events_end_with_the_run(tmp_path):
    for end in ("close", "abort"):
        notifications = run(stream(count=125), end, snapshots=tmp_path)
        assert brief(notifications) == [
            ("start", "motion", 1, 100), ("snapshot", "motion", 1, 120), ("end", "motion", 1, 124),
        ]  # fmt: skip


def test_events_of_the_whole_frame_are_numbered_separately():
    events = {30: "light-change", 200: "covered", 201: "covered", 202: "scene-change"}
    notifications = run(stream(events=events))
    whole = [one for one in notifications if one.event != "motion"]
    assert brief(whole) == [
        ("start", "light-change", 1, 30), ("end", "light-change", 1, 30),
        ("start", "covered", 2, 200), ("end", "covered", 2, 201),
        ("start", "scene-change", 3, 202), ("end", "scene-change", 3, 202),
    ]  # fmt: skip
    assert [one.number for one in notifications if one.event == "motion"] == [1, 1]


def test_times_of_live_sources_and_without_time():
    begin, received = datetime.now(UTC), time.monotonic()
    start, end = run(stream(received=received))
    for notification, seconds in ((start, 4.0), (end, 5.56)):
        assert notification.time.utcoffset() is not None
        assert abs(notification.time - begin - timedelta(seconds=seconds)) < timedelta(seconds=1)
    start, end = run(stream(fps=None), fps=None)
    assert (start.seconds, start.duration, start.frame, end.frame) == (None, None, 100, 139)


def test_a_full_disk(tmp_path, monkeypatch, caplog):
    def fail(path, _image):
        raise SinkError(f"'{path}' cannot be written: No space left on device")

    monkeypatch.setattr("bgsub.events.notifications.sink.write_image", fail)
    assert [one.type for one in run(stream(), snapshots=tmp_path)] == ["start", "end"]
    (message,) = caplog.messages
    assert message.startswith(f"no snapshot: '{tmp_path}/gate-snapshot-0001.jpg' cannot be written")


def test_unwritable_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SinkError, match=f"^cannot write into folder '{tmp_path}/file/x': "):
        NotificationSink(EventFeed(ObjectLinker()), [], snapshots=tmp_path / "file" / "x")


def test_resumed_runs():
    pairs = list(stream(events={30: "covered", 240: "covered"}))
    memory = Memory()
    first = NotificationSink(EventFeed(ObjectLinker(RATE)), [memory])
    write(pairs[:120], first)
    state = first.checkpoint()
    first.abort()
    second = NotificationSink(EventFeed(ObjectLinker(RATE)), [memory])
    second.resume(state)
    write(pairs[120:], second)
    second.close()
    assert brief(memory.notifications) == [
        ("start", "covered", 1, 30), ("end", "covered", 1, 30), ("start", "motion", 1, 100), ("end", "motion", 1, 119),
        ("end", "motion", 1, 139), ("start", "covered", 2, 240), ("end", "covered", 2, 240),
    ]  # fmt: skip
