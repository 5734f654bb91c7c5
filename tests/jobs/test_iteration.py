"""`separate`: the loop over separations of the caller."""

from __future__ import annotations

import re

import numpy as np
import pytest
from video_fakes import COUNT, FakeSource

import bgsub
from bgsub.errors import SourceError
from bgsub.jobs.run import make_subtractor
from bgsub.jobs.simple import default_subtractor


def test_yields_every_frame_with_its_separation(subtractor, frames, tmp_path):
    seen = list(bgsub.separate(frames, subtractor=subtractor))
    assert [frame.index for frame, _ in seen] == list(range(COUNT))
    for frame, separation in seen:
        np.testing.assert_array_equal(separation.frame, frame.image)
    with pytest.raises(SourceError, match="no such file or folder"):  # before the loop
        bgsub.separate(tmp_path / "gone.avi")


def test_leaving_early_closes_the_source(subtractor):
    source = FakeSource()
    loop = bgsub.separate(source, subtractor=subtractor)
    next(loop)
    loop.close()
    with pytest.raises(SourceError, match="is closed"):
        iter(source)


def test_default_subtractor_has_the_frame_rate(frames):
    source = bgsub.open_source(frames, fps=10)
    frame, separation = next(bgsub.separate(source))
    assert separation.mask.shape == frame.image.shape[:2]
    assert default_subtractor(source).get_params()["fps"] == 10


@pytest.mark.parametrize(
    ("fps", "every", "expected", "level"),
    [
        (None, 1, 25, "INFO"),
        (30, 90, 1 / 3, None),
        (1000, 1, 25, "WARNING"),
    ],
)
def test_frame_rate_of_the_subtractor(frames, caplog, fps, every, expected, level):
    caplog.set_level("INFO", "bgsub")
    source = bgsub.open_source(frames, fps=fps, every=every)
    assert make_subtractor({}, None, source).get_params()["fps"] == pytest.approx(expected)
    assert [record.levelname for record in caplog.records] == ([] if level is None else [level])
    assert all(re.search(r" 25\b.*; set it with --fps$", message) for message in caplog.messages)
    caplog.clear()
    assert make_subtractor({"fps": 7}, None, source).get_params()["fps"] == 7
    assert not caplog.messages


def test_same_masks_as_process_video(frames):
    masks = []
    bgsub.process_video(frames, lambda _, separation: masks.append(separation.mask))
    np.testing.assert_array_equal(masks, [separation.mask for _, separation in bgsub.separate(frames)])
