"""Sources that are black in some regions."""

from __future__ import annotations

import numpy as np
import pytest
from saying import says
from video_fakes import HEIGHT, WIDTH, FakeSource

from bgsub.errors import ParameterError
from bgsub.video import ArraySource, PrivateSource
from bgsub.video.timecode import Part, Selection


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float16, np.float32])
@pytest.mark.parametrize("channels", [(), (3,)])
def test_regions_are_black_and_nothing_else_changes(dtype, channels):
    frames = np.ones((3, 20, 30, *channels), dtype)
    with PrivateSource(ArraySource(frames, fps=25), ["10,5,4,3", "door=20,10;29,10;25,19"]) as source:
        got = list(source)
        assert len(list(source)) == 3  # again
    assert (frames == 1).all()
    for index, frame in enumerate(got):
        assert (frame.index, frame.time, frame.image.dtype) == (index, index / 25, dtype)
        assert not frame.image[5:8, 10:14].any()
        assert not frame.image[12, 25].any()
        assert frame.image[:, :10].all()
        assert frame.image[:, 14:20].all()


def test_it_is_the_source_otherwise():
    inner = FakeSource(5, live=True)
    source = PrivateSource(inner, ["0,0,5,5"])
    assert (source.name, source.size, source.length, source.live) == (inner.name, (WIDTH, HEIGHT), 5, True)
    source.close()
    assert inner.closed == 1


def test_nothing_is_copied_out_of_its_files():
    """Clips would be the packets of the file, with all that is to be hidden."""

    class Copyable(FakeSource):
        is_copyable = True

    assert not PrivateSource(Copyable(), ["0,0,5,5"]).is_copyable


def test_a_part_of_it_is_black_too():
    source = PrivateSource(ArraySource(np.ones((9, 20, 30), np.uint8), fps=25), ["0,0,50%,100%"])
    got = list(source.take(Part(Selection.parse(2, 5, None, 1), source.name)))
    assert [frame.index for frame in got] == [2, 3, 4]
    assert all(not frame.image[:, :15].any() and frame.image[:, 15:].all() for frame in got)


def test_frames_of_another_size_are_not_let_through(tmp_path):
    inner = FakeSource(3)
    inner.frames = [np.ones((HEIGHT, WIDTH), np.uint8), np.ones((10, 10), np.uint8), np.ones((2 * HEIGHT, WIDTH))]
    shown = PrivateSource(inner, ["0,0,50%,50%"])
    assert [int(frame.image.sum()) for frame in shown] == [HEIGHT * WIDTH * 3 // 4, 75, 2 * HEIGHT * WIDTH * 3 // 4]
    with pytest.raises(
        ParameterError, match=r"^privacy: region 'region1' must hold pixels of the frame, which is 10x10"
    ):
        list(PrivateSource(inner, ["20,20,5,5"]))


def test_a_wrong_region_closes_the_source(tmp_path):
    inner = FakeSource(3)
    with says(
        ParameterError,
        f"privacy: region 'door' must hold pixels of the frame, which is {WIDTH}x{HEIGHT}: "
        "it lies outside of the frame",
    ):
        PrivateSource(inner, ["door=500,0,5,5"])
    assert inner.closed == 1
