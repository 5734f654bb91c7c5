"""How PyAV encodes a view for a container; packets as bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import ModuleType
from typing import Any, get_args

import numpy as np

from bgsub.errors import DependencyError, ParameterError
from bgsub.video.output_names import ALPHA_VIDEO_ENDINGS
from bgsub.video.sinks.video import padded_to_even
from bgsub.video.sources.av_container import import_av
from bgsub.video.views import to_bgr8

FORMATS = {".mkv": "matroska", ".avi": "avi", ".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".webm": "webm"}
"""FFmpeg's name of the container by ending."""

# Ticks per second of the containers with a clock of their own choice; MPEG-4 allows no more than 65535.
_MOST_TICKS = 60_000
# Matroska counts milliseconds.
_MILLISECONDS = 1000

# The number of threads is fixed where it has an influence on the bytes.
_THREADS = 4
_SLICED_FROM = 64

# FFmpeg's units in one step of a quantiser.
_LAMBDA = 118

# How OpenCV and FFmpeg convert where nothing is said; said, so that every player takes it for the same.
_COLOURS = {"colorspace": "smpte170m", "color_range": "tv"}

# The transparency of VP9 travels beside the picture.
_ALPHA_BESIDE = "matroska_block_additional"


@dataclass(frozen=True)
class Encoding:
    """One way to encode."""

    codec: str  # FFmpeg's name of the encoder
    pixels: str  # pixel format of the video
    layout: str  # {"gray", "bgr24", "bgra"}: pixel format of the arrays that come in
    even: bool = False  # whether width and height must be even
    # ticks per second that the container counts in; None where it can be chosen, 0 where frames are counted
    clock: int | None = None
    options: dict[str, str] = field(default_factory=dict)  # of the encoder

    @property
    def is_intra(self) -> bool:
        """Whether each frame is encoded on its own, so that a segment may end anywhere without a trace."""
        return self.codec in ("ffv1", "prores_ks")

    def prepare(self, image: np.ndarray) -> np.ndarray:
        """Return the image of a view as this encoding takes it, 8 bit."""
        if self.layout == "bgr24":
            image = to_bgr8(image)
        return padded_to_even(image) if self.even else np.ascontiguousarray(image)

    def without_delay(self) -> Encoding:
        """Return the same for whoever watches while it is encoded: no frame waits for the next."""
        tuned = {"tune": "zerolatency"} if self.codec == "libx264" else {}
        return replace(self, options=self.options | tuned)

    def ticks(self, fps: Fraction) -> Fraction:
        """Ticks per second, so fine that frames of a constant rate fall on them where the container allows it."""
        if self.clock is None:
            return Fraction(fps.numerator * max(1, _MOST_TICKS // fps.numerator))
        return Fraction(self.clock) if self.clock else fps

    def configure(self, context: Any, size: tuple[int, int], fps: Fraction) -> None:
        """Set up an encoder that is not open yet, for frames of `size` (width, height)."""
        context.width, context.height = size
        context.pix_fmt = self.pixels
        context.framerate = fps
        context.time_base = 1 / self.ticks(fps)
        context.thread_count = _THREADS
        flags = "+bitexact" if self.clock == 0 else "+bitexact+global_header"
        options = {**self.options, "flags": flags + self.options.get("flags", "")}
        if self.codec == "ffv1":
            options["slices"] = str(_THREADS if min(size) >= _SLICED_FROM else 1)
        context.options = options


def choose_encoding(view: str, ending: str) -> Encoding:
    """Return how a view is encoded in a file of that ending.

    ParameterError where the file cannot hold the view, DependencyError where PyAV lacks the encoder.
    """
    clock = {".mkv": _MILLISECONDS, ".webm": _MILLISECONDS, ".avi": 0}.get(ending)
    if view == "cutout":
        return _with_alpha(ending, clock)
    if view == "mask" and ending in (".mkv", ".avi"):
        return Encoding("ffv1", "gray", "gray", clock=clock, options={"level": "3", "g": "1"})
    if ending == ".webm":
        return _vp9("yuv420p", "bgr24", clock)
    if ending != ".avi" and _has_encoder("libx264"):
        options = {"crf": "20", "preset": "veryfast", "bf": "0", "g": "250", **_COLOURS}
        options["mbtree"] = "0"  # with it, x264 gives other bytes for equal frames now and then
        return Encoding("libx264", "yuv420p", "bgr24", True, clock, options)
    options = {"bf": "0", **_quality(3), **_COLOURS}
    return Encoding("mpeg4", "yuv420p", "bgr24", True, clock, options)


def _with_alpha(ending: str, clock: int | None) -> Encoding:
    if ending == ".mkv":
        return Encoding("ffv1", "bgra", "bgra", clock=clock, options={"level": "3", "g": "1"})
    if ending == ".mov":
        options = {"profile": "4444", "alpha_bits": "16", **_quality(4), **_COLOURS}
        return Encoding("prores_ks", "yuva444p10le", "bgra", clock=clock, options=options)
    if ending == ".webm":
        return _vp9("yuva420p", "bgra", clock)
    raise ParameterError(
        f"a video of cutout must end in {', '.join(ALPHA_VIDEO_ENDINGS)}, got '{ending}' without alpha"
    )


def _quality(quantiser: int) -> dict[str, str]:
    """Return the options for a constant quantiser; 3 or 4 is hardly visible."""
    return {"flags": "+qscale", "global_quality": str(quantiser * _LAMBDA)}


def _vp9(pixels: str, layout: str, clock: int | None) -> Encoding:
    if not _has_encoder("libvpx-vp9"):
        raise DependencyError("this build of the package av has no VP9 encoder for .webm; .mkv and .mov need none")
    options = {"crf": "24", "b": "0", "deadline": "good", "cpu-used": "5", "row-mt": "0", "g": "250", **_COLOURS}
    options |= {"auto-alt-ref": "0", "lag-in-frames": "0"}  # what comes later stays out, and alpha wants it
    return Encoding("libvpx-vp9", pixels, layout, True, clock, options)


def _has_encoder(name: str) -> bool:
    av = import_av()
    try:
        av.Codec(name, "w")
    except (av.error.FFmpegError, ValueError):
        return False
    return True


class SegmentEncoder:
    """Encodes frames that can be decoded without those before them; for one segment of the video."""

    def __init__(self, encoding: Encoding, size: tuple[int, int], fps: Fraction) -> None:
        self._av = import_av()
        self._encoding = encoding
        self._context = self._av.CodecContext.create(encoding.codec, "w")
        encoding.configure(self._context, size, fps)
        self.time_base = 1 / encoding.ticks(fps)
        self._duration = max(1, round(encoding.ticks(fps) / fps))

    def encode(self, image: np.ndarray, ticks: int) -> list[Any]:
        """Return the packets that are complete after one more image, which is shown at `ticks`."""
        return self.encode_frame(self.frame_of(image, ticks))

    def frame_of(self, image: np.ndarray, ticks: int) -> Any:
        """Return an image as `encode_frame` takes it."""
        frame = self._av.VideoFrame.from_ndarray(image, format=self._encoding.layout)
        if self._encoding.pixels != self._encoding.layout:
            frame = frame.reformat(format=self._encoding.pixels)
        frame.pts, frame.time_base = ticks, self.time_base
        return frame

    def encode_frame(self, frame: Any) -> list[Any]:
        """Return the packets that are complete after one more frame."""
        return self._timed(self._context.encode(frame))

    def flush(self) -> list[Any]:
        """Return the packets that are left; the encoder is at its end then."""
        return self._timed(self._context.encode(None))

    def _timed(self, packets: Iterable[Any]) -> list[Any]:
        result = []
        for packet in packets:
            packet.duration, packet.time_base = self._duration, self._context.time_base
            result.append(packet)
        return result


def packet_to_bytes(packet: Any) -> tuple[dict[str, Any], bytes]:
    """Return what `packet_from_bytes` makes the same packet of."""
    facts = {"pts": packet.pts, "dts": packet.dts, "duration": packet.duration, "key": packet.is_keyframe}
    beside = b""
    if hasattr(packet, "iter_sidedata"):
        beside = b"".join(bytes(side) for side in packet.iter_sidedata() if side.data_type == _ALPHA_BESIDE)
    return {**facts, "beside": len(beside)}, bytes(packet) + beside


def packet_from_bytes(facts: dict[str, Any], data: bytes, time_base: Fraction) -> Any:
    """Return a packet of the facts and bytes of `packet_to_bytes`."""
    av = import_av()
    size = len(data) - facts["beside"]
    packet = av.Packet(data[:size])
    packet.pts, packet.dts, packet.duration = facts["pts"], facts["dts"], facts["duration"]
    packet.is_keyframe, packet.time_base = facts["key"], time_base
    if facts["beside"]:
        module = av.packet
        side = module.PacketSideData(_kinds(module).index(_ALPHA_BESIDE), facts["beside"])
        side.update(data[size:])
        packet.set_sidedata(side)
    return packet


def _kinds(module: ModuleType) -> tuple[str, ...]:
    return get_args(module.PktSideDataT)


def can_store_packets(encoding: Encoding) -> bool:
    """Whether a packet can be made again from its bytes; old PyAV cannot do it where alpha is beside the picture."""
    module = import_av().packet
    return encoding.pixels != "yuva420p" or (hasattr(module, "PktSideDataT") and hasattr(module, "PacketSideData"))
