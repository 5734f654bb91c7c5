"""Matrices and their masks from files: .npy, .npz and .mat."""

from __future__ import annotations

import math
import os
import zipfile
from pathlib import Path

import numpy as np

from bgsub.errors import ParameterError, SourceError, did_you_mean
from bgsub.jobs.decomposition.samples import MatrixSamples, Tell, needed_memory, tell_memory
from bgsub.numerics.memory import check_memory
from bgsub.video.sources.base import logger
from bgsub.video.sources.images import ImageSequenceSource

MATRIX_ENDINGS = (".npy", ".npz", ".mat")

_NUMBERS = "biuf"
_MAT_CLASSES = {"double", "single", "logical", "sparse"}
_MAT_CLASSES |= {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_MAT_LEAST = 1  # bytes of an entry; the list of arrays has no types


def is_matrix(path: str | os.PathLike[str]) -> bool:
    """Return whether the name is that of a file of arrays."""
    return Path(path).suffix.lower() in MATRIX_ENDINGS


def read_matrix(
    path: str | os.PathLike[str],
    *,
    key: str | None = None,
    columns: bool = False,
    float32: bool = False,
    rank: int | None = None,
    tell: Tell = logger.info,
) -> MatrixSamples:
    """Read the samples of a matrix; SourceError for the file, ParameterError for its contents."""
    array = read_array(path, key)
    if array.ndim < 2 or array.size == 0:
        raise ParameterError(f"'{path}' must hold a matrix of samples, got an array of shape {array.shape}")
    if columns and array.ndim > 2:
        raise ParameterError(f"only a matrix has columns as samples, got an array of shape {array.shape} in '{path}'")
    single = float32 or array.dtype in (np.float16, np.float32)
    dtype = np.dtype(np.float32 if single else np.float64)
    rows = array.T if columns else array.reshape(len(array), -1)
    needed = needed_memory((len(rows), rows.shape[1]), rank, dtype.itemsize)
    check_memory(needed, f"matrix '{path}'", "a part of it" if single else "--float32 or a part of it")
    tell_memory(f"matrix '{path}'", f"{len(rows)} samples of {rows.shape[1]} values", needed, tell)
    X = np.array(rows, dtype, order="C")
    return MatrixSamples(f"matrix '{path}'", X, shape=array.shape, columns=columns)


def read_matrix_mask(path: str | os.PathLike[str], samples: MatrixSamples, key: str | None = None) -> np.ndarray:
    """Return which entries of a matrix are observed, (n, m) bool, from an array of its shape, or an image."""
    mask = read_mask_array(path, key) if is_matrix(path) else read_mask_images(path)[0]
    if mask.shape != samples.shape:
        raise ParameterError(f"the mask '{path}' must have the shape {samples.shape} of the matrix, got {mask.shape}")
    return np.ascontiguousarray(mask.T if samples.columns else mask.reshape(len(mask), -1))


def read_mask_array(path: str | os.PathLike[str], key: str | None) -> np.ndarray:
    """Return a mask, bool, any shape, from a file of arrays; 0 is False."""
    array = read_array(path, key, "--observed-key")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ParameterError(f"the mask '{path}' must hold true and false, or 1 and 0, got NaN")
    return np.asarray(array != 0)


def read_mask_images(path: str | os.PathLike[str]) -> list[np.ndarray]:
    """Return masks, (h, w) bool, from images; black is False."""
    masks = [frame.image != 0 for frame in ImageSequenceSource(path)]
    return [mask.any(axis=2) if mask.ndim == 3 else mask for mask in masks]


def read_array(path: str | os.PathLike[str], key: str | None = None, key_option: str = "--key") -> np.ndarray:
    """Return an array of numbers, any shape, from a file ``.npy``, ``.npz`` or ``.mat``; errors as `read_matrix`."""
    path = Path(path)
    if not path.is_file():
        raise SourceError(f"no such file: '{path}'" if not path.exists() else f"'{path}' is not a file")
    ending = path.suffix.lower()
    if ending == ".npy" and key is not None:
        raise ParameterError(f"{key_option} is for .npz and .mat, '{path}' holds one array")
    try:
        read = {".npy": _read_npy, ".npz": _read_npz, ".mat": _read_mat}[ending]
        array = read(path, key, key_option)
    except (ParameterError, SourceError, MemoryError):
        raise
    except OSError as error:
        raise SourceError(f"'{path}' cannot be read: {error.strerror or error}") from None
    except Exception:  # the readers raise errors of many kinds for damaged files
        raise SourceError(f"'{path}' is not a {ending} file of numbers, or it is damaged") from None
    if array.dtype.kind not in _NUMBERS:
        raise ParameterError(f"'{path}' must hold real numbers, got type {array.dtype}")
    return array


def _read_npy(path: Path, _key: str | None, _option: str) -> np.ndarray:
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _read_npz(path: Path, key: str | None, option: str) -> np.ndarray:
    with zipfile.ZipFile(path) as archive, np.load(path, allow_pickle=False) as file:  # NumPy also takes renamed .npy
        name = _choose(path, file.files, key, option)
        with archive.open(name if name in archive.namelist() else f"{name}.npy") as member:
            version = np.lib.format.read_magic(member)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(member)
        _check_room(path, shape, dtype.itemsize)
        return file[name]


def _check_room(path: Path, shape: tuple[int, ...], itemsize: int) -> None:
    """Raise ParameterError if an array of the header's shape does not fit into the memory."""
    check_memory(math.prod(shape) * itemsize, f"the array in '{path}', of shape {shape},", "a part of it")


def _read_mat(path: Path, key: str | None, option: str) -> np.ndarray:
    from scipy.io import loadmat, whosmat  # noqa: PLC0415 - slow to import, and few inputs are .mat

    try:
        entries = whosmat(path, appendmat=False)
    except NotImplementedError:
        raise SourceError(
            f"'{path}' is a MATLAB file of version 7.3 (HDF5), which cannot be read: save it with -v7, or as .npy"
        ) from None
    # a MATLAB scalar is a 1x1 matrix
    names = [name for name, shape, kind in entries if kind in _MAT_CLASSES and np.prod(shape) > 1]
    name = _choose(path, names, key, option)
    _check_room(path, next(shape for known, shape, _ in entries if known == name), _MAT_LEAST)
    array = loadmat(path, appendmat=False, variable_names=[name])[name]
    return np.asarray(array.toarray() if hasattr(array, "toarray") else array)


def _choose(path: Path, names: list[str], key: str | None, option: str) -> str:
    """Return the name of the array to read."""
    listed = ", ".join(sorted(names))
    if key is not None:
        if key in names:
            return key
        raise ParameterError(
            f"{option} must be one of {listed or 'none'} in '{path}', got {key!r}{did_you_mean(key, names)}"
        )
    if not names:
        raise ParameterError(f"'{path}' holds no matrix")
    if len(names) > 1:
        raise ParameterError(f"'{path}' holds the arrays {listed}: choose one with {option}")
    return names[0]
