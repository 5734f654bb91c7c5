"""The segmenter against its twins; the noise scale: solid regions, and which residuals are learned; the probability."""

import cv2
import numpy as np
import pytest
import reference_scene as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from scipy import ndimage

from bgsub import BackgroundSubtractor, Separation
from bgsub.parameters import SegmenterParameters
from bgsub.scene import _segment_kernels
from bgsub.scene._frame_kernels import LearnParams
from bgsub.scene.engine import SweepEngine
from bgsub.scene.frame_format import FrameFormat
from bgsub.scene.frame_result import ForegroundProbability
from bgsub.scene.segmentation import NoiseScale, SceneLook, Segmenter
from bgsub.separation import FOREGROUND
from bgsub.synthetic import scene


def segment(over, **parameters):
    """Return the mask of candidates, (h, w), in a white frame before a black background."""
    x = np.full((*over.shape, 3), 255, np.uint8)
    segmenter = Segmenter(over.shape, SegmenterParameters(median=1, **parameters), scale=1 / 255)
    return segmenter.segment(over, reference.filled(over), x, np.zeros_like(x))


@given(h=st.integers(1, 20), w=st.integers(1, 90), half=st.integers(0, 15), seed=st.integers(0, 99))
@settings(max_examples=60)
def test_majority_equals_its_twin(h, w, half, seed):
    rng, side = np.random.default_rng(seed), 2 * half + 1
    candidates = ((rng.random((h, w)) < 0.5) & (rng.random((h, 1)) < 0.6)).astype(np.uint8)
    squares = sliding_window_view(np.pad(candidates, half, mode="edge"), (side, side))
    mask, out_filled = np.full((h, w), 9, np.uint8), np.ones(-(-h * w // 64), np.uint8)
    work = np.empty(w + 31, np.uint16), np.empty(w, np.uint16)
    for _ in range(2):
        _segment_kernels.majority(candidates, reference.filled(candidates), side, *work, mask, out_filled)
        np.testing.assert_array_equal(mask, np.where(squares.sum(axis=(2, 3)) > side * side // 2, 255, 0))
        assert not np.any(reference.filled(mask) > out_filled)


@given(n=st.integers(1, 200), least=st.integers(1, 6), seed=st.integers(0, 99))
def test_keep_still_equals_its_twin(n, least, seed):
    rng = np.random.default_rng(seed)
    strong, age = (rng.random(n) < 0.5).astype(np.uint8), rng.integers(0, 8, n).astype(np.uint16)
    age[: 64 * rng.integers(0, 3)] = 0
    mask = np.where(rng.random(n) < 0.1, 255, 0).astype(np.uint8)
    expected, filled = np.where((strong != 0) & (age >= least), 255, mask), reference.filled(mask)
    images = strong[np.newaxis], age[np.newaxis], reference.filled(age), least, mask[np.newaxis]
    _segment_kernels.keep_still(*images, filled)
    np.testing.assert_array_equal(mask, expected)
    np.testing.assert_array_equal(filled, reference.filled(mask))


def without_small_regions(is_brighter, mask, before, dark, area, new_least, largest):
    """Fill small holes, then erase the regions smaller than `area`, new ones than `new_least`; also count the new ones.

    By OpenCV's labels; a region counts its holes.
    """
    outside = np.pad(mask == 0, 1, constant_values=True).astype(np.uint8)
    _, labels, stats, _ = cv2.connectedComponentsWithStats(outside, connectivity=4)
    outer, labels, areas = labels[0, 0], labels[1:-1, 1:-1], stats[:, cv2.CC_STAT_AREA]
    border = np.unique(np.r_[labels[0], labels[-1], labels[:, 0], labels[:, -1]]).tolist()
    holes = set(range(1, len(stats))) - {outer, *border}
    _, regions = cv2.connectedComponents((mask != 0).astype(np.uint8), connectivity=8)
    region_of = {hole: _left_of(regions, labels == hole) for hole in holes}
    sizes = np.bincount(regions.ravel()).tolist()
    least = {hole: max(area, _segment_kernels._SOLID * sizes[region_of[hole]]) for hole in holes}
    small = {hole for hole in holes if areas[hole] < (area if dark[labels == hole].any() else least[hole])}
    out, counts = (mask != 0) | np.isin(labels, list(small)), np.zeros(32)
    for region in range(1, regions.max() + 1):
        own = regions == region
        size = sizes[region] + sum(areas[hole] for hole in holes if region_of[hole] == region)
        if _left_of(labels, own) in small:
            continue
        is_new = (before[own] != 0).sum() < 0.5 * size
        if is_new and size >= area:
            counts[int(np.log2(size))] += 1
            counts[-2:] += (own.sum(), is_brighter[own].sum()) if size <= largest else 0
        if size < (new_least if is_new else area):
            out[own] = False
    return np.where(out, 255, 0), counts


def _left_of(labels, region):
    """Return the label on the left of the first pixel of a region, in reading order; -1 at the border."""
    i, j = np.argwhere(region)[0]
    return int(labels[i, j - 1]) if j > 0 else -1


@given(h=st.integers(1, 14), w=st.integers(1, 90), share=st.floats(0.2, 0.9), area=st.integers(2, 30),
       wider=st.integers(0, 40), seed=st.integers(0, 999))  # fmt: skip
@settings(max_examples=120)
def test_removal_of_small_regions_equals_its_twin(h, w, share, area, wider, seed):
    rng = np.random.default_rng(seed)
    mask = np.where(rng.random((h, w)) < share, np.uint8(255), np.uint8(0))
    dark, found = ((mask == 0) & (rng.random((h, w)) < 0.1)).astype(np.uint8), mask.copy()
    before = np.where(rng.random((h, w)) < rng.random(), np.uint8(255), np.uint8(0))
    earlier = before.copy()
    counts, least, largest = np.full(32, 9.0), area + wider, int(rng.integers(60))
    x, l = rng.integers(0, 256, (2, h, w, 3)).astype(np.uint8)
    is_brighter = x.sum(axis=2, dtype=int) > l.sum(axis=2, dtype=int)
    runs, rows = np.empty((5, h * w + 1), np.int32), np.empty(h + 1, np.int64)
    filled, steps = reference.filled(mask), np.full(-(-w // 8) * 8, 9, np.uint8)
    _segment_kernels.remove_small_regions(
        x, l, found, before, dark, filled, (area, least, largest), counts, runs, rows, steps
    )
    assert not np.any(reference.filled(found) > filled)
    expected, numbers = without_small_regions(is_brighter, mask, earlier, dark, area, least, largest)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(counts, numbers)
    np.testing.assert_array_equal(before, mask)


@pytest.mark.parametrize(("side", "is_filled"), [(14, True), (20, False)])
def test_holes_that_are_small_for_their_region_are_filled(side, is_filled):
    over = np.zeros((60, 80), np.uint8)
    over[10:40, 20:50] = 1
    hole = np.s_[25 - side // 2 : 25 + side // 2, 35 - side // 2 : 35 + side // 2]
    over[hole] = 0
    found = segment(over, neighbours=0, shadows="off")
    assert (found[25, 35] == 255) == is_filled
    assert not found[:8].any()


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 2), (2, 2), (3, 4), (7, 2), (5, 5)])
def test_minimum_area_is_exact(height, width):
    over = np.zeros((40, 50), np.uint8)
    over[10 : 10 + height, 20 : 20 + width] = 1
    area = height * width
    for least, kept in ((area, area), (area + 1, 0)):
        assert np.count_nonzero(segment(over.copy(), min_area=least / 2000)) == kept


@pytest.mark.parametrize(("fps", "darkest", "is_removed"), [(25, 220, True), (2, 220, False), (25, 0, False)])
@pytest.mark.parametrize("channels", [1, 3])
def test_snow_is_removed_and_an_object_of_its_size_stays(fps, darkest, is_removed, channels):
    rng = np.random.default_rng(3)
    ground = cv2.GaussianBlur(rng.uniform(0, 160, (120, 160, channels)).astype(np.float32), (0, 0), 3)
    subtractor = BackgroundSubtractor(fps=fps, scale=1, random_state=0)
    flakes = hits = 0
    for i in range(150):
        frame = np.clip(ground.reshape(120, 160, channels) + rng.normal(0, 2, (120, 160, channels)), 0, 255)
        for y, x in rng.integers(0, (114, 157), (30, 2)):
            frame[y : y + 6, x : x + 3] = rng.choice([darkest, 220])  # else fast objects
        there = np.zeros((120, 160), bool)
        there[50:60, max(i - 80, 0) : max(i - 74, 0)] = True  # comes when it snows
        frame[there] = 250
        found = subtractor.apply(frame.astype(np.uint8).squeeze()) == FOREGROUND
        if i >= 85:
            hits += int((found & there).sum())
            flakes += int((found & (cv2.dilate(there.astype(np.uint8), np.ones((15, 15))) == 0)).sum())
    assert hits > 0.8 * 65 * 60
    whole = 65 * 30 * 18
    assert (flakes < 0.1 * whole) if is_removed else (flakes > 0.3 * whole)


F = np.float32
H, W = 24, 30
OBJECT = np.s_[8:16, 10:22]


@given(h=st.integers(1, 14), w=st.integers(1, 14), share=st.floats(0.4, 1), seed=st.integers(0, 999))
@settings(max_examples=60)
def test_solid_equals_its_twin(h, w, share, seed):
    rng = np.random.default_rng(seed)
    strong, returns = (rng.random((h, w)) < share).astype(np.uint8), rng.integers(0, 100, (h, w), np.uint8)
    solid = np.full((h, w), 9, np.uint8)
    _segment_kernels.find_solid(strong, reference.filled(strong), returns, np.empty((2, w + 10), np.uint8), solid)
    grown = ndimage.binary_dilation(ndimage.binary_opening(strong, np.ones((4, 4))), np.ones((5, 5)))
    np.testing.assert_array_equal(solid, grown & (returns < 80))


class Learner:
    """A segmenter and an engine that learn from residuals on a black background."""

    def __init__(self):
        form = FrameFormat.of(np.zeros((H, W, 3), F))
        self.segmenter = Segmenter((H, W))
        self.noise = self.segmenter.noise
        self.engine = SweepEngine(form, 1, 1, self.noise.sigma)
        self.engine.set_limits(*self.segmenter.limits)

    def see(self, d):
        """Learn from a residual, (h, w)."""
        x = np.repeat(d[..., np.newaxis] / np.sqrt(F(3)), 3, axis=2).astype(F)
        self.engine.begin(x)
        self.engine.compare()
        if self.noise.is_empty:
            self.noise.begin(self.engine.residual(), float)
        strong, never = (self.engine.strong, self.engine.filled), np.zeros((H, W), np.uint8)
        skip = self.segmenter.unlearned(*strong, None, never.astype(np.uint16), never, x, self.engine.picture, 0.04)
        learn = LearnParams(*self.noise.rates(1))
        self.engine.learn(skip, learn, (1, 0))


def test_scatter_is_learned_and_solid_regions_are_not():
    rng, learner = np.random.default_rng(1), Learner()
    for _ in range(200):
        d = F(0.01) * rng.random((H, W), F)
        d[OBJECT] = 0.3
        d[20:, 24:] = np.where(rng.random((4, 6)) < 0.4, 0.3, 0.01)
        learner.see(d)
    sigma = learner.noise.sigma
    assert sigma[OBJECT].max() < 0.02  # from the first residual
    assert sigma[20:, 24:].mean() == pytest.approx(0.4 * 0.2 + 0.6 * 0.01, rel=0.1)  # clipped at 0.2
    np.testing.assert_allclose(sigma[:5, :7].mean(), 0.005, rtol=0.2)


def test_early_scale_is_the_mean_of_clipped_residuals():
    rng, learner = np.random.default_rng(3), Learner()
    residuals = 0.079 * rng.random((20, H, W)).astype(F)
    for d in residuals:
        learner.see(d)
    first = float(np.quantile(residuals[0], 0.1))
    expected = np.tensordot(np.ones(21) / 22, [np.full((H, W), first), *residuals], (0, 0)) + first / 22  # counts twice
    np.testing.assert_allclose(learner.noise.sigma, expected, atol=1e-6)


def test_the_first_change_of_pictures_without_noise_is_an_object():
    for still, limit in ((5, 0.04), (60, 1e-5)):
        learner = Learner()
        for _ in range(still):
            learner.see(np.zeros((H, W), F))
        learner.noise.begin(np.full((H, W), 0.04, F), float)
        assert learner.noise.sigma.max() == pytest.approx(limit, rel=0.1, abs=1e-5)
        assert not learner.noise.is_empty


def test_rate_is_in_proportion_to_the_period():
    noise = NoiseScale((H, W), 1.0)
    rates = [float(noise.rates(1)[0]) for _ in range(60)]
    np.testing.assert_allclose(rates[:3], [1 / 3, 1 / 4, 1 / 5], rtol=1e-6)
    assert rates[-1] == pytest.approx(0.02)
    assert float(noise.rates(3)[0]) == pytest.approx(0.06)
    assert float(NoiseScale((H, W), 1.7).rates(1)[1]) == pytest.approx(1.7 * 0.2)  # the clip of a joint residual
    segmenter = Segmenter((H, W))
    segmenter.set_scene(SceneLook(exposure=0.3))
    clip = float(segmenter.noise.rates(1)[1])
    segmenter.noise.begin(np.full((H, W), 0.5, F), float)
    assert float(segmenter.noise.sigma[0, 0]) == pytest.approx(clip / 2)  # both follow the exposure
    segmenter.set_scene(SceneLook())
    assert clip == pytest.approx(0.3 * float(segmenter.noise.rates(1)[1]))


def test_samples_are_learned_from_half_of_the_later_frames():
    noise, even = NoiseScale((H, W), 1.0), []
    for _ in range(120):
        even.append(noise.is_sampled)
        noise.rates(1)
    assert all(even[:45])
    later = np.array(even[60:])
    assert abs(int(later.sum()) - 30) <= 1
    assert len({tuple(four) for four in later.reshape(-1, 4).tolist()}) > 1  # in changing phase


@settings(max_examples=60)
@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3, 5, 7]), st.integers(0, 2**31))
def test_probabilities_are_mean_counts_of_residuals_over_a_square(height, width, side, seed):
    rng = np.random.default_rng(seed)
    residual, sigma = (rng.exponential(0.1, (2, height, width))).astype(np.float32)
    vote = ForegroundProbability(residual, sigma, np.float32(0.08), np.float32(2.5), side)
    counts = 1 - 1 / (1 + (residual / np.hypot(0.08, 2.5 * sigma.astype(float))) ** 2)
    np.testing.assert_allclose(vote(), ndimage.uniform_filter(counts, side, mode="nearest"), atol=1e-6)


@settings(max_examples=40)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**31))
def test_mask_decides_the_side(height, width, seed):
    rng, calls = np.random.default_rng(seed), []
    mask = rng.choice(np.array([0, 127, 255], np.uint8), (height, width))
    vote = rng.choice(np.float32([0, 0.2, 0.5, 0.50001, 0.9, 1]), (height, width))
    lazy = lambda: calls.append(1) or vote  # noqa: E731
    separation = Separation(mask, mask, mask, vote, np.empty(0), "tracking", soft_vote=lazy)
    assert not calls
    probability, foreground = separation.probability, mask == FOREGROUND
    assert separation.probability is probability
    assert len(calls) == 1
    assert (probability.dtype, probability.shape) == (np.float32, mask.shape)
    np.testing.assert_array_equal(probability > 0.5, foreground)
    kept = foreground == (vote > 0.5)
    np.testing.assert_array_equal(probability[kept], vote[kept])
    assert np.abs(probability[~kept] - 0.5).max(initial=0) < 1e-6


