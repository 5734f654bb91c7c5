"""The second opinion on candidates: its kernels against naive twins, and what becomes familiar and what does not."""

import numpy as np
import pytest
import reference_scene as reference
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub.errors import ParameterError
from bgsub.scene import _sample_memory_kernels, sample_memory
from bgsub.scene._sample_memory_kernels import MatchLimits
from bgsub.scene.sample_memory import SampleMemory

F = np.float32
H, W = 12, 20
EVERY = sample_memory._EVERY
RATE, BELIEF, FULL = F(1 / 16), F(0.5), F(255)  # exact in binary: no share is rounded another way by its twin

sizes = settings(max_examples=25, deadline=None)
shapes = {"h": st.integers(1, 9), "w": st.integers(1, 9), "c": st.sampled_from([1, 2, 3, 4])}


def memory_of(sigma, scale=1 / 255, threshold=0.08, factor=2.5):
    return MatchLimits(np.asarray(sigma, F), F(scale), F(threshold), F(factor))


def planted(rng, h, w, c, dtype):
    """A frame and a background with far and near colours, noise scales on both sides, and samples of some of it."""
    unit, scale = (1, 1 / 255) if dtype == np.uint8 else (1 / 255, 1)
    l = rng.integers(60, 200, (h, w, c))
    x = l + rng.choice([-60, -25, 0, 25, 60], (h, w, 1)) + rng.integers(-3, 4, (h, w, c))
    samples = rng.integers(-40, 40, (h * w, c, 8)).astype(np.int8)
    kept = reference.deviation(x, l, 1 / 255).reshape(h * w, c)
    samples[:, :, 3] = np.where(rng.random((h * w, 1)) < 0.5, kept + rng.integers(-6, 7, (h * w, c)), samples[:, :, 3])
    memory = memory_of(rng.choice([0.01, 0.1], (h, w)), scale)
    return (unit * x).astype(dtype), (unit * l).astype(dtype), memory, samples


# ---- kernels -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, F])
@given(**shapes, radius=st.integers(0, 3), seed=st.integers(0, 999))
@sizes
def test_familiar_candidates_are_cleared_as_by_hand(dtype, h, w, c, radius, seed):
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
def test_restless_pixels_are_remembered_as_by_hand(dtype, h, w, c, first, step, frame, seed):
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
def test_bits_are_those_of_the_formula(frame, pixel):
    with np.errstate(over="ignore"):
        found = _sample_memory_kernels.scrambled(np.uint64(frame), np.uint64(pixel))
    assert int(found) % 2**64 == reference.scrambled(frame, pixel)


def test_bits_spread_evenly_over_pixels_and_over_frames():
    """Slots, neighbours and the choice to spread: each as often as it should be, within five deviations."""
    pixels = [reference.scrambled(7, pixel) for pixel in range(4000)]
    frames = [reference.scrambled(frame, 7) for frame in range(4000)]
    for bits in (np.array(pixels, np.uint64), np.array(frames, np.uint64)):
        for shift, count in ((0, 4), (4, 2), (8, 8), (16, 9), (24, 8)):
            found = np.bincount(((bits >> np.uint64(shift)) % np.uint64(count)).astype(int), minlength=count)
            assert np.abs(found - 4000 / count).max() < 5 * np.sqrt(4000 / count)


# ---- what becomes familiar ---------------------------------------------------------------------------------------


def grey(value):
    return np.full((H, W, 3), value, np.uint8)


def fed(familiar, pictures, background, sigma=0.1, solid=None, age=None, frames=40 * EVERY):
    """Let `familiar` see pictures, one after the other, with every pixel a candidate; the last candidates left."""
    solid = np.zeros((H, W), np.uint8) if solid is None else solid
    age = np.zeros((H, W), np.uint16) if age is None else age
    memory = memory_of(np.full((H, W), sigma))
    for i in range(frames):
        over, x = np.ones((H, W), np.uint8), pictures[i % len(pictures)]
        familiar.clear(over, x, background, memory, 1, False)
        familiar.learn(x, background, memory, solid, age)
    return over


def new(bands=1):
    return SampleMemory((H, W), 3, bands)


def test_what_a_restless_place_showed_before_is_cleared_and_new_colours_are_not():
    familiar, memory = new(), memory_of(np.full((H, W), 0.1))
    assert fed(familiar, [grey(160)], grey(100)).sum() == 0
    for value, left in ((160, 0), (165, 0), (200, H * W), (50, H * W)):
        over = np.ones((H, W), np.uint8)
        familiar.clear(over, grey(value), grey(100), memory, 1, False)
        assert over.sum() == left
    over = np.ones((H, W), np.uint8)
    familiar.clear(over, grey(160 + 40), grey(100 + 40), memory, 1, False)  # in another light: deviations
    assert over.sum() == 0


def test_a_calm_place_remembers_nothing():
    familiar = new()
    assert fed(familiar, [grey(160)], grey(100), sigma=0.01).all()
    assert not familiar.samples.any()


def test_an_object_that_stands_is_not_remembered_and_what_is_only_solid_rarely():
    solid, age = np.ones((H, W), np.uint8), np.full((H, W), 2, np.uint16)
    standing, branches, open_ = new(), new(), new()
    fed(standing, [grey(160)], grey(100), solid=solid, age=age, frames=10 * EVERY)
    assert not standing.samples.any()
    fed(branches, [grey(160)], grey(100), solid=solid, frames=3 * EVERY)
    fed(open_, [grey(160)], grey(100), frames=3 * EVERY)
    written = [np.count_nonzero(familiar.samples[:, 0]) for familiar in (branches, open_)]
    assert 0.1 < written[0] / written[1] < 0.4


