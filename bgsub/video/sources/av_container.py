"""Video files, pipes and network streams opened with PyAV: frames as arrays, cut ends, shortcuts to later frames."""

import os
import threading
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import SourceError
from bgsub.numerics import memory
from bgsub.storage.durable_io import os_errors_as
from bgsub.video._pyav import ANY_METADATA, av
from bgsub.video.sources.base import Frame, FrameSource, number_name, rate_as_fraction
from bgsub.video.timecode import Timecode

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
PLAYLISTS = (".m3u8", ".mpd")

_WITHOUT_DECODERS = {"format_whitelist": FORMATS, "codec_whitelist": "none"}
_PER_PIXEL = 16  # bytes of a decoded frame at most

# One packet of these codecs makes one frame. With others, a decoder with threads does not report which frames it lost.
_ONE_FRAME_PER_PACKET = frozenset({"av1", "dnxhd", "ffv1", "h264", "hevc", "huffyuv", "mjpeg", "prores"})

RESTART = 1.0  # seconds by which times go back at least where the clock of a file starts over

Decoded = tuple[int, float | None, Any]  # index, time in seconds and frame of PyAV

# Counter-clockwise quarter turns, as PyAV counts degrees, to OpenCV's names.
_TURNS = {1: cv2.ROTATE_90_COUNTERCLOCKWISE, 2: cv2.ROTATE_180, 3: cv2.ROTATE_90_CLOCKWISE}


