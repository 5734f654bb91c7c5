"""A stream with noise, black, white, cuts and the like in it: whenever it is stopped, its model goes on."""

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


def goes_on(subtractor):
    """Return the subtractor that a model of this moment gives, None if it cannot be read."""
    try:
        return BackgroundSubtractor.from_snapshot(*subtractor.snapshot())
    except BgsubError as error:
        print(error)
        return None


def test_a_model_saved_after_any_frame_goes_on_to_the_bit(soak, monkeypatch, tries, score):
    monkeypatch.setattr(soak, "EVERY", 40)
    monkeypatch.setattr(soak, "LONGEST", 10)
    count, survived = tries(400, 5000), 0
    subtractor, other = (BackgroundSubtractor(start_frames=20) for _ in range(2))
    for frame in soak.Street((64, 48), 60).stream(count):
        mask = subtractor.apply(frame)
        survived += other is not None and np.array_equal(other.apply(frame), mask)
        other = goes_on(subtractor)
    score("a model saved after any frame of a hostile stream goes on", count, survived)
