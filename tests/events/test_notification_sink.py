"""Notifications of a stream."""

import logging
import time
from dataclasses import replace
from itertools import product
from unittest.mock import Mock

import cv2
import numpy as np
import pytest
from event_scenes import RATE, frame_of, mask_of, separated, write
from receiver import HANG, Memory, receiving, unused_address

from bgsub.errors import SinkError
from bgsub.events.feed import EventFeed
from bgsub.events.linking import ObjectLinker
from bgsub.events.notifications.destinations import CommandNotifier, WebhookNotifier
from bgsub.events.notifications.notification import DeliveryCounts, DeliveryError, Notification
from bgsub.events.notifications.sink import Delivery, NotificationSink, finish_all
from bgsub.events.recorder import RecorderSink
from bgsub.video.regions import Regions


def boxes_of(index, moving=range(100, 140)):
    """Return a box that moves to the right, largest in frame 120."""
    return [(10 + (index - moving[0]), 10, 20 if index == 120 else 12, 12)] if index in moving else []


def stream(count=250, events=None, boxes=boxes_of):
    """Yield frames whose grey level is their index, and separations."""
    for index in range(count):
        one = separated(mask_of(boxes(index)), (events or {}).get(index), (1.0, 2.0))
        yield frame_of(index), replace(one, frame=np.full(one.mask.shape, index % 256, np.uint8))


def run(pairs, regions=None, **options):
    """Return the notifications of a stream, or of a function that returns it."""
    memory = Memory()
    sink = NotificationSink(EventFeed(ObjectLinker(RATE, regions=regions)), [memory], source="gate", **options)
    write(pairs(memory) if callable(pairs) else pairs, sink)
    sink.close()
    assert sink.counts == DeliveryCounts(len(memory.got), 0, 0)
    return memory.got


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
    assert sent == {0: 0, 1: 108, 2: 139 + 3 * RATE + 1}  # motion has ended after 3 s without it


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
        assert [(one.type, one.frame) for one in memory.got] == whole[:expected]
        told = [one.clip for one in memory.got if one.type == "clip"]
        assert told == [clip.path for clip in recorder.clips]
        assert all(path.exists() for path in told)


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


def test_motion_ends_with_the_camera():
    memory, expected = Memory(), []
    sink = NotificationSink(EventFeed(ObjectLinker(RATE)), [memory])
    for frame, separation in stream(300, boxes=lambda index: boxes_of(index, range(100, 200))):
        silence = {139: 2.8, 150: 3.2, 160: 3.2}.get(frame.index, 0)  # of the last one, before a gap
        clock = frame.time + (100 if frame.index > 160 else 0)
        sink.write(replace(frame, time=clock, received=time.monotonic() - silence), separation)
        sink.idle()
        expected += {108: ["start"], 150: ["end"], 151: ["start"], 160: ["end"], 169: ["start"], 261: ["end"]}.get(
            frame.index, []
        )
        assert [one.type for one in memory.wanted] == expected, frame.index
    sink.close()


def test_a_full_disk(tmp_path, monkeypatch, caplog):
    write_image = Mock(side_effect=SinkError("cannot be written: No space left on device"))
    monkeypatch.setattr("bgsub.events.notifications.sink.write_image", write_image)
    assert [one.type for one in run(stream(), snapshots=tmp_path)] == ["start", "end"]
    assert write_image.call_args[0][0] == tmp_path / "gate-snapshot-0001.jpg"
    assert [message[:30] for message in caplog.messages] == ["no snapshot: cannot be written"]


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
    assert brief(memory.got) == [
        ("start", "covered", 1, 30), ("end", "covered", 1, 30), ("start", "motion", 1, 100), ("end", "motion", 1, 119),
        ("end", "motion", 1, 139), ("start", "covered", 2, 240), ("end", "covered", 2, 240),
    ]  # fmt: skip


AWAY = DeliveryError("is away")


def notification(number=1):
    return Notification("start", "motion", number, "camera 0", None, None, number, None)


def numbers(destination):
    return [notification.number for notification in destination.got]


def deliver(destination, count=1, linger=60, **options):
    delivery = Delivery(destination, **{"pause": 0.001, **options})
    for number in range(count):
        delivery.put(notification(number))
    finish_all([delivery], linger)
    return delivery.counts


def test_failures_are_retried_in_order_and_logged_once(caplog):
    destination = Memory(None, AWAY, AWAY, OSError("no files left"))
    assert deliver(destination, 20) == DeliveryCounts(20, 0, 3)
    assert numbers(destination) == list(range(20))
    assert caplog.messages == [
        "destination: is away; notifications are tried again for 60 s",
        "destination works again; notifications lost meanwhile: 0",
    ]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_final_failures_are_not_retried(caplog):
    destination = Memory(DeliveryError("answers 404 Not Found", final=True), None, DeliveryError("off", final=True))
    assert deliver(destination, 4) == DeliveryCounts(2, 2, 0)
    assert numbers(destination) == [1, 3]
    works = "destination works again; notifications lost meanwhile: 1"
    lost = [f"destination: {why}; a notification is lost" for why in ("answers 404 Not Found", "off")]
    assert caplog.messages == [lost[0], works, lost[1], works]


def test_a_flood_loses_the_oldest(caplog):
    destination = Memory(AWAY)
    destination.open.clear()
    delivery = Delivery(destination, pause=0.001)
    for number in range(1001):
        delivery.put(notification(number))
        assert destination.came.wait(60)
    destination.open.set()
    finish_all([delivery], 60)
    assert numbers(destination) == [0, *range(1001 - 64, 1001)]
    assert delivery.counts == DeliveryCounts(65, 936, 1)
    assert caplog.messages[-1] == "destination works again; notifications lost meanwhile: 936"


def test_the_end_does_not_wait_for_hanging_servers(caplog):
    with receiving(always=HANG) as server:
        deliveries = [Delivery(WebhookNotifier(server.address)) for _ in range(3)]
        for number, delivery in product(range(10), deliveries):
            delivery.put(notification(number))
        for _ in deliveries:
            server.notification()
        begin = time.monotonic()
        finish_all(deliveries, 0.2)
        assert 0.2 <= time.monotonic() - begin < 8  # an answer may take 10 s
    assert [delivery.counts for delivery in deliveries] == [DeliveryCounts(0, 10, 0)] * 3
    late = f"webhook {server.address}: no answer before the end of the run; a notification is lost"
    assert caplog.messages == [late] * 3


def test_the_end_waits_neither_for_hanging_commands_nor_for_pauses():
    begin = time.monotonic()
    assert deliver(CommandNotifier("sleep 1000"), 5, linger=0.2) == DeliveryCounts(0, 5, 0)
    assert deliver(WebhookNotifier(unused_address()), 3, linger=0.2, pause=1000, patience=1e6).lost == 3
    assert time.monotonic() - begin < 20
