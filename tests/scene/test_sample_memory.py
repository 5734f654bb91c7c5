"""SampleMemory: kernels against naive twins, and which candidates are cleared."""

import numpy as np
import pytest
import reference_scene as reference
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub.scene import _sample_memory_kernels, sample_memory
from bgsub.scene._sample_memory_kernels import MatchLimits
from bgsub.scene.sample_memory import SampleMemory

F = np.float32
H, W = 12, 20
EVERY = sample_memory._EVERY
RATE, BELIEF, FULL = F(1 / 16), F(0.5), F(255)  # exact in binary, so that twins round equally

sizes = settings(max_examples=25, deadline=None)
shapes = {"h": st.integers(1, 9), "w": st.integers(1, 9), "c": st.sampled_from([1, 3])}


def memory_of(sigma, scale=1 / 255, threshold=0.08, factor=2.5):
    return MatchLimits(np.asarray(sigma, F), F(scale), F(threshold), F(factor))


def planted(rng, h, w, c, dtype):
    """Return a frame, a background, limits and samples with near and far colours."""
    unit, scale = (1, 1 / 255) if dtype == np.uint8 else (1 / 255, 1)
    l = rng.integers(60, 200, (h, w, c))
    x = l + rng.choice([-60, -25, 0, 25, 60], (h, w, 1)) + rng.integers(-3, 4, (h, w, c))
    samples = rng.integers(-40, 40, (h * w, c, 8)).astype(np.int8)
    kept = reference.deviation(x, l, 1 / 255).reshape(h * w, c)
    samples[:, :, 3] = np.where(rng.random((h * w, 1)) < 0.5, kept + rng.integers(-6, 7, (h * w, c)), samples[:, :, 3])
    memory = memory_of(rng.choice([0.01, 0.1], (h, w)), scale)
    return (unit * x).astype(dtype), (unit * l).astype(dtype), memory, samples


@pytest.mark.parametrize("dtype", [np.uint8, F])
@given(**shapes, radius=st.integers(0, 3), seed=st.integers(0, 999))
@sizes
def test_clear_matching_equals_its_twin(dtype, h, w, c, radius, seed):
    rng = np.random.default_rng(seed)
    x, l, memory, samples = planted(rng, h, w, c, dtype)
    shares, expected = (rng.integers(0, 256, (h, w)).astype(np.uint8) for _ in range(2))
    expected[:] = shares
    for _ in range(3):
        over = (rng.random((h, w)) < 0.7).astype(np.uint8)
        expected, left = reference.cleared(x, l, memory, RATE, BELIEF, FULL, radius, samples, expected, over)
        _sample_memory_kernels.clear_matching(
            0, h, (0,) * c, x, l, memory, RATE, BELIEF, FULL, radius, samples, shares, over
        )
        np.testing.assert_array_equal(over, left)
        np.testing.assert_array_equal(shares, expected)


@pytest.mark.parametrize("dtype", [np.uint8, F])
@given(**shapes, first=st.integers(0, 3), step=st.integers(1, 3), frame=st.integers(0, 10**6), seed=st.integers(0, 999))
@sizes
def test_remember_equals_its_twin(dtype, h, w, c, first, step, frame, seed):
    rng = np.random.default_rng(seed)
    x, l, memory, samples = planted(rng, h, w, c, dtype)
    solid = (rng.random((h, w)) < 0.7).astype(np.uint8)
    age = rng.integers(0, 3, (h, w)).astype(np.uint16)
    first %= step
    expected = reference.remembered(first, step, frame, x, l, memory, solid, age, samples)
    again = samples.copy()
    for one in (samples, again):
        _sample_memory_kernels.remember(first, step, frame, x, l, memory, solid, age, one)
        np.testing.assert_array_equal(one, expected)


@given(frame=st.integers(0, 2**53), pixel=st.integers(0, 2**40))
@settings(max_examples=200, deadline=None)
def test_random_bits_equal_the_formula(frame, pixel):
    with np.errstate(over="ignore"):
        found = _sample_memory_kernels.scrambled(np.uint64(frame), np.uint64(pixel))
    assert int(found) % 2**64 == reference.scrambled(frame, pixel)


def grey(value):
    return np.full((H, W, 3), value, np.uint8)


def feed(memory_, pictures, background, sigma=0.1, solid=None, age=None, frames=40 * EVERY):
    """Show pictures in turn with every pixel a candidate; return the last candidates."""
    solid = np.zeros((H, W), np.uint8) if solid is None else solid
    age = np.zeros((H, W), np.uint16) if age is None else age
    memory = memory_of(np.full((H, W), sigma))
    for i in range(frames):
        over, x = np.ones((H, W), np.uint8), pictures[i % len(pictures)]
        memory_.clear(over, x, background, memory, 1, False)
        memory_.learn(x, background, memory, solid, age)
    return over


