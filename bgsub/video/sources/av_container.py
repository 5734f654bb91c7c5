"""Video files, pipes and network streams opened with PyAV, and their frames as arrays."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import av
import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import SourceError
from bgsub.video.sources.base import logger, rate_as_fraction

# FFmpeg's readers of videos. Readers of playlists (HLS, DASH, concat, SDP) are left out, because a playlist makes
# FFmpeg open any other file or address, and FFmpeg chooses the reader by the first bytes of a file.
_CONTAINERS = (
    "3dostr,4xm,amv,apng,asf,asf_o,avi,bfi,bink,cine,dhav,dv,dxa,filmstrip,flic,flv,gif,gxf,ifv,ipmovie,ivf,ivr,jv,kux,"
    "live_flv,lmlm4,lxf,matroska,mgsts,mlv,moflex,mov,mp4,mpeg,mpegts,mtv,mv,mvi,mxf,mxg,nsv,nut,nuv,ogg,pmp,psxstr,pva,"
    "r3d,rm,roq,rpl,ser,siff,smjpeg,smk,smush,swf,thp,tmv,ty,usm,vividas,vivo,vmd,webm,wtv,xmv,yop,yuv4mpegpipe"
)
_STREAMS = (
    "apv,av1,avs,avs2,avs3,cavsvideo,dirac,dnxhd,evc,h261,h263,h264,hevc,ingenient,ipu,m4v,mjpeg,mjpeg_2000,mpegvideo,"
    "mpjpeg,obu,rtp,rtsp,vc1,vc1test,vvc"
)
_PICTURES = "bmp_pipe,gif_pipe,image2,j2k_pipe,jpeg_pipe,jpegxl_anim,jpegxl_pipe,png_pipe,tiff_pipe,webp_pipe"
FORMATS = ",".join((_CONTAINERS, _STREAMS, _PICTURES))

# One packet of these codecs makes one frame. With other codecs, a decoder with threads does not say which frames it
# lost.
_ONE_FRAME_PER_PACKET = frozenset({"av1", "dnxhd", "ffv1", "h264", "hevc", "huffyuv", "mjpeg", "prores"})

# More frames than a decoder holds back: one for each thread and 16 to put them in order.
_HELD_BACK = 512

# Counter-clockwise quarter turns, as PyAV counts degrees, to OpenCV's names.
_TURNS = {1: cv2.ROTATE_90_COUNTERCLOCKWISE, 2: cv2.ROTATE_180, 3: cv2.ROTATE_90_CLOCKWISE}
# Output formats of hardware decoders, and the software formats with the same values: swscale interpolates the chroma of
# the two differently.
_PLANAR = {"nv12": "yuv420p", "p010le": "yuv420p10le", "nv16": "yuv422p"}


class Container:
    """An open video file or stream.

    `source` is a path, an address, or an object with `read`; `options` are those of `av.open`. With `threads` several
    frames are decoded at once, where lost frames can be counted. `hardware` is the kind of a hardware decoder, such as
    ``"cuda"``. `broken` says whether the stream ended within a packet. Raises SourceError without a video, and the
    errors of `av.open`.
    """

    def __init__(self, source: Any, *, threads: bool = True, hardware: str | None = None, **options: Any) -> None:
        self.broken = False
        self._lock, self._closed = threading.Lock(), False
        if hardware is not None:
            options["hwaccel"] = av.codec.hwaccel.HWAccel(hardware, allow_software_fallback=False)
        options.setdefault("options", {"format_whitelist": FORMATS})
        # FFmpeg takes "take1:2.avi" for a network protocol, but never a path that starts with a slash.
        source = str(source.absolute()) if isinstance(source, Path) else source
        self.container = av.open(source, metadata_errors="replace", **options)
        stream = first_video(self.container)
        if stream is None or stream.codec_context is None:
            self.container.close()
            raise SourceError("no video in it")
        self.stream: Any = stream
        self.one_frame_per_packet = stream.codec_context.codec.canonical_name in _ONE_FRAME_PER_PACKET
        self.threads = threads and hardware is None and self.one_frame_per_packet
        stream.thread_type = "AUTO" if self.threads else "SLICE"

    @property
    def has_stamps(self) -> bool:
        """Whether the time stamps are true: AVI has none, which matters where frames are not stored in order."""
        return "avi" not in self.container.format.name.split(",") or not self.stream.codec_context.has_b_frames

    @property
    def fps(self) -> Fraction | None:
        """Frames per second in the header; None if unknown."""
        return rate_as_fraction(float(self.stream.average_rate or self.stream.guessed_rate or 0))

    @property
    def seconds(self) -> float | None:
        """Duration in the header; None if unknown."""
        if self.stream.duration:
            return float(self.stream.duration * self.stream.time_base)
        return self.container.duration / 1e6 if self.container.duration else None

    def packets(self) -> Iterator[Any]:
        """Yield the packets of the video and then an empty one; end early where the file is broken.

        SourceError ends the generator safely once any thread has closed the container.
        """
        packets = self.container.demux(self.stream)
        while True:
            with self._use():
                try:
                    packet = next(packets, None)
                except av.error.FFmpegError:
                    self.broken = True
                    return
            if packet is None:
                return
            if packet.size:
                self.broken = packet.is_corrupt
            yield packet

    def frames(self) -> Iterator[Any]:
        """Yield the frames in display order, None for one that cannot be decoded; errors as `packets`."""
        sent: deque[int] = deque(maxlen=_HELD_BACK)
        last: int | None = None
        for packet in self.packets():
            flush = packet.size == 0 and packet.dts is None
            if packet.pts is not None and not packet.is_discard:
                sent.append(packet.pts)
            for frame in self.decode(packet):
                last = last if frame is None else frame.pts
                yield frame
            if flush:
                break
        if self.threads and last is not None:
            # At the first damage PyAV does not fetch the frames that the decoder still holds.
            yield from [None for stamp in sent if stamp > last]

    def decode(self, packet: Any) -> list[Any]:
        """Return the frames that are complete with a packet, None for one that cannot be decoded."""
        with self._use():
            try:
                return packet.decode()
            except av.error.EOFError:
                return []
            except av.error.FFmpegError:
                return [None]

    def close(self) -> None:
        """Release the file; waits for another thread that is decoding a frame."""
        with self._lock:
            self._closed = True
            self.container.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @contextmanager
    def _use(self) -> Iterator[None]:
        # FFmpeg reads freed memory after a container is closed.
        with self._lock:
            if self._closed:
                raise SourceError("the video is closed")
            yield


def open_video(path: Path, threads: bool = True) -> Container:
    """Return the container of a video file; SourceError if it cannot be read as one."""
    try:
        return Container(path, threads=threads)
    except (av.error.FFmpegError, OSError, SourceError):
        raise SourceError(f"'{path}' is not a video that can be read, or it is damaged") from None


def first_video(container: Any) -> Any:
    """Return the first video stream that is no cover picture; None if there is none."""
    cover = type(container.streams.video[0].disposition).attached_pic if container.streams.video else 0
    return next((stream for stream in container.streams.video if not stream.disposition & cover), None)


def working_hardware(path: Path, name: str) -> str | None:
    """Return the kind of a hardware decoder that decodes the file; without one, log a warning and return None."""
    kinds = list(av.codec.hwaccel.hwdevices_available())
    for kind in kinds:
        # RuntimeError or NotImplementedError if the hardware decoder does not work.
        with suppress(av.error.FFmpegError, OSError, RuntimeError), Container(path, hardware=kind) as container:
            if container.stream.codec_context.is_hwaccel and next(container.frames(), None) is not None:
                return kind
    tried = f"tried {', '.join(kinds)}" if kinds else "this FFmpeg has none"
    logger.warning("no hardware decoder works for %s (%s): it is decoded in software", name, tried)
    return None


def display_size(frame: Any) -> tuple[int, int]:
    """Return the width and height of a frame after its rotation."""
    return (frame.height, frame.width) if _quarter_turns(frame) % 2 else (frame.width, frame.height)


def _quarter_turns(frame: Any) -> int:
    """Return the quarter turns, counter-clockwise, that make a frame upright."""
    return round(frame.rotation / 90) % 4


class Converter:
    """Makes arrays of the frames of one stream, rotated for display.

    Grey frames become (h, w) uint8, or uint16 with full scale 65535 for more than 8 bits, unless `colour` is set. All
    others become (h, w, 3) uint8, blue first, interpolated as OpenCV does it.
    """

    def __init__(self, colour: bool = False) -> None:
        self._colour = colour
        self._reformatter = av.video.reformatter.VideoReformatter()

    def __call__(self, frame: Any) -> np.ndarray:
        """Return the pixels of a frame."""
        name = frame.format.name
        if name in _PLANAR:
            frame = self._reformatter.reformat(frame, format=_PLANAR[name])
        is_grey = name.startswith("gray") and not self._colour
        target = "bgr24" if not is_grey else "gray" if name == "gray" else "gray16le"
        image = self._reformatter.reformat(frame, format=target, interpolation="BICUBIC").to_ndarray()
        turns = _quarter_turns(frame)
        return cv2.rotate(image, _TURNS[turns]) if turns else image
