"""The sink that records clips of motion events, and the frames before an event."""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import SinkError, logger, on_failure
from bgsub.events.annotation import annotate, outlines_of
from bgsub.events.clips import Clip, ClipNames, ClipRules, add_to_list, check_list
from bgsub.events.event import Event, Motion
from bgsub.events.feed import EventFeed
from bgsub.events.linking import ObjectLinker
from bgsub.numerics.memory import release_unused
from bgsub.separation import Separation
from bgsub.storage.durable_io import AnyPath, write_whole
from bgsub.video.sinks.base import Sink, prepare_folder
from bgsub.video.sinks.copying import CopySink, ending_of_copy
from bgsub.video.sinks.encoding import DEFAULT_FPS
from bgsub.video.sinks.video import VideoSink, as_separation
from bgsub.video.sources.base import FilePart, Frame, part_at
from bgsub.video.timecode import CLOSE
from bgsub.video.views import to_bgr8, to_uint8
from bgsub.video.web_page import THUMBNAIL, jpeg_of, shrunk

_NO_PICTURE = np.empty((0, 0), np.uint8)


class PreRoll:
    """Stores the frames before an event as JPEG (quality 95), a tenth of their size; `size` is in bytes."""

    def __init__(self) -> None:
        self.stored: deque[tuple[Frame, float, bytes]] = deque()
        self.size = 0

    def put(self, frame: Frame, time: float, picture: np.ndarray | None) -> None:
        """Append a frame and its picture, (h, w) or (h, w, 3) uint8, or None if clips are copied."""
        data = b"" if picture is None else jpeg_of(picture)
        self.stored.append((replace(frame, image=_NO_PICTURE), time, data))
        self.size += len(data)

    def forget_before(self, time: float) -> None:
        while self.stored and self.stored[0][1] < time:
            self.size -= len(self.stored.popleft()[2])

    def pop(self) -> tuple[Frame, float, np.ndarray | None]:
        """Remove the oldest frame; return it without its image, its time and its picture."""
        frame, time, data = self.stored.popleft()
        self.size -= len(data)
        return frame, time, cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED) if data else None


MakeSink = Callable[[Path, str, Fraction], Sink]

_MEMORY = 256 << 20
_MOST_CLIPS = 1000  # in memory


class _GrowingClip:
    def __init__(self, clip: Clip, sink: Sink) -> None:
        self.clip, self.sink = clip, sink
        self.jpeg, self._shown = b"", 0.0  # picture of the largest share, and the share
        self.events: dict[int, Event] = {}

    def see(self, separation: Separation, motion: Motion) -> None:
        """Keep the frame with the most motion as thumbnail."""
        share = motion.share if motion.moving else 0.0
        # Earlier frames of an event that has become certain count as well.
        shares = [event.peak_share for event in motion.begun]
        self.clip.peak_share = max(self.clip.peak_share, share, *shares)
        if share > self._shown or not self.jpeg:
            self._shown, self.jpeg = share, jpeg_of(shrunk(to_bgr8(separation.frame), THUMBNAIL))


class RecorderSink(Sink):
    """Records a clip of each motion event, with some time before and after it.

    The feed decides what a motion event is. If possible, clips are copied from the source files without encoding, with
    sound and from the keyframe before. Otherwise they are encoded with the times of the source. A complete clip
    appears with a picture of its peak, ``NAME.jpg``, and a line in ``clips.csv``. Existing clips are never replaced.
    `Event.clip` is set when the clip is complete.

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
        folder: AnyPath,
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
        self._feed = feed or EventFeed(ObjectLinker(fps), follow=self._rules.drawn)
        ending = ending_of_copy(files[0].path) if copy and make_sink is None and not self._rules.drawn else None
        self._copies = ending is not None
        encode = partial(VideoSink, audio_from=audio_from)
        self._make_sink = make_sink or ((lambda path, *_: CopySink(path, files)) if self._copies else encode)
        self._names = ClipNames(self.folder, source, ending or ".mp4")
        self.claims = [self._names.claim]
        self._fps = Fraction(fps).limit_denominator(1001) if fps else DEFAULT_FPS
        self._source, self._files = source, files
        self._max_duration = self._rules.max_duration or math.inf
        self._outlines = lru_cache(1)(outlines_of)
        self._held, self._memory, self._warned = PreRoll(), memory, False
        self._until = -math.inf  # end of the recording after the newest event
        self._recorded: list[Event] = []  # the newest event, or none
        self._growing: _GrowingClip | None = None
        self._most, self._moved = 0.0, False  # largest share of foreground, and whether any was enough
        prepare_folder(self.folder)
        check_list(self.folder)

    def write(self, frame: Frame, separation: Separation) -> None:
        step = self._feed.step(frame, separation)
        motion, now = step.motion, step.clock
        keep_from = (now if motion.since is None else motion.since) - self._rules.pre_roll - CLOSE
        if self._growing is not None and now > self._until and keep_from > self._growing.clip.end:
            self._finish_clip()  # the next one would begin after its end
        if motion.until is not None:
            self._until = motion.until + self._rules.post_roll + CLOSE
        if separation.phase == "tracking" and separation.event is None:
            self._most, self._moved = max(self._most, motion.share), self._moved or bool(motion.moving)
        self._recorded = motion.begun or self._recorded
        picture = None if self._copies else to_uint8(separation.frame)
        picture = to_bgr8(picture) if picture is not None and (picture.ndim == 3 or self._rules.drawn) else picture
        if self._rules.drawn and picture is not None:
            outlines = self._outlines(self._feed.linker.regions, separation.mask.shape)
            picture = annotate(step, outlines, picture)
        if now > self._until:
            self._hold(frame, now, picture, keep_from)
            return
        self._held.forget_before(keep_from if self._growing is None else self._growing.clip.end)
        while self._held.stored:
            earlier = self._held.pop()
            growing = self._record(*earlier)
            if motion.begun and motion.since is not None and earlier[1] >= motion.since:
                growing.see(separation, motion)
        self._record(frame, now, picture).see(separation, motion)

    def close(self) -> None:
        self._finish_clip()
        if self._done:
            return
        self._done = True
        add_to_list(self.folder, rules=self._rules)
        if not self.clips and self._moved:
            logger.warning("no clip: all motion was shorter than an event must be")
        elif not self.clips and self._most:
            place = "a region" if self._feed.regions.names else "a frame"
            message = "no clip: at most %.2g %% of %s was foreground, less than the motion threshold"
            logger.warning(message, 100 * self._most, place)

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
        while self._held.size > self._memory:
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
        self._growing.events.update({event.id: event for event in self._recorded})
        return self._growing

    def _finish_clip(self) -> None:
        growing, self._growing = self._growing, None
        if growing is None:
            return
        with on_failure(growing.sink.abort):
            growing.sink.close()
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
        release_unused()  # what the encoder took
        logger.info("recorded %s: %.1f s, %.1f %% in motion", clip.path, clip.end - clip.start, 100 * clip.peak_share)
