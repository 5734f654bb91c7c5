"""Reduced frames: results in full size, edges of the frame, thin known pixels."""

import numpy as np
import pytest
import reference_reduction
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_scene import Texture
from sink_kit import random_images

import bgsub.scene.reduction
from bgsub import BackgroundSubtractor
from bgsub._opencv import cv2
from bgsub.numerics.jit import constant
from bgsub.parameters import SubtractorParameters
from bgsub.scene import _reduction_kernels
from bgsub.scene.frame_format import FrameFormat, plain, scale_of
from bgsub.scene.reduction import Reduction

QUICK = {"start_frames": 10, "subset": 500, "scale": 0.5}
# all kernels of floating-point frames are compiled, for half a minute
FLOATING = [("f4", 3, 0.5), ("u2", 1, 0.3), ("f8", 3, 0.3), ("f2", 1, 0.3)]


def engine(reduction, image):
    """Return a reduced image in the type of the pixels, (h, w, c)."""
    frames = reduction.frames
    return frames.to_pixels(image, np.empty(frames.cube, np.float32)).copy()


@pytest.mark.parametrize(
    ("shape", "scale", "reduced"),
    [((481, 641, 3), 0.25, (120, 160, 3)), ((9, 7, 1), 0.05, (1, 1, 1)), ((10, 2000, 4), 0.05, (1, 100, 4))],
)
def test_reduced_format(shape, scale, reduced):
    reduction = Reduction(FrameFormat(shape, "uint8", 200.0), scale)
    assert reduction.full == FrameFormat(shape, "uint8", 200.0)
    assert reduction.frames == FrameFormat(reduced, "uint8", 200.0)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("u1", (8, 12)), ("u2", (8, 12, 1)), ("f2", (8, 12, 3)), ("f4", (8, 12, 4)), ("f8", (8, 12)), ("u1", (8, 12, 3))],
)
def test_reduced_pixel_is_the_mean_of_its_area(shape, dtype):
    frame = random_images(shape, dtype)
    reduction = Reduction(FrameFormat.of(frame), 0.25)
    reduced = reduction.reduce(frame)
    assert reduced is reduction.reduce(frame)
    assert reduced.dtype == reduction.frames.dtype
    mean = frame.astype(float).reshape(2, 4, 3, 4, -1).mean(axis=(1, 3)).reshape(2, 3, *shape[2:])
    np.testing.assert_allclose(reduced, mean, rtol=0, atol=1 if dtype.startswith("u") else 1e-3)


