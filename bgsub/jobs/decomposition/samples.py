"""The samples of a decomposition, as rows, and their parts; samples from files of arrays and from frames."""

import math
import zipfile
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SourceError, counted, did_you_mean
from bgsub.numerics.memory import check_memory
from bgsub.robust_pca.parameters import default_rank
from bgsub.scene.frame_format import FrameFormat
from bgsub.video.sources.base import Frame, FrameSource

_MATRICES, _MASKS = 5.5, 4  # peak of a fit with missing entries, in sizes of the samples; the tests measure it


@dataclass
class Samples:
    """The samples of a matrix or an array, as rows."""

    name: str  # of the input in messages
    X: np.ndarray  # (n, m), float32 or float64; NaN means missing
    shape: tuple[int, ...] = ()  # of the array in the file
    columns: bool = False  # whether its columns are the samples

    @property
    def description(self) -> str:
        """Number and size of the samples in words."""
        n, m = self.X.shape
        return f"{counted(n, 'sample')} of {counted(m, 'value')}"

    def restore(self, rows: np.ndarray) -> np.ndarray:
        """Return an array like the samples, (n, m), in the form of the input."""
        return rows.T if self.columns else rows.reshape(self.shape)

    def restore_components(self, components: np.ndarray) -> np.ndarray:
        """Return components, (k, m), each in the form of one sample."""
        return components if self.columns else components.reshape(len(components), *self.shape[1:])


@dataclass(kw_only=True)
class FrameSamples(Samples):
    """Frames as samples, intensities scaled to [0, 1]."""

    format: FrameFormat  # of the frames after a reduction
    frames: list[Frame]  # index, name and time of each, without the pixels
    fps: Fraction | None = None

    @property
    def description(self) -> str:
        return describe_frames(len(self.X), self.format)

    def image(self, row: np.ndarray) -> np.ndarray:
        """Return one row of a part, (m,), as an image."""
        if self.format.dtype.startswith("float"):
            row = row.clip(0, 1)
        return self.format.to_image(np.ascontiguousarray(row, np.float32))


def describe_frames(n: int, format: FrameFormat) -> str:
    """Return number and size of frames in words: ``30 frames of 160x128x3``."""
    height, width = format.shape[:2]
    colours = f"x{format.channels}" if format.channels > 1 else ""
    return f"{counted(n, 'frame')} of {width}x{height}{colours}"


def needed_memory(shape: tuple[int, int], rank: int | None, itemsize: int) -> int:
    """Return the peak memory in bytes of a decomposition of samples (n, m), the samples included."""
    n, m = shape
    rank = default_rank(shape) if rank is None else min(rank, n, m)  # a larger one is refused later
    bases = 8 * rank * (n + m) * itemsize  # basis, gradient, directions and similar arrays
    return int(n * m * (_MATRICES * itemsize + _MASKS)) + bases


MATRIX_ENDINGS = (".npy", ".npz", ".mat")

