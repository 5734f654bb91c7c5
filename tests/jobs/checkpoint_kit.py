"""Checkpoints after frames that a test chooses, instead of after some time."""

from bgsub.jobs.checkpoints import Checkpoints


def due_every(monkeypatch, number):
    """Have all runs make a checkpoint after each frame whose number, from 1, is a multiple of that."""

    def is_due(self):
        self.tracked = getattr(self, "tracked", self.start.frames) + 1
        return self.tracked % number == 0

    monkeypatch.setattr(Checkpoints, "_is_due", is_due)
