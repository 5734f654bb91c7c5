"""Clips of motion events: rules, names, list, the frames before an event, and the sink that records them."""

from __future__ import annotations

import csv
import io
import logging
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SinkError
from bgsub.events.annotation import OutlineCache, annotate
from bgsub.events.event import Event, Motion
from bgsub.events.feed import EventFeed
from bgsub.events.linking import ObjectLinker
from bgsub.events.motion import CLOSE, check_seconds
from bgsub.events.writers import csv_cell
from bgsub.separation import Separation
from bgsub.storage.durable_io import write_whole
from bgsub.storage.file_lock import hold
from bgsub.video.output_names import safe_name
from bgsub.video.sinks.base import Sink, prepare_folder
from bgsub.video.sinks.copying import CopySink, ending_of_copy
from bgsub.video.sinks.encoding import DEFAULT_FPS
from bgsub.video.sinks.video import VideoSink, as_separation
from bgsub.video.sources.base import FilePart, Frame, part_at
from bgsub.video.timecode import clock_text
from bgsub.video.views import to_bgr8, to_uint8
from bgsub.video.web_page import THUMBNAIL, jpeg_of, shrunk


@dataclass(frozen=True)
class ClipRules:
    """Rules of recording: time around motion events, and files.

    Attributes
    ----------
    pre_roll, post_roll : float
        Seconds recorded before and after an event. Events whose clips would overlap share one clip.
    max_duration : float, optional
        Longest clip in seconds, after which the next one begins; by default unlimited.
    keep_days, keep_bytes : float, optional
        When a clip is complete and at the end of a run, remove the clips that are older, and the oldest clips while
        the videos in the folder take more bytes; by default none. Only files that clips.csv lists are removed.
    drawn : bool
        Draw objects, regions, date or time, and events onto the clips; they are encoded, not copied.

    Raises
    ------
    ParameterError
        If a value is out of range.

    Examples
    --------
    >>> from bgsub.events import ClipRules
    >>> ClipRules(pre_roll=5)
    ClipRules(pre_roll=5, post_roll=3.0, max_duration=None, keep_days=None, keep_bytes=None, drawn=False)
    """

    pre_roll: float = 2.0
    post_roll: float = 3.0
    max_duration: float | None = None
    keep_days: float | None = None
    keep_bytes: float | None = None
    drawn: bool = False

    def __post_init__(self) -> None:
        check_seconds(pre_roll=self.pre_roll, post_roll=self.post_roll)
        if self.max_duration is not None and not self.max_duration > 0:
            raise ParameterError(
                f"max_duration must be a positive number of seconds or None, got {self.max_duration!r}"
            )
        for name, value in (("keep_days", self.keep_days), ("keep_bytes", self.keep_bytes)):
            if value is not None and not value > 0:
                raise ParameterError(f"{name} must be a positive number or None, got {value!r}")


LIST_NAME = "clips.csv"
_PATIENCE = 30.0  # seconds to wait for another run that adds a clip
_COLUMNS = (
    "file", "start", "end", "start_time", "end_time", "peak_share", "began", "source", "source_time", "thumbnail",
)  # fmt: skip


@dataclass
class Clip:
    """A recorded clip."""

    path: Path
    start: float  # times of its first and last frame in the source, in seconds
    end: float
    peak_share: float = 0.0  # largest share of the frame, or of a region, in motion, in [0, 1]
    began: datetime | None = None  # date and time of the first frame of a camera
    source: str = ""  # the source, or the file in which the clip begins
    source_start: float = 0.0  # time of the first frame in it
    thumbnail: Path | None = None  # picture of the peak
    events: tuple[int, ...] = ()  # numbers of its motion events


class ClipNames:
    """Generates file names that do not exist in a folder; those of a camera's files have date and time."""

    def __init__(self, folder: Path, source: str, ending: str) -> None:
        self._ending, self._number = ending, 0
        #: Path to lock, because two runs with the same source would choose the same names.
        self.claim = folder / safe_name(source)

    def next(self, began: datetime | None) -> Path:
        """Return the path of a file from its date and time."""
        stem = f"{self.claim.name}-{began:%Y%m%d-%H%M%S}" if began else self.claim.name
        while True:
            self._number += 1
            path = self.claim.with_name(f"{stem}-{self._number:04d}{self._ending}")
            if not path.exists():
                return path


