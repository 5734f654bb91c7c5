"""Reduced frames: full-size answers for every kind of frame, edges where the frame has them, thin known pixels kept."""

import numpy as np
import pytest
import reference_reduction
from reference_scene import Texture

import bgsub.scene.reduction
from bgsub import BackgroundSubtractor, ParameterError
from bgsub._opencv import cv2
from bgsub.cli import invoke
from bgsub.evaluation import confusion
from bgsub.scene.frame_format import FrameFormat
from bgsub.scene.reduction import Reduction
from bgsub.synthetic import scene

QUICK = {"start_frames": 10, "subset": 500, "scale": 0.5}


def nearest(mask, shape):
    rows, columns = (((2 * np.arange(n) + 1) * m) // (2 * n) for n, m in zip(shape, mask.shape, strict=True))
    return mask[np.ix_(rows, columns)]


def engine(reduction, image):
    """A reduced image as the engine works on it, (h, w, c)."""
    frames = reduction.frames
    return frames.to_pixels(image, np.empty(frames.cube, np.float32)).copy()


def enlarged(scale, frame, background, mask):
    """The full-size mask made of the reduced versions of frame and background, and of a reduced mask."""
    reduction = Reduction(FrameFormat.of(frame), scale)
    small = engine(reduction, reduction.reduce(frame))
    picture = engine(reduction, reduction.reduce(background))
    return reduction.enlarge(mask, frame, small, picture, np.full(frame.shape[:2], 99, np.uint8))


def moving(shape, dtype=np.uint8, n=30, first=15):
    """Noisy frames of a still picture; from frame `first` on there is a bright square, whose mask comes too."""
    rng = np.random.default_rng(0)
    full = np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else 1.0
    picture, (h, w) = rng.uniform(0.2, 0.5, (1, 1, *shape[2:])) + np.zeros(shape), shape[:2]
    truth = np.zeros((h, w), np.uint8)
    truth[h // 4 : h // 4 + h // 2 | 1, w // 4 : w // 4 + w // 3 | 1] = 255
    for i in range(n):
        frame = picture + 0.01 * rng.standard_normal(shape)
        if i >= first:
            frame[truth > 0] = 0.9
        yield (full * frame.clip(0, 1)).astype(dtype), truth if i >= first else np.zeros_like(truth)


# ---- formats -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "scale", "reduced"),
    [
        ((480, 640), 0.5, (240, 320)),
        ((481, 641, 3), 0.25, (120, 160, 3)),
        ((1, 1), 0.05, (1, 1)),
        ((9, 7, 1), 0.05, (1, 1, 1)),
        ((10, 2000, 4), 0.05, (1, 100, 4)),
    ],
)
def test_the_reduced_format(shape, scale, reduced):
    reduction = Reduction(FrameFormat(shape, "uint8", 200.0), scale)
    assert reduction.full == FrameFormat(shape, "uint8", 200.0)
    assert reduction.frames == FrameFormat(reduced, "uint8", 200.0)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(8, 12), (8, 12, 1), (8, 12, 3), (8, 12, 4)])
def test_a_reduced_pixel_is_the_mean_of_its_area(shape, dtype):
    rng = np.random.default_rng(1)
    full = np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else 1
    frame = (full * rng.random(shape)).astype(dtype)
    reduction = Reduction(FrameFormat.of(frame), 0.25)
    reduced = reduction.reduce(frame)
    assert reduced is reduction.reduce(frame)
    assert reduced.dtype == reduction.frames.dtype
    mean = frame.astype(float).reshape(2, 4, 3, 4, -1).mean(axis=(1, 3)).reshape(2, 3, *shape[2:])
    np.testing.assert_allclose(reduced, mean, rtol=0, atol=1 if full > 1 else 1e-3)


@pytest.mark.parametrize(
    "shape", [(24, 32, 3), pytest.param((23, 31), marks=pytest.mark.large), (1, 1), (1, 40), (3, 2, 1), (2, 5, 4)]
)
@pytest.mark.parametrize(
    "dtype",
    [np.uint8, *(pytest.param(d, marks=pytest.mark.large) for d in (np.uint16, np.float16, np.float32, np.float64))],
)
def test_every_kind_of_frame_is_answered_in_full_size(shape, dtype):
    subtractor = BackgroundSubtractor(**QUICK)
    for frame, _ in moving(shape, dtype, n=14, first=20):
        result = subtractor.process(frame)
        assert result.frame.shape == result.background.shape == shape
        assert result.frame.dtype == result.background.dtype == dtype
        assert (result.mask.shape, result.mask.dtype) == (shape[:2], np.uint8)
        assert (result.residual.shape, result.residual.dtype) == (shape[:2], np.float32)
        assert result.share == 0
    top = np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else 1.0
    np.testing.assert_allclose(subtractor.getBackgroundImage() / top, frame / top, atol=0.08)
    assert result.residual.max() < 0.1
    with pytest.raises(ParameterError, match="every frame must be like the first one"):
        subtractor.apply(np.zeros((7, 7), dtype))


