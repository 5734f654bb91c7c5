"""Frames of a source as samples, and masks of frames."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SourceError
from bgsub.jobs.decomposition.matrices import is_matrix, read_mask_array, read_mask_images
from bgsub.jobs.decomposition.samples import FrameSamples, Tell, describe_frames, needed_memory, tell_memory
from bgsub.numerics.memory import check_memory
from bgsub.scene.frame_format import FrameFormat
from bgsub.video.sources.base import Frame, FrameSource, logger

_NO_PIXELS = np.empty((0, 0), np.uint8)
_REMEDY = "--scale, --grey, --every or --duration"
_UNKNOWN_LENGTH = 64  # frames to begin with if the source does not know its length


def read_frames(
    source: FrameSource, *, scale: float = 1.0, grey: bool = False, rank: int | None = None, tell: Tell = logger.info
) -> FrameSamples:
    """Read all frames of a source into memory, as float32 in [0, 1]; SourceError, ParameterError."""
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
            X = _enlarged(X, source, format, rank, tell)
        format.to_vector(image, X[len(frames)])
        frames.append(replace(frame, image=_NO_PIXELS))
    if not frames:
        raise SourceError(f"{source.name} has no frame")
    X = X[: len(frames)]
    return FrameSamples(source.name, X, format=format, full=full, frames=frames, fps=source.fps)


def _enlarged(X: np.ndarray, source: FrameSource, format: FrameFormat, rank: int | None, tell: Tell) -> np.ndarray:
    """Return X with more rows: as many as the source announces at first, half as many more later."""
    count = len(X) + len(X) // 2 + 1 if len(X) else source.length or _UNKNOWN_LENGTH
    needed = needed_memory((count, format.size), rank, X.itemsize)
    check_memory(needed - X.nbytes, f"{source.name}, {describe_frames(count, format)},", _REMEDY)
    if source.length and not len(X):
        tell_memory(source.name, describe_frames(count, format), needed, tell)
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


def read_frame_masks(
    path: str | os.PathLike[str], samples: FrameSamples, key: str | None = None, scale: float = 1.0
) -> np.ndarray:
    """Return which entries of frames are observed, (n, h * w * c) bool; errors as `read_matrix_mask`."""
    # a pixel of a reduced frame is observed if all of its original pixels are
    masks = _array_masks(path, key) if is_matrix(path) else read_mask_images(path)
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


def _array_masks(path: str | os.PathLike[str], key: str | None) -> list[np.ndarray]:
    array = read_mask_array(path, key)
    if array.ndim not in (2, 3, 4):
        raise ParameterError(f"the mask '{path}' must have shape (h, w), (n, h, w) or (n, h, w, c), got {array.shape}")
    return [array] if array.ndim == 2 else list(array)


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
