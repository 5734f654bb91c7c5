"""Run methods on sequences and score their masks, and score masks stored by other programs."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bgsub._opencv import cv2
from bgsub.errors import ParameterError, SourceError
from bgsub.evaluation.methods import Method, make_method
from bgsub.evaluation.metrics import Confusion, confusion
from bgsub.evaluation.sequences import Sequence, numbered, read_mask, size_of
from bgsub.evaluation.sheet import Sheet, WorstFrames
from bgsub.numerics.compilation import working_time
from bgsub.storage.durable_io import write_whole
from bgsub.subtractor.rehearsal import LONGEST, rehearse
from bgsub.video.sinks.base import prepare_folder

OnFrame = Callable[[int, np.ndarray, np.ndarray, np.ndarray | None], None]
Result = tuple[int, Any, np.ndarray]  # number, frame, mask of the method
#: Takes a label and a number of frames; returns a context manager that yields an object with ``update()``.
Progress = Callable[[str, int], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Score:
    """The result of one method on one sequence.

    Attributes
    ----------
    sequence, method : str
        Their names.
    confusion : Confusion
        The pixels of all scored frames.
    frames : int
        Number of scored frames.
    milliseconds : float
        Median time of one frame, over all frames; nan where no method ran.
    category : str
        Category of the sequence; empty where it has none.
    length : int
        Number of all frames.
    """

    sequence: str
    method: str
    confusion: Confusion
    frames: int
    milliseconds: float = math.nan
    category: str = ""
    length: int = 0


def evaluate(
    sequence: Sequence,
    method: str | Method = "bgsub",
    *,
    name: str | None = None,
    on_frame: OnFrame | None = None,
    online: bool = False,
) -> Score:
    """Run a method on all frames and score those that have a mask; only ``apply`` is timed.

    Parameters
    ----------
    sequence : Sequence
        The frames and masks; or another object with its `name`, `roi`, `frames` and `truth`.
    method : str or object with ``apply(frame) -> mask``
        A name for `make_method`, or a new background subtractor.
    name : str, optional
        Name of the method in the score; by default the given name or the name of the type.
    on_frame : callable, optional
        Called after each frame with ``(number, frame, mask, truth or None)``.
    online : bool, default False
        Whether each mask of this package depends only on the frames so far, as in a comparison with causal methods;
        see `bgsub.process_video`.

    Raises
    ------
    ParameterError
        If there is no such method, its result is not a mask, or OpenCV refuses the frames.
    SourceError
        If a file cannot be read, or a mask and its frame differ in size.

    Examples
    --------
    >>> from bgsub.evaluation import Sequence, evaluate
    >>> score = evaluate(Sequence("sequence"))
    >>> score.method, score.frames, score.confusion.f_measure > 0.5
    ('bgsub', 60, True)
    """
    label = name or (method if isinstance(method, str) else type(method).__name__)
    subtractor = make_method(method) if isinstance(method, str) else method
    times = []
    if not online:
        rehearse(subtractor, (frame for _number, frame in sequence.frames()))

    def results() -> Iterator[Result]:
        for number, frame in sequence.frames():
            start = working_time()
            try:
                mask = subtractor.apply(frame)
            except cv2.error as error:
                reason = " ".join(str(getattr(error, "err", "") or error).split())
                frames = f"the frames of {sequence.name}, {frame.dtype} of shape {frame.shape}"
                raise ParameterError(f"{label} does not take {frames}: {reason}") from None
            times.append(working_time() - start)
            yield number, frame, mask

    counts = _count(sequence, results(), on_frame)
    return Score(sequence.name, label, *counts, 1000 * median(times), getattr(sequence, "category", ""), len(times))


def score_results(
    sequence: Sequence, results: str | Path, *, name: str | None = None, on_frame: OnFrame | None = None
) -> Score:
    """Score stored masks ``bin%06d.png``, one for each scored frame, without a time.

    Parameters
    ----------
    sequence : Sequence
        The frames and true masks.
    results : path
        Folder of the masks.
    name : str, optional
        Name of the method in the score; by default the name of the folder.
    on_frame : callable, optional
        Called after each scored frame with ``(number, frame, mask, truth)``; without it no frame is read.

    Raises
    ------
    SourceError
        If the folder or a mask is missing, or a mask and its frame differ in size.

    Examples
    --------
    >>> from bgsub.evaluation import MaskWriter, Sequence, evaluate, score_results
    >>> sequence = Sequence("sequence")
    >>> score = evaluate(sequence, "knn", on_frame=MaskWriter("masks", sequence))
    >>> folder = f"masks/{sequence.category}/{sequence.name}"
    >>> score_results(sequence, folder, name="stored").method
    'stored'
    """
    folder = Path(results)
    found = _find_masks(sequence, folder)
    frame = sequence.frame if on_frame is not None else lambda _number: None
    masks = ((number, frame(number), read_mask(found[number])) for number in sequence.scored)
    counts = _count(sequence, masks, on_frame)
    label = name or folder.resolve().name
    return Score(sequence.name, label, *counts, category=sequence.category, length=len(sequence))


def _count(sequence: Sequence, results: Iterable[Result], on_frame: OnFrame | None) -> tuple[Confusion, int]:
    """Return the pixels of the scored frames and their number."""
    total, scored = Confusion(), 0
    for number, frame, mask in results:
        truth = sequence.truth(number)
        if truth is not None:
            if mask.shape != truth.shape:
                sizes = f"{size_of(truth)} in the ground truth and {size_of(mask)} in the result"
                raise SourceError(f"the mask of frame {number} of {sequence.name} is {sizes}")
            total += confusion(mask, truth, sequence.roi)
            scored += 1
        if on_frame is not None:
            on_frame(number, frame, mask, truth)
    return total, scored


def compare(
    sequences: Iterable[Sequence],
    methods: Mapping[str, Callable[[], Method]],
    *,
    masks: str | Path | None = None,
    sheet: Sheet | None = None,
    worst: int = 8,
    progress: Progress | None = None,
    online: bool = False,
) -> Iterator[Score]:
    """Yield the score of each method on each sequence, sequence by sequence.

    Parameters
    ----------
    sequences : iterable of Sequence
        As `find_sequences` returns them.
    methods : mapping of str to callable
        Constructors by name.
    masks : path, optional
        Root of a tree for all masks (`MaskWriter`), with a folder for each method if there are several.
    sheet : Sheet, optional
        Gets a section for each score.
    worst : int, default 8
        Maximum number of frames in a section.
    progress : callable, optional
        Called for each run with a label and the number of frames.
    online : bool, default False
        As for `evaluate`.

    Raises
    ------
    ParameterError, SourceError, SinkError
        As `evaluate` and `MaskWriter`.

    Examples
    --------
    >>> from functools import partial
    >>> from bgsub.evaluation import compare, find_sequences, format_table, make_method
    >>> methods = {name: partial(make_method, name) for name in ("bgsub", "mog2")}
    >>> scores = list(compare(find_sequences(["sequence"]), methods, masks="masks"))
    >>> [(score.method, score.frames) for score in scores]
    [('bgsub', 60), ('mog2', 60)]
    >>> table = format_table(scores)
    """
    for sequence in sequences:
        for name, make in methods.items():
            observers: list[OnFrame] = []
            if masks is not None:
                observers.append(MaskWriter(Path(masks) / name if len(methods) > 1 else masks, sequence))
            method = make()
            is_known = online
            if progress is not None and not online and hasattr(method, "rehearse"):
                is_known = True
                with progress(f"{sequence.name}, {name}, looking ahead", min(LONGEST, len(sequence))) as bar:
                    rehearse(method, (frame for _number, frame in sequence.frames() if not bar.update()))
            with _observed(sequence, name, sheet, worst, progress, len(sequence), observers) as on_frame:
                score = evaluate(sequence, method, name=name, on_frame=on_frame, online=is_known)
            yield score


def compare_results(
    sequences: Iterable[Sequence],
    results: str | Path,
    *,
    sheet: Sheet | None = None,
    worst: int = 8,
    progress: Progress | None = None,
) -> Iterator[Score]:
    """Yield the score of the stored masks of each sequence; check first that all masks exist.

    Parameters
    ----------
    results : path
        The tree of masks, ``results/<category>/<video>/bin%06d.png`` or ``results/<video>/bin%06d.png``; its name is
        used as the name of the method.
    sequences, sheet, worst, progress
        As for `compare`.

    Raises
    ------
    SourceError
        If masks are missing, or as `score_results`.
    """
    sequences = list(sequences)
    folders = [_find_results(sequence, Path(results), alone=len(sequences) == 1) for sequence in sequences]
    for sequence, folder in zip(sequences, folders, strict=True):
        _find_masks(sequence, folder)
    name = Path(results).resolve().name
    for sequence, folder in zip(sequences, folders, strict=True):
        with _observed(sequence, name, sheet, worst, progress, len(sequence.scored), []) as on_frame:
            score = score_results(sequence, folder, name=name, on_frame=on_frame)
        yield score


class MaskWriter:
    """Write the mask of each frame for `compare_results`; an instance is an ``on_frame`` of `evaluate`.

    The values are 0 and 255, as on changedetection.net; the shadow label 127 becomes 0.

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
    """

    def __init__(self, results: str | Path, sequence: Sequence) -> None:
        self.folder = Path(results) / sequence.category / sequence.name
        prepare_folder(self.folder)

    def __call__(self, number: int, frame: np.ndarray, mask: np.ndarray, truth: np.ndarray | None) -> None:
        """Write the mask of one frame."""
        binary = np.where(mask > 127, 255, 0).astype(np.uint8)
        write_whole(self.folder / f"bin{number:06d}.png", cv2.imencode(".png", binary)[1].tobytes(), durable=False)


@contextmanager
def _observed(
    sequence: Sequence,
    name: str,
    sheet: Sheet | None,
    worst: int,
    progress: Progress | None,
    length: int,
    observers: list[OnFrame],
) -> Iterator[OnFrame]:
    """Yield the `on_frame` that calls all observers of a run; add its worst frames to the sheet at the end."""
    # Consecutive frames of one event look alike; this distance spreads the worst frames over the run.
    kept = WorstFrames(worst, sequence.roi, gap=max(1, len(sequence.scored) // (4 * worst)))
    if sheet is not None:
        observers = [*observers, kept]
    with progress(f"{sequence.name}, {name}", length) if progress else nullcontext() as bar:

        def on_frame(number: int, frame: np.ndarray, mask: np.ndarray, truth: np.ndarray | None) -> None:
            for observer in observers:
                observer(number, frame, mask, truth)
            if bar is not None:
                bar.update()

        yield on_frame
    if sheet is not None:
        sheet.add(f"{sequence.category}/{sequence.name}, {name}", kept.frames())


def _find_results(sequence: Sequence, root: Path, alone: bool) -> Path:
    """Return the folder with the masks of a sequence, which may be `root` for a single sequence."""
    if not root.is_dir():
        raise SourceError(f"folder {root} does not exist")
    candidates = [root / sequence.category / sequence.name, root / sequence.name]
    for folder in candidates:
        if folder.is_dir():
            return folder
    if alone:
        return root
    raise SourceError(f"no masks of {sequence.folder}: there is neither {candidates[0]} nor {candidates[1]}")


def _find_masks(sequence: Sequence, folder: Path) -> dict[int, Path]:
    """Return the masks ``bin%06d.png`` by number; raise SourceError unless each scored frame has one."""
    found = numbered(folder, "bin")
    missing = [number for number in sequence.scored if number not in found]
    if missing:
        first = missing[0]
        more = f", nor for {len(missing) - 1} more" if len(missing) > 1 else ""
        raise SourceError(f"folder {folder} has no mask for frame {first} (bin{first:06d}.png){more}")
    return found
