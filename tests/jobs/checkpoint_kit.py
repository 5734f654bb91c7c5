"""Checkpoints after frames that a test chooses, and jobs that fail at such a frame."""

import contextlib

from bgsub.jobs.checkpoints import Checkpoints
from bgsub.jobs.run import run_job


def due_every(monkeypatch, number):
    """Have all runs make a checkpoint after each frame whose number, from 1, is a multiple of that."""

    def is_due(self, _subtractor):
        self.tracked = getattr(self, "tracked", self.start.frames) + 1
        return self.tracked % number == 0

    monkeypatch.setattr(Checkpoints, "_is_due", is_due)


def raise_at(job, number, error):
    """Do a job; the frame of that number, from 1, brings an error."""

    def after(frame, _separation):
        if frame.index + 1 == number:
            raise error

    run_job(job, watch=lambda _source: contextlib.nullcontext(after))
