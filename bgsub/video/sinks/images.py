"""Image files and arrays as outputs."""

import math
import re
import zipfile
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SinkError
from bgsub.separation import Separation
from bgsub.storage import durable_io
from bgsub.storage.durable_io import AnyPath
from bgsub.video.output_names import ARRAY_ENDINGS, IMAGE_ENDINGS, STILL_ENDINGS, allowed_endings
from bgsub.video.sinks.base import Sink, path_with_ending, prepare_folder
from bgsub.video.sources.base import Frame
from bgsub.video.views import get_view, to_uint8

# A quality above 100 makes OpenCV write WebP without loss.
_SETTINGS = {".jpg": [cv2.IMWRITE_JPEG_QUALITY, 95], ".webp": [cv2.IMWRITE_WEBP_QUALITY, 101]}
_SYNCED_TOGETHER = 250  # images; syncing each one takes 30 times as long
_DEEP_ENDINGS = (".png", ".tif")


class ImageSequenceSink(Sink):
    """Writes one view as images that keep the numbers of the source: in000123.jpg gives bin000123.png.

    Each image is written atomically. PNG and TIFF keep 8 and 16 bit, WebP is lossless with 8 bit, floating images
    become 8 bit. A frame whose name has no number, or a used one, gives ``PREFIX_NAME.png``.

    Parameters
    ----------
    folder : str or path
        Output folder; created if missing.
    view : str
        One of `VIEWS`.
    prefix : str, optional
        Text before the number: by default ``bin`` for masks, as on changedetection.net, otherwise the name of the view.
    ending : {".png", ".jpg", ".tif", ".webp"}
        Image format; no JPEG for masks and cutouts.
    clean : bool
        Remove the images of an older run at `close`: files named by the prefix, digits and the ending.

    Raises
    ------
    ParameterError
        If the view or the ending is not allowed.
    SinkError
        If the folder or an image cannot be written.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.video import ImageSequenceSink
    >>> summary = bgsub.process_video("frames", ImageSequenceSink("masks"))
    >>> bgsub.open_source("masks").length
    60
    """

    def __init__(
        self, folder: AnyPath, view: str = "mask", prefix: str | None = None, ending: str = ".png", clean: bool = False
    ) -> None:
        self.folder = Path(folder)
        self._view = get_view(view)
        allowed = [known for known in allowed_endings(view) if known in IMAGE_ENDINGS]
        if ending not in allowed:
            raise ParameterError(f"images of {view} can end in {', '.join(allowed)}, got '{ending}'")
        self._prefix = prefix if prefix is not None else default_prefix(view)
        self._ending, self._clean = ending, clean
        self._names: set[str] = set()
        self._not_synced: list[Path] = []
        prepare_folder(self.folder)

    def write(self, frame: Frame, separation: Separation) -> None:
        path = self.folder / f"{self._name(frame.name)}{self._ending}"
        write_image(path, self._view(separation), durable=False)
        self._not_synced.append(path)
        if len(self._not_synced) == _SYNCED_TOGETHER:
            durable_io.sync_written(self.folder, self._not_synced)

    def close(self) -> None:
        if self._clean and self._names:
            older = re.compile(re.escape(self._prefix) + "[0-9]+" + re.escape(self._ending) + r"(\.partial)?")
            with suppress(OSError):
                for path in list(self.folder.iterdir()):
                    if older.fullmatch(path.name) and path.stem not in self._names and path.is_file():
                        path.unlink()
        durable_io.sync_written(self.folder, self._not_synced)

    def abort(self) -> None:
        """Remove the folder if it is empty; each image is complete already."""
        with suppress(OSError):
            self.folder.rmdir()

    def checkpoint(self) -> dict[str, Any]:
        durable_io.sync_written(self.folder, self._not_synced)
        return {"names": sorted(self._names)}

    def resume(self, state: dict[str, Any]) -> None:
        self._names = set(state["names"])

    def _name(self, name: str) -> str:
        number = re.search(r"[0-9]+$", name)
        candidates = [f"{self._prefix}{number[0]}"] if number else []
        candidates += [f"{self._prefix}_{name}", f"{self._prefix}_{name}_{len(self._names)}"]
        result = next(candidate for candidate in candidates if candidate not in self._names)
        self._names.add(result)
        return result