_NUMBERS = "biuf"
_MAT_CLASSES = {"double", "single", "logical", "sparse"}
_MAT_CLASSES |= {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_MAT_LEAST = 1  # bytes of an entry; the list of arrays has no types


def is_matrix(path: str | Path) -> bool:
    """Return whether the name is that of a file of arrays."""
    return Path(path).suffix.lower() in MATRIX_ENDINGS


def read_matrix(
    path: str | Path, *, key: str | None = None, columns: bool = False, float32: bool = False, rank: int | None = None
) -> Samples:
    """Read the samples of a matrix; SourceError for the file, ParameterError for its contents."""
    array, name = read_array(path, key), _name(path, key)
    if array.ndim < 2 or array.size == 0:
        raise ParameterError(f"{name} must hold a matrix of samples, got an array of shape {array.shape}")
    if columns and array.ndim > 2:
        raise ParameterError(f"only a matrix has columns as samples, got an array of shape {array.shape} in {name}")
    single = float32 or array.dtype in (np.float16, np.float32)
    dtype = np.dtype(np.float32 if single else np.float64)
    rows = array.T if columns else array.reshape(len(array), -1)
    needed = needed_memory((len(rows), rows.shape[1]), rank, dtype.itemsize)
    check_memory(needed, f"matrix {name}", "a part of it" if single else "--float32 or a part of it")
    X = np.array(rows, dtype, order="C")
    return Samples(f"matrix {name}", X, shape=array.shape, columns=columns)


def _name(path: str | Path, key: str | None) -> str:
    return f"'{path}'" if key is None else f"'{key}' of '{path}'"


def read_array(path: str | Path, key: str | None = None) -> np.ndarray:
    """Return an array of numbers, any shape, from a file ``.npy``, ``.npz`` or ``.mat``; errors as `read_matrix`."""
    path = Path(path)
    if not path.is_file():
        raise SourceError(f"no such file: '{path}'" if not path.exists() else f"'{path}' is not a file")
    ending = path.suffix.lower()
    if ending == ".npy" and key is not None:
        raise ParameterError(f"--key is for .npz and .mat, '{path}' holds one array")
    try:
        if ending == ".npy":
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            array = (_read_npz if ending == ".npz" else _read_mat)(path, key)
    except (ParameterError, SourceError, MemoryError):
        raise
    except OSError as error:
        raise SourceError(f"'{path}' cannot be read: {error.strerror or error}") from None
    except Exception:  # the readers raise errors of many kinds for damaged files
        raise SourceError(f"'{path}' is not a {ending} file of numbers, or it is damaged") from None
    if array.dtype.kind not in _NUMBERS:
        raise ParameterError(f"{_name(path, key)} must hold real numbers, got type {array.dtype}")
    return array


def _read_npz(path: Path, key: str | None) -> np.ndarray:
    with zipfile.ZipFile(path) as archive, np.load(path, allow_pickle=False) as file:  # NumPy also takes renamed .npy
        name = _choose(path, file.files, key)
        with archive.open(name if name in archive.namelist() else f"{name}.npy") as member:
            version = np.lib.format.read_magic(member)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(member)
        _check_room(path, shape, dtype.itemsize)
        return file[name]


def _check_room(path: Path, shape: tuple[int, ...], itemsize: int) -> None:
    """Raise ParameterError if an array of the header's shape does not fit into the memory."""
    check_memory(math.prod(shape) * itemsize, f"the array in '{path}', of shape {shape},", "a part of it")


def _read_mat(path: Path, key: str | None) -> np.ndarray:
    from scipy.io import loadmat, whosmat  # noqa: PLC0415 - slow to import, and few inputs are .mat

    try:
        entries = whosmat(path, appendmat=False)
    except NotImplementedError:
        raise SourceError(
            f"'{path}' is a MATLAB file of version 7.3 (HDF5), which cannot be read: save it with -v7, or as .npy"
        ) from None
    # a MATLAB scalar is a 1x1 matrix
    names = [name for name, shape, kind in entries if kind in _MAT_CLASSES and np.prod(shape) > 1]
    name = _choose(path, names, key)
    _check_room(path, next(shape for known, shape, _ in entries if known == name), _MAT_LEAST)
    array = loadmat(path, appendmat=False, variable_names=[name])[name]
    return np.asarray(array.toarray() if hasattr(array, "toarray") else array)


def _choose(path: Path, names: list[str], key: str | None) -> str:
    listed = ", ".join(sorted(names))
    if key is not None:
        if key in names:
            return key
        hint = did_you_mean(key, names)
        raise ParameterError(f"--key must be one of {listed or 'none'} in '{path}', got {key!r}{hint}")
    if not names:
        raise ParameterError(f"'{path}' holds no matrix")
    if len(names) > 1:
        raise ParameterError(f"'{path}' holds the arrays {listed}: choose one with --key")
    return names[0]


_NO_PIXELS = np.empty((0, 0), np.uint8)
_REMEDY = "--scale, --grey, --every or --duration"
_UNKNOWN_LENGTH = 64  # frames to begin with if the source does not know its length


def read_frames(
    source: FrameSource, *, scale: float = 1.0, grey: bool = False, rank: int | None = None
) -> FrameSamples:
    """Read all frames of a source into memory, as float32 in [0, 1]; SourceError, ParameterError."""
    if not 0 < scale <= 1:
        raise ParameterError(f"scale must be a number in (0, 1], got {scale!r}")
    X = np.empty((0, 0), np.float32)
    frames: list[Frame] = []
    for frame in source.alike(source):
        try:
            if not frames:
                full = FrameFormat.of(frame.image)
            image = reduced(full.check(frame.image), scale, grey)
        except ParameterError as error:
            raise ParameterError(f"{source.name}, frame {frame.name}: {error}") from None
        if not frames:
            format = replace(full, shape=image.shape, dtype=image.dtype.name)
        if len(frames) == len(X):
            X = _enlarged(X, source, format, rank)
        format.to_vector(image, X[len(frames)])
        frames.append(replace(frame, image=_NO_PIXELS))
    if not frames:
        raise SourceError(f"{source.name} has no frame")
    X = X[: len(frames)]
    shape = (len(frames), *format.shape)
    return FrameSamples(source.name, X, shape, format=format, frames=frames, fps=source.fps)


def _enlarged(X: np.ndarray, source: FrameSource, format: FrameFormat, rank: int | None) -> np.ndarray:
    """Return X with more rows: as many as the source announces at first, half as many more later."""
    count = len(X) + len(X) // 2 + 1 if len(X) else source.length or _UNKNOWN_LENGTH
    needed = needed_memory((count, format.size), rank, X.itemsize)
    check_memory(needed - X.nbytes, f"{source.name}, {describe_frames(count, format)},", _REMEDY)
    larger = np.empty((count, format.size), np.float32)
    if len(X):
        larger[: len(X)] = X
    return larger


def reduced(image: np.ndarray, scale: float = 1.0, grey: bool = False) -> np.ndarray:
    """Return an image, (h, w) or (h, w, c), in grey and reduced by the factor `scale`, by the mean over each pixel."""
    if image.dtype in (np.float16, np.float64) and (grey or scale < 1):
        image = image.astype(np.float32)  # OpenCV does not take all types
    if image.ndim == 3 and (grey or image.shape[2] == 1):
        image = image[:, :, 0] if image.shape[2] < 3 else cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
    if scale < 1:
        height, width = image.shape[:2]
        size = max(round(scale * width), 1), max(round(scale * height), 1)
        image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(image)