@pytest.mark.parametrize(
    ("shape", "scale", "channels", "dtype"),
    [
        ((19, 26), 0.5, 1, "u1"),
        ((24, 20), 0.25, 3, "u1"),
        pytest.param((17, 23), 0.37, 4, "u2", marks=pytest.mark.slow),
        pytest.param((5, 4), 1.0, 3, "f4", marks=pytest.mark.slow),
        ((12, 180), 0.7, 3, "u1"),  # several chunks
        pytest.param((17, 23), 0.37, 1, "f4", marks=pytest.mark.slow),
    ],
)
def test_enlarge_equals_its_twin(shape, scale, channels, dtype, monkeypatch):
    monkeypatch.setattr(bgsub.scene.reduction, "_WORK", 40)
    rng, (frame, background) = np.random.default_rng(channels), random_images((2, *shape, channels), dtype)
    reduction = Reduction(FrameFormat.of(frame), scale, 2)
    small, picture = (engine(reduction, reduction.reduce(image)) for image in (frame, background))
    h, w = reduction.frames.shape[:2]
    for labels in ([0, 255], [0, 127], [0, 127, 255], [255]):
        mask = rng.choice(np.array(labels, np.uint8), (h, w))
        mask[: h // 2] = labels[-1]
        got = reduction.enlarge(mask, plain(frame), small, picture, np.empty(shape, np.uint8))
        unit = reduction.frames.scale if dtype == "u1" else 1
        seen = frame / reduction.full.max_value, unit * small, unit * picture
        np.testing.assert_array_equal(got, reference_reduction.enlarge(mask, *seen))


@given(h=st.integers(1, 14), w=st.integers(1, 90), channels=st.sampled_from((1, 3)), seed=st.integers(0, 999))
@settings(max_examples=100)
def test_trimming_equals_its_twin(h, w, channels, seed):
    rng = np.random.default_rng(seed)
    x, l = rng.integers(0, 256, (2, h, w, channels)).astype(np.float32)
    x[::2] = l[::2] + rng.random((-(-h // 2), w, channels), dtype=np.float32)
    smooth = cv2.blur(rng.random((h, w)), (5, 5))
    mask = np.where(smooth > 0.48, 255, np.where(smooth > 0.44, 127, 0)).astype(np.uint8)
    work, out = (np.full(-(-w // 8) * 8, 9, np.uint8), np.empty(w + 1, np.int64)), np.full_like(mask, 9)
    _reduction_kernels.trim(constant(channels), x, l, mask, *work, out)
    np.testing.assert_array_equal(out, reference_reduction.trim(mask, x, l))


@pytest.mark.parametrize(("covered", "kept"), [(0.2, False), (0.5, True)])
def test_outline_pixels_are_objects_if_covered_by_them(covered, kept):
    x, mask = np.zeros((60, 80, 3), np.uint8), np.zeros((60, 80), np.uint8)
    x[20:40, 30:50], mask[20:40, 30:50] = round(covered * 255), 255
    x[21:39, 31:49] = 255
    work, out = (np.empty(80, np.uint8), np.empty(81, np.int64)), np.empty_like(mask)
    _reduction_kernels.trim(constant(3), x, np.zeros_like(x), mask, *work, out)
    np.testing.assert_array_equal(out != 0, x[..., 0] > (0 if kept else 254))


@pytest.mark.parametrize(("scale", "textured", "channels"), [(0.25, True, 1), (0.3, True, 3), (0.5, False, 3)])
def test_slanted_edge_becomes_sharp(scale, textured, channels):
    h, w = 60, 80
    rng = np.random.default_rng(2)
    y, x = np.mgrid[:h, :w]
    truth = np.where((0.4 * (y - 30) + x > 38) & (y > 12), 255, 0).astype(np.uint8)
    texture = Texture(5, channels).seen(h, w) if textured else np.full((h, w, channels), 0.35)
    background = 0.2 + 0.35 * texture
    frame = np.where(truth[:, :, None] > 0, 0.8, background) + 0.015 * rng.standard_normal((h, w, channels))
    to_bytes = [(255 * image.clip(0, 1)).astype(np.uint8) for image in (frame, background)]
    reduction = Reduction(FrameFormat.of(to_bytes[0]), scale)
    mask = np.where(Reduction(FrameFormat.of(truth), scale).reduce(truth) > 127, 255, 0).astype(np.uint8)
    assert mask.shape == reduction.frames.shape[:2]
    small, picture = (engine(reduction, reduction.reduce(image)) for image in to_bytes)
    wrong = reduction.enlarge(mask, plain(to_bytes[0]), small, picture, np.full((h, w), 99, np.uint8)) != truth
    nearest = (((2 * np.arange(n) + 1) * m) // (2 * n) for n, m in zip((h, w), mask.shape, strict=True))
    assert wrong.sum() < 0.2 * (mask[np.ix_(*nearest)] != truth).sum()
    reach = round(1.5 / scale)
    around = np.lib.stride_tricks.sliding_window_view(np.pad(truth, reach, mode="edge"), (2 * reach + 1,) * 2)
    assert not wrong[around.min(axis=(2, 3)) == around.max(axis=(2, 3))].any()  # away from the edge


@pytest.mark.parametrize(("shape", "scale"), [((20, 30), 0.5), ((19, 31), 0.3), ((40, 40), 0.05)])
def test_thin_known_pixels_are_kept(shape, scale):
    reduction = Reduction(FrameFormat(shape, "uint8", 255.0), scale)
    known = np.random.default_rng(3).random(shape) < 0.03
    h, w = reduction.frames.shape
    expected = np.zeros((h, w), bool)
    for y, x in np.argwhere(known):
        expected[reference_reduction.own(y, shape[0], h)[0], reference_reduction.own(x, shape[1], w)[0]] = True
    np.testing.assert_array_equal(reduction.reduce_known(known), expected)


@pytest.mark.large
def test_results_of_a_covered_lens_have_full_size():
    textured = (255 * Texture(1, 3).seen(48, 64)).astype(np.uint8)
    subtractor = BackgroundSubtractor(**QUICK)
    for _ in range(20):
        subtractor.apply(textured)
    result = subtractor.process(np.full_like(textured, 3))
    assert (result.event, result.mask.shape, result.residual.shape) == ("covered", (48, 64), (48, 64))
    assert not result.mask.any()


@pytest.mark.parametrize(
    ("dtype", "channels", "scale"),
    [("u1", 3, 0.5), ("u1", 1, 0.3), *(pytest.param(*case, marks=pytest.mark.slow) for case in FLOATING)],
)
def test_background_has_the_detail_of_full_size_frames(dtype, channels, scale):
    rng, dtype = np.random.default_rng(4), np.dtype(dtype)
    full = np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else 1
    fine = rng.uniform(0.3, 0.6, (96, 128, channels))
    subtractor = BackgroundSubtractor(**{**QUICK, "scale": scale}, stabilise=False)
    for i in range(75):
        frame = fine.copy()
        frame[30:60, 3 * max(i - 15, 0) : 3 * (i - 15) + 20 if i >= 15 else 0] = 0.95
        subtractor.apply((full * frame).astype(dtype))
    for i in range(2):
        seen = fine.copy()
        seen[10:30, 10:30] = 0.95
        background = subtractor.process((full * (1 - 0.2 * i) * seen).astype(dtype)).background / full
        error = np.abs(background - (1 - 0.2 * i) * fine)
        assert error.mean() < (0.02 if i else 0.005)  # the mean deviation of a picture without detail: .05
    other = rng.uniform(0, 1, (96, 128, channels))
    background = subtractor.process((full * other).astype(dtype)).background / full
    assert subtractor.process((full * other).astype(dtype)).event != "covered"
    assert np.abs(background - other).mean() < 0.01  # a cut renews it at once


@pytest.mark.parametrize(("dtype", "channels"), [("u1", 3), ("u2", 1), ("f4", 3)])
def test_no_object_of_a_frame_is_detail_of_the_background(dtype, channels):
    rng, full = np.random.default_rng(1), 1 if dtype == "f4" else np.iinfo(dtype).max
    empty = (full * rng.uniform(0.2, 0.4, (40, 60, channels))).astype(dtype)
    mask, frame = np.zeros((40, 60), np.uint8), empty.copy()
    mask[10:30, 20:30] = 255
    frame[mask != 0] = full
    reduction = Reduction(FrameFormat.of(empty), 0.5)
    background = reduction.reduce(empty).copy()
    reduction.reduce(frame)
    reduction.begin_detail(mask, plain(frame))
    error = np.abs(reduction.enlarge_background(background, None).astype(float) - empty) / full
    assert error[mask != 0].max() < 0.2  # fine detail is missing
    assert error[:, :10].max() < 0.005


def test_objects_of_the_first_frame_leave_no_outlines():
    empty = np.random.default_rng(1).integers(80, 120, (40, 60, 3)).astype(np.uint8)
    frame, mask = empty.copy(), np.zeros((40, 60), np.uint8)
    frame[11:30, 21:30] = 255
    reduction = Reduction(FrameFormat.of(empty), 0.5)
    reduction.reduce(frame)
    reduction.begin_detail(mask, plain(frame))
    background = reduction.reduce(empty).copy()
    assert np.abs(reduction.enlarge_background(background, None).astype(float) - empty).max() > 20
    for _ in range(32):
        reduction.renew_detail(mask, plain(empty), None)
    assert np.abs(reduction.enlarge_background(background, None).astype(float) - empty).max() <= 2


@pytest.mark.parametrize(("dtype", "channels"), [("u1", 3), ("u1", 1), ("u2", 1), ("f4", 3)])
def test_detail_of_different_light_has_no_seams(dtype, channels):
    texture, full = Texture(2, channels, finest=8.0), 1 if dtype == "f4" else np.iinfo(dtype).max
    still = 0.1 + 0.8 * texture.seen(180, 240, 0, 0, 0).reshape(180, 240, channels)
    bright, dark = ((full * gain * still).astype(dtype) for gain in (1, 0.6))
    reduction, mask = Reduction(FrameFormat.of(bright), 0.5), np.zeros((180, 240), np.uint8)
    reduction.reduce(bright)
    reduction.begin_detail(mask, plain(bright))
    background = reduction.reduce(dark).copy()
    for _ in range(16):  # half of the strips
        reduction.renew_detail(mask, plain(dark), None)
    error = np.abs(reduction.enlarge_background(background, None) / full - dark / full).reshape(180, -1).mean(axis=1)
    assert error.max() < 0.02


@pytest.mark.large
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("begin", "end"), [(20, 100), (0, 200)])  # what it leaves at its first place takes longer
def test_background_of_a_shaking_camera_has_the_detail_of_full_size_frames(channels, begin, end):
    rng, texture, errors = np.random.default_rng(0), Texture(2, channels, finest=8.0), []
    subtractor = BackgroundSubtractor(**QUICK)
    for i in range(end):
        frame = (255 * texture.seen(144, 192, *rng.uniform(-3, 3, 2), 0.01 * rng.uniform(-1, 1))).astype(np.uint8)
        seen = frame.copy()
        if begin <= i < 90:  # an object that is never learned
            seen[60:100, 10 + i : 40 + i] = 255
        result = subtractor.process(seen)
        if i >= end - 10:
            blurred = cv2.resize(cv2.resize(frame, (96, 72)), (192, 144)).reshape(frame.shape)
            inside = np.s_[8:-8, 8:-8]
            errors += [[np.abs(b[inside].astype(float) - frame[inside]).mean() for b in (result.background, blurred)]]
    found, blurred = np.mean(errors, axis=0)
    assert found < 1.5 * blurred  # without detail, and with what an aligned background has lost: twice as much


@pytest.mark.parametrize(
    ("size", "scale"),
    [
        ((35_000, 1), 1),
        ((200, 200), 0.693),
        ((240, 320), 0.5),
        ((288, 352), 0.5),
        ((1080, 1920), 0.245),
        ((1, 2_000_000), 0.248),
    ],
)
def test_automatic_scale(size, scale):
    frames = FrameFormat((*size, 3), "uint8", 255.0)
    assert scale_of(frames, SubtractorParameters()) == pytest.approx(scale, abs=0.001)
    assert scale_of(frames, SubtractorParameters(scale=0.4)) == 0.4
    fast = 0.75 * scale if scale < 1 else 1
    assert scale_of(frames, SubtractorParameters(scale="fast")) == pytest.approx(fast, abs=0.001)
    reduced = Reduction(frames, scale).frames.shape
    assert all(abs(n - scale * m) <= 0.5 or n == 1 for n, m in zip(reduced, size, strict=False))


def test_halves_are_means_and_the_rest_is_bilinear():
    frame = np.random.default_rng(5).integers(0, 256, (61, 90, 3), np.uint8)
    got = Reduction(FrameFormat.of(frame), 0.3).reduce(frame)
    half = cv2.resize(frame, (45, 31), interpolation=cv2.INTER_LINEAR)
    np.testing.assert_array_equal(got, cv2.resize(half, (27, 18), interpolation=cv2.INTER_LINEAR))
