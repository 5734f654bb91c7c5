"""Kernels that a stream needs rarely, loaded before it needs them.

Loading a compiled kernel takes milliseconds, compiling one takes seconds; the frame that first sees the camera move or
a lamp go on should not pay for it. While the first frames come in, a thread plays a small scene with all of that to
an instance of its own.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable

import numpy as np
from numba import config

_SIDE = 64
_FRAMES = 48
_loaded: set[tuple[str, int]] = set()
_lock = threading.Lock()
_exiting = threading.Event()


def load_in_background(dtype: str, channels: int, process: Callable[[], Callable[[np.ndarray], object]]) -> None:
    """Load the kernels for frames of a type and a number of channels, once per process, without waiting.

    Parameters
    ----------
    dtype : str
        "uint8" or "float32", the types that the engine works on.
    channels : int
        Of the frames.
    process : callable
        Makes what takes the frames of `scene`, one by one.
    """
    with _lock:
        if config.DISABLE_JIT or (dtype, channels) in _loaded:
            return
        _loaded.add((dtype, channels))
    thread = threading.Thread(target=_play, args=(dtype, channels, process), name="kernel-loader", daemon=True)
    thread.start()
    # Python ends daemon threads in the middle of native code, which can abort the whole process.
    atexit.register(_end, thread)


def _end(thread: threading.Thread) -> None:
    _exiting.set()
    thread.join()


def was_compiled(kernel: Callable[..., object]) -> bool:
    """Return whether this process had to compile a kernel that it has called, instead of finding it in the cache."""
    stats = getattr(kernel, "stats", None)
    return stats is not None and sum(stats.cache_misses.values()) > 0


def _play(dtype: str, channels: int, process: Callable[[], Callable[[np.ndarray], object]]) -> None:
    try:
        take = process()
        for frame in scene(channels):
            if _exiting.is_set():
                return
            take(frame if dtype == "uint8" else frame.astype(np.float32) / 255)
    except Exception:  # the stream itself will show what is wrong, with a frame to blame
        logging.getLogger("bgsub").debug("loading kernels failed", exc_info=True)


def scene(channels: int) -> list[np.ndarray]:
    """Return frames, (h, w, c) uint8: a still scene, a shaken camera, an object that stops, a lamp, a cut."""
    rng = np.random.default_rng(0)
    coarse = np.kron(rng.integers(40, 160, (10, 10, channels)), np.ones((8, 8, 1)))[:80, :80]
    background = (coarse + rng.integers(0, 20, coarse.shape)).astype(np.uint8)
    frames = []
    for i in range(_FRAMES):
        shift = i % 3 if 10 <= i < 16 else 0
        frame = background[4 + shift : 4 + shift + _SIDE, 4 : 4 + _SIDE].copy()
        if 18 <= i < 32:
            frame[20:44, 16:40] = 230
            frame[38:44, 16:40] = 20  # the side on which its shadow lies
        if i >= 36:
            frame = (frame * np.linspace(0.8, 2, _SIDE)[:, np.newaxis]).clip(0, 255).astype(np.uint8)
        frames.append(frame)
    return frames
