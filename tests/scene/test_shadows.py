"""Shadow kernels against their twins, and which foreground is shadow."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub.errors import ParameterError
from bgsub.numerics import threads
from bgsub.scene import _shadows_kernels
from bgsub.scene.frame_format import lanes_of
from bgsub.scene.shadows import _STEPS, ShadowDetector, has_colour

F = np.float32


def darkened(x, l, mask, darkest, faintest, colour):
    """Which foreground pixels are the background times one factor in a range."""
    g = np.sum(x * l, axis=2) / (np.sum(l * l, axis=2) + 1e-4)
    distance = np.sum(x * x, axis=2) - g * np.sum(x * l, axis=2)
    return (mask != 0) & (g > darkest) & (g < faintest) & (distance < colour**2)


def disagrees(x, l, mask, dark, texture):
    """Which foreground pixels are not dark, or lie in 3x3 foreground whose brightness is no multiple."""
    h, w, channels = x.shape
    out = (mask != 0) & (dark == 0)
    for i in range(1, h - 1):
        for j in range(1, w - 1):
            box = np.s_[i - 1 : i + 2, j - 1 : j + 2]
            if dark[i, j] and (mask[box] != 0).all():
                p, q = x[box].mean(axis=2).ravel(), l[box].mean(axis=2).ravel()
                g = p @ q / (q @ q + 1e-4 / channels**2)
                out[i, j] = (p @ p - g * (p @ q)) / 9 > texture**2
    return out


@given(h=st.integers(1, 9), w=st.integers(1, 9), channels=st.sampled_from([1, 3]), seed=st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_classify_equals_its_twin(h, w, channels, seed):
    rng = np.random.default_rng(seed)
    l = rng.uniform(0.2, 0.9, (h, w, channels)).astype(F)
    x = (l * rng.choice([0.2, 0.6, 0.6, 1.0], (h, w, 1)) + rng.normal(0, 0.02, l.shape)).astype(F)
    mask = (255 * (rng.random((h, w)) < 0.9)).astype(np.uint8)
    dark, other = np.ones_like(mask), np.ones_like(mask)
    box = np.array([h, 0, w, 0])
    limits = F(0.35), F(0.97), F(0.05), F(0.04)
    _shadows_kernels.classify(0, h, lanes_of(x), x, l, F(1), mask, *limits, dark, other, box)
    wide = x.astype(float), l.astype(float)
    assert np.mean(dark != darkened(*wide, mask, 0.35, 0.97, 0.05)) < 0.02
    assert np.mean(other != disagrees(*wide, mask, dark, 0.04)) < 0.02
    rows, columns = np.nonzero(dark)
    expected = [rows.min(), rows.max() + 1, columns.min(), columns.max() + 1] if dark.any() else [h, 0, w, 0]
    np.testing.assert_array_equal(box, expected)
    half = np.float32(0.5)  # the same frame in another unit
    again = np.zeros_like(mask), np.zeros_like(mask), box.copy()
    _shadows_kernels.classify(0, h, lanes_of(x), x / half, l / half, half, mask, *limits, *again)
    assert np.mean(again[0] != dark) < 0.02


@given(h=st.integers(1, 30), w=st.integers(1, 30), half=st.integers(0, 5), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_clear_outvoted_equals_its_twin(h, w, half, seed):
    rng = np.random.default_rng(seed)
    side = 2 * half + 1
    mask = np.where(rng.random((h, w)) < 0.7, np.uint8(255), np.uint8(0))
    dark, other = ((mask != 0) & (rng.random((2, h, w)) < 0.5)).astype(np.uint8)
    padded = [np.pad(image != 0, half) for image in (other, mask)]
    expected = np.zeros_like(dark)
    for i, j in np.argwhere(dark):
        objects, foreground = (np.count_nonzero(image[i : i + side, j : j + side]) for image in padded)
        expected[i, j] = objects <= 0.5 * foreground
    rows, columns = np.nonzero(dark)
    if dark.any():
        box = np.array([rows.min(), rows.max() + 1, columns.min(), columns.max() + 1])
        work = np.empty((2, w + side - 1), np.uint16), np.empty((2, w), np.uint16)
        _shadows_kernels.clear_outvoted(box, mask, other, dark, side, F(0.5), *work)
    np.testing.assert_array_equal(dark, expected)


def find_shadows(x, l, mask):
    found = ShadowDetector(mask.shape).find(x, l, mask)
    return np.zeros(mask.shape, bool) if found is None else found != 0


@pytest.mark.parametrize(
    ("channels", "factor", "is_shadow"),
    [(3, 0.6, True), (3, 0.2, False), (3, 1.3, False), (0, 0.45, False), (1, 0.45, False), (1, 0.9, True)],
)
def test_common_factor_in_range_is_a_shadow(channels, factor, is_shadow):
    """With 0 for three equal channels."""
    rng = np.random.default_rng(0)
    l = rng.uniform(0.3, 0.7, (24, 24, channels or 1)).astype(F)
    l = l if channels else np.repeat(l, 3, axis=2)
    mask = np.full((24, 24), 255, np.uint8)
    assert find_shadows(l * F(factor), l, mask).all() == is_shadow
    grey = np.repeat(rng.uniform(0.45, 0.55, (24, 24, 1)).astype(F), channels or 3, axis=2)
    assert not find_shadows(np.full_like(grey, 0.35), grey, mask)[4:-4, 4:-4].any()  # flat: an object
    assert find_shadows(grey * F(0.7), grey, mask)[4:-4, 4:-4].all()


def test_dark_parts_belong_to_their_object():
    rng = np.random.default_rng(1)
    l = rng.uniform(0.4, 0.6, (40, 40, 3)).astype(F)
    x = (l * F(0.6)).astype(F)
    x[:, ::2] = rng.uniform(0, 1, (40, 20, 3))
    x[10, 11] = l[10, 11] * F(0.6)
    mask = np.full((40, 40), 255, np.uint8)
    assert not find_shadows(x, l, mask)[8:32, 8:32].any()


@pytest.mark.parametrize("scale", [1 / 255, 1.0])
def test_a_picture_has_colour_when_more_than_a_few_pixels_are_coloured(scale):
    image = np.repeat(np.random.default_rng(0).integers(20, 200, (90, 120, 1)), 3, axis=2)

    def answer(picture):
        return has_colour((picture / (255 * scale)).astype(np.uint8 if scale < 1 else F), scale)

    assert not answer(image)
    assert not answer(image[..., :1])
    assert not answer(image + np.array([0, 3, 6]))  # as lossy video makes it
    stray, coloured = image.copy(), image.copy()
    stray[:3, :10, 2] += 50
    coloured[:30, :30, 2] += 50
    assert not answer(stray)
    assert answer(coloured)
    pixels = np.random.default_rng(0).integers(100, 112, (500, 3)).astype(np.uint8 if scale < 1 else F)
    for step in (1, 7):
        spread = np.ptp(pixels[::step].astype(F), axis=1)
        assert _shadows_kernels.count_coloured(pixels, step, F(7)) == np.count_nonzero(spread > 7)


def outline(x, l, mask, every, depth, least):
    """Pixels of the outline on each side, lit ones and all."""
    h, w = mask.shape
    counts = np.zeros((8, 2), int)
    for i in [i for i in range(depth, h - depth) if i % every == 0]:
        for j in range(depth, w - depth):
            for side, (dy, dx) in enumerate(_STEPS):
                near, far = (mask[i + k * dy, j + k * dx] for k in (depth - 1, depth))
                if mask[i, j] and near and not far:
                    counts[side] += F(x[i, j].sum()) >= least * F(l[i, j].sum()), 1
    return counts


@given(h=st.integers(1, 9), w=st.integers(1, 80), channels=st.sampled_from([1, 3]), seed=st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_see_outline_equals_its_twin(h, w, channels, seed):
    rng = np.random.default_rng(seed)
    x, l = rng.integers(0, 256, (2, h, w, channels), dtype=np.uint8)
    mask = np.where(rng.random((h, w)) < 0.8, np.uint8(255), np.uint8(0))
    depth, every = (int(k) for k in rng.integers(1, 4, 2))
    counts = np.zeros((8, 2), int)
    middle = h // 2
    _shadows_kernels.see_outline(0, middle, x, l, mask, every, depth, _STEPS, F(0.6), counts)
    _shadows_kernels.see_outline(middle, h, x, l, mask, every, depth, _STEPS, F(0.6), counts)
    np.testing.assert_array_equal(counts, outline(x.astype(float), l.astype(float), mask, every, depth, F(0.6)))


def walk(dy, dx, levels, mask, umbra, faintest, rise, fall):
    """Walk in from each pixel at the background, one after the other; -1 outside."""
    h, w = mask.shape
    cast = np.zeros_like(mask)
    for start in np.argwhere(mask):
        i, j = start
        if not (0 <= i + dy < h and 0 <= j + dx < w) or mask[i + dy, j + dx] or levels[i, j] >= faintest:
            continue
        darkest = np.inf
        while 0 <= i < h and 0 <= j < w and mask[i, j]:
            level = levels[i, j]
            goes_on = level <= darkest + rise if level <= umbra else level < darkest - fall
            if not goes_on and darkest < np.inf:
                break
            cast[i, j], darkest = 1, min(level, darkest)
            i, j = i - dy, j - dx
    return cast


@given(
    h=st.integers(1, 12), w=st.integers(1, 12), side=st.integers(0, 7), channels=st.sampled_from([1, 3]),
    seed=st.integers(0, 999),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_walk_in_equals_its_twin(h, w, side, channels, seed):
    rng = np.random.default_rng(seed)
    l = rng.uniform(0.3, 0.9, (h, w, channels))
    x = l * rng.uniform(0.1, 1.1, (h, w, 1)).round(1)
    mask = np.where(rng.random((h, w)) < 0.9, np.uint8(255), np.uint8(0))
    dy, dx = _STEPS[side]
    padded = [np.pad(image.sum(axis=2), 1) for image in (x, l)]
    p, q = (sum(np.roll(image, (k * dx, -k * dy), (0, 1)) for k in (-1, 0, 1))[1:-1, 1:-1] for image in padded)
    cast, limits = np.full_like(mask, 9), (0.5, 0.97, 0.1, 0.05)
    _shadows_kernels.walk_in(dy, dx, x.astype(F), l.astype(F), mask, F(0.1), *map(F, limits), cast, np.empty((h, w), F))
    np.testing.assert_array_equal(cast, walk(dy, dx, p / (q + 0.1), mask, *limits))


def traffic(rng, shade, channels=3):
    """A road, a car of any brightness on it, and below the car its shadow of factor `shade`: frame, road, masks."""
    road = np.full((80, 80, channels), 0.5, F) + rng.normal(0, 0.01, (80, 80, channels)).astype(F)
    frame, car, shadow = road.copy(), np.zeros((80, 80), bool), np.zeros((80, 80), bool)
    i, j = rng.integers(8, 40, 2)
    car[i : i + 20, j : j + 24], shadow[i + 20 : i + 28, j : j + 24] = True, True
    body = np.kron(rng.choice([0.1, 0.3, 0.7, 0.9], (5, 6, 1)), np.ones((4, 4, channels)))
    frame[car] = body.reshape(-1, channels)
    frame[shadow] *= F(shade)
    return frame, road, car, shadow


@pytest.mark.parametrize("channels", [1, 3])
def test_very_dark_shadows_are_found_by_side(channels):
    rng, detector = np.random.default_rng(2), ShadowDetector((80, 80))
    assert detector.side is None

    def learn(shade, body=1, frames=150):
        for _ in range(frames):
            frame, road, car, shadow = traffic(rng, shade, channels)
            frame[car] *= F(body)
            mask = np.where(car | shadow if shade < 1 else car, np.uint8(255), np.uint8(0))
            detector.learn(frame, road, mask)
        return frame, road, car, shadow, mask

    learn(1, body=0.2)
    assert detector.side is None  # black objects without shadows
    frame, road, car, shadow, mask = learn(0.2, frames=300)
    assert detector.side == 2
    found = detector.find(frame, road, mask) != 0
    assert found[shadow].mean() > 0.8  # rounded corners
    assert found[car].mean() < 0.1
    again = ShadowDetector((80, 80))
    again.set_state(detector.state())
    assert again.side == 2
    learn(1, frames=600)  # without sun
    assert detector.side is None
    with pytest.raises(ParameterError, match="lit"):
        detector.set_state({"outline": np.zeros((8, 2))})


def test_learning_is_independent_of_the_number_of_bands(monkeypatch):
    monkeypatch.setattr(threads, "_pool", threads._Pool(1))  # other subtractors use the cores
    rng, one, many = np.random.default_rng(4), ShadowDetector((80, 80)), ShadowDetector((80, 80), bands=4)
    many._seen[:] = 10**6  # of an earlier frame
    for _ in range(3):
        frame, road, car, shadow = traffic(rng, 0.2)
        for detector in (one, many):
            detector.learn(frame, road, np.where(car | shadow, np.uint8(255), np.uint8(0)))
    np.testing.assert_array_equal(many.state()["outline"], one.state()["outline"])
