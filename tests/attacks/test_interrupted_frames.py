"""Frames that are broken off at any instruction: the model goes on exactly, or a new one begins and says so."""

import logging
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import bgsub
from bgsub import BackgroundSubtractor
from bgsub.errors import BgsubError
from bgsub.synthetic import scene

PACKAGE = str(Path(bgsub.__path__[0]))
START, AFTER = 10, 12  # frames of the start phase; frames after an interrupt
SETTINGS = {
    "usual": {},
    "reduced": {"scale": 0.5},
    "grey": {"metric": "canonical", "gradient_carry": "unchanged"},
    "restart": {"on_change": "restart"},
}


@cache
def frames(name):
    """Return a shaking room with lamps, a covered lens, a cut and return, and a box that leaves."""
    channels = 1 if name == "grey" else 3
    made = scene("lobby", size=(48, 36), length=110, seed=5, shake=1.0 if name == "usual" else 0.0, channels=channels)
    frames = np.stack([frame for frame, _ in made])
    shape = frames.shape[1:]
    other = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    frames[30:34] //= 64
    frames[45:60] = other // 2 + frames[45:60] // 8
    frames[70:80, 10:24, 10:24] = 230
    frames[80:] = np.minimum(frames[80:], 170) // 2 + 60
    return list(frames)


def call(subtractor, name, index):
    """Pass a frame to a subtractor in one of the ways; return the mask."""
    frame, known = frames(name)[index], None
    if index % 5 == 0:
        known = np.zeros(frame.shape[:2], np.uint8)
        known[5:20, 8:14] = 1
    if name == "restart" and index == 40:
        frame, known = frame[:30], None
    if index % 3 == 0:
        return subtractor.process(frame, knownForegroundMask=known).mask
    return subtractor.apply(frame, learningRate=0.1 if index % 7 == 0 else -1, knownForegroundMask=known)


def run(subtractor, name, first):
    return [call(subtractor, name, index).tobytes() for index in range(first, first + AFTER)]


class Interrupt:
    """Raise an exception at the n-th instruction or line inside the package; count them if n is None."""

    def __init__(self, n, error, opcodes):
        self.count, self._n, self._error, self._opcodes = 0, n, error, opcodes
        self.place = ""

    def __call__(self, frame, event, _argument):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes = self._opcodes
        self.count += 1
        if self.count == self._n:
            self.place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {event}"
            raise self._error
        return self

    def __enter__(self):
        sys.settrace(self)
        return self

    def __exit__(self, *_):
        sys.settrace(None)


class Stream:
    """A stream of masks, with the model at each of its frames, and what may come after an interrupt at one."""

    def __init__(self, name):
        self.name, self.snapshots = name, []
        subtractor = self.fresh()
        for index in range(len(frames(name))):
            self.snapshots.append(subtractor.snapshot())
            call(subtractor, name, index)

    def fresh(self):
        return BackgroundSubtractor(start_frames=START, fps=20, absorb_after=1.0, **SETTINGS[self.name])

    def at(self, index):
        return BackgroundSubtractor.from_snapshot(*self.snapshots[index])

    @cache  # noqa: B019 - lives as long as the test
    def length(self, index, opcodes):
        subtractor, counter = self.at(index), Interrupt(None, None, opcodes)
        with counter:
            call(subtractor, self.name, index)
        return counter.count

    @cache  # noqa: B019
    def expected(self, index):
        """Return what comes after the frame: learned, not learned, skipped, or a new model."""
        learned, unlearned, skipped, fresh = (self.at(index) for _ in range(3)), None, None, None
        learned, unlearned, skipped = learned
        fresh = self.fresh()
        call(learned, self.name, index)
        unlearned._learn = lambda *_: None
        call(unlearned, self.name, index)
        del unlearned._learn
        named = {"learned": learned, "not learned": unlearned, "skipped": skipped, "new": fresh}
        return {tuple(run(one, self.name, index + 1)): word for word, one in named.items()}


def problem_after(stream, index, n, error, opcodes):
    """Interrupt a frame, go on, and return what is wrong, the way on, and the place of the interrupt."""
    subtractor, interrupt = stream.at(index), Interrupt(n, error, opcodes)
    try:
        with interrupt:
            call(subtractor, stream.name, index)
    except type(error):
        pass
    except BgsubError as other:
        return f"{other!r}", "", interrupt.place
    try:
        masks = run(subtractor, stream.name, index + 1)
    except BgsubError as refusal:
        return ("" if "\n" not in str(refusal) else "lines"), "refused", interrupt.place
    except Exception as other:
        return f"then {other!r}", "", interrupt.place
    way = stream.expected(index).get(tuple(masks), "")
    return ("" if way else "other masks"), way, interrupt.place


@pytest.mark.parametrize("name", SETTINGS)
def test_a_frame_broken_off_anywhere_leaves_no_damage(name, tries, score, caplog):
    stream, count = Stream(name), {}
    caplog.set_level(logging.ERROR)

    def outcomes():
        for seed in range(tries(40, 1000)):
            rng = np.random.default_rng(seed)
            index, opcodes = int(rng.integers(len(stream.snapshots) - AFTER - 1)), bool(seed % 2)
            n = int(rng.integers(1, stream.length(index, opcodes) + 1))
            error = (KeyboardInterrupt(), MemoryError())[seed // 2 % 2]
            problem, way, place = problem_after(stream, index, n, error, opcodes)
            count[way] = count.get(way, 0) + 1
            yield (seed, index, n, place, problem), not problem

    score(f"a frame broken off anywhere, {name}", outcomes())
    print(count)