def test_samples_spread_to_the_neighbours_only():
    familiar, memory = new(), memory_of(np.zeros((H, W)))
    memory.sigma[6, 10] = 0.1
    nothing = np.zeros((H, W), np.uint8)
    for _ in range(40 * EVERY):
        familiar.learn(grey(160), grey(100), memory, nothing, nothing.astype(np.uint16))
    found = familiar.samples.any(axis=(1, 2)).reshape(H, W)
    assert found[5:8, 9:12].sum() >= 7
    found[5:8, 9:12] = False
    assert not found.any()


def test_the_background_next_door_is_familiar_in_calm_places_too():
    background = grey(100)
    background[:, 10:] = 180
    shifted = np.roll(background, 1, axis=1)
    shifted[:, 0] = 100
    familiar = new()
    over = fed(familiar, [shifted], background, sigma=0.01, frames=1)
    assert over[:, 10].all()  # believed only after a few
    assert not fed(familiar, [shifted], background, sigma=0.01, frames=20)[:, 10].any()
    assert fed(familiar, [grey(250)], background, sigma=0.01, frames=1).all()


def test_shares_move_towards_what_candidates_are_and_stay_when_frozen():
    familiar = new()
    first = familiar.share.copy()
    fed(familiar, [grey(250)], grey(100), sigma=0.01, frames=200)
    assert familiar.share.max() < 0.05 * 255
    fed(familiar, [grey(100)], grey(100), sigma=0.01, frames=200)
    assert familiar.share.min() > 0.95 * 255
    before = familiar.state()
    memory, over = memory_of(np.full((H, W), 0.1)), np.ones((H, W), np.uint8)
    familiar.clear(over, grey(250), grey(100), memory, 1, True)
    np.testing.assert_array_equal(familiar.share, before["share"])
    assert over.all()
    assert (first == first[0, 0]).all()


def test_a_few_pixels_of_each_frame_are_visited_and_all_in_turn():
    familiar, memory = new(), memory_of(np.full((H, W), 0.1))
    nothing = np.zeros((H, W), np.uint8)
    written = []
    for _ in range(EVERY):
        before = familiar.samples.copy()
        familiar.learn(grey(160), grey(100), memory, nothing, nothing.astype(np.uint16))
        written.append(np.count_nonzero((familiar.samples != before).any(axis=(1, 2))))
    assert max(written) <= 2 * H * W / EVERY
    assert familiar.samples.any(axis=(1, 2)).all()


# ---- bands and state ---------------------------------------------------------------------------------------------


def stream(familiar, frames, seed):
    """What is cleared of some random frames, in order."""
    rng = np.random.default_rng(seed)
    background, left = rng.integers(60, 200, (H, W, 3)).astype(np.uint8), []
    for _ in range(frames):
        x = (background + rng.integers(-40, 41, (H, W, 1))).astype(np.uint8)
        over, solid = (rng.random((2, H, W)) < (0.7, 0.2)[0]).astype(np.uint8)
        memory, age = memory_of(rng.choice([0.01, 0.1], (H, W))), rng.integers(0, 3, (H, W)).astype(np.uint16)
        familiar.clear(over, x, background, memory, 1, False)
        familiar.learn(x, background, memory, solid, age)
        left.append(over)
    return left


def test_bands_make_no_difference():
    one, many = new(1), new(3)
    np.testing.assert_array_equal(stream(one, 40, 0), stream(many, 40, 0))
    np.testing.assert_array_equal(one.samples, many.samples)
    np.testing.assert_array_equal(one.share, many.share)


def test_it_goes_on_from_its_state_bit_for_bit():
    familiar, other = new(), new()
    stream(familiar, 37, 1)
    state = familiar.state()
    other.set_state(state)
    for array in state.values():
        array[:] = 1  # copies
    np.testing.assert_array_equal(stream(familiar, 37, 2), stream(other, 37, 2))
    for name, value in familiar.state().items():
        np.testing.assert_array_equal(other.state()[name], value)


def test_pixels_without_samples_take_no_room_in_a_state():
    familiar = new()
    assert familiar.state()["samples"].shape[0] == 0
    familiar.samples[[3, 77], 1, [0, 15]] = -5
    state = familiar.state()
    assert len(state["samples"]) == 2
    other = new()
    other.set_state(state)
    np.testing.assert_array_equal(other.samples, familiar.samples)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("used", np.ones(1, np.uint8), "used must be uint8 of shape"),
        ("used", np.full(-(-H * W // 8), 255, np.uint8), "samples must be int8 of shape"),
        ("share", np.zeros((W, H), np.uint8), "share must be uint8 of shape"),
        ("samples", np.zeros((H * W, 1, 8), np.int8), "samples must be int8 of shape"),
        ("samples", np.zeros((H * W, 3, 8), np.uint8), "samples must be int8 .* got uint8"),
        ("frame", np.array([-1.0]), "frame must hold numbers in"),
        ("frame", np.array([1e300]), "frame must hold numbers in"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(name, value, words):
    state = new().state()
    state[name] = value
    with pytest.raises(ParameterError, match=words):
        new().set_state(state)
