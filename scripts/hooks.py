"""Measure a live stream whose commands and webhooks work, fail or hang, beside the same stream without any.

    python scripts/hooks.py --seconds 10 --rounds 3

A camera on the loopback, a process of its own, shows a street; motion is made to begin and end all the time. The age of
a picture is that when its mask is there; "sink" is the processor time that telling, with linking the objects, takes of
the stream for each frame, and "end" how long the run took to end after the last frame. The cases take turns, so that
what else the machine does hits all alike.
"""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import click
import numpy as np

from bgsub import BackgroundSubtractor
from bgsub.events import CommandNotifier, EventFeed, MotionRules, NotificationSink, ObjectLinker, WebhookNotifier
from bgsub.events.notifications.notification import DeliveryCounts
from bgsub.jobs.controls import Controls
from bgsub.jobs.pipeline import Pipeline
from bgsub.video import CameraSource

RESTLESS = MotionRules(min_duration=0.1, max_gap=0.1)
WARM_UP = 3.0  # seconds: the batch start, and what is compiled
CASES = ("none", "no destination", "both work", "command fails", "server is down", "both hang")


class Handler(BaseHTTPRequestHandler):
    """Accepts everything."""

    def do_POST(self) -> None:
        """Answer with success."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_) -> None:
        """Log nothing."""


class TimedSink(NotificationSink):
    """Adds up the time that it uses of its thread."""

    seconds, frames = 0.0, 0

    def write(self, frame, separation) -> None:
        """Take a frame."""
        begin = time.thread_time()
        super().write(frame, separation)
        self.seconds += time.thread_time() - begin
        self.frames += 1


class Watch:
    """Records the time and age of each picture until the time is over."""

    def __init__(self, seconds: float, controls: Controls) -> None:
        self.ages: list[float] = []
        self.last = self._begin = time.monotonic()
        self._seconds, self._controls = seconds, controls

    def __call__(self, frame, _separation) -> None:
        """Record one frame."""
        self.last = time.monotonic()
        if self.last - self._begin > WARM_UP:
            self.ages.append(1000 * (self.last - frame.received))
        if self.last - self._begin > WARM_UP + self._seconds:
            self._controls.quit()


@contextmanager
def destinations(case: str):
    """Yield the destinations of the notifications of a case."""
    with ExitStack() as stack:
        if case == "both work":
            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
            yield [CommandNotifier("true {type}"), WebhookNotifier(f"http://127.0.0.1:{server.server_address[1]}")]
        elif case == "command fails":
            yield [CommandNotifier("false")]
        elif case in ("server is down", "both hang"):
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))  # it never answers
            webhook = WebhookNotifier(f"http://127.0.0.1:{listening.getsockname()[1]}")
            if case == "server is down":
                listening.close()
            yield [webhook] if case == "server is down" else [webhook, CommandNotifier("sleep 1000")]
        else:
            yield []


def run(address: str, case: str, seconds: float) -> tuple[Watch, int, TimedSink | None, float]:
    """Watch the camera for some seconds; return also the dropped frames, the sink, and how long the end took."""
    controls = Controls()
    watch = Watch(seconds, controls)
    with destinations(case) as given:
        feed = EventFeed(ObjectLinker(), RESTLESS)
        sinks = [] if case == "none" else [TimedSink(feed, given)]
        source = CameraSource(address)
        summary = Pipeline(source, BackgroundSubtractor(), sinks, progress=watch, controls=controls).run()
        end = time.monotonic() - watch.last
    return watch, summary.dropped, sinks[0] if sinks else None, end


@click.command(help=__doc__)
@click.option("--seconds", type=float, default=10.0, show_default=True, help="Of each case and round.")
@click.option("--rounds", type=int, default=3, show_default=True)
@click.option("--fps", type=float, default=25.0, show_default=True)
@click.option("--size", default="320x240", show_default=True, metavar="WxH")
def main(seconds: float, rounds: int, fps: float, size: str) -> None:
    logging.disable(logging.WARNING)
    script = str(Path(__file__).with_name("serve_camera.py"))
    command = [sys.executable, "-u", script, "--size", *size.split("x"), "--fps", str(fps)]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as camera:
        try:
            address = camera.stdout.readline().split(" at ")[1].split()[0]
            found = [[run(address, case, seconds) for case in CASES] for _ in range(rounds)]
        finally:
            camera.terminate()
    click.echo("case              frames/s  age ms: median    99 %    most  dropped  sink ms   end s  notifications")
    for number, case in enumerate(CASES):
        rows = [turn[number] for turn in found]
        ages = np.concatenate([watch.ages for watch, *_ in rows])
        median, late = np.percentile(ages, [50, 99])
        dropped, end = sum(row[1] for row in rows), max(row[3] for row in rows)
        numbers = f"{len(ages) / (rounds * seconds):8.1f} {median:15.1f} {late:7.1f} {ages.max():7.1f} {dropped:8}"
        sinks = [row[2] for row in rows if row[2] is not None]
        mean = 1000 * sum(sink.seconds for sink in sinks) / max(sum(sink.frames for sink in sinks), 1)
        counts = sum((sink.counts for sink in sinks), DeliveryCounts())
        words = f"{counts.delivered} delivered, {counts.lost} lost, {counts.retried} retried" if sinks else ""
        click.echo(f"{case:16}  {numbers} {mean:8.2f} {end:7.2f}  {words}")


if __name__ == "__main__":
    main()