@pytest.mark.parametrize("scale", [0, 0.04, 1.01, -1, float("nan"), "half", None])
def test_a_bad_scale_is_refused(scale):
    with pytest.raises(ParameterError, match=r"scale must be a number in \[0.05, 1\], got"):
        BackgroundSubtractor(scale=scale)


# ---- edges -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "scale"), [((19, 26), 0.5), ((24, 20), 0.25), ((17, 23), 0.37), ((5, 4), 1.0)])
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float16, np.float32])
def test_the_kernel_is_its_naive_twin(shape, scale, channels, dtype, monkeypatch):
    monkeypatch.setattr(bgsub.scene.reduction, "_WORK", 40)
    rng = np.random.default_rng(channels)
    full = np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else 1
    frame, background = ((full * rng.random((*shape, channels))).astype(dtype) for _ in range(2))
    reduction = Reduction(FrameFormat.of(frame), scale, 2)
    small, picture = (engine(reduction, reduction.reduce(image)) for image in (frame, background))
    h, w = reduction.frames.shape[:2]
    for labels in ([0, 255], [0, 127], [0, 127, 255], [255]):
        mask = rng.choice(np.array(labels, np.uint8), (h, w))
        mask[: h // 2] = labels[-1]
        got = reduction.enlarge(mask, frame, small, picture, np.empty(shape, np.uint8))
        unit = frame / full, small * reduction.frames.scale if dtype == np.uint8 else small
        base = picture * reduction.frames.scale if dtype == np.uint8 else picture
        np.testing.assert_array_equal(got, reference_reduction.enlarge(mask, *unit, base))


def near_an_edge(truth, reach):
    """Which pixels have both labels within `reach`."""
    padded = np.pad(truth, reach, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2 * reach + 1,) * 2)
    return windows.min(axis=(2, 3)) < windows.max(axis=(2, 3))


