"""A decomposition from a file to files."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bgsub.errors import OutputError, ParameterError, SinkError, SourceError
from bgsub.jobs.decomposition.fitting import Decomposition, decompose
from bgsub.jobs.decomposition.matrices import is_matrix, read_matrix
from bgsub.jobs.decomposition.memory import Tell
from bgsub.jobs.decomposition.observed import read_frame_masks, read_matrix_mask
from bgsub.jobs.decomposition.publishing import output_folder
from bgsub.jobs.decomposition.samples import Samples
from bgsub.jobs.decomposition.stack import read_frames
from bgsub.jobs.decomposition.writing import Target, arrays_target, frame_targets, matrix_targets, plot_target
from bgsub.storage.durable_io import as_sink_error
from bgsub.video.output_names import VIDEO_ENDINGS
from bgsub.video.sources.base import FrameSource, logger
from bgsub.video.sources.camera import is_camera
from bgsub.video.sources.opening import open_source

Watch = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]


def _unwatched(_name: str, _length: int | None) -> AbstractContextManager[Callable[[int], None]]:
    return nullcontext(lambda _iteration: None)


@dataclass(frozen=True)
class DecompositionJob:
    """What to decompose, how, and where to.

    Attributes
    ----------
    source : str
        A video file, a folder or pattern of images, or a file ``.npy``, ``.npz`` or ``.mat``.
    output : Path
        Folder for the results.
    rank : int, optional
        Dimension of the subspace; by default 3, fewer for fewer than 12 samples.
    parameters : mapping
        Others of `bgsub.RobustPCA`.
    open_options : mapping
        More arguments of `bgsub.open_source`, such as ``start`` and ``on_error``.
    scale : float
        Frames: reduce height and width by this factor, in (0, 1].
    grey : bool
        Frames: take the intensity of colour frames.
    format : {"auto", "video", "images"}
        Kind of the outputs for frames; auto makes images of images and video of video.
    sparse_picture : {"absolute", "offset"}
        Pictures of the sparse part show its absolute value, or its sign around mid-grey.
    key : str, optional
        Matrix: name of the array, where the file holds several.
    columns : bool
        Matrix: its columns are the samples, not its rows.
    float32 : bool
        Matrix: compute in single precision; float32 and float16 do so always.
    observed : Path, optional
        0 where an entry is missing: an array (``.npy``, ``.npz``, ``.mat``) in the shape of the matrix; for frames an
        array or images, one for all or one for each.
    observed_key : str, optional
        Name of the array in that file, where it holds several.
    save_arrays, plot : bool
        Write ``decomposition.npz`` and ``decomposition.png`` as well.
    overwrite : bool
        Replace results that exist.

    Examples
    --------
    >>> from pathlib import Path
    >>> from bgsub.jobs.decomposition import DecompositionJob
    >>> job = DecompositionJob("video.mp4", Path("parts"), open_options={"start": "1s"}, scale=0.5)
    """

    source: str
    output: Path
    rank: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    open_options: Mapping[str, Any] = field(default_factory=dict)
    scale: float = 1.0
    grey: bool = False
    format: str = "auto"
    sparse_picture: str = "absolute"
    key: str | None = None
    columns: bool = False
    float32: bool = False
    observed: Path | None = None
    observed_key: str | None = None
    save_arrays: bool = False
    plot: bool = False
    overwrite: bool = False


@dataclass(frozen=True)
class DecompositionResult:
    """What a decomposition did.

    Attributes
    ----------
    name : str
        What a message calls the input.
    description : str
        Number and size of the samples in words.
    samples, features : int
        Shape of the matrix.
    parts : Decomposition
        The result itself.
    seconds : float
        Time that it took, with reading and writing.
    skipped : int
        Frames that could not be read.
    outputs : list of Path
        What was written.
    """

    name: str
    description: str
    samples: int
    features: int
    parts: Decomposition
    seconds: float
    skipped: int
    outputs: list[Path]

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON can hold it."""
        parts = self.parts
        return {
            "source": self.name,
            "samples": self.samples,
            "features": self.features,
            "rank": len(parts.components),
            "iterations": parts.iterations,
            "outliers": parts.outliers,
            "threshold": parts.threshold,
            "singular_values": [float(value) for value in parts.singular_values],
            "seconds": round(self.seconds, 3),
            "skipped": self.skipped,
            "outputs": [str(path) for path in self.outputs],
        }


