"""The files that a decomposition becomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from bgsub.errors import OutputError, import_optional
from bgsub.jobs.decomposition.fitting import Decomposition
from bgsub.jobs.decomposition.picture import picture
from bgsub.jobs.decomposition.samples import FrameSamples, Samples
from bgsub.video.sinks.images import write_image
from bgsub.video.sinks.taken import TakenNames
from bgsub.video.sinks.videos import as_separation, video_sink

PARTS = ("low_rank", "sparse")
VIDEO_ENDING = ".mp4"

Write = Callable[[Path, Samples, Decomposition], None]


@dataclass(frozen=True)
class Target:
    """One output: a file, or a folder of images."""

    name: str  # of the file or folder
    write: Write  # makes it, given its path, the samples and their parts
    is_folder: bool = False  # whether it is a folder


def frame_targets(as_images: bool, sparse_picture: str = "absolute") -> list[Target]:
    """Return the outputs for frames: two folders of images, named as those of the source or by number, or two videos.

    `sparse_picture` is how values of both signs are shown: "absolute", black is 0; or "offset", half the value above
    mid-grey.
    """
    write = _write_images if as_images else _write_video
    ending = "" if as_images else VIDEO_ENDING
    return [Target(f"{part}{ending}", _of_part(write, part, sparse_picture), is_folder=as_images) for part in PARTS]


def matrix_targets(ending: str) -> list[Target]:
    """Return the outputs for a matrix from a file with the ending ``.npy``, ``.npz`` or ``.mat``."""
    if ending == ".npy":
        return [Target(f"{part}.npy", _npy_writer(part)) for part in PARTS]
    return [Target("decomposition.mat", write_mat)] if ending == ".mat" else [arrays_target()]


def arrays_target() -> Target:
    """Return the output with all arrays, ``decomposition.npz``."""
    return Target("decomposition.npz", write_npz)


def plot_target(name: str = "decomposition.png") -> Target:
    """Return the output with the picture of a decomposition; DependencyError where matplotlib is missing."""
    message = "a picture of a decomposition needs the package matplotlib: pip install 'bgsub[plot]'"
    import_optional("matplotlib", message)  # what is missing shows before the work

    def write(path: Path, samples: Samples, parts: Decomposition) -> None:
        from bgsub.jobs.decomposition.drawing import draw  # noqa: PLC0415 - it brings matplotlib along

        draw(samples, parts, path)

    return Target(name, write)


def arrays_of(samples: Samples, parts: Decomposition) -> dict[str, np.ndarray]:
    """Return the arrays of a decomposition by name, in the form of the input.

    ``low_rank`` and ``sparse`` have the shape of the input, ``components`` is (k, ...) with the shape of a sample,
    ``coefficients`` (n, k) and ``singular_values`` (k,).
    """
    return {
        "low_rank": samples.restore(parts.low_rank),
        "sparse": samples.restore(parts.sparse),
        "components": samples.restore_components(parts.components),
        "coefficients": parts.coefficients,
        "singular_values": parts.singular_values,
    }


def write_npz(path: Path, samples: Samples, parts: Decomposition) -> None:
    """Write all arrays into a file ``.npz``."""
    np.savez(path, **arrays_of(samples, parts))  # type: ignore[arg-type]


def write_mat(path: Path, samples: Samples, parts: Decomposition) -> None:
    """Write all arrays into a file ``.mat`` of version 5; OutputError for arrays larger than it can hold."""
    from scipy.io import savemat  # noqa: PLC0415 - it takes a while, and few outputs are .mat
    from scipy.io.matlab import MatWriteError  # noqa: PLC0415

    try:
        savemat(path, arrays_of(samples, parts), appendmat=False, oned_as="column")
    except MatWriteError as error:
        raise OutputError(f"'{path.name}' cannot be written: {error}") from None


def _npy_writer(part: str) -> Write:
    def write(path: Path, samples: Samples, parts: Decomposition) -> None:
        with path.open("wb") as file:
            # Not the file itself: NumPy does not tell why it cannot be written.
            np.save(SimpleNamespace(write=file.write), samples.restore(getattr(parts, part)))

    return write


def _of_part(write: Callable[..., None], part: str, sparse_picture: str) -> Write:
    def write_part(path: Path, samples: Samples, parts: Decomposition) -> None:
        assert isinstance(samples, FrameSamples)
        write(path, samples, getattr(parts, part), sparse_picture if part == "sparse" else "")

    return write_part


def _write_video(path: Path, samples: FrameSamples, rows: np.ndarray, sparse_picture: str) -> None:
    with video_sink(path, "background", samples.fps) as sink:
        for frame, row in zip(samples.frames, rows, strict=True):
            sink.write(frame, as_separation(picture(samples, row, sparse_picture)))


def _write_images(folder: Path, samples: FrameSamples, rows: np.ndarray, sparse_picture: str) -> None:
    folder.mkdir()
    taken = TakenNames()
    for frame, row in zip(samples.frames, rows, strict=True):
        # images of the same name may come from several folders
        name = frame.name if frame.name not in taken else f"{frame.name}_{frame.index}"
        taken.add(name)
        write_image(folder / f"{name}.png", picture(samples, row, sparse_picture), durable=False)
