"""The files of a decomposition: they appear under their names once all of them are complete."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from bgsub.errors import OutputError, SinkError
from bgsub.jobs.decomposition.samples import FrameSamples, Samples
from bgsub.jobs.interrupts import finishing
from bgsub.robust_pca.estimator import RobustPCA
from bgsub.storage.durable_io import as_sink_error, sync_folder, sync_tree, unlink
from bgsub.storage.file_lock import Claims
from bgsub.video.sinks.base import prepare_folder
from bgsub.video.sinks.images import write_image
from bgsub.video.sinks.video import VideoSink, as_separation
from bgsub.video.sources.images import is_image

_PARTS = ("low_rank", "sparse")
_STAGE = ".decompose-"  # start of the name of the folder of incomplete outputs, before that of the first output


@dataclass(frozen=True)
class Target:
    """One output: a file, or a folder of images."""

    name: str
    write: Callable[[Path, Any, RobustPCA], None]  # takes the path, the samples and the fitted model
    is_folder: bool = False


def frame_targets(as_images: bool) -> list[Target]:
    """Return the outputs for frames: two folders of images, or two videos."""
    ending = "" if as_images else ".mp4"
    return [Target(f"{part}{ending}", partial(_write_frames, part), as_images) for part in _PARTS]


def matrix_targets(ending: str) -> list[Target]:
    """Return the outputs for a matrix from a file with the ending ``.npy``, ``.npz`` or ``.mat``."""
    if ending == ".npy":
        return [Target(f"{part}.npy", partial(_write_npy, part)) for part in _PARTS]
    return [Target("decomposition.mat", _write_mat)] if ending == ".mat" else [ARRAYS]


def _arrays_of(samples: Samples, model: RobustPCA) -> dict[str, np.ndarray]:
    """Return the arrays of a decomposition by name, in the form of the input."""
    return {
        "low_rank": samples.restore(model.low_rank_),
        "sparse": samples.restore(model.sparse_),
        "components": samples.restore_components(model.components_),
        "coefficients": model.coefficients_,
        "singular_values": model.singular_values_,
    }


#: The output with all arrays.
ARRAYS = Target("decomposition.npz", lambda path, *fit: np.savez(path, **_arrays_of(*fit)))  # type: ignore[arg-type]


def _write_mat(path: Path, samples: Samples, model: RobustPCA) -> None:
    from scipy.io import savemat  # noqa: PLC0415 - slow to import, and few outputs are .mat
    from scipy.io.matlab import MatWriteError  # noqa: PLC0415

    try:
        savemat(path, _arrays_of(samples, model), appendmat=False, oned_as="column")
    except MatWriteError as error:
        raise OutputError(f"'{path.name}' cannot be written: {error}") from None


def _write_npy(part: str, path: Path, samples: Samples, model: RobustPCA) -> None:
    with path.open("wb") as file:
        # for a file itself NumPy does not report why it cannot be written
        np.save(SimpleNamespace(write=file.write), samples.restore(getattr(model, f"{part}_")))


def _write_frames(part: str, path: Path, samples: FrameSamples, model: RobustPCA) -> None:
    """Write the rows of a part as a video or into a folder of images, those of the sparse part as absolute values."""
    rows = (np.abs(row) if part == "sparse" else row for row in getattr(model, f"{part}_"))
    pictures = zip(samples.frames, map(samples.image, rows), strict=True)
    if path.suffix:
        with VideoSink(path, "background", samples.fps) as sink:
            for frame, image in pictures:
                sink.write(frame, as_separation(image))
        return
    path.mkdir()
    taken: set[str] = set()
    for frame, image in pictures:
        # images of the same name may come from several folders
        name = frame.name if frame.name not in taken else f"{frame.name}_{frame.index}"
        taken.add(name)
        write_image(path / f"{name}.png", image, durable=False)


@contextmanager
def output_folder(folder: Path, targets: Sequence[Target], read: Path | None, overwrite: bool) -> Iterator[Path]:
    """Yield an empty folder for the targets; at the end of the block they move into `folder`, or nothing is left."""
    # with `overwrite` a folder is replaced only if it contains nothing but images; `read`, the input, never is
    _remove_leftovers(folder)
    with Claims() as claims:
        for target in targets:
            claims.take(folder / target.name)
            _check_target(folder / target.name, target, read, overwrite)
        prepare_folder(folder)
        stage = folder / f"{_STAGE}{targets[0].name}"
        try:
            made = stage / "new"
            with as_sink_error(folder, OutputError):
                made.mkdir(parents=True)
                yield made
                sync_tree(made)
                with finishing():
                    _move(made, folder, targets, stage)
        finally:
            shutil.rmtree(stage, ignore_errors=True)


def _remove_leftovers(folder: Path) -> None:
    """Remove the folders of killed runs, whose outputs no run claims."""
    for stage in folder.glob(f"{_STAGE}*"):
        with suppress(SinkError), Claims() as claims:
            claims.take(folder / stage.name.removeprefix(_STAGE))
            shutil.rmtree(stage, ignore_errors=True)
            if stage.exists():  # a file, as a power cut may leave it
                unlink(stage)


def _check_target(path: Path, target: Target, read: Path | None, overwrite: bool) -> None:
    if read is not None and path.resolve() == read.resolve():
        raise SinkError(f"the output '{path}' is the input itself")
    if not path.exists():
        return
    if not overwrite:
        raise SinkError(f"the output '{path}' exists already; --overwrite replaces it")
    if path.is_dir() != target.is_folder:
        raise SinkError(f"the output '{path}' is a {'folder' if path.is_dir() else 'file'} already")
    if target.is_folder:
        other = next((found for found in path.iterdir() if found.is_dir() or not is_image(found)), None)
        if other is not None:
            raise SinkError(f"the output '{path}' holds more than images and is not replaced: '{other}'")


def _move(made: Path, folder: Path, targets: Sequence[Target], stage: Path) -> None:
    """Give the outputs their final names; existing folders are moved to the stage, which is deleted."""
    for target in targets:
        path = folder / target.name
        if target.is_folder and path.exists():
            os.replace(path, stage / target.name)
        os.replace(made / target.name, path)
    sync_folder(folder)
