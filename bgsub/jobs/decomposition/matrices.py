"""Matrices from files: .npy, .npz and .mat."""

from __future__ import annotations

import math
import os
import zipfile
from pathlib import Path

import numpy as np

from bgsub.errors import ParameterError, SourceError, did_you_mean
from bgsub.jobs.decomposition.memory import Tell, needed_memory, tell_memory
from bgsub.jobs.decomposition.samples import MatrixSamples
from bgsub.numerics.memory import check_memory
from bgsub.video.sources.base import logger

MATRIX_ENDINGS = (".npy", ".npz", ".mat")

_NUMBERS = "biuf"
_MAT_CLASSES = {"double", "single", "logical", "sparse"}
_MAT_CLASSES |= {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_MAT_LEAST = 1  # bytes of an entry, whose type the list does not tell
_REMEDY = "--float32"


def is_matrix(path: str | os.PathLike[str]) -> bool:
    """Whether the name is that of a file of arrays."""
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
    """Read the samples of a matrix.

    Parameters
    ----------
    path : str or path
        A file ``.npy``, ``.npz`` or ``.mat``. An array of more than two dimensions holds its samples along the first.
    key : str, optional
        Name of the array, where the file holds several.
    columns : bool
        Take the columns of the matrix as samples instead of the rows.
    float32 : bool
        Compute in single precision; float32 and float16 do so always.
    rank : int, optional
        Of the decomposition, for the memory that it takes.
    tell : callable
        Takes the sentence about the memory.

    Raises
    ------
    SourceError
        For a file that is missing, damaged, or of a kind that cannot be read.
    ParameterError
        For a wrong key, an array that is no matrix of numbers, and one that is too large for the memory.
    """
    array = read_array(path, key)
    if array.ndim < 2 or array.size == 0:
        raise ParameterError(f"'{path}' must hold a matrix of samples, got an array of shape {array.shape}")
    if columns and array.ndim > 2:
        raise ParameterError(f"samples are columns of matrices only, got an array of shape {array.shape} in '{path}'")
    single = float32 or array.dtype in (np.float16, np.float32)
    dtype = np.dtype(np.float32 if single else np.float64)
    rows = array.T if columns else array.reshape(len(array), -1)
    needed = needed_memory((len(rows), rows.shape[1]), rank, dtype.itemsize)
    check_memory(needed, f"matrix '{path}'", "a part of it" if single else f"{_REMEDY} or a part of it")
    tell_memory(f"matrix '{path}'", f"{len(rows)} samples of {rows.shape[1]} values", needed, tell)
    X = np.array(rows, dtype, order="C")
    return MatrixSamples(f"matrix '{path}'", Path(path), X, shape=array.shape, columns=columns)


def read_array(path: str | os.PathLike[str], key: str | None = None, key_option: str = "--key") -> np.ndarray:
    """Return an array of numbers, any shape, from a file ``.npy``, ``.npz`` or ``.mat``; errors as `read_matrix`."""
    path = Path(path)
    if not path.is_file():
        raise SourceError(f"no such file: '{path}'" if not path.exists() else f"'{path}' is no file")
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
    except Exception:  # whatever the readers raise for bytes that they did not expect
        raise SourceError(f"'{path}' is no {ending} file of numbers, or it is damaged") from None
    if array.dtype.kind not in _NUMBERS:
        raise ParameterError(f"'{path}' must hold real numbers, got type {array.dtype}")
    return array


def _read_npy(path: Path, _key: str | None, _option: str) -> np.ndarray:
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _read_npz(path: Path, key: str | None, option: str) -> np.ndarray:
    with zipfile.ZipFile(path) as archive, np.load(path, allow_pickle=False) as file:  # which takes a .npy of any name
        name = _choose(path, file.files, key, option)
        with archive.open(name if name in archive.namelist() else f"{name}.npy") as member:
            version = np.lib.format.read_magic(member)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(member)
        _check_room(path, shape, dtype.itemsize)
        return file[name]


def _check_room(path: Path, shape: tuple[int, ...], itemsize: int) -> None:
    """Raise ParameterError where an array as the header tells of it does not fit into the memory."""
    check_memory(math.prod(shape) * itemsize, f"the array in '{path}', of shape {shape},", "a part of it")


def _read_mat(path: Path, key: str | None, option: str) -> np.ndarray:
    from scipy.io import loadmat, whosmat  # noqa: PLC0415 - it takes a while, and few inputs are .mat

    try:
        entries = whosmat(path, appendmat=False)
    except NotImplementedError:
        raise SourceError(
            f"'{path}' is a MATLAB file of version 7.3 (HDF5), which cannot be read: save it with -v7, or as .npy"
        ) from None
    # MATLAB has no numbers without a shape: a setting beside the matrix is 1x1
    names = [name for name, shape, kind in entries if kind in _MAT_CLASSES and np.prod(shape) > 1]
    name = _choose(path, names, key, option)
    _check_room(path, next(shape for known, shape, _ in entries if known == name), _MAT_LEAST)
    array = loadmat(path, appendmat=False, variable_names=[name])[name]
    return np.asarray(array.toarray() if hasattr(array, "toarray") else array)


def _choose(path: Path, names: list[str], key: str | None, option: str) -> str:
    """Return the name of the array that is meant."""
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
        raise ParameterError(f"'{path}' holds the arrays {listed}: {option} says which")
    return names[0]
