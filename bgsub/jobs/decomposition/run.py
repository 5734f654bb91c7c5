"""A decomposition from an input file to output files."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.errors import OutputError, ParameterError, SinkError, SourceError
from bgsub.jobs.decomposition.frames import read_frame_masks, read_frames
from bgsub.jobs.decomposition.matrices import is_matrix, read_matrix, read_matrix_mask
from bgsub.jobs.decomposition.samples import Decomposition, FrameSamples, Samples, Tell
from bgsub.jobs.decomposition.writing import (
    Target,
    arrays_target,
    frame_targets,
    matrix_targets,
    output_folder,
    plot_target,
)
from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.estimator import RobustPCA
from bgsub.robust_pca.noise import EFFICIENT
from bgsub.robust_pca.parameters import PAPER
from bgsub.storage.durable_io import as_sink_error
from bgsub.video.output_names import VIDEO_ENDINGS
from bgsub.video.sources.base import FrameSource, logger
from bgsub.video.sources.camera import is_camera
from bgsub.video.sources.opening import open_source

Watch = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]

_GREY_LEVEL = 1 / 255
_DEVIATIONS = 3.0
_FLOOR = 1e-3  # of the size of the low-rank part: the least threshold of an outlier in data without noise


def _unwatched(_name: str, _length: int | None) -> AbstractContextManager[Callable[[int], None]]:
    return nullcontext(lambda _iteration: None)


@dataclass(frozen=True)
class DecompositionJob:
    """The input of a decomposition, its parameters and its outputs.

    Attributes
    ----------
    source : str
        A video file, a folder or pattern of images, or a file ``.npy``, ``.npz`` or ``.mat``. An array of more than two
        dimensions has its samples along the first.
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
        Frames: convert colour to grey.
    format : {"auto", "video", "images"}
        Frames: type of the outputs; "auto" writes images for images and video for video.
    sparse_picture : {"absolute", "offset"}
        Images of the sparse part show its absolute value, or half of it above mid-grey, with its sign.
    key : str, optional
        Matrix: name of the array in a file of several.
    columns : bool
        Matrix: its columns are the samples, not its rows.
    float32 : bool
        Matrix: compute in single precision, as for float32 and float16 input.
    observed : Path, optional
        Mask, 0 where an entry is missing: an array (``.npy``, ``.npz``, ``.mat``) in the shape of the matrix; for
        frames an array or images, one for all or one for each.
    observed_key : str, optional
        Name of the mask in a file of several arrays.
    save_arrays, plot : bool
        Also write ``decomposition.npz`` and ``decomposition.png``.
    overwrite : bool
        Replace existing results.

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
    """The result of a decomposition.

    Attributes
    ----------
    name : str
        Name of the input in messages.
    description : str
        Number and size of the samples in words.
    samples, features : int
        Shape of the matrix.
    parts : Decomposition
        The parts themselves.
    seconds : float
        Total time, with reading and writing.
    skipped : int
        Unreadable frames.
    outputs : list of Path
        The files and folders.
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
        """Return the result for JSON."""
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
    """Read the input, split it, and write all parts or none.

    Parameters
    ----------
    job : DecompositionJob
        Input, parameters and outputs.
    watch : callable, optional
        Called with the name of the input and the number of steps, here None; returns a context manager, such as a
        progress bar, whose value is called with the number of each finished step.
    tell : callable
        Called with a sentence about the memory before it is used.

    Returns
    -------
    DecompositionResult
        Both parts, the summary and the paths of the outputs.

    Raises
    ------
    SourceError, ParameterError, SinkError, DependencyError
        For wrong input, before anything is written.
    OutputError
        If the outputs cannot be written.

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


