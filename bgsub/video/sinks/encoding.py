"""Encode views with PyAV, and write the packets, with sound, into a file."""

import math
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.errors import ParameterError, SourceError, logger, on_failure
from bgsub.storage.durable_io import Journal, unlink
from bgsub.video._pyav import ANY_METADATA, av
from bgsub.video.output_names import ALPHA_VIDEO_ENDINGS
from bgsub.video.sources.av_container import RESTART, starts_over
from bgsub.video.sources.video_file import VideoFileSource
from bgsub.video.views import to_bgr8

FORMATS = {".mkv": "matroska", ".mp4": "mp4", ".m4v": "mp4", ".mov": "mov"}  # FFmpeg's name of the container by ending

_MOST_TICKS = 60_000  # maximum ticks per second where the container allows any; MPEG-4 allows 65535
_MILLISECONDS = 1000  # Matroska counts milliseconds

_THREADS = 4  # a fixed number of threads, because the bytes depend on it
_SLICED_FROM = 64

_LAMBDA = 118  # FFmpeg's units in one step of a quantiser

# FFmpeg's default conversion, written into the file so that every player uses it.
_COLOURS = {"colorspace": "smpte170m", "color_range": "tv"}

INTRA = ("ffv1", "prores_ks")  # the encoders that encode each frame alone, so that a segment may end anywhere
DEFAULT_FPS = Fraction(25)  # frames per second where a source has no frame rate
TOLERANCE = Fraction(1, 2000)  # tolerance for times that the container rounded, in seconds


