"""A decomposition from an input file to output files."""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bgsub.errors import OutputError, ParameterError, SinkError
from bgsub.jobs.decomposition.samples import FrameSamples, Samples, is_matrix, needed_memory, read_frames, read_matrix
from bgsub.jobs.decomposition.writing import ARRAYS, frame_targets, matrix_targets, output_folder
from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.estimator import RobustPCA
from bgsub.robust_pca.noise import EFFICIENT
from bgsub.robust_pca.parameters import PAPER, Callback
from bgsub.storage.durable_io import as_sink_error
from bgsub.video.sources.base import FrameSource
from bgsub.video.sources.camera_address import is_camera
from bgsub.video.sources.opening import open_source

Watch = Callable[[str, int, float | None], AbstractContextManager[Callback]]

_GREY_LEVEL = 1 / 255
_DEVIATIONS = 3.0
_FLOOR = 1e-3  # of the size of the low-rank part: the least threshold of an outlier in data without noise


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
    key : str, optional
        Matrix: name of the array in a file of several.
    columns : bool
        Matrix: its columns are the samples, not its rows.
    float32 : bool
        Matrix: compute in single precision, as for float32 and float16 input.
    save_arrays : bool
        Also write ``decomposition.npz``.
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
    key: str | None = None
    columns: bool = False
    float32: bool = False
    save_arrays: bool = False
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
    model : RobustPCA
        The fitted model, with both parts.
    threshold, outliers : float
        Deviation from which an entry counts as an outlier; share of the entries that are outliers.
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
    model: RobustPCA
    threshold: float
    outliers: float
    seconds: float
    skipped: int
    outputs: list[Path]

    def as_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return {
            "source": self.name,
            "samples": self.samples,
            "features": self.features,
            "rank": len(self.model.components_),
            "iterations": self.model.n_iter_,
            "outliers": self.outliers,
            "threshold": self.threshold,
            "singular_values": [float(value) for value in self.model.singular_values_],
            "seconds": round(self.seconds, 3),
            "skipped": self.skipped,
            "outputs": [str(path) for path in self.outputs],
        }


def run_decomposition(
    job: DecompositionJob, watch: Watch = lambda *_: nullcontext(lambda _progress: None)
) -> DecompositionResult:
    """Read the input, split it, and write all parts or none.

    Parameters
    ----------
    job : DecompositionJob
        Input, parameters and outputs.
    watch : callable, optional
        Called with the name of the input, the bytes of memory at the peak, and the last mu (None if it depends on the
        data); returns a context manager, such as a progress bar, whose value is the `callback` of `bgsub.RobustPCA`.

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
    if is_camera(job.source):
        raise ParameterError(f"the input of a decomposition must be a file or images, got the camera '{job.source}'")
    with ExitStack() as stack:
        source: FrameSource | None = None
        if not is_matrix(job.source):
            source = stack.enter_context(open_source(job.source, **job.open_options))
        path = Path(job.source) if source is None else source.path
        ending = Path(job.source).suffix.lower()
        targets = matrix_targets(ending) if source is None else frame_targets(source.numbered)
        if job.save_arrays and ARRAYS not in targets:
            targets.append(ARRAYS)
        folder = stack.enter_context(output_folder(job.output, targets, path, job.overwrite))
        samples: Samples
        if source is None:
            samples = read_matrix(job.source, key=job.key, columns=job.columns, float32=job.float32, rank=job.rank)
        else:
            samples = read_frames(source, scale=job.scale, grey=job.grey, rank=job.rank)
        memory, last = needed_memory(samples.X.shape, job.rank, samples.X.itemsize), last_mu(samples, job.parameters)
        with watch(samples.name, memory, last.get("mu_end")) as told:
            try:
                model = RobustPCA(job.rank, callback=told, **last, **job.parameters).fit(samples.X)
            except ParameterError as error:
                raise ParameterError(f"{samples.name}: {error}") from None
        for target in targets:
            try:
                with as_sink_error(folder / target.name):
                    target.write(folder / target.name, samples, model)
            except SinkError as error:  # names the final path
                raise OutputError(str(error).replace(str(folder), str(job.output))) from error
    outputs, skipped = [job.output / target.name for target in targets], 0 if source is None else source.skipped
    seconds, found = time.monotonic() - started, outliers(samples, model)
    name, shown, (n, m) = samples.name, samples.description, samples.X.shape
    return DecompositionResult(name, shown, n, m, model, *found, seconds, skipped, outputs)


def last_mu(samples: Samples, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the last mu for frames of 8 bits, nothing if the parameters determine mu."""
    # it is one grey level: in compressed video most pixels stay equal, so a fit finds no noise
    given = parameters.get("quality") == PAPER or {"mu_start", "mu_end"} & parameters.keys()
    if given or not isinstance(samples, FrameSamples) or samples.format.dtype != "uint8":
        return {}
    cost = Surrogate(parameters.get("surrogate", "log"), 1.0)
    return {"mu_end": cost.at_scale(EFFICIENT * _GREY_LEVEL).mu}


def outliers(samples: Samples, model: RobustPCA) -> tuple[float, float]:
    """Return the deviation from which an entry is an outlier, and the share of outliers among the observed entries."""
    size = float(np.linalg.norm(model.singular_values_)) / np.sqrt(samples.X.size)
    unit = 1.0 if isinstance(samples, FrameSamples) else size
    threshold = max(_DEVIATIONS * model.noise_scale_, _FLOOR * unit)
    count = total = 0
    for i, row in enumerate(model.sparse_):
        known = ~np.isnan(samples.X[i])
        count += int(np.count_nonzero(known & (np.abs(row) > threshold)))
        total += int(np.count_nonzero(known))
    return threshold, count / max(total, 1)