def decompose(
    samples: Samples,
    rank: int | None = None,
    *,
    callback: Callable[[Any], bool | None] | None = None,
    **parameters: Any,
) -> Decomposition:
    """Split samples into a low-rank and a sparse part with `bgsub.RobustPCA`; parameters and errors as there."""
    # mu of 8-bit frames ends at one grey level: in compressed video most pixels stay equal, so a fit finds no noise
    parameters = _last_mu(samples, parameters) | parameters
    model = RobustPCA(rank, callback=callback, **parameters).fit(samples.X, observed=samples.observed)
    return Decomposition(
        model.low_rank_,
        model.sparse_,
        model.components_,
        model.coefficients_,
        model.singular_values_,
        model.n_iter_,
        *_outliers(samples, model),
    )


def _last_mu(samples: Samples, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the last mu for frames of 8 bits, nothing if the parameters determine mu."""
    given = parameters.get("quality") == PAPER or {"mu_start", "mu_end"} & parameters.keys()
    if given or not isinstance(samples, FrameSamples) or samples.format.dtype != "uint8":
        return {}
    cost = Surrogate(parameters.get("surrogate", "log"), 1.0)
    return {"mu_end": cost.at_scale(EFFICIENT * _GREY_LEVEL).mu}


def _outliers(samples: Samples, model: RobustPCA) -> tuple[float, float]:
    """Return the deviation from which an entry is an outlier, and the share of outliers among the observed entries."""
    size = float(np.linalg.norm(model.singular_values_)) / np.sqrt(samples.X.size)
    unit = 1.0 if isinstance(samples, FrameSamples) else size
    threshold = max(_DEVIATIONS * model.noise_scale_, _FLOOR * unit)
    count = total = 0
    for i, row in enumerate(model.sparse_):
        known = ~np.isnan(samples.X[i])
        if samples.observed is not None:
            known &= samples.observed[i]
        count += int(np.count_nonzero(known & (np.abs(row) > threshold)))
        total += int(np.count_nonzero(known))
    return threshold, count / max(total, 1)


_Done = tuple[Samples, Decomposition, list[Path], int]


def _run_matrix(job: DecompositionJob, watch: Watch, tell: Tell) -> _Done:
    path = Path(job.source)
    targets = _with_extras(matrix_targets(path.suffix.lower()), job)
    with output_folder(job.output, targets, path, job.overwrite) as folder:
        samples = read_matrix(
            job.source, key=job.key, columns=job.columns, float32=job.float32, rank=job.rank, tell=tell
        )
        if job.observed is not None:
            samples.observed = read_matrix_mask(job.observed, samples, job.observed_key)
        parts = _fit_and_write(samples, job, watch, targets, folder)
    return samples, parts, [job.output / target.name for target in targets], 0


def _run_frames(job: DecompositionJob, watch: Watch, tell: Tell) -> _Done:
    with _open(job) as source:
        as_images = job.format == "images" or (job.format == "auto" and source.numbered)
        targets = _with_extras(frame_targets(as_images, job.sparse_picture), job)
        with output_folder(job.output, targets, source.path, job.overwrite) as folder:
            samples = read_frames(source, scale=job.scale, grey=job.grey, rank=job.rank, tell=tell)
            if job.observed is not None:
                samples.observed = read_frame_masks(job.observed, samples, job.observed_key, job.scale)
            parts = _fit_and_write(samples, job, watch, targets, folder)
        return samples, parts, [job.output / target.name for target in targets], source.skipped


def _open(job: DecompositionJob) -> FrameSource:
    """Open a source of frames that has an end."""
    path = Path(job.source)
    if is_camera(job.source):
        raise ParameterError(f"the input of a decomposition must be a file or images, got the camera '{job.source}'")
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


def _fit_and_write(
    samples: Samples, job: DecompositionJob, watch: Watch, targets: list[Target], folder: Path
) -> Decomposition:
    """Write the parts of samples into a folder; errors name the final path of a target."""
    with watch(samples.name, None) as told:  # the number of steps is not known before
        parts = decompose(samples, job.rank, callback=lambda progress: told(progress.iteration), **job.parameters)
    for target in targets:
        try:
            with as_sink_error(folder / target.name):
                target.write(folder / target.name, samples, parts)
        except SinkError as error:
            raise OutputError(str(error).replace(str(folder), str(job.output))) from error
    return parts