@dataclass(frozen=True)
class Encoding:
    """One way to encode."""

    codec: str  # FFmpeg's name of the encoder
    pixels: str  # pixel format of the video
    layout: str  # {"gray", "bgr24", "bgra"}: pixel format of the arrays that come in
    even: bool = False  # whether width and height must be even
    clock: int | None = None  # ticks per second that the container counts in; None where it can be chosen
    options: dict[str, str] = field(default_factory=dict)  # of the encoder
    fps: Fraction = DEFAULT_FPS  # frames per second in the header

    def prepare(self, image: np.ndarray) -> np.ndarray:
        """Return the image of a view in the layout of this encoding, 8 bit."""
        if self.layout == "bgr24":
            image = to_bgr8(image)
        bottom, right = image.shape[0] % 2, image.shape[1] % 2
        if not self.even or not (bottom or right):
            return np.ascontiguousarray(image)
        return np.pad(image, ((0, bottom), (0, right), (0, 0))[: image.ndim], mode="edge")

    @property
    def ticks(self) -> Fraction:
        """Ticks per second that contain the times of the constant frame rate, if the container allows it."""
        return Fraction(self.clock or self.fps.numerator * max(1, _MOST_TICKS // self.fps.numerator))

    def configure(self, context: Any, size: tuple[int, int]) -> None:
        """Configure an encoder before it is opened, for frames of `size` (width, height)."""
        context.width, context.height = size
        context.pix_fmt = self.pixels
        context.framerate = self.fps
        context.time_base = 1 / self.ticks
        context.thread_count = _THREADS
        options = {**self.options, "flags": "+bitexact+global_header" + self.options.get("flags", "")}
        if self.codec == "ffv1":
            options["slices"] = str(_THREADS if min(size) >= _SLICED_FROM else 1)
        context.options = options


def choose_encoding(view: str, ending: str, fps: Fraction) -> Encoding:
    """Return the encoding of a view in a file with that ending and so many frames per second."""
    times: dict[str, Any] = {"clock": _MILLISECONDS if ending == ".mkv" else None, "fps": fps}
    if view == "cutout" and ending not in ALPHA_VIDEO_ENDINGS:
        allowed = ", ".join(ALPHA_VIDEO_ENDINGS)
        raise ParameterError(f"a video of cutout must end in {allowed}, got '{ending}' without alpha")
    if view in ("mask", "cutout") and ending == ".mkv":
        pixels = "gray" if view == "mask" else "bgra"
        return Encoding("ffv1", pixels, pixels, options={"level": "3", "g": "1"}, **times)
    if view == "cutout" and ending == ".mov":
        options = {"profile": "4444", "alpha_bits": "16", **_quality(4), **_COLOURS}
        return Encoding("prores_ks", "yuva444p10le", "bgra", options=options, **times)
    if "libx264" in av.codecs_available:
        options = {"crf": "20", "preset": "veryfast", "bf": "0", "g": "250", **_COLOURS}
        options["mbtree"] = "0"  # with it, x264 gives other bytes for equal frames now and then
        return Encoding("libx264", "yuv420p", "bgr24", even=True, options=options, **times)
    options = {"bf": "0", **_quality(3), **_COLOURS}
    return Encoding("mpeg4", "yuv420p", "bgr24", even=True, options=options, **times)


def _quality(quantiser: int) -> dict[str, str]:
    """Return the options for a constant quantiser; 3 or 4 gives high quality."""
    return {"flags": "+qscale", "global_quality": str(quantiser * _LAMBDA)}


class SegmentEncoder:
    """Encodes one segment of the video, which can be decoded alone."""

    def __init__(self, encoding: Encoding, size: tuple[int, int]) -> None:
        self._encoding = encoding
        self._context = av.CodecContext.create(encoding.codec, "w")
        encoding.configure(self._context, size)
        self.time_base = 1 / encoding.ticks
        self._duration = max(1, round(encoding.ticks / encoding.fps))

    def frame_of(self, image: np.ndarray, ticks: int) -> Any:
        """Return an image at time `ticks` as a frame for `encode`."""
        frame = av.VideoFrame.from_ndarray(image, format=self._encoding.layout)
        if self._encoding.pixels != self._encoding.layout:
            frame = frame.reformat(format=self._encoding.pixels)
        frame.pts, frame.time_base = ticks, self.time_base
        return frame

    def encode(self, frame: Any) -> list[Any]:
        """Encode a frame; return the packets that are complete: for None the remaining ones, as the last call."""
        packets: list[Any] = self._context.encode(frame)
        for packet in packets:
            packet.duration, packet.time_base = self._duration, self._context.time_base
        return packets


def packet_to_bytes(packet: Any) -> tuple[dict[str, Any], bytes]:
    """Return facts and bytes of a packet for `packet_from_bytes`."""
    facts = {"pts": packet.pts, "dts": packet.dts, "duration": packet.duration, "key": packet.is_keyframe}
    return facts, bytes(packet)


def packet_from_bytes(facts: dict[str, Any], data: bytes, time_base: Fraction) -> Any:
    """Return the packet for the facts and bytes of `packet_to_bytes`."""
    packet = av.Packet(data)
    packet.pts, packet.dts, packet.duration = facts["pts"], facts["dts"], facts["duration"]
    packet.is_keyframe, packet.time_base = facts["key"], time_base
    return packet


_CODEC = "ffvhuff"  # lossless, each frame alone, five times as fast as x264


class SegmentFrames:
    """The input frames of an unfinished segment, beside the output: a resumed run encodes them again."""

    def __init__(self, target: Path, pixels: str) -> None:
        self._pixels = pixels
        self._files = [Journal(target, target.with_name(f"{target.name}.frames-{turn}.partial")) for turn in (0, 1)]
        self._turn = 0  # of two files, because the newest checkpoint may need the segment before
        self._needed: int | None = None  # the turn at the newest checkpoint
        self._encoder: Any = None

    def begin(self) -> None:
        """Start a new segment without frames."""
        self._turn = 1 if self._needed == 0 else 0
        self._files[self._turn].remove()

    def add(self, frame: Any) -> None:
        self._encoder = self._encoder or self._codec("w", (frame.width, frame.height), frame.time_base)
        for packet in self._encoder.encode(frame):
            self._files[self._turn].add({"pts": frame.pts}, bytes(packet))

    def checkpoint(self, in_segment: bool) -> dict[str, Any] | None:
        """Sync the frames; return the state for `resume`, None without an unfinished segment."""
        self._needed = self._turn if in_segment else None
        return {"turn": self._turn, "bytes": self._files[self._turn].sync()} if in_segment else None

    def resume(self, state: dict[str, Any]) -> None:
        """Continue from the `state` of a checkpoint."""
        self._turn = self._needed = int(state["turn"])
        self._files[self._turn].cut(state["bytes"])

    def frames(self, size: tuple[int, int], time_base: Fraction) -> Iterator[Any]:
        """Yield the stored frames, which have that width and height."""
        encoder, decoder = (self._codec(mode, size, time_base) for mode in "wr")
        encoder.open()
        decoder.extradata = encoder.extradata
        for facts, data in self._files[self._turn].records():
            for frame in decoder.decode(av.Packet(data)):
                frame.pict_type = 0  # otherwise the encoder makes a keyframe
                frame.pts, frame.time_base = facts["pts"], time_base
                yield frame

    def close(self) -> None:
        for file in self._files:
            file.close()

    def remove(self) -> None:
        for file in self._files:
            file.remove()

    def _codec(self, mode: str, size: tuple[int, int], time_base: Fraction) -> Any:
        codec = av.CodecContext.create(_CODEC, mode)
        codec.width, codec.height = size
        codec.pix_fmt, codec.thread_count = self._pixels, 1
        if mode == "w":
            codec.time_base = time_base  # otherwise PyAV rounds the times of the frames
        return codec


# Codecs that are copied, because players support them in the container; for Matroska FFmpeg gives the list.
_PCM = frozenset({"pcm_s16le", "pcm_s16be", "pcm_s24le", "pcm_s24be", "pcm_f32le"})
BEGIN = "start="  # before the time of the first frame in the source, in the comment of a file
_COPIED = {
    "mp4": frozenset({"aac", "mp3", "ac3", "eac3", "opus", "flac", "alac"}),
    "mov": frozenset({"aac", "mp3", "ac3", "eac3", "alac"}) | _PCM,
}


class AudioTrack:
    """The sound of a file from `begin` seconds after the first picture on, copied to `target`; LookupError for none."""

    def __init__(self, source: Path, begin: float, target: Any, format: str) -> None:
        self._name = source
        self._input = av.open(str(source.absolute()), **ANY_METADATA)
        with on_failure(self._input.close):
            self._packets = self._open(begin, target, format)
        self._next: Any = None

    def until(self, seconds: float | Fraction) -> Iterator[Any]:
        """Yield the next packets that start before `seconds` after `begin`."""
        while True:
            try:
                self._next = next(self._packets, None) if self._next is None else self._next
            except av.error.FFmpegError as error:
                logger.warning("the sound of '%s' ends where it is damaged: %s", self._name, error)
            if self._next is None or self._next.pts * self._next.time_base >= seconds:
                return
            packet, self._next = self._next, None
            yield packet

    def close(self) -> None:
        self._packets.close()
        self._input.close()

    def _open(self, begin: float, target: Any, format: str) -> Any:
        if not self._input.streams.audio:
            raise LookupError("it has none")
        stream = self._input.streams.audio[0]
        name = stream.codec_context.codec.canonical_name
        if name not in _COPIED.get(format, target.supported_codecs):
            raise LookupError(f"the file cannot hold {name}, .mkv holds most codecs")
        start, jumps = Fraction(begin), begin > 1
        with suppress(SourceError):  # of a file without pictures
            start += VideoFileSource(self._name).files[0].stamp
            jumps = jumps and not starts_over(self._name)
        if jumps:
            self._input.seek(math.floor((start - 1) * av.time_base))
        return self._copy(stream, target.add_stream_from_template(stream), start)

    def _copy(self, stream: Any, output: Any, start: Fraction) -> Iterator[Any]:
        end: Fraction | None = None
        for packet in self._input.demux(stream):
            if packet.pts is None:
                continue
            at = packet.pts * packet.time_base
            if end is not None and at < end - RESTART:
                start += at - end  # the clock starts over
            end = at + (packet.duration or 0) * packet.time_base
            if at < start - TOLERANCE:
                continue
            shift = round(start / packet.time_base)
            packet.pts = max(packet.pts - shift, 0)
            packet.dts = packet.pts if packet.dts is None else max(packet.dts - shift, 0)
            packet.stream = output
            yield packet


class Muxer:
    """Writes video, and sound of `audio_from` from `begin` on, into a path, or as Matroska into an open file."""

    def __init__(
        self, target: Any, encoding: Encoding, size: tuple[int, int], audio_from: Path | None = None, begin: float = 0.0
    ) -> None:
        format = FORMATS[target.suffix.lower()] if isinstance(target, Path) else "matroska"
        options = {"fflags": "+bitexact"}
        if format in ("mp4", "mov"):
            options |= {"movflags": "+faststart", "video_track_timescale": str(encoding.ticks)}
        file: Any = target
        if isinstance(target, Path):
            unlink(target)  # it could be a link to another file
            file = str(target.absolute())  # FFmpeg takes "take1:2.avi" for a network protocol
        else:
            options |= {"cluster_time_limit": "0", "flush_packets": "1"}  # without delay for the reader
        self._container = av.open(file, "w", format=format, options=options)
        self._audio: AudioTrack | None = None
        if begin > 0:
            self._container.metadata["comment"] = f"{BEGIN}{begin:.6f}"
        with on_failure(self.close):
            self._stream = self._container.add_stream(encoding.codec, rate=encoding.fps)
            encoding.configure(self._stream.codec_context, size)
            self._stream.time_base = 1 / encoding.ticks
            if audio_from is not None:
                try:
                    self._audio = AudioTrack(audio_from, begin, self._container, format)
                except (OSError, ValueError, LookupError, av.error.FFmpegError) as error:
                    logger.warning("no sound of '%s' in the video: %s", audio_from, error)
            self._container.start_encoding()

    def write(self, packet: Any) -> None:
        """Append one packet of video, after the sound before it."""
        self._write_audio(packet.pts * packet.time_base)
        packet.stream = self._stream
        self._container.mux_one(packet)

    def finish(self, end: float | Fraction) -> None:
        """Complete the file with the sound up to `end`, in seconds."""
        with closing(self):
            self._write_audio(end)

    def close(self) -> None:
        if self._audio is not None:
            self._audio.close()
        self._container.close()

    def _write_audio(self, end: float | Fraction) -> None:
        if self._audio is not None:
            for packet in self._audio.until(end):
                self._container.mux_one(packet)
