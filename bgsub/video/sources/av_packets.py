"""Facts from the packets of a file, without decoding: varying frame rate, and shortcuts to later frames."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

from bgsub.video.sources.av_container import open_video
from bgsub.video.timecode import Timecode

# Tolerance for rounded time stamps at a fixed rate: in units of the time base, in seconds (Matroska rounds to
# milliseconds) and relative to a frame.
_TICKS, _SECONDS, _SHARE = 2, 0.0011, 0.02
# Decoders reorder at most 16 frames.
_REORDER = 32


def varies(path: Path, limit: int = 300) -> bool:
    """Return whether the time stamps of the first `limit` packets follow no fixed rate."""
    container = open_video(path)
    try:
        packets = islice((packet for packet in container.packets() if not packet.is_discard), limit)
        stamps = sorted(stamp for stamp in map(_stamp, packets) if stamp is not None)
        ticks = max(_TICKS, _SECONDS / container.stream.time_base)
    finally:
        container.close()
    # The last stamps may belong after packets that were not read.
    stamps = stamps[:-_REORDER] if len(stamps) >= limit - 1 else stamps
    if len(stamps) < 3:
        return False
    step = Fraction(stamps[-1] - stamps[0], len(stamps) - 1)
    tolerance = max(ticks, _SHARE * step)
    return any(abs(stamp - stamps[0] - number * step) > tolerance for number, stamp in enumerate(stamps))


def _stamp(packet: Any) -> int | None:
    return packet.dts if packet.pts is None else packet.pts


def signature(path: Path) -> tuple[object, ...]:
    """Return facts that are equal in files whose packets can follow each other in one file."""
    container = open_video(path)
    try:
        video = container.stream.codec_context
        facts: list[object] = [video.name, video.width, video.height, video.pix_fmt, video.extradata]
        for stream in container.container.streams.audio[:1]:
            sound = stream.codec_context
            facts += [sound.name, sound.sample_rate, sound.layout.name, sound.extradata]
        return tuple(facts)
    finally:
        container.close()


class Shortcut:
    """A keyframe from which a later frame can be decoded, for files with one frame per packet.

    `seek` and `keyframe` are its time stamp and index, `target` the index of the wanted frame. `stamps` are the ordered
    time stamps of all frames up to the target and some more.
    """

    def __init__(self, seek: int, stamps: list[int], target: int) -> None:
        self.seek, self.stamps, self.target = seek, stamps, target
        self.keyframe = bisect_left(stamps, seek)

    def index(self, stamp: int) -> int | None:
        """Return the index of the frame with a time stamp; None if unknown."""
        place = bisect_left(self.stamps, stamp)
        return place if place < len(self.stamps) and self.stamps[place] == stamp else None


def find_shortcut(path: Path, start: Timecode, time_base: Fraction) -> Shortcut | None:
    """Return a shortcut to the first frame at or after `start`; None if there is no safe one.

    It starts at the second keyframe before the frame: with one whole group of pictures in between, the frames are the
    same as from the start, also with gradual refresh. Reads the file up to the frame, without decoding it.
    """
    container = open_video(path)
    try:
        if not container.one_frame_per_packet:
            return None
        stamps: list[int] = []
        keyframes: list[int] = []
        for packet in container.packets():
            if packet.dts is None and packet.size == 0:
                break
            if packet.pts is None or packet.is_discard or packet.is_corrupt:
                return None
            stamps.append(packet.pts)
            if packet.is_keyframe:
                keyframes.append(packet.pts)
            # Matroska has no decoding time for the first packets of a file with B-frames.
            if packet.dts is not None and _passed(start, len(stamps) - _REORDER, (packet.dts - stamps[0]) * time_base):
                break
    finally:
        container.close()
    stamps.sort()
    if not stamps or len(set(stamps)) < len(stamps):
        return None
    # For a start after the end, the last frame is needed for the message.
    target = min(_first_at(start, stamps, time_base), len(stamps) - 1)
    before = sorted(key for key in keyframes if key <= stamps[target])
    return Shortcut(before[-2], stamps, target) if len(before) > 2 else None


def _passed(start: Timecode, count: int, seconds: Fraction) -> bool:
    """Return whether `count` frames, or all frames up to `seconds`, reach beyond the start."""
    return count > start.frame if start.frame is not None else count > 0 and seconds > start.amount + 1


def _first_at(start: Timecode, stamps: list[int], time_base: Fraction) -> int:
    if start.frame is not None:
        return start.frame
    return bisect_left(stamps, stamps[0] + (start.amount - Fraction(1, 10**6)) / time_base)
