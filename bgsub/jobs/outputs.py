"""The outputs of a job: views, clips, events, and notifications."""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from bgsub.errors import ParameterError, SinkError
from bgsub.events.annotation import AnnotatingSink
from bgsub.events.clips import ClipRules
from bgsub.events.feed import EventFeed
from bgsub.events.linking import ObjectLinker
from bgsub.events.motion import MotionRules
from bgsub.events.notifications.destinations import CommandNotifier, WebhookNotifier
from bgsub.events.notifications.sink import NotificationSink
from bgsub.events.pictures import ObjectPictureSink, remove_pictures
from bgsub.events.recorder import RecorderSink
from bgsub.events.summary_page import SummarySink
from bgsub.events.tables import FORMATS, EventSink, MotionListSink
from bgsub.jobs.checkpoints import FILE, FOLDER
from bgsub.jobs.job import Job
from bgsub.storage.durable_io import partial_name, remove_partials, unlink
from bgsub.storage.file_lock import Claims
from bgsub.video.output_names import ANNOTATED, EVENT_FORMATS, STILL, expand_name, parse_outputs, safe_name
from bgsub.video.regions import Regions
from bgsub.video.sinks.base import Sink, abort_on_error
from bgsub.video.sinks.create import create_sinks, label_of
from bgsub.video.sources.base import FrameSource
from bgsub.video.sources.pipes import STANDARD

_ENCODER = 160  # bytes per pixel; measured, with a panel


def make_sinks(
    job: Job, source: FrameSource, feed: EventFeed | None, claims: Claims, overwrite: bool, started: datetime
) -> list[Sink]:
    """Return the sinks of a job that started at `started`, and claim their outputs; abort all if one cannot be made."""
    if os.fspath(job.output) == STANDARD and (job.event_formats or not job.save):
        raise ParameterError("standard output takes the frames of one view (--save), no event files")
    sinks: list[Sink] = []
    own, label = feed is None, label_of(source)
    feed = feed or make_feed(job, source)
    if job.save:
        drawn = ANNOTATED if job.boxes else ("boxes",)

        def wrap(sink: Sink, view: str) -> Sink:
            return AnnotatingSink(sink, feed) if view in drawn else sink

        options: dict[str, Any] = {"started": started, "wrap": wrap, "claim": claims.take}
        sinks += create_sinks(job.output, job.save, source, overwrite=overwrite, name=job.name, **options)
    with abort_on_error(sinks):
        for folder, name in ((job.record, label), (job.snapshots, f"{label}-snapshot")):
            if folder is not None:
                claims.take(folder / safe_name(name))  # before it is made, as the last claim removes an empty new one
        if job.record is not None:  # before the events, which refer to its clips
            audio = source.path if source.has_audio and not source.is_retimed else None
            of_source: dict[str, Any] = {"fps": source.fps, "files": source.files, "copy": source.is_copyable}
            rules = ClipRules(**job.recording)
            sinks.append(RecorderSink(job.record, rules, feed=feed, source=label, audio_from=audio, **of_source))
        taken = {target: "another output" for sink in sinks for target in targets_of(sink)}

        def place(name: str) -> Path:
            stem, dot, ending = name.partition(".")
            path = expand_name(job.name, view=stem, source=label, started=started)
            return job.output / path.with_name(f"{path.name}{dot}{ending}")

        def locate(name: str) -> Path:
            target = place(name)
            if (other := taken.setdefault(target, name)) != name:
                raise ParameterError(f"{other} and {name} would both be '{target}': the name needs the field {{view}}")
            claims.take(target)
            if target.exists() and not overwrite:
                raise SinkError(f"the output '{target}' exists already; --overwrite replaces it")
            return target

        sinks += create_event_sinks(job.event_formats, source, feed, locate)
        if job.on_event or job.webhook or job.snapshots is not None:
            missing = [name for name, folder in (("snapshot", job.snapshots), ("clip", job.record)) if folder is None]
            commands = [CommandNotifier(command, missing=missing) for command in job.on_event]
            destinations = [*commands, *map(WebhookNotifier, job.webhook)]
            more: dict[str, Any] = {"snapshots": job.snapshots, "clips": job.record is not None}
            sinks.append(NotificationSink(feed, destinations, source=label, **more))
        if job.list_motion or job.max_events is not None:
            sinks.append(MotionListSink(feed, label, source.files, job.max_events))
        _check_model(job, source, sinks, overwrite, claims)
    names = (*EVENT_FORMATS.values(), "regions.csv") if job.overwrite and job.event_formats else ()
    old = {place(name) for name in names if "{view}" in job.name}.difference(taken)
    claims.push(lambda error, *_: None if error else _remove_leftovers(job, sinks, old, claims))
    # Clips alone need no objects, whose tracking takes most of the time, unless they are drawn.
    only_motion = all(isinstance(sink, (RecorderSink, MotionListSink)) for sink in sinks)
    feed.follow = not own or not only_motion or job.recording.get("drawn", False)
    return sinks


