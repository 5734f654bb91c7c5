"""The frames of an unfinished segment of a video, kept without loss for a run that goes on in the middle of it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from bgsub.storage.growing_file import Journal
from bgsub.video.sources.av_container import import_av

# Lossless, each frame on its own, and a fifth of the work of x264.
_CODEC = "ffvhuff"


class KeptFrames:
    """What an encoder was given since the segment began: given again, it makes the same bytes of what follows.

    Two files take turns, as the newest checkpoint may still need that of the segment before.

    Parameters
    ----------
    target : Path
        The output, beside which they lie.
    pixels : str
        Pixel format of the frames.

    Raises
    ------
    SinkError
        From all methods but `close` and `remove`, if a file cannot be written, or has not what it should.
    FFmpegError, ValueError, LookupError
        From `frames`, if what is there is damaged.
    """

    def __init__(self, target: Path, pixels: str) -> None:
        self._pixels = pixels
        self._files = [Journal(target, target.with_name(f"{target.name}.frames-{turn}.partial")) for turn in (0, 1)]
        self._turn = 0
        self._needed: int | None = None  # whose turn it was at the newest checkpoint, if it was one's
        self._encoder: Any = None

    def begin(self) -> None:
        """Forget the frames: a segment begins."""
        self._turn = 1 if self._needed == 0 else 0
        self._files[self._turn].remove()

    def add(self, frame: Any) -> None:
        """Keep one more frame of PyAV."""
        self._encoder = self._encoder or self._new_encoder((frame.width, frame.height), frame.time_base)
        for packet in self._encoder.encode(frame):
            self._files[self._turn].add({"pts": frame.pts}, bytes(packet))

    def checkpoint(self, in_segment: bool) -> dict[str, Any] | None:
        """Make the frames safe; return what `resume` needs, None where there is no unfinished segment."""
        self._needed = self._turn if in_segment else None
        return {"turn": self._turn, "bytes": self._files[self._turn].sync()} if in_segment else None

    def resume(self, state: dict[str, Any]) -> None:
        """Go on where `checkpoint` returned `state`."""
        self._turn = self._needed = int(state["turn"])
        self._files[self._turn].cut(state["bytes"])

    def frames(self, size: tuple[int, int], time_base: Fraction) -> Iterator[Any]:
        """Yield the frames again, which are of that width and height."""
        encoder, decoder = self._new_encoder(size, time_base), self._codec("r", size)
        encoder.open()
        decoder.extradata = encoder.extradata
        for facts, data in self._files[self._turn].records():
            for frame in decoder.decode(import_av().Packet(data)):
                frame.pict_type = 0  # or else the encoder would take it for the wish for a keyframe
                frame.pts, frame.time_base = facts["pts"], time_base
                yield frame

    def close(self) -> None:
        """Leave the files as they are."""
        for file in self._files:
            file.close()

    def remove(self) -> None:
        """Delete the files."""
        for file in self._files:
            file.remove()

    def _new_encoder(self, size: tuple[int, int], time_base: Fraction) -> Any:
        encoder = self._codec("w", size)
        encoder.time_base = time_base  # or else PyAV would round the times of the frames that it is given
        return encoder

    def _codec(self, mode: str, size: tuple[int, int]) -> Any:
        codec = import_av().CodecContext.create(_CODEC, mode)
        codec.width, codec.height = size
        codec.pix_fmt, codec.thread_count = self._pixels, 1
        return codec
