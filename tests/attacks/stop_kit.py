"""A process that does a run or a batch and kills itself: ``python stop_kit.py JSON``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

ROOT = Path(__file__).parents[1]
SAVE = ("mask.mkv", "panel.mp4", "overlay.webm", "cutout.mov", "mask.npz", "mask", "background-image")
EVENTS = ("csv", "jsonl", "coco", "html")
LENGTH, SEGMENT = 90, 25


def make_source(folder):
    """Write a video with a light change and a moving object; return its path."""
    import numpy as np  # noqa: PLC0415
    from video_fakes import write_video  # noqa: PLC0415

    from bgsub.synthetic import scene  # noqa: PLC0415

    frames = np.stack([frame for frame, _ in scene("lobby", size=(48, 32), length=LENGTH, seed=3)])
    return write_video(folder / "video.avi", frames)


def short_segments():
    """Make short segments of videos, as in a long run."""
    from bgsub.video.sinks import video  # noqa: PLC0415

    video._SEGMENT = SEGMENT


def make_job(source, output, **fields):
    from bgsub.jobs.job import Job  # noqa: PLC0415

    fields = {"save": SAVE, "event_formats": EVENTS, "parameters": {"start_frames": 10}, **fields}
    return Job(str(source), Path(output), save_model=Path(output) / "model.npz", **fields)


def watching(act):
    """Return a `watch` that calls `act` with the number of frames after each of them."""
    return lambda _source: nullcontext(lambda frame, _separation: act(frame.index + 1))


def killed(**what):
    """Run a process that kills itself; return whether it did, rather than finish before."""
    paths = [str(ROOT.parent), *(str(ROOT / name) for name in ("", "attacks", "jobs/batch", "video", "cli"))]
    if os.environ.get("PYTHONPATH"):
        paths.insert(0, os.environ["PYTHONPATH"])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, __file__, json.dumps({name: str(value) for name, value in what.items()})]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode in (0, -signal.SIGKILL, -signal.SIGALRM), done.stderr
    return done.returncode != 0


def _die(number, frames):
    if number == frames:
        os.kill(os.getpid(), signal.SIGKILL)


def _main(source, output, frames=0, seconds=0, batch=""):
    short_segments()
    if batch:
        _batch(source, output, int(frames))
        return

    left = [float(seconds)]

    def act(number):
        if left[0]:
            signal.setitimer(signal.ITIMER_REAL, left.pop())  # SIGALRM ends the process
            left.append(0.0)
        _die(number, int(frames))

    from bgsub.jobs.run import run_job  # noqa: PLC0415

    run_job(make_job(source, output, resume=True, checkpoint_seconds=0.0), watch=watching(act))


def _batch(sources, output, frames):
    from batch_fakes import FakeWorkers, run  # noqa: PLC0415

    from bgsub.jobs.batch import task  # noqa: PLC0415
    from bgsub.jobs.job import Statistics  # noqa: PLC0415

    task._share_cores = lambda _jobs: None
    plain, seen = Statistics.__call__, []

    def count(statistics, frame, separation):
        plain(statistics, frame, separation)
        seen.append(frame)
        _die(len(seen), frames)

    Statistics.__call__ = count
    often = lambda name, folder: make_job(name, folder, checkpoint_seconds=0.0)  # noqa: E731
    run(Path(sources), output, FakeWorkers(slots=1), make_job=often)


if __name__ == "__main__":
    _main(**json.loads(sys.argv[1]))
