"""Fixtures of the tests of jobs."""

import pytest
from video_fakes import ThresholdSubtractor, make_frames


@pytest.fixture
def frames():
    return make_frames()


@pytest.fixture
def subtractor():
    return ThresholdSubtractor()