@pytest.mark.parametrize("scale", [0.5, 0.25, 0.3])
@pytest.mark.parametrize("textured", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_slanted_edge_becomes_sharp(scale, textured, channels):
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
    got, coarse = enlarged(scale, *to_bytes, mask), nearest(mask, (h, w))
    wrong, wrong_before = got != truth, coarse != truth
    assert wrong.sum() < 0.2 * wrong_before.sum()
    assert not wrong[~near_an_edge(truth, round(1.5 / scale))].any()


def test_a_mask_that_is_too_narrow_or_too_wide_is_corrected():
    truth = np.zeros((64, 64), np.uint8)
    truth[16:48, 18:44] = 255
    frame = np.where(truth > 0, 200, 90).astype(np.uint8)
    background = np.full((64, 64), 90, np.uint8)
    for rows, columns in ((slice(5, 11), slice(5, 10)), (slice(3, 13), slice(4, 12))):
        mask = np.zeros((16, 16), np.uint8)
        mask[rows, columns] = 255
        wrong = np.mean(enlarged(0.25, frame, background, mask) != truth)
        assert wrong < 0.4 * np.mean(nearest(mask, (64, 64)) != truth)


def test_without_colour_to_go_by_the_edge_is_smooth():
    y, x = np.mgrid[:80, :80]
    truth = np.where((y - 40) ** 2 + (x - 40) ** 2 < 25**2, 127, 0).astype(np.uint8)
    mask = np.where(Reduction(FrameFormat.of(truth), 0.125).reduce(truth) > 63, 127, 0).astype(np.uint8)
    grey = np.full((80, 80), 90, np.uint8)
    got = enlarged(0.125, grey, grey, mask)
    assert set(np.unique(got)) == {0, 127}
    assert np.sum(got != truth) < 0.6 * np.sum(nearest(mask, (80, 80)) != truth)


@pytest.mark.large
@pytest.mark.parametrize(("name", "scale"), [("lobby", 0.5), ("street", 0.25)])
@pytest.mark.parametrize("shake", [0.0, 2.0])
def test_masks_of_a_scene_are_better_than_enlarged_ones(name, scale, shake):
    made = scene(name, size=(320, 240), length=60, shake=shake, lamps=False, walkers=5)
    subtractor = BackgroundSubtractor(scale=scale, start_frames=20)
    ours, coarse = [], []
    for i, (frame, truth) in enumerate(made):
        mask = subtractor.apply(frame)
        if i >= 30:
            ours.append(confusion(mask, truth))
            coarse.append(confusion(nearest(subtractor._view.mask, mask.shape), truth))
    assert sum(ours[1:], ours[0]).f_measure > sum(coarse[1:], coarse[0]).f_measure + 0.005


# ---- the subtractor ----------------------------------------------------------------------------------------------


@pytest.mark.large
@pytest.mark.parametrize("shape", [(60, 80, 3), (61, 79)])
def test_an_object_is_found_with_its_outline(shape):
    subtractor = BackgroundSubtractor(**QUICK)
    for frame, truth in moving(shape):
        mask = subtractor.apply(frame)
        assert confusion(mask, truth).f_measure > 0.98 or not truth.any()
        assert truth.any() or not mask.any()


def test_a_full_frame_needs_no_reduction():
    subtractor = BackgroundSubtractor(scale=1)
    subtractor.apply(np.zeros((4, 4), np.uint8))
    assert subtractor._reduction is None


@pytest.mark.parametrize(("shape", "scale"), [((20, 30), 0.5), ((19, 31), 0.3), ((40, 40), 0.05)])
def test_thin_known_pixels_stay_known(shape, scale):
    reduction = Reduction(FrameFormat(shape, "uint8", 255.0), scale)
    known = np.random.default_rng(3).random(shape) < 0.03
    h, w = reduction.frames.shape
    expected = np.zeros((h, w), bool)
    for y, x in np.argwhere(known):
        expected[reference_reduction.own(y, shape[0], h)[0], reference_reduction.own(x, shape[1], w)[0]] = True
    np.testing.assert_array_equal(reduction.reduce_known(known), expected)


@pytest.mark.large
def test_the_known_foreground_is_in_the_mask_as_it_is_and_not_learned():
    known = np.zeros((48, 64), bool)
    known[20, 5:60] = True
    subtractor = BackgroundSubtractor(**QUICK)
    for i, (frame, _) in enumerate(moving((48, 64, 3), n=40, first=99)):
        clean = frame.copy()
        if i >= 15:
            frame[known] = 255
        mask = subtractor.apply(frame, knownForegroundMask=known if i >= 15 else None)
        assert np.all(mask[known] == (255 if i >= 15 else 0))
        assert not mask[:16].any()
    np.testing.assert_allclose(subtractor.getBackgroundImage()[known], clean[known], atol=12)
    with pytest.raises(ParameterError, match=r"knownForegroundMask must have shape \(48, 64\), got \(24, 32\)"):
        subtractor.apply(frame, knownForegroundMask=known[::2, ::2])


@pytest.mark.large
@pytest.mark.parametrize("cut", [6, 18])
def test_a_saved_model_goes_on_in_full_size(cut, tmp_path):
    frames = [frame for frame, _ in moving((61, 80, 3))]
    whole = BackgroundSubtractor(**QUICK)
    masks = [whole.apply(frame) for frame in frames]
    first = BackgroundSubtractor(**QUICK)
    for frame in frames[:cut]:
        first.apply(frame)
    first.save(tmp_path / "model.npz")
    second = BackgroundSubtractor.load(tmp_path / "model.npz")
    assert second.get_params()["scale"] == 0.5
    np.testing.assert_array_equal(second.getBackgroundImage(), first.getBackgroundImage())
    np.testing.assert_array_equal([second.apply(frame) for frame in frames[cut:]], masks[cut:])


@pytest.mark.large
def test_a_covered_lens_shows_an_empty_mask_in_full_size():
    subtractor = BackgroundSubtractor(**QUICK)
    frames = [(255 * Texture(1, 3).seen(40, 50)).astype(np.uint8)] * 20
    for frame in frames:
        subtractor.apply(frame)
    result = subtractor.process(np.full_like(frames[0], 3))
    assert result.event == "covered"
    assert result.mask.shape == (40, 50)
    assert not result.mask.any()
    assert result.residual.shape == (40, 50)


def test_a_given_mask_is_filled():
    out = np.full((9, 8), 5, np.uint8)
    subtractor = BackgroundSubtractor(**QUICK)
    assert subtractor.apply(np.zeros((9, 8, 3), np.uint8), out) is out
    assert not out.any()
    with pytest.raises(ParameterError, match="fgmask"):
        subtractor.apply(np.zeros((9, 8, 3), np.uint8), np.zeros((4, 4), np.uint8))


@pytest.mark.large
def test_the_command_line_writes_masks_of_full_size(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    subtractor, masks = BackgroundSubtractor(**QUICK), []
    for i, (frame, _) in enumerate(moving((33, 48, 3))):
        cv2.imwrite(str(tmp_path / "in" / f"{i:03d}.png"), frame)
        masks.append(subtractor.apply(frame))
    words = ["--scale", "0.5", "--start-frames", "10", "--subset", "500"]
    assert invoke(["run", str(tmp_path / "in"), "-o", str(tmp_path / "out"), *words]) == 0
    written = [cv2.imread(str(path), cv2.IMREAD_GRAYSCALE) for path in sorted((tmp_path / "out" / "mask").iterdir())]
    np.testing.assert_array_equal(written, masks)
    assert "frames of 48x33" in capsys.readouterr().out
