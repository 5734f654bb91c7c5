"""Sources with black regions."""

from __future__ import annotations

import numpy as np
import pytest
from video_fakes import HEIGHT, WIDTH, FakeSource

from bgsub.errors import ParameterError
from bgsub.video import ArraySource, PrivateSource
from bgsub.video.timecode import Part, Selection


@pytest.mark.parametrize(
    ("dtype", "channels"), [(np.uint8, (3,)), (np.uint16, ()), (np.float16, (3,)), (np.float32, ())]
)
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


def test_properties_are_those_of_the_source_except_for_copies():
    class Copyable(FakeSource):
        is_copyable = True  # clips would contain the packets of the file

    inner = Copyable(5, live=True)
    source = PrivateSource(inner, ["0,0,5,5"])
    assert (source.name, source.size, source.length, source.live) == (inner.name, (WIDTH, HEIGHT), 5, True)
    assert not source.is_copyable
    source.close()
    assert inner.closed == 1


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
