"""A recording at a variable frame rate has the events of the same recording at a constant one."""

import copy

import numpy as np
import pytest
from av_files import write_av

import bgsub
from bgsub.events import EventFeed, ObjectLinker

pytestmark = pytest.mark.large
COUNT, LEAVES, ENTERS = 300, 110, 160


@pytest.fixture(scope="module")
def recording():
    """Return frames of a wall: one box leaves, and later another one enters and stops."""
    rng = np.random.default_rng(0)
    wall = np.kron(rng.integers(60, 120, (6, 8, 3)), np.ones((8, 8, 1)))
    frames = wall + rng.integers(-3, 4, (COUNT, *wall.shape))
    for index, frame in enumerate(frames):
        left = 10 + 3 * max(index - LEAVES, 0)
        frame[8:24, left : left + 10] = 30, 200, 60
        right = min(2 * (index - ENTERS), 30)
        frame[30:46, max(right, 0) : max(right + 10, 0)] = 220, 60, 60
    return frames.clip(0, 255).astype(np.uint8)


def events_of(path, **options):
    """Return the spans of the motion events and of the objects, in seconds."""
    with bgsub.open_source(path) as source:
        feed, events = EventFeed(ObjectLinker(float(source.fps))), []
        subtractor = bgsub.BackgroundSubtractor(fps=float(source.fps), absorb_after=3)
        for frame, separation in bgsub.separate(source, subtractor=subtractor, **options):
            step = feed.step(frame, separation)
            events += step.finished + step.motion.ended
    return sorted((e.kind, e.start_time, e.end_time) for e in events + feed.finish() + feed.finish_motion())


@pytest.mark.parametrize("options", [{}, {"online": True}])
def test_dropped_frames_do_not_change_the_events(recording, tmp_path, options):
    moving = {*range(60), *range(LEAVES - 5, LEAVES + 25), *range(ENTERS - 5, ENTERS + 35)}
    kept = [index for index in range(COUNT) if index in moving or index % 4 == 0]
    constant = write_av(tmp_path / "constant.mkv", recording, codec="ffv1", pix_fmt="bgr0")
    stamps = [40 * index for index in kept]
    variable = write_av(tmp_path / "variable.mkv", recording[kept], stamps, codec="ffv1", pix_fmt="bgr0")
    expected, found = events_of(constant, **options), events_of(variable, **options)
    assert [kind for kind, *_ in found] == [kind for kind, *_ in expected]
    times, others = (np.array([span for _, *span in events]) for events in (expected, found))
    assert np.abs(times - others).max() <= 0.2


def test_the_time_of_the_newest_frame_is_part_of_the_model(recording):
    subtractor = bgsub.BackgroundSubtractor(start_frames=20, absorb_after=3)
    for index in [*range(ENTERS), *range(ENTERS, COUNT, 4)]:
        continued = copy.copy(subtractor)
        for one in (subtractor, continued):
            one.set_time(index / 25)
        mask = subtractor.apply(recording[index])
        np.testing.assert_array_equal(continued.apply(recording[index]), mask)
    assert not mask.any()
    with pytest.raises(bgsub.ParameterError, match="finite"):
        subtractor.set_time(np.nan)
    with pytest.raises(bgsub.ParameterError, match="finite number of seconds, got 'a'"):
        subtractor.set_time("a")
