"""Facts from the packets of a file, without decoding: varying frame rate, and shortcuts to later frames."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice
from pathlib import Path

from bgsub.video.sources.av_container import open_video
from bgsub.video.timecode import Timecode

# Tolerance for rounded time stamps at a fixed rate: in units of the time base, in seconds (Matroska rounds to
# milliseconds) and relative to a frame.
_TICKS, _SECONDS, _SHARE = 2, 0.0011, 0.02
# Decoders reorder at most 16 frames.
_REORDER = 32


def varies(path: Path, limit: int = 300) -> bool:
    """Return whether the time stamps of the first `limit` packets follow no fixed rate."""
    with open_video(path) as container:
        packets = islice((packet for packet in container.packets() if not packet.is_discard), limit)
        read = [packet.dts if packet.pts is None else packet.pts for packet in packets]
        ticks = max(_TICKS, _SECONDS / container.stream.time_base)
    stamps = sorted(stamp for stamp in read if stamp is not None)
    # The last stamps may belong after packets that were not read.
    stamps = stamps[:-_REORDER] if len(stamps) >= limit - 1 else stamps
    if len(stamps) < 3:
        return False
    step = Fraction(stamps[-1] - stamps[0], len(stamps) - 1)
    tolerance = max(ticks, _SHARE * step)
    return any(abs(stamp - stamps[0] - number * step) > tolerance for number, stamp in enumerate(stamps))


def signature(path: Path) -> tuple[object, ...]:
    """Return facts that are equal in files whose packets can follow each other in one file."""
    with open_video(path) as container:
        video = container.stream.codec_context
        facts: list[object] = [video.name, video.width, video.height, video.pix_fmt, video.extradata]
        for stream in container.container.streams.audio[:1]:
            sound = stream.codec_context
            facts += [sound.name, sound.sample_rate, sound.layout.name, sound.extradata]
        return tuple(facts)


@dataclass(frozen=True)
class Shortcut:
    """A keyframe from which a later frame can be decoded, for files with one frame per packet."""

    seek: int  # time stamp of the keyframe
    stamps: list[int]  # ordered time stamps of all frames up to the target and some more
    target: int  # index of the wanted frame

    @cached_property
    def keyframe(self) -> int:
        """Index of the keyframe."""
        return bisect_left(self.stamps, self.seek)

    def index(self, stamp: int) -> int | None:
        """Return the index of the frame with a time stamp; None if unknown."""
        place = bisect_left(self.stamps, stamp)
        return place if place < len(self.stamps) and self.stamps[place] == stamp else None


def find_shortcut(path: Path, start: Timecode, time_base: Fraction) -> Shortcut | None:
    """Return a shortcut to the first frame at or after `start`; None if there is no safe one.

    It starts at the second keyframe before the frame: with one whole group of pictures in between, the frames are the
    same as from the start, also with gradual refresh. Reads the file up to the frame, without decoding it.
    """
    with open_video(path) as container:
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
            count = len(stamps) - _REORDER
            if packet.dts is None or count <= (start.frame or 0):
                continue
            if start.frame is not None or (packet.dts - stamps[0]) * time_base > start.amount + 1:
                break
    stamps.sort()
    if not stamps or len(set(stamps)) < len(stamps):
        return None
    wanted = start.frame
    if wanted is None:
        wanted = bisect_left(stamps, stamps[0] + (start.amount - Fraction(1, 10**6)) / time_base)
    target = min(wanted, len(stamps) - 1)  # for a start after the end, the message needs the last frame
    before = sorted(key for key in keyframes if key <= stamps[target])
    return Shortcut(before[-2], stamps, target) if len(before) > 2 else None