def run_decomposition(
    job: DecompositionJob, watch: Watch = _unwatched, *, tell: Tell = logger.info
) -> DecompositionResult:
    """Read the input, split it, and write its parts: all of them, or nothing.

    Parameters
    ----------
    job : DecompositionJob
        What to do.
    watch : callable, optional
        Called with the name of the input and the number of steps, None where it is not known; returns a context manager
        whose value is called with the number of each step when it is done, such as a progress bar.
    tell : callable
        Takes a sentence about the memory, before it is used.

    Returns
    -------
    DecompositionResult
        The parts, and where they are.

    Raises
    ------
    SourceError, ParameterError, SinkError, DependencyError
        For wrong input. Nothing has been written then.
    OutputError
        When the outputs cannot be written any more.

    Examples
    --------
    >>> from pathlib import Path
    >>> from bgsub.jobs.decomposition import DecompositionJob, run_decomposition
    >>> result = run_decomposition(DecompositionJob("matrix.npy", Path("parts"), rank=2))
    >>> result.samples, result.features, [path.name for path in result.outputs]
    (30, 40, ['low_rank.npy', 'sparse.npy'])
    """
    started = time.monotonic()
    samples, parts, outputs, skipped = (_run_matrix if is_matrix(job.source) else _run_frames)(job, watch, tell)
    n, m = samples.X.shape
    seconds = time.monotonic() - started
    return DecompositionResult(samples.name, samples.description, n, m, parts, seconds, skipped, outputs)


_Done = tuple[Samples, Decomposition, list[Path], int]


def _run_matrix(job: DecompositionJob, watch: Watch, tell: Tell) -> _Done:
    path = Path(job.source)
    targets = _with_extras(matrix_targets(path.suffix.lower()), job)
    with output_folder(job.output, targets, path, job.overwrite) as place:
        kind: dict[str, Any] = {"key": job.key, "columns": job.columns, "float32": job.float32}
        samples = read_matrix(job.source, **kind, rank=job.rank, tell=tell)
        if job.observed is not None:
            samples.observed = read_matrix_mask(job.observed, samples, job.observed_key)
        parts = _fit(samples, job, watch)
        _write(targets, place, job.output, samples, parts)
    return samples, parts, [job.output / target.name for target in targets], 0


def _run_frames(job: DecompositionJob, watch: Watch, tell: Tell) -> _Done:
    with _open(job) as source:
        as_images = job.format == "images" or (job.format == "auto" and source.numbered)
        targets = _with_extras(frame_targets(as_images, job.sparse_picture), job)
        with output_folder(job.output, targets, source.path, job.overwrite) as place:
            samples = read_frames(source, scale=job.scale, grey=job.grey, rank=job.rank, tell=tell)
            if job.observed is not None:
                samples.observed = read_frame_masks(job.observed, samples, job.observed_key, job.scale)
            parts = _fit(samples, job, watch)
            _write(targets, place, job.output, samples, parts)
        return samples, parts, [job.output / target.name for target in targets], source.skipped


def _open(job: DecompositionJob) -> FrameSource:
    """Open the source of frames; whatever has an end and is no file of arrays."""
    path = Path(job.source)
    if is_camera(job.source):
        raise ParameterError(f"a decomposition takes what has an end, a file or images, got the camera '{job.source}'")
    try:
        return open_source(job.source, **job.open_options)
    except SourceError as error:
        known = (*VIDEO_ENDINGS, ".mpg", ".mpeg", ".wmv", ".ts", ".gif", ".y4m")
        if not path.is_file() or path.suffix.lower() in known:
            raise
        raise SourceError(f"an input is a video, images, .npy, .npz or .mat; {error}") from None


def _with_extras(targets: list[Target], job: DecompositionJob) -> list[Target]:
    if job.save_arrays and not any(target.name.endswith(".npz") for target in targets):
        targets = [*targets, arrays_target()]
    return [*targets, plot_target()] if job.plot else targets


def _fit(samples: Samples, job: DecompositionJob, watch: Watch) -> Decomposition:
    with watch(samples.name, None) as told:  # how many steps a fit takes shows at its end
        return decompose(samples, job.rank, callback=lambda progress: told(progress.iteration), **job.parameters)


def _write(targets: list[Target], place: Path, output: Path, samples: Samples, parts: Decomposition) -> None:
    """Write the targets into a folder; errors name them where they are to be in the end."""
    for target in targets:
        try:
            with as_sink_error(place / target.name):
                target.write(place / target.name, samples, parts)
        except SinkError as error:
            raise OutputError(str(error).replace(str(place), str(output))) from error