def default_prefix(view: str) -> str:
    """Return the default text before the number in the names of images of a view."""
    return "bin" if view == "mask" else view


def write_image(path: Path, image: np.ndarray, *, durable: bool = True) -> None:
    """Write an image file atomically: PNG and TIFF with 8 or 16 bit, others with 8; for `durable` see `replacing`."""
    durable_io.write_whole(path, encode_image(path, image), durable=durable)


def encode_image(path: Path, image: np.ndarray) -> bytes:
    """Return the bytes of an image file of that name; SinkError if the format cannot hold the image."""
    ending = path.suffix.lower()
    if image.dtype != np.uint16 or ending not in _DEEP_ENDINGS:
        image = to_uint8(image)
    try:
        good, data = cv2.imencode(ending, image, _SETTINGS.get(ending, []))
    except cv2.error:
        good = False
    if not good:
        kind = {".jpg": "JPEG", ".tif": "TIFF", ".webp": "WebP"}.get(ending, "PNG")
        raise SinkError(f"'{path}' cannot be written: no {kind} can hold shape {image.shape}, {image.dtype}")
    return data.tobytes()


class StillSink(Sink):
    """Writes the background of the last frame as one image.

    PNG and TIFF keep 16 bit; floating images become 8 bit. After `abort` the image is ``NAME.partial.EXT``.

    Parameters
    ----------
    path : str or path
        The file, ending in ``.png``, ``.tif`` or ``.jpg``. Missing folders are created.

    Raises
    ------
    ParameterError
        If the ending is not allowed.
    SinkError
        If the file cannot be written.

    Examples
    --------
    >>> import bgsub
    >>> from bgsub.video import StillSink
    >>> summary = bgsub.process_video("video.mp4", StillSink("background.png"))
    >>> bgsub.open_source("background.png").size
    (64, 48)
    """

    def __init__(self, path: AnyPath) -> None:
        self.path = path_with_ending(path, "a still image", STILL_ENDINGS)
        self.partial_path = durable_io.playable_name(self.path)
        self._newest: np.ndarray | None = None
        self._saved: bytes | None = None
        self._kept = False  # a checkpoint needs the partial image
        prepare_folder(self.path.parent)

    def write(self, frame: Frame, separation: Separation) -> None:
        self._newest, self._saved = separation.background, None

    def close(self) -> None:
        data = self._data()
        self._newest = self._saved = None  # a failed write would fail again in `abort`
        if data is not None:
            durable_io.write_whole(self.path, data)
            if not self._kept:
                durable_io.remove_partials(self.path)

    def abort(self) -> None:
        self.checkpoint()
        self._newest = self._saved = None

    def checkpoint(self) -> dict[str, Any]:
        data = self._data() or b""
        self._kept = bool(data)
        if data:
            durable_io.write_whole(self.partial_path, data)
        return {"bytes": len(data)}

    def resume(self, state: dict[str, Any]) -> None:
        if state["bytes"]:
            with durable_io.os_errors_as(SinkError, f"'{self.path}' cannot be continued: '{self.partial_path}'"):
                self._saved = self.partial_path.read_bytes()

    def _data(self) -> bytes | None:
        return self._saved if self._newest is None else encode_image(self.path, self._newest)


_DATE = (1980, 1, 1, 0, 0, 0)  # the oldest date in a ZIP file, so that equal results give equal bytes
_LEVEL = 1  # masks shrink to a few per cent already at the fastest level


