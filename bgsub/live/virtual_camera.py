"""A virtual camera for other programs: the foreground in front of another background."""

from __future__ import annotations

import math
import os
import sys
import time
from fractions import Fraction
from typing import Any

import numpy as np

from bgsub.errors import ParameterError, SinkError, import_optional
from bgsub.live.viewer import compose, make_backdrop
from bgsub.separation import Separation
from bgsub.video.sinks.base import Sink
from bgsub.video.sources.base import Frame

_ADVICE = {
    "linux": "install v4l2loopback (package v4l2loopback-dkms) and run 'sudo modprobe v4l2loopback'",
    "darwin": "install OBS Studio and start its virtual camera once",
    "win32": "install OBS Studio",
}


class VirtualCameraSink(Sink):
    """Send pictures to a virtual camera, for video calls, at a constant rate.

    Frames that come too fast are dropped; without new frames the last one is sent again.

    Parameters
    ----------
    backdrop : str or path
        New background: ``"blur"``, a colour such as ``"#00b140"``, or an image file.
    fps : float or Fraction, optional
        Pictures per second; 25 if unknown.
    device : str, optional
        Such as ``/dev/video2``; by default the first virtual camera.
    size : (int, int), optional
        Width and height of the frames; if given, a missing device is reported at once.

    Attributes
    ----------
    device : str or None
        The camera in use.

    Raises
    ------
    DependencyError
        If pyvirtualcam is not installed.
    ParameterError
        If a parameter is invalid.
    SinkError
        If there is no virtual camera, or it fails.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.live import VirtualCameraSink
    >>> summary = bgsub.process_video(0, VirtualCameraSink("blur"))  # doctest: +SKIP
    """

    def __init__(
        self,
        backdrop: str | os.PathLike[str] = "blur",
        fps: float | Fraction | None = None,
        device: str | None = None,
        size: tuple[int, int] | None = None,
    ) -> None:
        if fps is not None and not 0 < fps < math.inf:
            raise ParameterError(f"fps must be a positive number of pictures per second, got {fps!r}")
        self.device = device
        self._backdrop = make_backdrop(backdrop)
        self._package = import_optional(
            "pyvirtualcam", "a virtual camera needs the package pyvirtualcam: pip install 'bgsub[virtual-camera]'"
        )
        self._period = 1 / float(fps or 25)
        self._camera: Any = None
        self._last: np.ndarray | None = None
        self._due = -math.inf
        if size is not None:
            self._open(*size)

    def write(self, _frame: Frame, separation: Separation) -> None:
        if self._is_due(self._period / 2):
            self._last = compose(separation, self._backdrop)[:, :, ::-1]
            self._send()

    def idle(self) -> None:
        if self._last is not None and self._is_due(0.0):
            self._send()

    def close(self) -> None:
        camera, self._camera, self._last = self._camera, None, None
        if camera is not None:
            camera.close()

    def _is_due(self, tolerance: float) -> bool:
        return time.monotonic() >= self._due - tolerance

    def _send(self) -> None:
        assert self._last is not None
        picture = np.ascontiguousarray(self._last)
        if self._camera is None:
            self._open(picture.shape[1], picture.shape[0])
        try:
            self._camera.send(picture)
        except Exception as error:  # the backends raise errors of any type
            raise SinkError(f"the virtual camera {self.device} failed: {_one_line(error)}") from None
        now = time.monotonic()
        # A delay of more than one picture is not made up for.
        self._due = (self._due if now - self._due < self._period else now) + self._period

    def _open(self, width: int, height: int) -> None:
        try:
            self._camera = self._package.Camera(width, height, 1 / self._period, device=self.device)
        except Exception as error:  # the backends raise errors of any type
            which = f"no virtual camera '{self.device}'" if self.device else "there is no virtual camera"
            advice = _ADVICE.get(sys.platform, "see the documentation of pyvirtualcam")
            raise SinkError(f"{which}: {_one_line(error)}; {advice}") from None
        self.device = self._camera.device


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
