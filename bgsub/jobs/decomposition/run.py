"""A decomposition from an input file to output files, which appear under their names once all of them are complete."""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from bgsub.errors import OutputError, ParameterError, SinkError
from bgsub.jobs.decomposition.samples import FrameSamples, Samples, is_matrix, needed_memory, read_frames, read_matrix
from bgsub.jobs.interrupts import finishing
from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.estimator import RobustPCA
from bgsub.robust_pca.noise import EFFICIENT
from bgsub.robust_pca.parameters import PAPER, Callback
from bgsub.storage.durable_io import as_sink_error, sync_folder, sync_tree, unlink
from bgsub.storage.file_lock import Claims
from bgsub.video.sinks.base import prepare_folder
from bgsub.video.sinks.images import write_image
from bgsub.video.sinks.video import VideoSink, as_separation
from bgsub.video.sources.base import FrameSource
from bgsub.video.sources.camera_address import is_camera
from bgsub.video.sources.images import is_image
from bgsub.video.sources.opening import open_source

Watch = Callable[[str, int, float | None], AbstractContextManager[Callback]]

_PARTS = ("low_rank", "sparse")
_STAGE = ".decompose-"  # start of the name of the folder of incomplete outputs, before that of the first output

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


@dataclass(frozen=True)
class Target:
    """One output: a file, or a folder of images."""

    name: str
    write: Callable[[Path, Any, RobustPCA], None]  # takes the path, the samples and the fitted model
    is_folder: bool = False


def frame_targets(as_images: bool) -> list[Target]:
    """Return the outputs for frames: two folders of images, or two videos."""
    ending = "" if as_images else ".mp4"
    return [Target(f"{part}{ending}", partial(_write_frames, part), as_images) for part in _PARTS]


def matrix_targets(ending: str) -> list[Target]:
    """Return the outputs for a matrix from a file with the ending ``.npy``, ``.npz`` or ``.mat``."""
    if ending == ".npy":
        return [Target(f"{part}.npy", partial(_write_npy, part)) for part in _PARTS]
    return [Target("decomposition.mat", _write_mat)] if ending == ".mat" else [ARRAYS]


def _arrays_of(samples: Samples, model: RobustPCA) -> dict[str, np.ndarray]:
    """Return the arrays of a decomposition by name, in the form of the input."""
    return {
        "low_rank": samples.restore(model.low_rank_),
        "sparse": samples.restore(model.sparse_),
        "components": samples.restore_components(model.components_),
        "coefficients": model.coefficients_,
        "singular_values": model.singular_values_,
    }


#: The output with all arrays.
ARRAYS = Target("decomposition.npz", lambda path, *fit: np.savez(path, **_arrays_of(*fit)))  # type: ignore[arg-type]


def _write_mat(path: Path, samples: Samples, model: RobustPCA) -> None:
    from scipy.io import savemat  # noqa: PLC0415 - slow to import, and few outputs are .mat
    from scipy.io.matlab import MatWriteError  # noqa: PLC0415

    try:
        savemat(path, _arrays_of(samples, model), appendmat=False, oned_as="column")
    except MatWriteError as error:
        raise OutputError(f"'{path.name}' cannot be written: {error}") from None


def _write_npy(part: str, path: Path, samples: Samples, model: RobustPCA) -> None:
    with path.open("wb") as file:
        # for a file itself NumPy does not report why it cannot be written
        np.save(SimpleNamespace(write=file.write), samples.restore(getattr(model, f"{part}_")))


def _write_frames(part: str, path: Path, samples: FrameSamples, model: RobustPCA) -> None:
    """Write the rows of a part as a video or into a folder of images, those of the sparse part as absolute values."""
    rows = (np.abs(row) if part == "sparse" else row for row in getattr(model, f"{part}_"))
    pictures = zip(samples.frames, map(samples.image, rows), strict=True)
    if path.suffix:
        with VideoSink(path, "background", samples.fps) as sink:
            for frame, image in pictures:
                sink.write(frame, as_separation(image))
        return
    path.mkdir()
    taken: set[str] = set()
    for frame, image in pictures:
        # images of the same name may come from several folders
        name = frame.name if frame.name not in taken else f"{frame.name}_{frame.index}"
        taken.add(name)
        write_image(path / f"{name}.png", image, durable=False)


@contextmanager
def output_folder(folder: Path, targets: Sequence[Target], read: Path | None, overwrite: bool) -> Iterator[Path]:
    """Yield an empty folder for the targets; at the end of the block they move into `folder`, or nothing is left."""
    # with `overwrite` a folder is replaced only if it contains nothing but images; `read`, the input, never is
    _remove_leftovers(folder)
    with Claims() as claims:
        for target in targets:
            claims.take(folder / target.name)
            _check_target(folder / target.name, target, read, overwrite)
        prepare_folder(folder)
        stage = folder / f"{_STAGE}{targets[0].name}"
        try:
            made = stage / "new"
            with as_sink_error(folder, OutputError):
                made.mkdir(parents=True)
                yield made
                sync_tree(made)
                with finishing():
                    _move(made, folder, targets, stage)
        finally:
            shutil.rmtree(stage, ignore_errors=True)


def _remove_leftovers(folder: Path) -> None:
    """Remove the folders of killed runs, whose outputs no run claims."""
    for stage in folder.glob(f"{_STAGE}*"):
        with suppress(SinkError), Claims() as claims:
            claims.take(folder / stage.name.removeprefix(_STAGE))
            shutil.rmtree(stage, ignore_errors=True)
            if stage.exists():  # a file, as a power cut may leave it
                unlink(stage)


def _check_target(path: Path, target: Target, read: Path | None, overwrite: bool) -> None:
    if read is not None and path.resolve() == read.resolve():
        raise SinkError(f"the output '{path}' is the input itself")
    if not path.exists():
        return
    if not overwrite:
        raise SinkError(f"the output '{path}' exists already; --overwrite replaces it")
    if path.is_dir() != target.is_folder:
        raise SinkError(f"the output '{path}' is a {'folder' if path.is_dir() else 'file'} already")
    if target.is_folder:
        other = next((found for found in path.iterdir() if found.is_dir() or not is_image(found)), None)
        if other is not None:
            raise SinkError(f"the output '{path}' holds more than images and is not replaced: '{other}'")


def _move(made: Path, folder: Path, targets: Sequence[Target], stage: Path) -> None:
    """Give the outputs their final names; existing folders are moved to the stage, which is deleted."""
    for target in targets:
        path = folder / target.name
        if target.is_folder and path.exists():
            os.replace(path, stage / target.name)
        os.replace(made / target.name, path)
    sync_folder(folder)
