"""StartColours: counts against a naive twin, and starts in which a median would fail."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub.errors import ParameterError
from bgsub.numerics.jit import constant
from bgsub.parameters import SubtractorParameters
from bgsub.scene import _start_colours_kernels
from bgsub.scene.frame_format import FrameFormat
from bgsub.scene.start_colours import CleanedFrames, LateColours, StartBuffer, StartColours

F = np.float32
H, W = 12, 16


def naive_counts(frames, limits):
    """Return per pixel a list of [colour, count], the commonest first."""
    kept = [[] for _ in range(frames.shape[1])]
    last = [None] * frames.shape[1]
    for frame in frames:
        for i, x in enumerate(frame.astype(F)):
            shown = next((e for e in kept[i] if np.sum((x - e[0]) ** 2, dtype=F) < limits[i] ** 2), None)
            if shown is not None:
                shown[0] = shown[0] + F(0.1) * (x - shown[0])
                shown[1] += last[i] is shown
            else:
                shown = [x.copy(), 1]
                if len(kept[i]) < 3:
                    kept[i].append(shown)
                else:
                    kept[i][1 + int(np.argmin([e[1] for e in kept[i][1:]]))] = shown
            last[i] = shown
            if shown[1] > kept[i][0][1]:
                k = next(k for k, e in enumerate(kept[i]) if e is shown)
                kept[i][0], kept[i][k] = kept[i][k], kept[i][0]
    return kept


@given(channels=st.sampled_from([1, 3]), stretch=st.booleans(), seed=st.integers(0, 99))
@settings(max_examples=20)
def test_count_colours_equals_its_twin(channels, stretch, seed):
    rng = np.random.default_rng(seed)
    if stretch:  # of pixels that keep their colour, which take a fast path, but for one
        n, bands, limits = 200, [(0, 200)], np.full(200, 8, F)
        frames = rng.integers(0, 255, (200, channels)) + rng.integers(-2, 3, (12, 200, channels))
        frames[5:9, 70] = 0
    else:
        n, bands, limits = 20, [(0, 7), (7, 20)], rng.choice([7.7, 30.3], 20).astype(F)
        which = np.minimum(rng.geometric(0.5, (30, 20)) - 1, 4)
        which = np.where(rng.random(which.shape) < 0.5, np.roll(which, 1, axis=0), which)
        frames = rng.integers(0, 255, (5, channels))[which] + rng.integers(-2, 3, (30, 20, channels))
    frames = frames.clip(0, 255).astype(np.uint8)
    start = StartColours(FrameFormat((1, n, channels), "uint8", 255.0), 1)
    colours, counts, due = start.colours, start.counts, start._fresh
    for frame in frames:
        for band in bands:
            state = colours, counts, start._last, due
            found = _start_colours_kernels.count_colours(*band, constant(frame.shape[-1]), frame, limits, *state)
            assert found == np.count_nonzero(due[slice(*band)])
    for i, kept in enumerate(naive_counts(frames, limits)):
        assert [int(n) for n in counts[:, i] if n] == [n for _, n in kept]
        np.testing.assert_allclose(colours[: len(kept), i], [colour for colour, _ in kept], atol=1e-3)


def scene(seed=0):
    return np.random.default_rng(seed).integers(40, 200, (H, W, 3)).astype(float)


def noisy(picture, rng, sigma=1.5):
    return np.clip(picture + rng.normal(0, sigma, picture.shape), 0, 255).astype(np.uint8).reshape(-1)


def feed(colours, frames, sigma=None):
    before, sigma = None, np.zeros((H, W), F) if sigma is None else sigma
    for frame in frames:
        colours.add(frame, before, sigma)
        before = frame
    return colours.background.reshape(H, W, 3)


def test_background_visible_a_third_of_the_time_is_found():
    rng, empty = np.random.default_rng(1), scene()
    frames = [noisy(empty if i % 9 < 3 else rng.uniform(0, 60, empty.shape), rng) for i in range(45)]
    colours = StartColours(FrameFormat((H, W, 3), "uint8", 255.0), 1)
    assert np.mean(np.abs(feed(colours, frames) - empty)) < 3
    assert np.mean(np.abs(np.median(frames, axis=0).reshape(H, W, 3) - empty)) > 20


def test_cleaned_frames_show_the_background_in_place_of_what_hides_it():
    rng, empty = np.random.default_rng(4), scene()
    frames = np.array([noisy(empty, rng) for _ in range(6)])
    hidden = frames[2].reshape(H, W, 3)
    for part in np.s_[3:7, 4:9], np.s_[:1, :1], np.s_[-1:, -1:]:
        hidden[part] = np.where(hidden[part] < 128, 255, 0)
    away = np.linalg.norm(hidden - empty, axis=2) > 20
    expected = frames.copy()
    expected[2] = np.where(away[..., np.newaxis], empty, hidden).reshape(-1)
    before = frames.copy()
    cleaned = CleanedFrames(frames, empty.reshape(-1).astype(F), np.full(H * W, 20, F))
    assert cleaned.shape == frames.shape
    np.testing.assert_array_equal(cleaned[:, 0 : frames.shape[1]], expected)
    np.testing.assert_array_equal(cleaned[:, 7:101], expected[:, 7:101])
    index = rng.integers(0, frames.shape[1], 50)
    np.testing.assert_array_equal(cleaned[:, index], expected[:, index])
    np.testing.assert_array_equal(frames, before)


def test_scaled_colours_stay_where_they_are_beyond_full_scale():
    colours = StartColours(FrameFormat((1, 3, 1), "float32", 1.0), 1)
    colours.add(np.array([0.5, 0.9, 1.5], np.float32), None, np.zeros((1, 3), np.float32))
    colours.scale(np.full((1, 3, 1), 1.2, np.float32))
    np.testing.assert_allclose(colours.background, [0.6, 1.0, 1.5], atol=1e-6)


def test_a_light_that_no_frame_had_is_not_kept():
    buffer = StartBuffer(4, 2, "uint8")
    for lights in (1, 3, 1):
        buffer.add(np.zeros(2, np.uint8))
        for _ in range(lights):
            buffer.begin_light(np.zeros((1, 1), np.float32))
    assert len(buffer.references) == 3
    assert buffer.lights[:3].tolist() == [0, 1, 2]


def late_colours(where):
    form = FrameFormat((H, W, 3), "uint8", 255.0)
    return LateColours(form, SubtractorParameters(start_frames=20, threads=1), np.array(where), 2.0)


def seen(colours, frame, *hidden):
    """Count a frame; return the pixels that show a new commonest colour."""
    colours.count(frame, *hidden)
    return colours.returned(1).tolist()


def test_background_that_the_start_hid_is_found_when_it_has_returned_more_often_than_anything_else():
    rng, empty, where = np.random.default_rng(5), scene(), [5, 40, 41, H * W - 1]
    colours, others = late_colours(where), np.random.default_rng(6).integers(0, 255, (3, H, W, 3))
    found = []
    for i in range(90):  # leaves of any colour; two frames of the background in six
        picture = empty if i % 6 > 3 else others[i % 3] + 9.0 * (i % 7)
        found.extend(seen(colours, noisy(picture, rng, 0.5)))
        if colours.where.size:
            shown = colours.background.reshape(-1, 3), colours.where
    np.testing.assert_allclose(shown[0], empty.reshape(-1, 3)[shown[1]], atol=1)
    assert [found.count(pixel) for pixel in where] == [2] * 4  # as the commonest colour, and as a known one
    assert not colours.where.size
    assert not seen(colours, noisy(empty, rng))


def test_a_colour_returns_when_it_is_shown_at_a_look():
    colours, frames = late_colours([3]), [np.full((H, W, 3), level, np.uint8) for level in (50, 90)]
    for i in (0, 1, 1, 1, 0):
        colours.count(frames[i])
    assert not colours.returned(1).size
    colours.count(frames[1])
    assert not colours.returned(2).size  # too few
    assert colours.returned(1).tolist() == [3]
    assert seen(colours, frames[1]) == []


def test_standing_and_known_foreground_does_not_count():
    frames, where = [np.full((H, W, 3), level, np.uint8) for level in (50, 90)], [0, 1, 2]
    colours = late_colours(where)
    for frame in (*[frames[0]] * 5, *[frames[1]] * 4):
        assert not seen(colours, frame)
    age, known = np.zeros((H, W), np.uint16), np.zeros((H, W), bool)
    age[0, 0], age[0, 1], known[0, 2] = 11, 10, True
    assert [seen(colours, frames[1], age, known) for _ in range(4)] == [[], [1], [], []]
    assert colours.counts[:2].tolist() == [[5, 8, 5], [4, 5, 4]]


def test_what_hides_a_new_commonest_colour_does_not_return():
    frames, known = [np.full((H, W, 3), level, np.uint8) for level in (50, 90, 200)], np.zeros((H, W), bool)
    colours, known[0, 0] = late_colours([0]), True
    for i in (0, 1, 1, 1):
        colours.count(frames[i])
    assert seen(colours, frames[2], None, known) == []
    assert seen(colours, frames[1]) == [0]


def test_known_foreground_of_the_first_frames_is_not_their_background():
    start = StartColours(FrameFormat((H, W, 3), "uint8", 255.0), 1)
    colours, frame = late_colours([0, 1]), np.full((H, W, 3), 90, np.uint8)
    start.counts[0, :2] = 3, 8
    for _ in range(8):
        colours.count(frame)
    colours.begin(start)
    assert colours.counts[0].tolist() == [3, 8]
    assert seen(colours, frame) == []


def test_saved_late_colours_of_pixels_outside_of_the_frame_are_refused():
    colours, form = late_colours(range(30)), FrameFormat((H, W, 3), "uint8", 255.0)
    state = colours.state() | {"where": colours.where + H * W}
    with pytest.raises(ParameterError, match="where must hold numbers"):
        LateColours.from_state(form, SubtractorParameters(start_frames=20, threads=1), state)