class Container(AbstractContextManager["Container"]):
    """An open video: a path, an address, or an object with `read`; `options` are those of `av.open`."""

    def __init__(self, source: Any, *, threads: bool = True, **options: Any) -> None:
        self.broken = False
        self._lock, self._closed = threading.Lock(), False
        # FFmpeg decodes the first pictures to find the format. Of a stream with larger ones, the size remains 0.
        limit = {} if (available := memory.available_memory()) is None else {"max_pixels": str(available // _PER_PIXEL)}
        options["options"] = {**options.get("options", {"format_whitelist": FORMATS}), **limit}
        # FFmpeg takes "take1:2.avi" for a network protocol, but never a path that starts with a slash.
        source = str(source.absolute()) if isinstance(source, Path) else source
        self.container = av.open(source, **ANY_METADATA, **options)
        stream = first_video(self.container)
        if stream is None or stream.codec_context is None:
            self.container.close()
            raise SourceError("no video in it")
        self.stream: Any = stream
        stream.codec_context.options = limit
        self.one_frame_per_packet = stream.codec_context.codec.canonical_name in _ONE_FRAME_PER_PACKET
        self.threads = threads and self.one_frame_per_packet
        stream.thread_type = "AUTO" if self.threads else "SLICE"
        names = self.container.format.name.split(",")
        self.is_file = names[0] in _CONTAINERS.split(",")  # not a stream of pictures
        # AVI has no time stamps, which matters where frames are not stored in order.
        self.has_stamps = "avi" not in names or not stream.codec_context.has_b_frames
        # Of the header; None if unknown.
        self.fps = rate_as_fraction(float(stream.average_rate or stream.guessed_rate or 0))
        self.seconds = self.container.duration / 1e6 if self.container.duration else None
        if stream.duration:
            self.seconds = float(stream.duration * stream.time_base)
        elif self.seconds and "matroska" in names:
            begin = (self.container.start_time or 0) / 1e6  # FFmpeg writes the time of the end, not the duration
            self.seconds -= begin if begin < self.seconds else 0

    def packets(self) -> Iterator[Any]:
        """Yield the packets, then an empty one; end early where the file is broken. SourceError once it is closed."""
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
            elif packet.dts is not None and not self.one_frame_per_packet:
                continue  # such as Theora's for a repeated frame; decoders take it for the end
            yield packet

    def frames(self) -> Iterator[Any]:
        """Yield the frames in display order, None for one that cannot be decoded; errors as `packets`."""
        for packet in self.packets():
            yield from self.decode(packet)
            if packet.size == 0 and packet.dts is None:
                break

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

    def __exit__(self, *_error: object) -> None:
        self.close()

    @contextmanager
    def _use(self) -> Iterator[None]:
        with self._lock:  # FFmpeg reads freed memory after a container is closed
            if self._closed:
                raise SourceError("the video is closed")
            yield


def open_video(path: Path, threads: bool = True) -> Container:
    """Return the container of a file; SourceError if it is no video, ParameterError if its frames are too large."""
    with os_errors_as(SourceError, f"video '{path}' cannot be read"):
        if not path.is_file():  # opening a pipe or a device may never end
            raise SourceError(f"no such file: '{path}'")
        with path.open("rb") as file:
            if not file.read(1):
                raise SourceError(f"video '{path}' is empty")
    try:
        container = Container(path, threads=threads)
        if not container.stream.codec_context.width:
            with av.open(str(path.absolute()), options=_WITHOUT_DECODERS, **ANY_METADATA) as header:
                announced = first_video(header).codec_context
                needed, size = announced.width * announced.height * _PER_PIXEL, f"{announced.width}x{announced.height}"
            memory.check_memory(needed, f"video '{path}', {size},", "smaller frames")
        return container
    except (av.error.FFmpegError, OSError, SourceError):
        if path.suffix.lower() in PLAYLISTS:
            why = "is a playlist, which could lead to any file or address; give the files that it lists"
            raise SourceError(f"'{path}' {why}") from None
        raise SourceError(f"'{path}' is not a video that can be read, or it is damaged") from None


def first_video(container: Any) -> Any:
    """Return the first video stream that is no cover picture; None if there is none."""
    cover = type(container.streams.video[0].disposition).attached_pic if container.streams.video else 0
    return next((stream for stream in container.streams.video if not stream.disposition & cover), None)


def display_size(frame: Any) -> tuple[int, int]:
    """Return the width and height of a frame after its rotation."""
    return (frame.height, frame.width) if _quarter_turns(frame) % 2 else (frame.width, frame.height)


def _quarter_turns(frame: Any) -> int:
    """Return the quarter turns, counter-clockwise, that make a frame upright."""
    return round(frame.rotation / 90) % 4


class Converter:
    """Makes arrays of frames, rotated for display: grey unless `colour` (h, w), others (h, w, 3) uint8, blue first."""

    def __init__(self, colour: bool = False) -> None:
        self._colour = colour
        self._reformatter = av.video.reformatter.VideoReformatter()

    def __call__(self, frame: Any) -> np.ndarray | None:
        """Return the pixels of a frame; None for a colour space that FFmpeg does not know."""
        name = frame.format.name
        is_grey = name.startswith("gray") and not self._colour
        target = "bgr24" if not is_grey else "gray" if name == "gray" else "gray16le"
        try:
            image = self._reformatter.reformat(frame, format=target, interpolation="BICUBIC").to_ndarray()
        except av.error.FFmpegError:
            return None
        turns = _quarter_turns(frame)
        return cv2.rotate(image, _TURNS[turns]) if turns else image


class DecodedSource(FrameSource):
    """A source whose frames PyAV decodes."""

    def _going_on(self, decoded: Iterable[Decoded]) -> Iterator[Decoded]:
        """Yield the frames with times that continue where the clock starts over, as in joined MPEG streams."""
        shift = last = 0.0
        for index, at, frame in decoded:
            if at is not None and at + shift < last - RESTART:
                shift = last + float(1 / self.fps if self.fps else 0) - at
            last = last if at is None else at + shift
            yield index, None if at is None else last, frame

    def _converted(self, decoded: Iterable[Decoded]) -> Iterator[Frame]:
        convert = Converter()
        for index, at, frame in decoded:
            received = time.monotonic() if self.live else None
            if (image := convert(frame)) is None:
                self._unreadable(f"frame {index} of {self.name} has an unknown colour space")
            else:
                yield Frame(index, number_name(index), at, image, received)


_REORDER = 32  # decoders reorder at most 16 frames
_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"


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
    keyframe: int  # its index
    stamps: list[int]  # ordered time stamps of all frames up to the target and some more
    target: int  # index of the wanted frame

    def index(self, stamp: int) -> int | None:
        """Return the index of the frame with a time stamp; None if unknown."""
        place = bisect_left(self.stamps, stamp)
        return place if place < len(self.stamps) and self.stamps[place] == stamp else None


def find_shortcut(path: Path, start: Timecode, time_base: Fraction) -> Shortcut | None:
    """Return a shortcut to the first frame at or after `start`, without decoding; None if there is no safe one."""
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
    # With a whole group of pictures in between, frames are as from the start, also with gradual refresh.
    before = sorted(key for key in keyframes if key <= stamps[target])
    return Shortcut(before[-2], bisect_left(stamps, before[-2]), stamps, target) if len(before) > 2 else None


def starts_over(path: Path) -> bool:
    """Return whether the clock of a file starts over, for which all packets of an MPEG stream are read."""
    with os_errors_as(SourceError, f"video '{path}' cannot be read"):
        return _starts_over(path, path.stat().st_mtime_ns)


@lru_cache
def _starts_over(path: Path, _changed: int) -> bool:
    with open_video(path) as container:
        if container.container.format.name not in ("mpegts", "mpeg"):
            return False
        times = (float(packet.dts * packet.time_base) for packet in container.packets() if packet.dts is not None)
        return any(later < earlier - RESTART for earlier, later in pairwise(times))


def is_cut(path: Path) -> bool:
    """Return whether bytes are missing at the end of a Matroska file, which FFmpeg does not report; else False."""
    if path.is_file():  # not replaced
        with suppress(OSError), path.open("rb") as file:
            return lacks_bytes(file, path.stat().st_size)
    return False


def lacks_bytes(file: BinaryIO, size: int) -> bool:
    """Return whether a Matroska file of which `size` bytes came names a larger size at its beginning, `file`."""
    if file.read(4) == _EBML:
        file.seek(min(_matroska_number(file) or 0, size), os.SEEK_CUR)  # no file system takes all numbers
        length = _matroska_number(file) if file.read(4) == _SEGMENT else None
        return length is not None and file.tell() + length > size
    return False


def _matroska_number(file: BinaryIO) -> int | None:
    """Read a number whose leading zero bits give its length; None for all ones, which means unknown."""
    first = file.read(1)[0:1] or b"\0"
    more = 8 - first[0].bit_length()
    unknown = (1 << 7 * (more + 1)) - 1
    value = int.from_bytes(first + file.read(more), "big") & unknown
    return None if value == unknown else value
