"""Create the sinks for a list of outputs."""

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from bgsub.errors import ParameterError, SinkError, logger
from bgsub.storage.durable_io import AnyPath, partial_name, playable_name
from bgsub.video.output_names import DEFAULT_NAME, OutputSpec, expand_name, parse_outputs
from bgsub.video.sinks.base import Sink, prepare_folder
from bgsub.video.sinks.images import ArraySink, ImageSequenceSink, StillSink, default_prefix
from bgsub.video.sinks.video import VideoSink, standard_output_sink
from bgsub.video.sources.base import FrameSource
from bgsub.video.sources.pipes import STANDARD

# Views with sound: pictures of the scene.
_WITH_SOUND = frozenset({"foreground", "cutout", "overlay", "contours", "panel", "boxes"})
_DEFAULT_VIDEO = {"mask": ".mkv", "cutout": ".mov"}


class _Output(NamedTuple):
    """One output and its file, or folder of images."""

    spec: OutputSpec
    target: Path
    pattern: str  # of the names of images in the folder; empty for a file

    @property
    def exists(self) -> bool:
        """Whether the output exists already."""
        is_folder = self.pattern and self.target.is_dir()
        return any(self.target.glob(self.pattern)) if is_folder else self.target.exists()


def create_sinks(
    output_folder: AnyPath,
    outputs: Sequence[str],
    source: FrameSource,
    overwrite: bool = True,
    name: str = DEFAULT_NAME,
    *,
    started: datetime | None = None,
    wrap: Callable[[Sink, str], Sink] | None = None,
    claim: Callable[[Path], None] = lambda _target: None,
) -> list[Sink]:
    """Create outputs: ``OUT/mask.mkv``, ``OUT/panel.mp4``, or ``OUT/mask/bin000123.png``; return their sinks in order.

    Videos have the sound of the source, except for masks, backgrounds and residuals.

    Parameters
    ----------
    output_folder : str or path
        Created if missing; ``"-"`` is standard output, for one view as Matroska, without the other options.
    outputs : sequence of str
        Each a view out of `VIEWS`, alone or with an ending (``mask``, ``panel.mp4``, ``cutout.png``, ``mask.npz``),
        or ``background-image``, one still picture. Without an ending, numbered sources give images, others videos.
    source : FrameSource
        Source of the frames: gives the frame rate, the sound, and whether frames are numbered.
    overwrite : bool
        Replace existing outputs: files at the end, images one by one; at the end, remove images of an older run.
    name : str
        Template of the names without ending, with the fields ``{view}``, ``{source}``, ``{date}``, ``{time}``.
    started : datetime, optional
        Start of the run for ``{date}`` and ``{time}``; by default now. A resumed run needs the same start.
    wrap : callable, optional
        Called with each sink and its view; returns the sink to use instead.
    claim : callable
        Called with each file, or folder of images, before the check for existing outputs.

    Raises
    ------
    ParameterError
        If an output or the name is not allowed, or two outputs would get the same name.
    SinkError
        If the folder cannot be written, or an output exists and may not be replaced or is the input itself.

    Examples
    --------
    >>> from pathlib import Path
    >>> import bgsub
    >>> from bgsub.video import create_sinks
    >>> source = bgsub.open_source("video.mp4")
    >>> sinks = create_sinks("out", ["mask.npz", "background-image"], source)
    >>> bgsub.process_video(source, sinks).frames
    60
    >>> sorted(path.name for path in Path("out").iterdir())
    ['background-image.png', 'mask.npz']
    """
    if os.fspath(output_folder) == STANDARD:
        sink, view = standard_output_sink(outputs, source)
        return [sink if wrap is None else wrap(sink, view)]
    folder = Path(output_folder)
    started = started or datetime.now()
    label = label_of(source)
    named: list[_Output] = []
    for given in parse_outputs(outputs):
        default = ".png" if source.numbered else _DEFAULT_VIDEO.get(given.view, ".mp4")
        spec = OutputSpec(given.view, given.ending or default)
        if spec in [output.spec for output in named]:
            continue
        path = expand_name(name, view=spec.view, source=label, started=started)
        ending, pattern = spec.ending, ""
        if spec.kind == "images":
            ending, pattern = "", f"{default_prefix(spec.view)}*{spec.ending}"
        named.append(_Output(spec, folder / path.with_name(f"{path.name}{ending}"), pattern))
        if spec.view == "mask" and spec.kind == "video" and spec.ending != ".mkv":
            logger.warning("mask%s is compressed with loss, to any value from 0 to 255; mask.mkv is exact", spec.ending)
    taken: dict[tuple[Path, str], _Output] = {}
    for output in named:
        if (other := taken.setdefault((output.target, output.pattern), output)) is not output:
            both = f"{other.spec} and {output.spec} would both be '{output.target}'"
            raise ParameterError(f"{both}: the name needs the field {{view}}")
    for output in named:
        _check_input(output, folder, source)
    for output in sorted(named, key=lambda output: output.target):  # in one order, so that of two runs one succeeds
        claim(output.target)
        if output.exists and not overwrite:
            raise SinkError(f"the output '{output.target}' exists already; --overwrite replaces it")
    prepare_folder(folder)
    audio_from = _find_audio(named, source)
    sinks = [(_sink(output, source, overwrite, audio_from), output.spec.view) for output in named]
    return [sink if wrap is None else wrap(sink, view) for sink, view in sinks]


