"""SampleMemory: kernels against naive twins, and which candidates are cleared."""

import numpy as np
import pytest
import reference_scene as reference
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bgsub.scene import _match_kernels, segmentation
from bgsub.scene._frame_kernels import CHUNK
from bgsub.scene._match_kernels import TILE, MatchLimits, Samples
from bgsub.scene.segmentation import SampleMemory

F = np.float32
H, W = 12, 20
EVERY = segmentation._EVERY[1]
RATE, BELIEF, FULL = F(1 / 16), F(0.625), F(255)  # exact in binary, so that twins round equally

sizes = settings(max_examples=25)
shapes = {"h": st.integers(1, 9), "w": st.integers(1, 9), "c": st.sampled_from([1, 3])}


def memory_of(sigma, scale=1 / 255, channels=3, is_coloured=True):
    limits = F(scale), F(0.08), F(0.08), F(2.5), F(1)
    return MatchLimits(np.asarray(sigma, F), *limits, is_coloured, F(0), (0,) * channels)


def clear(memory_, over, x, background, memory):
    samples = Samples(memory_.samples, memory_.share, 1, F(0.05), F(0.5))
    work = np.empty(CHUNK, np.uint64), np.empty(CHUNK * 3, np.uint8)
    _match_kernels.find_matching(0, H * W, x, background, memory, samples, over, reference.filled(over), *work)
    over[over == 2] = 0  # believed matches


def planted(rng, h, w, c, dtype):
    """Return a frame, a background, limits and samples with near and far colours."""
    unit, scale = (1, 1 / 255) if dtype == np.uint8 else (1 / 255, 1)
    l = rng.integers(60, 200, (h, w, c))
    x = l + rng.choice([-60, -25, 0, 25, 60], (h, w, 1)) + rng.integers(-3, 4, (h, w, c))
    samples = rng.integers(-40, 40, (h * w, c, 8)).astype(np.int8)
    kept = reference.deviation(x, l, 1 / 255).reshape(h * w, c)
    samples[:, :, 3] = np.where(rng.random((h * w, 1)) < 0.5, kept + rng.integers(-6, 7, (h * w, c)), samples[:, :, 3])
    memory = memory_of(rng.choice([0.01, 0.1], (h, w)), scale, channels=c, is_coloured=bool(rng.random() < 0.5))
    return (unit * x).astype(dtype), (unit * l).astype(dtype), memory, samples


@pytest.mark.parametrize("dtype", [np.uint8, F])
@given(**shapes, radius=st.integers(0, 3), seed=st.integers(0, 999))
@example(h=9, w=70, c=3, radius=1, seed=0)  # whole chunks inside
@example(h=9, w=70, c=1, radius=1, seed=1)
@sizes
def test_find_matching_equals_its_twin(dtype, h, w, c, radius, seed):
    rng = np.random.default_rng(seed)
    x, l, memory, samples = planted(rng, h, w, c, dtype)
    shares, expected = (rng.integers(0, 256, (h, w)).astype(np.uint8) for _ in range(2))
    expected[:] = shares
    numbers = RATE, float(_match_kernels._CHANCE), BELIEF, FULL
    for _ in range(3):
        over = (rng.random((h, w)) < 0.7).astype(np.uint8)
        expected, left = reference.matching(x, l, memory, *numbers, radius, samples, expected, over)
        given, filled = Samples(samples, shares, radius, RATE, BELIEF), reference.filled(over)
        work, cut = (np.empty(CHUNK, np.uint64), np.empty(CHUNK * c, np.uint8)), h * w // 2 // CHUNK * CHUNK
        for begin, end in ((0, cut), (cut, h * w)):
            _match_kernels.find_matching(begin, end, x, l, memory, given, over, filled, *work)
        np.testing.assert_array_equal(over, left)
        np.testing.assert_array_equal(shares, expected)


