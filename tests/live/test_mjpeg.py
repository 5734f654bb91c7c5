"""The mailbox and the parts of Motion JPEG over HTTP."""

from __future__ import annotations

import time

from live_fakes import beside

from bgsub.live.mjpeg import LatestFrame, encode_part, multipart_headers


def test_a_part_tells_its_length():
    assert encode_part(b"\xff\xd8 image") == (
        b"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: 8\r\n\r\n\xff\xd8 image\r\n"
    )
    assert multipart_headers()["Content-Type"] == "multipart/x-mixed-replace; boundary=frame"


def test_a_reader_gets_the_newest():
    box = LatestFrame()
    assert box.wait_newer(0, 0.0) is None
    assert [box.put(image) for image in (b"a", b"b", b"c")] == [1, 2, 3]
    assert box.wait_newer(0) == (3, b"c")
    assert box.wait_newer(2) == (3, b"c")
    begin = time.monotonic()
    assert box.wait_newer(3, 0.02) is None
    assert time.monotonic() - begin >= 0.015


def test_put_and_close_wake_all_readers():
    box, got = LatestFrame(), []

    def read():
        sequence = 0
        while (newer := box.wait_newer(sequence, 10)) is not None:
            sequence = newer[0]
        got.append(sequence)

    with beside(read), beside(read), beside(read):
        begin = time.monotonic()
        box.put(b"a")
        box.close()
    assert len(got) == 3
    assert time.monotonic() - begin < 5
    assert box.wait_newer(0) is None
    assert box.closed