def label_of(source: FrameSource) -> str:
    """Return the name of a source for file names: file (of several, their common prefix), folder, or address."""
    if len(source.paths) > 1:
        stems = [path.stem for path in source.paths]
        common = os.path.commonprefix(stems)  # noqa: RUF071 - of names, not of paths
        return common.rstrip("0123456789").rstrip(" ._-") or stems[0]
    if source.path is None:
        address = source.name.partition("'")[2].rpartition("'")[0]
        return address.partition("://")[2].rstrip("/") or source.name
    path = source.path.resolve()
    return path.name if source.numbered else path.stem


def _check_input(output: _Output, folder: Path, source: FrameSource) -> None:
    target = output.target
    for path in source.paths:
        read = path.resolve()
        if target.resolve() == read:
            raise SinkError(f"the output '{target}' is the input itself")
        if any(name.resolve() == read for name in (playable_name(target), partial_name(target))):
            raise SinkError(f"the output '{target}' would grow under the name of the input, '{path}'")
        places = {"images": folder, "still": target.parent}
        if source.numbered and output.spec.kind in places and places[output.spec.kind].resolve() == read:
            raise SinkError(f"the images of {output.spec.view} would go into the folder that is read: '{path}'")


def _find_audio(named: Sequence[_Output], source: FrameSource) -> Path | None:
    """Return the file whose sound goes into the outputs; None, with a warning, if it cannot be used."""
    wanted = any(output.spec.kind == "video" and output.spec.view in _WITH_SOUND for output in named)
    if not (wanted and source.has_audio):
        return None
    if source.is_retimed:
        logger.warning("no sound of %s in the output: the given frame rate is not that of the file", source.name)
        return None
    if source.path is None:
        logger.warning("no sound in the output: %s are several files", source.name)
    return source.path


def _sink(output: _Output, source: FrameSource, overwrite: bool, audio_from: Path | None) -> Sink:
    spec, target = output.spec, output.target
    if spec.kind == "images":
        return ImageSequenceSink(target, spec.view, ending=spec.ending or ".png", clean=overwrite)
    if spec.kind == "array":
        return ArraySink(target, spec.view)
    if spec.kind == "still":
        return StillSink(target)
    return VideoSink(target, spec.view, source.fps, audio_from=audio_from if spec.view in _WITH_SOUND else None)
