"""Folders of masks in the layout of changedetection.net: ``results/<category>/<video>/bin%06d.png``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import SourceError
from bgsub.evaluation.files import numbered
from bgsub.evaluation.sequences import Sequence
from bgsub.storage.atomic import no_folder, write_whole


def find_results(sequence: Sequence, results: str | Path, alone: bool = False) -> Path:
    """Return the folder that holds the masks of a sequence.

    Parameters
    ----------
    sequence : Sequence
        The sequence; its category and its name are looked for.
    results : path
        The tree of masks: ``results/<category>/<video>``, or without the categories ``results/<video>``.
    alone : bool, default False
        Whether `results` may be the folder of the masks itself, as it may for a single sequence.

    Raises
    ------
    SourceError
        If there is none of them.
    """
    root = Path(results)
    if not root.is_dir():
        raise SourceError(f"folder {root} does not exist")
    candidates = [root / sequence.category / sequence.name, root / sequence.name]
    for folder in candidates:
        if folder.is_dir():
            return folder
    if alone:
        return root
    raise SourceError(f"no masks of {sequence.folder}: there is neither {candidates[0]} nor {candidates[1]}")


def find_masks(sequence: Sequence, folder: Path) -> dict[int, Path]:
    """Return the masks ``bin%06d.png`` of a folder by number; every scored frame has one.

    Raises
    ------
    SourceError
        If the folder or a mask is missing; the first one is named.
    """
    found = numbered(folder, "bin")
    missing = [number for number in sequence.scored if number not in found]
    if missing:
        first = missing[0]
        more = f", nor for {len(missing) - 1} more" if len(missing) > 1 else ""
        raise SourceError(f"folder {folder} has no mask for frame {first} (bin{first:06d}.png){more}")
    return found


class MaskWriter:
    """Writes the mask of every frame as `compare_results` looks for it; pass it to `evaluate` as ``on_frame``.

    Masks are written as the site wants them, 0 and 255; the shadow label 127 becomes 0, which is how it is
    scored.

    Parameters
    ----------
    results : path
        Root of the tree; ``results/<category>/<video>`` is created in it.
    sequence : Sequence
        The sequence.

    Raises
    ------
    SinkError
        If the folder or a mask cannot be written.

    Examples
    --------
    >>> from bgsub.evaluation import MaskWriter, Sequence, evaluate, score_results
    >>> sequence = Sequence("sequence")
    >>> score = evaluate(sequence, "mog2", on_frame=MaskWriter("masks", sequence))
    >>> folder = f"masks/{sequence.category}/{sequence.name}"
    >>> score_results(sequence, folder).confusion == score.confusion
    True
    """

    def __init__(self, results: str | Path, sequence: Sequence) -> None:
        self.folder = Path(results) / sequence.category / sequence.name
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise no_folder(self.folder, error) from None

    def __call__(self, number: int, frame: np.ndarray, mask: np.ndarray, truth: np.ndarray | None) -> None:
        """Write the mask of one frame."""
        binary = np.where(mask > 127, 255, 0).astype(np.uint8)
        write_whole(self.folder / f"bin{number:06d}.png", cv2.imencode(".png", binary)[1].tobytes(), lasting=False)
