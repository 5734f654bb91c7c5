"""The format of the frames of a stream, conversions to unit vectors and back, and the memory of a stream."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from bgsub.errors import ParameterError, logger
from bgsub.numerics import memory
from bgsub.numerics.arrays import as_array
from bgsub.parameters import SubtractorParameters

_FULL_SCALE = {"uint8": 255.0, "uint16": 65535.0}
_SCALES = {"u": (1.0, 2.0**32), "f": (1e-300, 1e300)}  # allowed full scale, by the kind of type
_FAR = 40  # binary exponent of full scale beyond which squares come near the limits of float32
_FLOATS = ("float16", "float32", "float64")
_BYTES = np.dtype(np.uint8)
MAX_CHANNELS = 4
_PIXEL, _RESULTS, _COPIES, _BASES, _LEAST_RANK = 95, 2, 4, 9, 2  # measured at the end of the start; see `stream_memory`
_LIGHT = 16  # further bytes per channel when the light changes during the start
_LEAST_SCALE = 0.05  # smallest scale that an error message suggests
_WHOLE = 35_000  # pixels of the largest frames that are processed in full size
_REDUCED = 19_200  # pixels to which larger frames are reduced, if this needs a scale of at least `_HALF`
_HALF, _SHRINKING = 0.5, 0.3  # still larger ones: `_HALF`, or (_REDUCED / pixels)^_SHRINKING if this is less
_FAST = 0.75  # factor of that scale, with scale="fast"


@dataclass(frozen=True)
class FrameFormat:
    """Shape, (h, w) or (h, w, c), type and full scale of the frames of a stream."""

    shape: tuple[int, ...]
    dtype: str
    max_value: float
    origin: str = field(default="the first one", compare=False)

    @classmethod
    def of(cls, frame: np.ndarray, max_value: float | None = None) -> "FrameFormat":
        """Return the format of a frame; ParameterError if it is no grey or colour image."""
        frame = _as_frame(frame)
        good_shape = frame.ndim == 2 or (frame.ndim == 3 and 1 <= frame.shape[2] <= MAX_CHANNELS)
        if not good_shape:
            raise ParameterError(
                f"a frame must have shape (h, w) or (h, w, c) with c from 1 to 4 and hold pixels, got {frame.shape}"
            )
        name = _type_of(frame)
        if name not in _FULL_SCALE and name not in _FLOATS:
            raise ParameterError(f"a frame must be of type uint8, uint16 or floating point, got {frame.dtype}")
        full = _FULL_SCALE.get(name, 1.0) if max_value is None else max_value
        least, most = _SCALES[frame.dtype.kind]
        if not least <= full <= most:
            raise ParameterError(f"max_value must be in [{least:g}, {most:g}] for {name} frames, got {full!r}")
        if name == "uint16" and max_value is None:
            _warn_of_depth(int(frame.max()))
        return cls(frame.shape, name, full)

    def as_dict(self) -> dict[str, Any]:
        """Return the format in JSON types."""
        return {"shape": list(self.shape), "dtype": self.dtype, "max_value": self.max_value}

    @classmethod
    def from_dict(cls, values: Any) -> "FrameFormat":
        """Return the format that `as_dict` described; ParameterError if `values` describe none."""
        known: Any = values if isinstance(values, dict) else {}
        shape, dtype, full = known.get("shape"), known.get("dtype"), known.get("max_value")
        good = isinstance(shape, list) and len(shape) in (2, 3) and all(type(n) is int and n > 0 for n in shape)
        good = good and shape[2:] <= [MAX_CHANNELS] and dtype in (*_FULL_SCALE, *_FLOATS)
        if good and isinstance(full, (int, float)):
            least, most = _SCALES[np.dtype(dtype).kind]
            if least <= full <= most:
                return cls(tuple(shape), dtype, full, origin="those of the saved model")
        raise ParameterError(f"no format of frames: {values}")

    @cached_property
    def unit(self) -> float:
        """Divisor of the frames before processing: 1, or a power of two if full scale is far from 1."""
        exponent = math.frexp(self.max_value)[1]
        return 2.0**exponent if abs(exponent) > _FAR else 1.0

    @cached_property
    def seen(self) -> "FrameFormat":
        """Format of the frames as the model sees them: divided by `unit`, without the alpha of four channels."""
        if self.unit == 1 and self.channels < MAX_CHANNELS:
            return self
        shape = (*self.shape[:2], MAX_CHANNELS - 1) if self.channels == MAX_CHANNELS else self.shape
        return replace(self, shape=shape, max_value=self.max_value / self.unit)

    def to_seen(self, frame: np.ndarray) -> np.ndarray:
        """Return a checked frame in the format `seen`, exactly, as `unit` is a power of two."""
        if self.channels == MAX_CHANNELS:
            frame = np.ascontiguousarray(frame[..., :-1])
        return frame if self.unit == 1 else np.multiply(frame, 1 / self.unit, dtype=np.float64).astype(self.dtype)

    def from_seen(self, image: np.ndarray) -> np.ndarray:
        """Return an image of the format `seen` in the format of the frames, opaque."""
        image = image if self.unit == 1 else in_type(np.multiply(image, self.unit, dtype=np.float64), self.dtype)
        if self.channels < MAX_CHANNELS:
            return image
        return np.dstack([image, np.full(self.shape[:2], self.max_value, image.dtype)])

    @cached_property
    def size(self) -> int:
        """Entries of a frame, m = h * w * c."""
        return int(np.prod(self.shape))

    @cached_property
    def channels(self) -> int:
        """Colour channels, 1 for a grey frame."""
        return self.shape[2] if len(self.shape) == 3 else 1

    @cached_property
    def joint(self) -> float:
        """Unit of joint distances, 1 in colour: sqrt(c / 3)."""
        # with it, a grey frame has the same mask in one channel as in three equal ones
        return math.sqrt(self.channels / 3)

    @cached_property
    def scale(self) -> float:
        """Reciprocal of the full scale."""
        return 1.0 / self.max_value

    @cached_property
    def cube(self) -> tuple[int, int, int]:
        """(h, w, c), c = 1 for a grey frame."""
        return self.shape[0], self.shape[1], self.channels

    @cached_property
    def pixels_dtype(self) -> str:
        """Type of what `to_pixels` returns: "uint8" for frames of that type, "float32" for all others."""
        return self.dtype if self.dtype == "uint8" else "float32"

    @cached_property
    def pixels_full(self) -> float:
        """Full scale of what `to_pixels` returns."""
        return self.max_value if self.dtype == "uint8" else 1.0

    def describes(self, frame: np.ndarray) -> bool:
        """Return whether an array has the shape and type of the frames."""
        return frame.shape == self.shape and _type_of(frame) == self.dtype

    def check(self, frame: np.ndarray) -> np.ndarray:
        """Return `frame` as a contiguous array in native byte order, or raise ParameterError naming both formats."""
        is_plain = type(frame) is np.ndarray and frame.flags.carray
        if is_plain and frame.shape == self.shape and frame.dtype == _BYTES == self.dtype:
            return frame  # fast path
        frame = _as_frame(frame)
        if not self.describes(frame):
            begins = "; on_change='restart' starts over with it" if self.origin == FrameFormat.origin else ""
            raise ParameterError(
                f"every frame must be like {self.origin}, {self.dtype} of shape {self.shape}, "
                f"got {_type_of(frame)} of shape {frame.shape}{begins}"
            )
        frame = np.ascontiguousarray(frame, dtype=self.dtype)
        if not frame.flags.carray:  # kernels are compiled for writable arrays
            frame = frame.copy()
        if frame.dtype.kind == "f":
            largest = float(np.max(np.abs(frame)))
            if not np.isfinite(largest):
                raise ParameterError("a frame must be finite, got NaN or infinity")
            if largest > 2 * self.max_value:  # sharpening, interpolation and noise may overshoot
                raise ParameterError(
                    f"a floating-point frame must lie in [0, {self.max_value:g}], got {largest:g}; "
                    "max_value says what full scale is, as 255.0"
                )
        return frame

    def check_known(self, known: np.ndarray) -> np.ndarray:
        """Return which pixels of a frame are known to be foreground, (h, w) bool, where `known` is not zero."""
        known = as_array(known)
        if known.shape != self.shape[:2]:
            raise ParameterError(f"knownForegroundMask must have shape {self.shape[:2]}, got {known.shape}")
        return np.ascontiguousarray(known) != 0

    def to_pixels(self, frame: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Return a checked frame, (h, w, c): itself if uint8, else written into `out` as float32 in [0, 1]."""
        if self.dtype == "uint8":
            return frame.reshape(self.cube)
        self.to_vector(frame, out.reshape(-1))
        return out

    def from_pixels(self, pixels: np.ndarray) -> np.ndarray:
        """Return a new frame of this format from what the engine works on, (h, w, c)."""
        return pixels.reshape(self.shape).copy() if self.dtype == "uint8" else self.to_image(pixels.reshape(-1))

    def to_vector(self, frame: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Write a checked frame into the vector `x`, (m,), float32, intensities scaled to [0, 1]."""
        return np.multiply(frame.reshape(-1).astype(np.float32), np.float32(self.scale), out=x)

    def to_image(self, x: np.ndarray) -> np.ndarray:
        """Return the vector `x`, (m,), float32, as a new frame of this format, rounded and clipped for integers."""
        if self.dtype not in _FULL_SCALE:
            return in_type(x * np.float32(self.max_value), self.dtype).reshape(self.shape)
        image = np.clip(x * np.float32(self.max_value), 0, np.float32(_FULL_SCALE[self.dtype])) + np.float32(0.5)
        return image.astype(self.dtype).reshape(self.shape)


def _as_frame(frame: Any) -> np.ndarray:
    """Return a frame as an array; ParameterError if there is none."""
    array = as_array(frame)
    if frame is not None and array.dtype.kind in "OSU":
        came = f"an array of type {array.dtype}" if isinstance(frame, np.ndarray) else type(frame).__name__
        hint = ": give its image" if hasattr(frame, "image") else ""
        raise ParameterError(f"a frame must be an array of numbers or a cv2.UMat, got {came}{hint}")
    if frame is None or array.size == 0:
        came = "None" if frame is None else f"an empty array of shape {array.shape}"
        raise ParameterError(
            f"a frame must hold pixels, got {came}: the video has ended, the camera is disconnected or a file is "
            "unreadable (check the first result of cap.read())"
        )
    return array


def _type_of(array: np.ndarray) -> str:
    return array.dtype.newbyteorder("=").name


def in_type(x: np.ndarray, dtype: str) -> np.ndarray:
    """Return an array in a floating type, clipped to its range."""
    most = x.dtype.type(min(np.finfo(dtype).max, np.finfo(x.dtype).max))
    return np.clip(x, -most, most).astype(dtype)


def check_like(name: str, array: Any, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return a writable array of this shape and type, or raise ParameterError."""
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
        came = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise ParameterError(f"{name} must be {dtype} of shape {shape}, got {came}")
    if not array.flags.writeable:
        raise ParameterError(f"{name} must be an array that can be written to, got one that is read-only")
    return array


def plain(frame: np.ndarray) -> np.ndarray:
    """Return a frame in a type that kernels are compiled for: float32 unless it is uint8."""
    return frame if frame.dtype == _BYTES else frame.astype(np.float32, copy=False)


def _warn_of_depth(largest: int) -> None:
    """Warn if 16-bit frames seem to use only 10, 12 or 14 bits, so that masks would find little."""
    full = next((2**bits - 1 for bits in (10, 12, 14) if largest < 2**bits), None)
    if full is not None:
        logger.warning(
            "16 bits per pixel, but the first frame reaches %d only: max_value (--max-value) is %d if it holds %d bits",
            largest, full, full.bit_length(),
        )  # fmt: skip


def scale_of(frames: FrameFormat, parameters: SubtractorParameters) -> float:
    """Return the factor by which frames are reduced."""
    # .5 instead of .67 at 320x240 takes 30 % less time, and changes the mean F of 11 labelled sequences by .0006,
    # under 17 conditions by -.001
    if isinstance(parameters.scale, float):
        return parameters.scale
    pixels = math.prod(frames.shape[:2])
    if pixels <= _WHOLE:
        return 1.0
    share = _REDUCED / pixels
    return min(max(math.sqrt(share), _HALF), share**_SHRINKING) * (_FAST if parameters.scale == "fast" else 1.0)


def stream_memory(frames: FrameFormat, parameters: SubtractorParameters, scale: float | None = None) -> int:
    """Return an upper bound of the bytes that a stream takes at its peak, if all results of a frame are kept."""
    # per pixel of the model 92, and per channel 2 + 2 t + 4 s + 9 k + n s + 16 (`_LIGHT`), with rank k (2 or more),
    # n start frames, and t and s bytes of an entry of the frames and of the model
    scale = scale_of(frames, parameters) if scale is None else scale
    pixels = math.prod(frames.shape[:2])
    given, size = (np.dtype(dtype).itemsize for dtype in (frames.dtype, frames.pixels_dtype))
    bases = _BASES * max(parameters.rank, _LEAST_RANK)
    entry = _RESULTS * (1 + given) + size * (_COPIES + parameters.start_length) + bases
    entry += _LIGHT * parameters.light
    held = 16 + 10 * frames.channels if given == 1 else 44 * frames.channels  # results in full size; measured
    return int(pixels * (scale**2 * (_PIXEL + frames.channels * entry) + held))


def check_stream_memory(frames: FrameFormat, parameters: SubtractorParameters, beside: int = 0) -> None:
    """Raise ParameterError if a stream of such frames, and `beside` bytes, need more memory than available."""
    needed, available = stream_memory(frames, parameters) + beside, memory.available_memory()
    if available is None or needed <= available:
        return
    tried = (step * _LEAST_SCALE for step in range(round(scale_of(frames, parameters) / _LEAST_SCALE) - 1, 0, -1))
    scale = next((each for each in tried if stream_memory(frames, parameters, each) + beside < 0.8 * available), None)
    height, width = frames.shape[:2]
    remedy = "smaller frames" if scale is None else f"--scale {scale:.2g}"
    memory.check_memory(needed, f"a stream of {width}x{height} frames", remedy)
