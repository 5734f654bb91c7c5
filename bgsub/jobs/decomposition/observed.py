"""Masks of the entries that are known."""

from __future__ import annotations

import os

import numpy as np

from bgsub.errors import ParameterError
from bgsub.jobs.decomposition.matrices import is_matrix, read_array
from bgsub.jobs.decomposition.samples import FrameSamples, MatrixSamples
from bgsub.jobs.decomposition.stack import reduced
from bgsub.video.sources.images import ImageSequenceSource


def read_matrix_mask(path: str | os.PathLike[str], samples: MatrixSamples, key: str | None = None) -> np.ndarray:
    """Return which entries of a matrix are observed, (n, m) bool.

    Parameters
    ----------
    path : str or path
        A file ``.npy``, ``.npz`` or ``.mat`` with an array of the shape of the matrix, or an image; 0 is missing.
    samples : MatrixSamples
        The matrix.
    key : str, optional
        Name of the array, where the file holds several.

    Raises
    ------
    SourceError
        For a file that cannot be read.
    ParameterError
        For a mask of another shape, or one that holds NaN.
    """
    mask = _as_bool(read_array(path, key, "--observed-key"), path) if is_matrix(path) else _image_masks(path)[0]
    if mask.shape != samples.shape:
        raise ParameterError(f"the mask '{path}' must have the shape {samples.shape} of the matrix, got {mask.shape}")
    return np.ascontiguousarray(mask.T if samples.columns else mask.reshape(len(mask), -1))


def read_frame_masks(
    path: str | os.PathLike[str], samples: FrameSamples, key: str | None = None, scale: float = 1.0
) -> np.ndarray:
    """Return which entries of frames are observed, (n, h * w * c) bool; parameters and errors as `read_matrix_mask`.

    The masks are images or an array (h, w), (n, h, w) or (n, h, w, c): one for all frames, one for each frame that was
    read, or one for each frame of the source. A pixel of a reduced frame is observed if all that it stands for are.
    """
    masks = _array_masks(path, key) if is_matrix(path) else _image_masks(path)
    indices = [frame.index for frame in samples.frames]
    if len(masks) == 1:
        masks = [masks[0]] * len(indices)
    elif len(masks) != len(indices):
        if len(masks) <= max(indices):
            raise ParameterError(
                f"the mask '{path}' must hold one image, or one for each of {len(indices)} frames, got {len(masks)}"
            )
        masks = [masks[index] for index in indices]
    observed = np.empty(samples.X.shape, bool)
    for row, mask in zip(observed, masks, strict=True):
        row[:] = _fitted(mask, path, samples, scale).reshape(-1)
    return observed


def _fitted(mask: np.ndarray, path: str | os.PathLike[str], samples: FrameSamples, scale: float) -> np.ndarray:
    """Return a mask, (H, W) or (H, W, C), of a frame of the source in the shape of the reduced frame."""
    if mask.shape not in (samples.full.shape, samples.full.shape[:2]):
        height, width = samples.full.shape[:2]
        raise ParameterError(
            f"the mask '{path}' must be {width}x{height} as the frames are, got {'x'.join(map(str, mask.shape[1::-1]))}"
        )
    if mask.ndim == 3 and len(samples.format.shape) == 2:
        mask = np.asarray(mask.all(axis=2))
    known: np.ndarray = reduced(mask.astype(np.float32), scale) > 1 - 1e-4
    if known.ndim < len(samples.format.shape):
        known = known[:, :, np.newaxis]
    return np.broadcast_to(known, samples.format.shape)


def _array_masks(path: str | os.PathLike[str], key: str | None) -> list[np.ndarray]:
    array = _as_bool(read_array(path, key, "--observed-key"), path)
    if array.ndim not in (2, 3, 4):
        raise ParameterError(f"the mask '{path}' must have shape (h, w), (n, h, w) or (n, h, w, c), got {array.shape}")
    return [array] if array.ndim == 2 else list(array)


def _image_masks(path: str | os.PathLike[str]) -> list[np.ndarray]:
    masks = [frame.image != 0 for frame in ImageSequenceSource(path)]
    return [mask.any(axis=2) if mask.ndim == 3 else mask for mask in masks]


def _as_bool(array: np.ndarray, path: str | os.PathLike[str]) -> np.ndarray:
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ParameterError(f"the mask '{path}' must hold true and false, or 1 and 0, got NaN")
    return np.asarray(array != 0)