def make_feed(job: Job, source: FrameSource) -> EventFeed:
    """Return the event feed for all sinks of a job."""
    return EventFeed(ObjectLinker(source.fps, regions=Regions.of(job.roi), **job.objects), MotionRules(**job.motion))


def create_event_sinks(
    formats: Sequence[str], source: FrameSource, feed: EventFeed, locate: Callable[[str], Path]
) -> list[Sink]:
    """Return the sinks of `formats`, some of `EVENT_FORMATS`; `locate` returns the path from a name."""
    sinks: list[Sink] = []
    if "pictures" in formats:  # before the events, which refer to them
        sinks.append(ObjectPictureSink(locate(EVENT_FORMATS["pictures"]), feed))
    if lists := [name for name in formats if name in FORMATS]:
        sinks.append(EventSink("", lists, feed=feed, locate=locate))
    if "html" in formats:
        title = source.name if source.path is None else source.path.name
        sinks.append(SummarySink(locate(EVENT_FORMATS["html"]), title, feed=feed))
    return sinks


def _remove_leftovers(job: Job, sinks: Sequence[Sink], old_events: Iterable[Path], claims: Claims) -> None:
    """Remove partial files of the outputs, and event files of an earlier run, except those that another run needs."""
    checkpoint = job.output / FOLDER / FILE
    if job.overwrite or not checkpoint.exists():
        for target in filter(Path.is_file, all_targets(sinks, job.save_model)):
            if partial_name(target).exists():
                unlink(checkpoint)  # its run could not go on, and would start over
            remove_partials(target)
    for target in old_events:
        with suppress(SinkError, OSError):
            claims.take(target)
            remove_partials(target)
            if target.is_file():
                unlink(target)
            for folder in (partial_name(target), target):
                if folder.is_dir():
                    remove_pictures(folder)
                    folder.rmdir()


def encoder_memory(job: Job, source: FrameSource) -> int:
    """Return the bytes that the encoders of the outputs of a job take at most; those of masks take few."""
    saved = parse_outputs(job.save) if job.save and not source.numbered else []
    videos = sum(spec.view not in ("mask", STILL) for spec in saved)
    return _ENCODER * (videos + (job.record is not None)) * math.prod(source.size)


def targets_of(sink: Sink) -> list[Path]:
    """Return the files, or the folder, of a sink."""
    paths: list[Path] | None = getattr(sink, "paths", None)
    target: Path | None = getattr(sink, "path", None) or getattr(sink, "folder", None)
    return list(paths) if paths else [] if target is None else [target]


def all_targets(sinks: Sequence[Sink], save_model: Path | None) -> list[Path]:
    """Return the files and folders of all sinks, and the model."""
    targets = [target for sink in sinks for target in targets_of(sink)]
    return targets if save_model is None else [*targets, save_model]


def take_all(claims: Claims, sinks: Sequence[Sink]) -> None:
    """Claim the outputs of the sinks, or their `claims`; SinkError if another run writes one of them."""
    for sink in sinks:
        own: list[Path] | None = getattr(sink, "claims", None)
        for target in targets_of(sink) if own is None else own:
            claims.take(target)


def _check_model(job: Job, source: FrameSource, sinks: Sequence[Sink], overwrite: bool, claims: Claims) -> None:
    """Raise an error if the saved model would replace the input, an output, or any file but the loaded model."""
    saved = job.save_model
    if saved is None:
        return
    if saved.resolve() in {path.resolve() for path in source.paths}:
        raise ParameterError(f"the model cannot be saved as '{saved}': that is the input itself")
    if saved.resolve() in {target.resolve() for sink in sinks for target in targets_of(sink)}:
        raise ParameterError(f"the model and an output would both be '{saved}'")
    claims.take(saved)
    is_loaded = job.model is not None and job.model.resolve() == saved.resolve()
    if saved.exists() and not (overwrite or is_loaded):
        raise SinkError(f"the model '{saved}' exists already; --overwrite replaces it, --model continues it")