class ArraySink(Sink):
    """Writes one view and facts about each frame into a ``.npz`` file for `numpy.load`.

    The arrays, for n frames:

    - the view by its name, (n, h, w) or (n, h, w, c), dtype of the view;
    - ``index`` (n,) int64, and ``time`` (n,) float64 in seconds, NaN where unknown;
    - ``share`` (n,) float64, share of the foreground;
    - ``coefficients`` (n, k) float64, shorter rows padded with NaN;
    - ``event`` (n,) unicode, empty without an event.

    Frames are stored compressed on disk until the end, so that memory does not grow with the length. Until then, and
    after `abort`, the file is ``NAME.partial``, which only bgsub reads.

    Parameters
    ----------
    path : str or path
        The file, ending in ``.npz``. Missing folders are created.
    view : str
        One of `VIEWS`.

    Raises
    ------
    ParameterError
        If the ending or the view is not allowed.
    SinkError
        If the file cannot be written, or a frame has another shape or type than the first one.

    Examples
    --------
    >>> import bgsub
    >>> import numpy as np
    >>> from bgsub.video import ArraySink
    >>> summary = bgsub.process_video("video.mp4", ArraySink("masks.npz"))
    >>> saved = np.load("masks.npz")
    >>> saved["mask"].shape, int(saved["index"][-1]), float(saved["time"][-1])
    ((60, 48, 64), 59, 2.36)
    """

    def __init__(self, path: AnyPath, view: str = "mask") -> None:
        self.path = path_with_ending(path, "a file of arrays", ARRAY_ENDINGS)
        self._name, self._view = view, get_view(view)
        self._shape: tuple[int, ...] = ()
        self._dtype = np.dtype(np.uint8)
        self._count = 0
        prepare_folder(self.path.parent)
        self._journal = durable_io.Journal(self.path)

    def write(self, frame: Frame, separation: Separation) -> None:
        image = np.ascontiguousarray(self._view(separation))
        if not self._count:
            self._shape, self._dtype = image.shape, image.dtype
        if (image.shape, image.dtype) != (self._shape, self._dtype):
            raise SinkError(
                f"'{self.path}' has images of shape {self._shape}, {self._dtype}; "
                f"frame {frame.name} has {image.shape}, {image.dtype}"
            )
        facts = {
            "index": frame.index,
            "time": frame.time,
            "share": separation.share,
            "coefficients": [float(value) for value in separation.coefficients],
            "event": separation.event or "",
        }
        self._journal.add(facts, zlib.compress(image.data, _LEVEL))
        self._count += 1

    def close(self) -> None:
        if not self._count:
            return
        partial = durable_io.playable_name(self.path)
        with durable_io.as_sink_error(self.path), durable_io.replacing(self.path, partial):
            self._make(partial)
        self._journal.remove()
        self._count = 0

    def abort(self) -> None:
        self._journal.close()
        self._count = 0

    def checkpoint(self) -> dict[str, Any]:
        size = self._journal.sync()
        return {"frames": self._count, "bytes": size, "shape": list(self._shape), "dtype": self._dtype.str}

    def resume(self, state: dict[str, Any]) -> None:
        self._journal.cut(state["bytes"])
        self._count = state["frames"]
        self._shape, self._dtype = tuple(state["shape"]), np.dtype(state["dtype"])

    def _make(self, path: Path) -> None:
        rows = [facts for facts, _data in self._journal.records()]
        width = max(len(row["coefficients"]) for row in rows)
        for row in rows:
            row["coefficients"] += [math.nan] * (width - len(row["coefficients"]))
        # None, for an unknown time, becomes NaN.
        kinds: dict[str, Any] = {"index": np.int64, "time": float, "share": float, "coefficients": float, "event": str}
        columns = {name: np.array([row[name] for row in rows], kind) for name, kind in kinds.items()}
        with zipfile.ZipFile(path, "w") as archive:
            images = (zlib.decompress(data) for _facts, data in self._journal.records())
            _add(archive, self._name, self._dtype, (self._count, *self._shape), images)
            for name, column in columns.items():
                _add(archive, name, column.dtype, column.shape, [column.tobytes()])


def _add(archive: zipfile.ZipFile, name: str, dtype: np.dtype, shape: tuple[int, ...], blocks: Iterable[bytes]) -> None:
    """Write one array, given as blocks of bytes in C order, as ``NAME.npy`` into the archive."""
    entry = zipfile.ZipInfo(f"{name}.npy", _DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    description = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with archive.open(entry, "w", force_zip64=True) as file:
        np.lib.format.write_array_header_1_0(file, description)
        file.writelines(blocks)
