"""A stream with noise, black, white and cuts: its model can be saved and restored at any frame."""

import importlib

import numpy as np
import pytest
from environments import ROOT

from bgsub import BackgroundSubtractor
from bgsub.errors import BgsubError


@pytest.fixture
def soak(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("soak")


def restored(subtractor):
    """Return the subtractor restored from a model, None if it cannot be read."""
    try:
        return BackgroundSubtractor.from_snapshot(*subtractor.snapshot())
    except BgsubError as error:
        print(error)
        return None


def test_model_saved_after_any_hostile_frame_continues(soak, monkeypatch, tries, score):
    monkeypatch.setattr(soak, "EVERY", 40)
    monkeypatch.setattr(soak, "LONGEST", 10)
    count, survived = tries(400, 5000), 0
    subtractor, other = (BackgroundSubtractor(start_frames=20) for _ in range(2))
    for frame in soak.Street((64, 48), 60).stream(count):
        mask = subtractor.apply(frame)
        survived += other is not None and np.array_equal(other.apply(frame), mask)
        other = restored(subtractor)
    score("a model saved after any frame of a hostile stream continues", count, survived)
