"""Draw the pictures of docs/tuning.md: the effect of each parameter on a synthetic scene.

    python scripts/docs_tuning.py [--output docs/pictures] [--size 320x240] [--frames 300] [PARAMETER...]

Each picture shows one frame four times: as it is and with three values, or, of parameters that have only two, with the
true mask. Green is found, red a false alarm, blue missed; F is that of all frames after the start. The frame shown is
the one in which the values differ most. All is made from seeds: the same pictures every time.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from conditions import SceneSequence, derive

from bgsub import BackgroundSubtractor
from bgsub._opencv import cv2
from bgsub.evaluation.metrics import MOVING, STATIC, Confusion, confusion
from bgsub.evaluation.sheet import error_image
from bgsub.synthetic import scene

TARGET = Path(__file__).resolve().parent.parent / "docs" / "pictures"
_QUALITY = 82  # of JPEG
_CAPTION = 26  # height in pixels


@dataclass(frozen=True)
class Case:
    """A parameter, its values, and a scene that shows the difference."""

    values: tuple[Any, ...]  # three, or two beside the true mask
    place: str
    options: dict[str, Any] = field(default_factory=dict)  # of the scene
    condition: str = "unchanged"  # see conditions.py
    others: dict[str, Any] = field(default_factory=dict)  # parameters that all the values are tried with
    skip: int = 0  # frames of the scene before the first one that is seen
    scored: int = 60  # frames that are seen before the first one that is scored


CASES = {
    "threshold": Case((0.03, 0.08, 0.3), "lobby", {"lamps": False}),
    "noise_factor": Case((0.5, 2.0, 8.0), "street", {"lamps": False}, "noise"),
    "neighbours": Case((0, 1, 3), "street", {"lamps": False, "sway": 3.0}),
    "median": Case((1, 5, 15), "street", {"lamps": False}, "noise", {"min_area": 0.0, "noise_factor": 1.5}),
    "min_area": Case((0.0, 0.0002, 0.01), "street", {"lamps": False, "sway": 2.0}),
    "shadows": Case(("on", "off", "merged"), "lobby", {"lamps": False}),
    "forgetting": Case((0.005, 0.03, 0.5), "street"),
    "rank": Case((1, 3, 10), "street", {}, "ramp", {"light": False}),
    "absorb_after": Case((2.0, 60.0, math.inf), "street", {"lamps": False}, "frozen"),
    # a person stands in view while the model starts, then leaves
    "ghosts": Case((False, True), "lobby", {"lamps": False}, "frozen", skip=80, scored=175),
    "stabilise": Case((False, True), "street", {"lamps": False, "shake": 2.0}),
    "light": Case((False, True), "lobby"),
    "scale": Case((0.25, "auto", 1.0), "street", {"lamps": False}),
}


def recorded(case: Case, size: tuple[int, int], frames: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the frames and the masks of a case."""
    sequence = derive(
        SceneSequence(scene(case.place, size=size, length=case.skip + frames, **case.options)), case.condition
    )
    seen = [(frame, sequence.truth(number)) for number, frame in sequence.frames()][case.skip :]
    return [frame for frame, _ in seen], [truth for _, truth in seen if truth is not None]


def masks_of(frames: Sequence[np.ndarray], **parameters: Any) -> list[np.ndarray]:
    """Return the masks of all frames, provisional ones of the start included."""
    subtractor = BackgroundSubtractor(**parameters)
    return [subtractor.apply(frame) for frame in frames]


def wrong(mask: np.ndarray, truth: np.ndarray) -> int:
    """Return the number of wrong pixels of a mask."""
    found = confusion(mask, truth)
    return found.fp + found.fn


def captioned(image: np.ndarray, text: str) -> np.ndarray:
    """Return a picture with a line of text above it."""
    bar = np.full((_CAPTION, image.shape[1], 3), 255, np.uint8)
    cv2.putText(bar, text, (4, 18), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (0, 0, 0), 1, cv2.LINE_AA)
    return np.vstack([bar, image])


def coloured(image: np.ndarray) -> np.ndarray:
    """Return a grey picture as a coloured one, a coloured one as it is."""
    return cv2.cvtColor(image, cv2.COLOR_GRAY2BGR) if image.ndim == 2 else image


def word(value: Any) -> str:
    """Return a value as it is written on the command line."""
    return str(value).lower() if isinstance(value, bool) else f"{value}"


def drawn(name: str, case: Case, size: tuple[int, int], frames: int) -> tuple[np.ndarray, list[float]]:
    """Return the picture of a parameter, (h, w, 3) uint8, and F of its values."""
    images, truths = recorded(case, size, frames)
    runs = [masks_of(images, **case.others, **{name: value}) for value in case.values]
    start = min(case.scored, len(images) - 1)
    scored = range(start, len(images))
    totals = [sum((confusion(run[i], truths[i]) for i in scored), Confusion()) for run in runs]
    differing = [np.mean([np.count_nonzero(run[i] != runs[-1][i]) for run in runs]) for i in scored]
    shown = start + int(np.argmax(differing))
    more = "".join(f", {other} = {word(value)}" for other, value in case.others.items())
    panels = [captioned(coloured(images[shown]), f"frame {shown}{more}")]
    if len(runs) == 2:
        truth = np.where(truths[shown] == MOVING, np.uint8(MOVING), np.uint8(STATIC))
        panels.append(captioned(coloured(truth), "true mask"))
    for value, run, total in zip(case.values, runs, totals, strict=True):
        label = f"{name} = {word(value)}   F {total.f_measure:.2f}"
        image = coloured(run[shown]) if name == "shadows" else error_image(images[shown], run[shown], truths[shown])
        panels.append(captioned(image, label))
    gap = np.full((panels[0].shape[0], 8, 3), 255, np.uint8)
    rows = [np.hstack([left, gap, right]) for left, right in zip(panels[::2], panels[1::2], strict=True)]
    return np.vstack(rows), [total.f_measure for total in totals]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the pictures and print F of each value."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=TARGET)
    parser.add_argument("--size", default="320x240")
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("parameters", nargs="*", metavar="PARAMETER", help=", ".join(CASES))
    given = parser.parse_args(arguments)
    width, height = (int(number) for number in given.size.split("x"))
    given.output.mkdir(parents=True, exist_ok=True)
    for name in given.parameters or CASES:
        picture, scores = drawn(name, CASES[name], (width, height), given.frames)
        cv2.imwrite(str(given.output / f"tuning-{name}.jpg"), picture, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
        pairs = zip(CASES[name].values, scores, strict=True)
        print(f"{name:14}" + "  ".join(f"{word(value)}: {score:.3f}" for value, score in pairs), flush=True)


if __name__ == "__main__":
    main()
