"""Regions: texts, masks, subtractors of regions only, and sources with black regions."""

from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from video_fakes import HEIGHT, WIDTH, FakeSource

from bgsub import BackgroundSubtractor
from bgsub._opencv import cv2
from bgsub.errors import ParameterError
from bgsub.jobs.run import RegionSubtractor
from bgsub.separation import Separation
from bgsub.video import ArraySource, PrivateSource
from bgsub.video.regions import Region, Regions, parse_region, surroundings
from bgsub.video.timecode import Part, Selection

SHAPE = (40, 60)


def inside(text, shape=SHAPE):
    return Regions([text])[0].mask(shape)


def rectangle(x, y, w, h, shape=SHAPE):
    mask = np.zeros(shape, bool)
    mask[y : y + h, x : x + w] = True
    return mask


def test_rectangles_and_polygons_in_pixels_and_percent():
    expected = {
        " 5 , 6,20,10 ": rectangle(5, 6, 20, 10),
        "10%,25%,50%,50%": rectangle(6, 10, 30, 20),
        "6,25%,50%,20": rectangle(6, 10, 30, 20),
        "-5,-5,20,20": rectangle(0, 0, 15, 15),
        "50,30,100,100": rectangle(50, 30, 10, 10),
        "10,10;29,10;29,19;10,19": rectangle(10, 10, 20, 10),
        "10,10;29,10;29,19;10,19;": rectangle(10, 10, 20, 10),
    }
    for text, mask in expected.items():
        np.testing.assert_array_equal(inside(text), mask, text)
    assert inside("0,0;100%,0;0,100%").mean() == pytest.approx(0.5, abs=0.03)  # a triangle


def test_mask_images(tmp_path):
    mask = np.random.default_rng(1).integers(0, 3, SHAPE).astype(np.uint8)
    path = tmp_path / "a=b, c.png"
    cv2.imwrite(str(path), mask)
    np.testing.assert_array_equal(inside(f"hall={path}"), mask > 0)
    np.testing.assert_array_equal(inside(str(path)), mask > 0)
    for image, message in (
        (np.full((10, 20), 255, np.uint8), "must have the size of the frames, 60x40, got 20x10"),
        (np.zeros(SHAPE, np.uint8), "is black"),
    ):
        cv2.imwrite(str(path), image)
        with pytest.raises(ParameterError, match=message):
            inside(str(path))
    path.write_bytes(b"no image")
    with pytest.raises(ParameterError, match="cannot be decoded"):
        inside(str(path))


def test_transparent_pixels_of_a_mask_image_are_outside(tmp_path):
    path, shape = tmp_path / "mask.png", np.zeros(SHAPE, bool)
    shape[10:20, 5:30] = True
    white = np.full((*SHAPE, 4), 255, np.uint8)
    for image, expected in (
        (np.where(shape[..., None], white, [255, 255, 255, 0]), shape),
        (np.where(shape[..., None], [0, 0, 255, 128], [0, 0, 0, 0]), shape),
        (np.where(shape[..., None], [0, 0, 0, 255], [0, 0, 0, 0]), shape),
        (np.where(shape[..., None], white, [0, 0, 0, 255]), shape),
        (np.where(shape[..., None], [255, 255, 255, 0], [0, 0, 0, 0]), shape),  # alpha without meaning
    ):
        cv2.imwrite(str(path), image.astype(np.uint8))
        np.testing.assert_array_equal(inside(str(path)), expected)


def test_wrong_regions():
    for text in ("60,0,10,10", "0,40,5,5", "-20,0,10,10", "100,100;120,100;110,120"):
        with pytest.raises(ParameterError, match=r"region 'region1' must .* frame, which is 60x40: it lies"):
            inside(text)
    with pytest.raises(ParameterError, match="region 'region1': its corners lie on a line"):
        inside("0,0;5,5;10,10")
    texts = ["", "1,2,3", "1,2,3,4,5", "a,b,c,d", "1,2;3,4", "1,2,3;4,5,6;7,8,9", "0,0,0,5", "0,0,5,-5", "nan,0,5,5"]
    for text in [*texts, "0,0,inf,5", "=0,0,5,5", "missing.png", "name=", "1,2;3,4;5"]:
        with pytest.raises(ParameterError, match=r"^a region.* must be .*got '") as caught:
            parse_region(text)
        assert "\n" not in str(caught.value)


def test_names_of_regions():
    regions = Regions(["door=0,0,5,5", "1,1,5,5", parse_region("way in=0,0;5,0;5,5")])
    assert regions.names == ("door", "region2", "way in")
    assert isinstance(regions[1], Region)
    assert len(regions) == 3
    assert Regions("1,1,5,5") == Regions(["1,1,5,5"])
    with pytest.raises(ParameterError, match="different names, got 'door' twice"):
        Regions(["door=0,0,5,5", "door=1,1,5,5"])
    with pytest.raises(ParameterError, match="at least one"):
        Regions([])


def inverted(image, learningRate):
    """Return all of an image as foreground."""
    mask, residual = np.full(image.shape[:2], 255, np.uint8), np.ones(image.shape[:2], np.float32)
    return Separation(image, mask, 255 - image, residual, np.ones(2), "tracking", "x", lambda: 0.8 * residual)