@given(h=st.integers(1, 40), w=st.integers(1, 40), reach=st.integers(1, 3), seed=st.integers(0, 999))
@sizes
def test_clear_matching_equals_its_twin(h, w, reach, seed):
    rng = np.random.default_rng(seed)
    shares = rng.choice(((0.3, 0.4, 0.3, 0), (0.1, 0.3, 0.3, 0.3), (0.6, 0.1, 0.1, 0.2)))
    over = rng.choice(4, (h, w), p=shares).astype(np.uint8)
    over[: rng.integers(0, h + 1)] = 0
    over[:, : rng.integers(0, w + 1)] &= 2
    over[:, rng.integers(0, w + 1) :] &= 1
    l = rng.integers(0, 256, (h, w, 3)).astype(np.uint8)
    x = np.where(rng.random((h, w, 1)) < 0.5, rng.permuted(l, axis=1), rng.integers(0, 256, l.shape)).astype(np.uint8)
    limits = _match_kernels._DENSE, float(_match_kernels._MOVING)
    memory = memory_of(np.zeros((h, w)), 1 / 255)
    expected = reference.cleared(x, l, 255 * memory.threshold, over, reach, 0.25, TILE, *limits)
    rows, columns = -(-h // TILE), -(-w // TILE)
    tiles = np.zeros((3, rows + 1, columns + 1), np.int32), np.full((3, rows * columns), 9, np.int32)
    given = over, reference.filled(over), reach, F(0.25), *tiles, np.zeros(w, np.uint8)
    _match_kernels.clear_matching(x, l, memory, *given)
    np.testing.assert_array_equal(over > 0, expected)


def test_matching_parts_of_a_large_object_are_kept():
    side = 128
    segmenter = segmentation.Segmenter((side, side), scale=1 / 255)
    segmenter.noise.sigma[:] = 0.1
    background = np.full((side, side, 3), 100, np.uint8)
    segmenter.sample_memory.share[:] = 255
    segmenter.sample_memory.samples[:] = np.int8(60 * 127 / 255)

    def found(size):
        x = background.copy()
        x[20 : 20 + size, 20 : 20 + size] = 220
        x[30:36, 30:36] = 160  # as the samples
        over = np.any(x != 100, axis=2).astype(np.uint8)
        mask = segmenter.segment(over, reference.filled(over), x, background)
        return mask[32, 32] == 255

    assert found(size=60)
    assert not found(size=0)


@pytest.mark.parametrize("dtype", [np.uint8, F])
@given(**shapes, every=st.integers(1, 3), frame=st.integers(0, 10**6), seed=st.integers(0, 999))
@sizes
def test_remember_equals_its_twin(dtype, h, w, c, every, frame, seed):
    rng = np.random.default_rng(seed)
    x, l, memory, samples = planted(rng, h, w, c, dtype)
    solid = (rng.random((h, w)) < 0.7).astype(np.uint8)
    age = rng.integers(0, 3, (h, w)).astype(np.uint16)
    expected = reference.remembered(frame, every, x, l, memory, solid, age, samples)
    before, again, used = samples.copy(), samples.copy(), np.zeros(h * w, np.uint8)
    for one in (samples, again):
        _match_kernels.remember(frame, every, x, l, memory, solid, age, one, used)
        np.testing.assert_array_equal(one, expected)
    assert ((expected != before).any(axis=(1, 2)) <= used).all()


def grey(value):
    return np.full((H, W, 3), value, np.uint8)


def feed(memory_, pictures, background, sigma=0.1, solid=None, age=None, frames=40 * EVERY):
    """Show pictures in turn with every pixel a candidate; return the last candidates."""
    solid = np.zeros((H, W), np.uint8) if solid is None else solid
    age = np.zeros((H, W), np.uint16) if age is None else age
    memory = memory_of(np.full((H, W), sigma))
    for i in range(frames):
        over, x = np.ones((H, W), np.uint8), pictures[i % len(pictures)]
        clear(memory_, over, x, background, memory)
        memory_.learn(x, background, memory, solid, age, 0.04)
    return over


def new():
    return SampleMemory((H, W), 3)


def test_stored_colours_are_cleared_and_new_ones_kept():
    memory_, memory = new(), memory_of(np.full((H, W), 0.1))
    calm = new()
    assert feed(calm, [grey(160)], grey(100), sigma=0.01).all()
    assert not calm.samples.any()
    assert feed(memory_, [grey(160)], grey(100)).sum() == 0
    for value, left in ((160, 0), (165, 0), (200, H * W), (50, H * W)):
        over = np.ones((H, W), np.uint8)
        clear(memory_, over, grey(value), grey(100), memory)
        assert over.sum() == left
    over = np.ones((H, W), np.uint8)
    clear(memory_, over, grey(160 + 40), grey(100 + 40), memory)  # in another light
    assert over.sum() == 0


def test_samples_are_stored_more_often_at_low_frame_rates():
    written = []
    for seconds in (0.02, 0.04, 0.2):
        memory_, memory = new(), memory_of(np.full((H, W), 0.1))
        still = np.zeros((H, W), np.uint8), np.zeros((H, W), np.uint16)
        for _ in range(4):
            memory_.learn(grey(160), grey(100), memory, *still, seconds)
        written.append(np.count_nonzero(memory_.samples[:, 0]))
    assert written[0] == written[1]
    assert 1.6 < written[2] / written[1] < 2.2


def test_standing_objects_are_not_stored_and_solid_pixels_rarely():
    solid, age = np.ones((H, W), np.uint8), np.full((H, W), 2, np.uint16)
    standing, branches, open_ = new(), new(), new()
    feed(standing, [grey(160)], grey(100), solid=solid, age=age, frames=10 * EVERY)
    assert not standing.samples.any()
    feed(branches, [grey(160)], grey(100), solid=solid, frames=3 * EVERY)
    feed(open_, [grey(160)], grey(100), frames=3 * EVERY)
    written = [np.count_nonzero(memory_.samples[:, 0]) for memory_ in (branches, open_)]
    assert 0.1 < written[0] / written[1] < 0.4
