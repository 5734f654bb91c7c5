"""The shadow kernels against their twins, and what counts as a shadow."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub.scene import _shadows_kernels
from bgsub.scene.shadows import ShadowDetector, has_colour

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
def test_the_kernels_do_what_their_twins_do(h, w, channels, seed):
    rng = np.random.default_rng(seed)
    l = rng.uniform(0.2, 0.9, (h, w, channels)).astype(F)
    x = (l * rng.choice([0.2, 0.6, 0.6, 1.0], (h, w, 1)) + rng.normal(0, 0.02, l.shape)).astype(F)
    mask = (255 * (rng.random((h, w)) < 0.9)).astype(np.uint8)
    dark, other = np.ones_like(mask), np.ones_like(mask)
    box = np.array([h, 0, w, 0])
    limits = F(0.35), F(0.97), F(0.05), F(0.04)
    _shadows_kernels.classify(0, h, x, l, F(1), mask, *limits, dark, other, box)
    wide = x.astype(float), l.astype(float)
    assert np.mean(dark != darkened(*wide, mask, 0.35, 0.97, 0.05)) < 0.02
    assert np.mean(other != disagrees(*wide, mask, dark, 0.04)) < 0.02
    rows, columns = np.nonzero(dark)
    expected = [rows.min(), rows.max() + 1, columns.min(), columns.max() + 1] if dark.any() else [h, 0, w, 0]
    np.testing.assert_array_equal(box, expected)
    half = np.float32(0.5)  # a frame in another unit is the same frame
    again = np.zeros_like(mask), np.zeros_like(mask), box.copy()
    _shadows_kernels.classify(0, h, x / half, l / half, half, mask, *limits, *again)
    assert np.mean(again[0] != dark) < 0.02


@given(h=st.integers(1, 30), w=st.integers(1, 30), half=st.integers(0, 5), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_the_vote_is_its_twin(h, w, half, seed):
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
        _shadows_kernels.outvoted(box, mask, other, dark, side, F(0.5), *work)
    np.testing.assert_array_equal(dark, expected)


def find_shadows(x, l, mask):
    found = ShadowDetector(mask.shape).find(x, l, mask)
    return np.zeros(mask.shape, bool) if found is None else found != 0


@pytest.mark.parametrize(("factor", "is_shadow"), [(0.6, True), (0.9, True), (0.2, False), (1.3, False)])
def test_a_common_factor_in_its_range_is_a_shadow(factor, is_shadow):
    l = np.random.default_rng(0).uniform(0.3, 0.7, (24, 24, 3)).astype(F)
    mask = np.full((24, 24), 255, np.uint8)
    assert find_shadows(l * F(factor), l, mask).all() == is_shadow


def test_dark_parts_of_an_object_belong_to_it():
    rng = np.random.default_rng(1)
    l = rng.uniform(0.4, 0.6, (40, 40, 3)).astype(F)
    x = (l * F(0.6)).astype(F)
    x[:, ::2] = rng.uniform(0, 1, (40, 20, 3))
    x[10, 11] = l[10, 11] * F(0.6)
    mask = np.full((40, 40), 255, np.uint8)
    assert not find_shadows(x, l, mask)[8:32, 8:32].any()


def test_nothing_is_a_shadow_where_nothing_is_foreground():
    l = np.full((6, 7, 3), 0.5, F)
    assert not find_shadows(l * F(0.5), l, np.zeros((6, 7), np.uint8)).any()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("factor", "is_shadow"), [(0.6, True), (0.9, True), (0.45, False), (0.2, False)])
def test_a_shadow_on_grey_is_not_so_dark(factor, is_shadow, channels):
    l = np.repeat(np.random.default_rng(0).uniform(0.3, 0.7, (24, 24, 1)).astype(F), channels, axis=2)
    mask = np.full((24, 24), 255, np.uint8)
    assert find_shadows(l * F(factor), l, mask).all() == is_shadow


@pytest.mark.parametrize("channels", [1, 3])
def test_what_is_dark_and_flat_before_a_grey_texture_is_an_object(channels):
    l = np.repeat(np.random.default_rng(0).uniform(0.45, 0.55, (24, 24, 1)).astype(F), channels, axis=2)
    mask = np.full((24, 24), 255, np.uint8)
    assert not find_shadows(np.full_like(l, 0.35), l, mask)[4:-4, 4:-4].any()
    assert find_shadows(l * F(0.7), l, mask)[4:-4, 4:-4].all()


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