@pytest.mark.large
@pytest.mark.parametrize(
    ("options", "shake"), [({"scale": 0.5}, 2.0), ({"median": 1}, 0), ({"shadows": "merged", "min_area": 0.01}, 4.0)]
)
def test_stream(options, shake):
    subtractor = BackgroundSubtractor(start_frames=15, **options)
    frames = [*scene("lobby", size=(320, 240), length=40, seed=5, shake=shake, lamps=False, walkers=8, empty_start=0)]
    results = [subtractor.process(frame) for frame, _ in frames]  # maps are made after the last frame
    right, wrong = [], []
    for result, (_, truth) in zip(results[20:], frames[20:], strict=True):
        probability, foreground = result.probability, result.mask == FOREGROUND
        assert (probability.shape, probability.dtype) == (result.mask.shape, np.float32)
        assert probability.min() >= 0
        assert probability.max() <= 1
        np.testing.assert_array_equal(probability > 0.5, foreground)
        right.append(probability[foreground & (truth == FOREGROUND)])
        wrong.append(probability[foreground & (truth == 0)])
    assert np.concatenate(right).mean() > np.concatenate(wrong).mean() + 0.05


@pytest.mark.parametrize("shape", [(48, 64), (48, 64, 1)])
def test_a_noisy_grey_camera_is_not_all_foreground(shape):
    rng, subtractor = np.random.default_rng(0), BackgroundSubtractor()
    for _ in range(8):
        mask = subtractor.apply(rng.normal(100, 12, shape).clip(0, 255).astype(np.uint8))
        assert np.count_nonzero(mask == FOREGROUND) < 0.1 * mask.size