def add_to_list(folder: Path, clip: Clip | None = None, rules: ClipRules | None = None) -> None:
    """Add a clip to the list of the folder, or create the list, and remove old clips by the rules.

    Safe with several runs. SinkError if it fails.
    """
    path = folder / LIST_NAME
    with hold(folder / f".{LIST_NAME}.lock", lambda: f"'{path}' is locked by another program", _PATIENCE):
        text = io.StringIO()
        writer = csv.DictWriter(text, _COLUMNS, restval="", extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        try:
            known = io.StringIO(path.read_text(encoding="utf-8-sig") if path.exists() else "")
            listed = chain(csv.DictReader(known), [] if clip is None else [_row(clip)])
            old, rows = _expired(folder, listed, rules or ClipRules())
            writer.writerows(rows)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise SinkError(f"'{path}' cannot be read: {getattr(error, 'strerror', None) or error}") from None
        write_whole(path, text.getvalue().encode())
        for row in old:
            for name in (row.get("file"), row.get("thumbnail")):
                if name and is_plain(name):
                    (folder / name).unlink(missing_ok=True)
        if old:
            logger.info("removed %d old clips from %s", len(old), folder)


_Rows = list[dict[str, str]]
_Listed = Iterable[dict[str, str]]


def is_plain(name: str) -> bool:
    """Return whether a name of the list is that of a file in its folder, and can be one."""
    return Path(name).name == name != "" and "\0" not in name


def _expired(folder: Path, listed: _Listed, rules: ClipRules) -> tuple[_Rows, _Listed]:
    """Return the clips to remove and those to keep, by the time of their ends; the newest one is kept."""
    if rules.keep_days is None and rules.keep_bytes is None:
        return [], listed  # one row at a time: a list may be long
    rows = list(listed)
    first, last = time.time() - 86400 * (rules.keep_days or math.inf), len(rows) - 1
    newest = {row.get("file"): number for number, row in enumerate(rows)}  # a name may have been used again
    old: _Rows = []
    kept: _Rows = []
    size = 0
    for number, row in reversed(list(enumerate(rows))):
        name = row.get("file") or ""
        if not is_plain(name) or newest[name] != number or not (folder / name).is_file():
            kept.append(row)  # moved by the user
            continue
        status = (folder / name).stat()
        size += status.st_size
        is_old = status.st_mtime < first or size > (rules.keep_bytes or math.inf)
        (old if is_old and number != last else kept).append(row)
    return old, kept[::-1]


def _row(clip: Clip) -> dict[str, str]:
    return {
        "file": clip.path.name,
        "start": f"{clip.start:.3f}",
        "end": f"{clip.end:.3f}",
        "start_time": clock_text(clip.start),
        "end_time": clock_text(clip.end),
        "peak_share": f"{clip.peak_share:.6f}",
        "began": clip.began.isoformat(timespec="seconds") if clip.began else "",
        "source": csv_cell(clip.source),
        "source_time": clock_text(clip.source_start),
        "thumbnail": clip.thumbnail.name if clip.thumbnail else "",
    }


_NO_PICTURE = np.empty((0, 0), np.uint8)


class PreRoll:
    """Stores the frames before an event as JPEG (quality 95), a tenth of their size; `memory` is in bytes."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._stored: deque[tuple[Frame, float, bytes]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._stored)

    @property
    def is_full(self) -> bool:
        """Whether the pictures take more than `memory`."""
        return self._bytes > self._memory

    def put(self, frame: Frame, time: float, picture: np.ndarray | None) -> None:
        """Append a frame and its picture, (h, w) or (h, w, 3) uint8, or None if clips are copied."""
        data = b"" if picture is None else jpeg_of(picture)
        self._stored.append((replace(frame, image=_NO_PICTURE), time, data))
        self._bytes += len(data)

    def forget_before(self, time: float) -> None:
        """Remove older frames."""
        while self._stored and self._stored[0][1] < time:
            self._bytes -= len(self._stored.popleft()[2])

    def pop(self) -> tuple[Frame, float, np.ndarray | None]:
        """Remove the oldest frame; return it without its image, its time and its picture."""
        frame, time, data = self._stored.popleft()
        self._bytes -= len(data)
        return frame, time, cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED) if data else None


logger = logging.getLogger("bgsub")

MakeSink = Callable[[Path, str, Fraction], Sink]

_MEMORY = 256 << 20
_MOST_CLIPS = 1000  # in memory


class RecorderSink(Sink):
    """Records a clip of each motion event, with some time before and after it.

    The feed decides what a motion event is. If possible, clips are copied from the source files without encoding, with
    sound and from the keyframe before. Otherwise they are encoded with the times of the source. A complete clip
    appears with a picture of its peak, ``NAME.jpg``, and a line in ``clips.csv``: file, start and end in seconds and as
    HH:MM:SS, peak share, date and time (cameras), source file and time in it, thumbnail. Existing clips are never
    replaced. `Event.clip` is set when the clip is complete.

    Parameters
    ----------
    folder : str or path
        Created if missing.
    rules : ClipRules, optional
        Time around motion events, and files.
    feed : EventFeed, optional
        Shared with other sinks; by default the sink creates one.
    source : str
        Name of the source, the first part of the file names.
    fps : float or Fraction, optional
        Frames per second for frames without time; 25 if unknown.
    files : sequence of FilePart
        Files of the source, see `FrameSource.files`.
    copy : bool
        Whether clips can be copied from them, see `FrameSource.is_copyable`.
    audio_from : path, optional
        File with the sound of encoded clips; `Frame.time` is its time after the first picture.
    make_sink : callable, optional
        Called with path, view and frame rate of each clip; by default packets are copied if possible, or a
        `VideoSink` is used.
    memory : int
        Most bytes of compressed frames that may become part of a clip.

    Attributes
    ----------
    clips : deque of Clip
        The newest complete clips, at most 1000.
    count : int
        Number of complete clips.
    claims : list of Path
        Paths that no other run may write; other clips may be written into the same folder.

    Raises
    ------
    ParameterError
        If a parameter is invalid.
    SinkError
        If the folder or a clip cannot be written.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.events import ClipRules, RecorderSink
    >>> recorder = RecorderSink("clips", ClipRules(pre_roll=0.5), fps=25)
    >>> summary = bgsub.process_video("video.mp4", recorder)
    >>> open("clips/clips.csv").readline().split(",")[:2]
    ['file', 'start']
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        rules: ClipRules | None = None,
        *,
        feed: EventFeed | None = None,
        source: str = "video",
        fps: float | Fraction | None = None,
        files: Sequence[FilePart] = (),
        copy: bool = False,
        audio_from: Path | None = None,
        make_sink: MakeSink | None = None,
        memory: int = _MEMORY,
    ) -> None:
        self.folder = Path(folder)
        self.clips: deque[Clip] = deque(maxlen=_MOST_CLIPS)
        self.count = 0
        self._rules = rules or ClipRules()
        self._feed = feed or EventFeed(ObjectLinker(None if fps is None else float(fps)), follow=self._rules.drawn)
        ending = ending_of_copy(files[0].path) if copy and make_sink is None and not self._rules.drawn else None
        self._copies = ending is not None
        encode = partial(VideoSink, audio_from=audio_from)
        self._make_sink = make_sink or ((lambda path, *_: CopySink(path, files)) if self._copies else encode)
        self._names = ClipNames(self.folder, source, ending or ".mp4")
        self.claims = [self._names.claim]
        self._fps = Fraction(fps).limit_denominator(1001) if fps else DEFAULT_FPS
        self._source, self._files = source, files
        self._max_duration = self._rules.max_duration or math.inf
        self._outlines = OutlineCache(self._feed, self._feed.linker.regions)
        self._held, self._warned = PreRoll(memory), False
        self._until = -math.inf  # end of the recording after the newest event
        self._lasting: list[Event] = []  # the event that lasts
        self._growing: _GrowingClip | None = None
        self._most = 0.0  # largest share that was too small for motion
        self._done = False
        prepare_folder(self.folder)

    def write(self, frame: Frame, separation: Separation) -> None:
        step = self._feed.step(frame, separation)
        motion, now = step.motion, step.clock
        keep_from = (now if motion.since is None else motion.since) - self._rules.pre_roll - CLOSE
        if self._growing is not None and now > self._until and keep_from > self._growing.clip.end:
            self._finish_clip()  # the next one would begin after its end
        if motion.until is not None:
            self._until = motion.until + self._rules.post_roll + CLOSE
        if not motion.moving and separation.phase == "tracking" and separation.event is None:
            self._most = max(self._most, motion.share)
        self._lasting = motion.begun or ([] if motion.ended else self._lasting)
        picture = None if self._copies else to_uint8(separation.frame)
        picture = to_bgr8(picture) if picture is not None and (picture.ndim == 3 or self._rules.drawn) else picture
        if self._rules.drawn and picture is not None:
            picture = annotate(step, self._outlines.of(separation.mask.shape), picture)
        if now > self._until:
            self._hold(frame, now, picture, keep_from)
            return
        self._held.forget_before(keep_from if self._growing is None else self._growing.clip.end)
        while self._held:
            self._record(*self._held.pop())
        self._record(frame, now, picture).see(separation, motion, self._lasting)

    def close(self) -> None:
        self._finish_clip()
        if self._done:
            return
        self._done = True
        add_to_list(self.folder, rules=self._rules)
        if not self.clips and self._most:
            logger.warning(
                "no clip: at most %.2g %% of %s was foreground, less than the motion threshold",
                100 * self._most,
                "a region" if self._feed.regions.names else "a frame",
            )

    def abort(self) -> None:
        growing, self._growing, self._done = self._growing, None, True
        if growing is not None:
            growing.sink.abort()

    def checkpoint(self) -> dict[str, Any]:
        raise SinkError("recordings of motion cannot be resumed")

    def _hold(self, frame: Frame, now: float, picture: np.ndarray | None, keep_from: float) -> None:
        """Store a frame that may become part of the next clip, or of the current one."""
        self._held.put(frame, now, picture)
        if self._growing is None:
            self._held.forget_before(keep_from)
        while self._held.is_full:
            oldest = self._held.pop()
            if self._growing is not None:
                self._record(*oldest)
            elif not self._warned:
                self._warned = True
                logger.warning("the frames before events exceed the memory limit: clips begin later")

    def _record(self, frame: Frame, now: float, picture: np.ndarray | None) -> _GrowingClip:
        if self._growing is not None and now - self._growing.clip.start >= self._max_duration - CLOSE:
            self._finish_clip()
        if self._growing is None:
            clip = Clip(self._names.next(frame.arrived), now, now, began=frame.arrived)
            sink = self._make_sink(clip.path, "background", self._fps)
            self._growing = _GrowingClip(clip, sink)
        self._growing.sink.write(frame, as_separation(_NO_PICTURE if picture is None else picture))
        self._growing.clip.end = now
        return self._growing

    def _finish_clip(self) -> None:
        growing, self._growing = self._growing, None
        if growing is None:
            return
        try:
            growing.sink.close()
        except BaseException:
            growing.sink.abort()
            raise
        clip = growing.clip
        keyframe = getattr(growing.sink, "start", None)  # of a copy
        clip.start = clip.start if keyframe is None else keyframe
        clip.source, begin = part_at(self._files, clip.start, self._source)
        clip.source_start = clip.start - begin
        clip.events = tuple(growing.events)
        if growing.jpeg:
            clip.thumbnail = clip.path.with_suffix(".jpg")
            write_whole(clip.thumbnail, growing.jpeg)
        add_to_list(self.folder, clip, self._rules)
        for event in growing.events.values():
            event.clip = event.clip or str(clip.path)
            event.picture = event.picture or (str(clip.thumbnail) if clip.thumbnail else None)
        self.clips.append(clip)
        self.count += 1
        logger.info("recorded %s: %.1f s, %.1f %% in motion", clip.path, clip.end - clip.start, 100 * clip.peak_share)


class _GrowingClip:
    """A clip that is being written."""

    def __init__(self, clip: Clip, sink: Sink) -> None:
        self.clip, self.sink = clip, sink
        self.jpeg, self._shown = b"", 0.0  # picture of the largest share, and the share
        self.events: dict[int, Event] = {}

    def see(self, separation: Separation, motion: Motion, lasting: list[Event]) -> None:
        """Add the event that lasts; keep the frame with the most motion as thumbnail."""
        self.events.update({event.id: event for event in lasting})
        share = motion.share if motion.moving else 0.0
        # Earlier frames of an event that has become certain count as well.
        shares = [event.peak_share for event in motion.begun]
        self.clip.peak_share = max(self.clip.peak_share, share, *shares)
        if share > self._shown or not self.jpeg:
            self._shown, self.jpeg = share, jpeg_of(shrunk(to_bgr8(separation.frame), THUMBNAIL))