def new(bands=1):
    return SampleMemory((H, W), 3, bands)


def test_stored_colours_are_cleared_and_new_ones_kept():
    memory_, memory = new(), memory_of(np.full((H, W), 0.1))
    calm = new()
    assert feed(calm, [grey(160)], grey(100), sigma=0.01).all()
    assert not calm.samples.any()
    assert feed(memory_, [grey(160)], grey(100)).sum() == 0
    for value, left in ((160, 0), (165, 0), (200, H * W), (50, H * W)):
        over = np.ones((H, W), np.uint8)
        memory_.clear(over, grey(value), grey(100), memory, 1, False)
        assert over.sum() == left
    over = np.ones((H, W), np.uint8)
    memory_.clear(over, grey(160 + 40), grey(100 + 40), memory, 1, False)  # in another light
    assert over.sum() == 0


def test_standing_objects_are_not_stored_and_solid_pixels_rarely():
    solid, age = np.ones((H, W), np.uint8), np.full((H, W), 2, np.uint16)
    standing, branches, open_ = new(), new(), new()
    feed(standing, [grey(160)], grey(100), solid=solid, age=age, frames=10 * EVERY)
    assert not standing.samples.any()
    feed(branches, [grey(160)], grey(100), solid=solid, frames=3 * EVERY)
    feed(open_, [grey(160)], grey(100), frames=3 * EVERY)
    written = [np.count_nonzero(memory_.samples[:, 0]) for memory_ in (branches, open_)]
    assert 0.1 < written[0] / written[1] < 0.4


def test_samples_spread_to_neighbours_only():
    memory_, memory = new(), memory_of(np.zeros((H, W)))
    memory.sigma[6, 10] = 0.1
    nothing = np.zeros((H, W), np.uint8)
    for _ in range(40 * EVERY):
        memory_.learn(grey(160), grey(100), memory, nothing, nothing.astype(np.uint16))
    found = memory_.samples.any(axis=(1, 2)).reshape(H, W)
    assert found[5:8, 9:12].sum() >= 7
    found[5:8, 9:12] = False
    assert not found.any()


def test_shifted_background_is_cleared_at_calm_pixels():
    background = grey(100)
    background[:, 10:] = 180
    shifted = np.roll(background, 1, axis=1)
    shifted[:, 0] = 100
    memory_ = new()
    over = feed(memory_, [shifted], background, sigma=0.01, frames=1)
    assert over[:, 10].all()  # after a few frames only
    assert not feed(memory_, [shifted], background, sigma=0.01, frames=20)[:, 10].any()
    assert feed(memory_, [grey(250)], background, sigma=0.01, frames=1).all()


def test_shares_follow_the_candidates_unless_frozen():
    memory_ = new()
    first = memory_.share.copy()
    feed(memory_, [grey(250)], grey(100), sigma=0.01, frames=200)
    assert memory_.share.max() < 0.05 * 255
    feed(memory_, [grey(100)], grey(100), sigma=0.01, frames=200)
    assert memory_.share.min() > 0.95 * 255
    before = memory_.state()
    memory, over = memory_of(np.full((H, W), 0.1)), np.ones((H, W), np.uint8)
    memory_.clear(over, grey(250), grey(100), memory, 1, True)
    np.testing.assert_array_equal(memory_.share, before["share"])
    assert over.all()
    assert (first == first[0, 0]).all()


def stream(memory_, frames, seed):
    """Return the candidates left in some random frames."""
    rng = np.random.default_rng(seed)
    background, left = rng.integers(60, 200, (H, W, 3)).astype(np.uint8), []
    for _ in range(frames):
        x = (background + rng.integers(-40, 41, (H, W, 1))).astype(np.uint8)
        over, solid = (rng.random((2, H, W)) < (0.7, 0.2)[0]).astype(np.uint8)
        memory, age = memory_of(rng.choice([0.01, 0.1], (H, W))), rng.integers(0, 3, (H, W)).astype(np.uint16)
        memory_.clear(over, x, background, memory, 1, False)
        memory_.learn(x, background, memory, solid, age)
        left.append(over)
    return left


def test_bands_and_restored_states_give_equal_results():
    one, many, empty = new(1), new(3), new().state()
    np.testing.assert_array_equal(stream(one, 40, 0), stream(many, 40, 0))
    np.testing.assert_array_equal(one.samples, many.samples)
    np.testing.assert_array_equal(one.share, many.share)
    assert empty["samples"].shape[0] == 0  # pixels without samples are omitted
    again = new()
    again.set_state(one.state())
    np.testing.assert_array_equal(again.samples, one.samples)
