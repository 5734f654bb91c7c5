"""The loop over separations, held by the caller."""

from __future__ import annotations

import numpy as np
import pytest
from video_fakes import COUNT, FakeSource

import bgsub
from bgsub.errors import SourceError


def test_every_frame_with_its_separation(subtractor, frames):
    seen = list(bgsub.separate(frames, subtractor=subtractor))
    assert [frame.index for frame, _ in seen] == list(range(COUNT))
    for frame, separation in seen:
        np.testing.assert_array_equal(separation.frame, frame.image)


def test_a_wrong_source_shows_before_the_loop(tmp_path):
    with pytest.raises(SourceError, match="no such file or folder"):
        bgsub.separate(tmp_path / "gone.avi")


def test_leaving_early_closes_the_source(subtractor):
    source = FakeSource()
    loop = bgsub.separate(source, subtractor=subtractor)
    next(loop)
    loop.close()
    with pytest.raises(SourceError, match="is closed"):
        iter(source)


def test_the_default_subtractor_learns_the_rate(frames):
    source = bgsub.open_source(frames, rate=10)
    frame, separation = next(bgsub.separate(source))
    assert separation.mask.shape == frame.image.shape[:2]


def test_the_same_masks_as_process_video(frames):
    masks = []
    bgsub.process_video(frames, lambda _, separation: masks.append(separation.mask))
    np.testing.assert_array_equal(masks, [separation.mask for _, separation in bgsub.separate(frames)])