@pytest.mark.parametrize("shape", [SHAPE, (*SHAPE, 3)])
def test_only_the_surroundings_are_processed_and_only_regions_are_foreground(shape):
    regions = Regions(["5,6,10,4", "30,10;40,10;30,20"])
    inner = SimpleNamespace(process=mock.Mock(side_effect=inverted), save=mock.Mock(), flavour="inverting")
    subtractor = RegionSubtractor(inner, regions, None)
    image = np.random.default_rng(0).integers(0, 100, shape, dtype=np.uint8)
    result = subtractor.process(image, learningRate=0.5)
    where = regions.union(SHAPE)
    np.testing.assert_array_equal(*inner.process.call_args.args, image[surroundings(where)])
    assert inner.process.call_args.kwargs == {"learningRate": 0.5}
    np.testing.assert_array_equal(result.frame, image)
    np.testing.assert_array_equal(result.mask, np.where(where, 255, 0))
    np.testing.assert_array_equal(result.residual, where.astype(np.float32))
    np.testing.assert_array_equal(result.probability, np.where(where, np.float32(0.8), 0))
    np.testing.assert_array_equal(result.background[where], 255 - image[where])
    np.testing.assert_array_equal(result.background[~where], image[~where])
    assert (result.coefficients.size, result.phase, result.event) == (2, "tracking", "x")
    assert subtractor.flavour == "inverting"
    assert not hasattr(subtractor, "no_such_thing")
    subtractor.save("model")
    inner.save.assert_called_once_with("model")
    with pytest.raises(ParameterError, match="like the first one"):
        subtractor.process(image[1:])


def test_surroundings_are_twice_as_wide_and_high():
    inside = np.zeros((60, 100), bool)
    inside[20:30, 40:60] = True
    assert surroundings(inside) == (slice(10, 40), slice(25, 75))
    inside[18:42, 60:90] = True
    assert surroundings(inside) == (slice(6, 54), slice(15, 100))
    inside[0], inside[:, 99] = True, True
    assert surroundings(inside) == (slice(0, 60), slice(0, 100))


def test_an_object_that_fills_a_region_is_no_event_of_the_frame():
    """It would be a cut or a light change if only its own pixels were processed."""
    rng = np.random.default_rng(0)
    still = rng.integers(40, 160, (60, 80, 3))
    subtractor, most = RegionSubtractor(BackgroundSubtractor(start_frames=20), Regions(["30,20,16,12"]), None), 0.0
    for index in range(60):
        frame = still + rng.integers(-2, 3, still.shape)
        if index >= 40:
            frame[16:36, 2 * index - 60 : 2 * index - 30] = 220, 30, 200
        result = subtractor.process(frame.astype(np.uint8))
        assert result.event is None
        most = max(most, result.mask[20:32, 30:46].mean() / 255)
    assert most > 0.9


@pytest.mark.parametrize(("dtype", "channels"), [("u1", (3,)), ("u2", ()), ("f2", (3,)), ("f4", ())])
def test_regions_are_black_and_nothing_else_changes(dtype, channels):
    frames = np.ones((3, 20, 30, *channels), dtype)
    with PrivateSource(ArraySource(frames, fps=25), ["10,5,4,3", "door=20,10;29,10;25,19"]) as source:
        got = list(source)
        assert len(list(source)) == 3
    assert (frames == 1).all()
    for index, frame in enumerate(got):
        assert (frame.index, frame.time, frame.image.dtype) == (index, index / 25, dtype)
        assert not frame.image[5:8, 10:14].any()
        assert not frame.image[12, 25].any()
        assert frame.image[:, :10].all()
        assert frame.image[:, 14:20].all()


def test_parts_are_black_too():
    source = PrivateSource(ArraySource(np.ones((9, 20, 30), np.uint8), fps=25), ["0,0,50%,100%"])
    got = list(source.take(Part(Selection.parse(2, 5, None, 1), source.name)))
    assert [frame.index for frame in got] == [2, 3, 4]
    assert all(not frame.image[:, :15].any() and frame.image[:, 15:].all() for frame in got)


def test_other_frame_sizes_and_wrong_regions():
    inner = FakeSource(3)
    inner.frames = [np.ones((HEIGHT, WIDTH), np.uint8), np.ones((10, 10), np.uint8), np.ones((2 * HEIGHT, WIDTH))]
    shown = PrivateSource(inner, ["0,0,50%,50%"])
    assert [int(frame.image.sum()) for frame in shown] == [HEIGHT * WIDTH * 3 // 4, 75, 2 * HEIGHT * WIDTH * 3 // 4]
    with pytest.raises(ParameterError, match=r"^privacy: region 'region1' .* 10x10"):
        list(PrivateSource(inner, ["20,20,5,5"]))
    with pytest.raises(ParameterError, match=rf"^privacy: region 'door' .* {WIDTH}x{HEIGHT}: it lies outside"):
        PrivateSource(inner, ["door=500,0,5,5"])
    assert inner.closed == 1
