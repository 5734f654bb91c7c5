"""Frames that are interrupted at any instruction, arrays that overlap, copies, forks and threads in mid-stream."""

import copy
import logging
import pickle
import sys
import threading
from contextlib import suppress
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from live_fakes import beside, repeating
from scoring import failure_of, scored

import bgsub
from bgsub import BackgroundSubtractor
from bgsub.errors import BgsubError
from bgsub.scene.illumination import Illumination
from bgsub.synthetic import scene

PACKAGE = str(Path(bgsub.__path__[0]))
START, AFTER = 10, 12  # frames of the start phase; frames after an interrupt
SETTINGS = {"usual": {}, "reduced": {"scale": 0.5}, "restart": {"on_change": "restart"}}
SETTINGS |= {"grey": {"metric": "canonical", "gradient_carry": "unchanged"}}


@cache
def frames(name):
    """Return a room with lamps, a covered lens, a cut and return, a box that leaves, and half the light."""
    channels, shake = (1 if name == "grey" else 3), (1.0 if name == "usual" else 0.0)
    made = scene("lobby", size=(48, 36), length=110, seed=5, shake=shake, channels=channels)
    frames = np.stack([frame for frame, _ in made])
    other = np.random.default_rng(1).integers(0, 256, frames.shape[1:], np.uint8)
    frames[30:34] //= 64
    frames[45:60] = other // 2 + frames[45:60] // 8
    frames[70:80, 10:24, 10:24] = 230
    frames[80:] = np.minimum(frames[80:], 170) // 2 + 60
    return list(frames)


def fresh(name="usual"):
    return BackgroundSubtractor(start_frames=START, fps=20, absorb_after=1.0, **SETTINGS[name])


def mask_of(subtractor, name, index):
    """Pass a frame to a subtractor, in one of several ways."""
    frame, known = frames(name)[index], None
    if index % 5 == 0:
        known = np.zeros(frame.shape[:2], np.uint8)
        known[5:20, 8:14] = 1
    if name == "restart" and index == 40:
        frame, known = frame[:30], None
    if index % 3 == 0:
        return subtractor.process(frame, knownForegroundMask=known).mask
    return subtractor.apply(frame, learningRate=0.1 if index % 7 == 0 else -1, knownForegroundMask=known)


def masks_of(subtractor, name, first, count=AFTER):
    return [mask_of(subtractor, name, index).tobytes() for index in range(first, first + count)]


class Interrupt:
    """Raise an error at the n-th line or instruction inside the package; count them if n is None."""

    def __init__(self, error, n, opcodes):
        self.count, self.place = 0, ""
        self._error, self._n, self._opcodes = error, n, opcodes

    def __call__(self, frame, event, _argument):
        if not frame.f_code.co_filename.startswith(PACKAGE) or event == "return":
            return None  # errors at a yield skip its handlers, unlike signals
        frame.f_trace_opcodes = self._opcodes
        self.count += 1
        if self.count == self._n:
            self.place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
            raise self._error
        return self

    def __enter__(self):
        sys.settrace(self)
        return self

    def __exit__(self, *_):
        sys.settrace(None)


class Stream:
    """A stream, the model before each of its frames, and what may follow after an interrupt in it."""

    def __init__(self, name):
        self.name, self.snapshots = name, []
        subtractor = fresh(name)
        for index in range(len(frames(name)) - AFTER):
            self.snapshots.append(subtractor.snapshot())
            mask_of(subtractor, name, index)
        self.length, self.expected = cache(self._length), cache(self._expected)

    def at(self, index):
        return BackgroundSubtractor.from_snapshot(*self.snapshots[index])

    def _length(self, index, opcodes):
        subtractor = self.at(index)
        with Interrupt(None, None, opcodes) as counter:
            mask_of(subtractor, self.name, index)
        return counter.count

    def _expected(self, index):
        """Return the masks after the frame of a new model, and of one that skipped, did not learn or learned it."""
        skipped, unlearned, learned = self.at(index), self.at(index), self.at(index)
        unlearned._learn = lambda *_: None
        for one in (unlearned, learned):
            mask_of(one, self.name, index)
        del unlearned._learn
        new, *others = (masks_of(one, self.name, index + 1) for one in (fresh(self.name), skipped, unlearned, learned))
        return new, others


def problem_after(stream, index, interrupt, log):
    """Interrupt a frame, continue, and return what is wrong."""
    subtractor = stream.at(index)
    with suppress(KeyboardInterrupt, MemoryError), interrupt:
        mask_of(subtractor, stream.name, index)
    log.clear()
    is_refused = failure_of(subtractor.snapshot) != ""
    try:
        masks = masks_of(subtractor, stream.name, index + 1)
    except Exception as error:
        return repr(error)
    new, others = stream.expected(index)
    if ("a new model starts" in log.text) != is_refused:
        return "a new model was not announced"
    return "" if (masks == new and is_refused) or (masks in others and not is_refused) else "other masks"


@pytest.mark.parametrize("name", SETTINGS)
@scored("frame interrupted at any instruction, {name}")
def test_an_interrupted_frame_leaves_no_damage(name, tries, caplog):
    stream, missed = Stream(name), 0
    caplog.set_level(logging.WARNING)
    for seed in range(tries(12, 500)):
        rng = np.random.default_rng(seed)
        index, opcodes = int(rng.integers(len(stream.snapshots) - 1)), bool(seed % 2)
        n = int(rng.integers(stream.length(index, opcodes))) + 1
        interrupt = Interrupt((KeyboardInterrupt, MemoryError)[seed // 2 % 2](), n, opcodes)
        problem = problem_after(stream, index, interrupt, caplog)
        missed += not interrupt.place
        yield (seed, index, n, interrupt.place, problem), not problem
    assert missed <= tries(2, 50)  # a frame does not always take the same number of instructions


def overlapping(frame):
    """Yield a copy of a frame with an array for the mask in the same memory, shifted by a row or not."""
    memory, shape = np.zeros(frame.nbytes + frame.shape[1], np.uint8), frame.shape[:2]
    one, other = memory[: frame.nbytes].reshape(frame.shape), memory[frame.shape[1] :][: shape[0] * shape[1]]
    one[...] = frame
    yield one, other.reshape(shape)
    one = frame.copy()
    yield one, one if one.ndim == 2 else one[..., 0]


@pytest.mark.parametrize("name", ["usual", "reduced", "grey"])
@scored("mask in the memory of an argument, {name}")
def test_arguments_in_the_same_memory(name):
    whole, others, count = fresh(name), [fresh(name) for _ in range(3)], 90
    known = np.zeros((36, 48), np.uint8)
    known[5:12, 5:20] = 1
    for index, frame in enumerate(frames(name)[:count]):
        mask = whole.apply(frame, knownForegroundMask=known)
        pairs = [*overlapping(frame), (frame, known.copy())]
        for number, (other, (image, out)) in enumerate(zip(others, pairs, strict=True)):
            hidden = out if number == 2 else known
            yield (index, number), np.array_equal(other.apply(image, out, knownForegroundMask=hidden), mask)
    for other in others:
        yield "background", np.array_equal(other.getBackgroundImage(), whole.getBackgroundImage())


@pytest.mark.parametrize("name", ["usual", "reduced", "grey"])
@scored("copy in mid-stream, {name}")
def test_copies_continue(name, tries):
    ways = copy.copy, copy.deepcopy, lambda subtractor: pickle.loads(pickle.dumps(subtractor))
    subtractor = fresh(name)
    for index in range(len(frames(name)) - AFTER):
        if index % tries(20, 1) == 0:
            copies = [way(subtractor) for way in ways]
            expected = masks_of(BackgroundSubtractor.from_snapshot(*subtractor.snapshot()), name, index)
            for number, one in enumerate(copies):
                yield (index, number), masks_of(one, name, index) == expected
        mask_of(subtractor, name, index)


def send_masks(pipe, subtractor, first):
    pipe.send(masks_of(subtractor, "usual", first))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@scored("model in parent and child, {method}")
def test_parent_and_child_continue(method, tries):
    """Another thread processes frames during the forks."""
    context, subtractor = get_context(method), fresh()
    with repeating(lambda: masks_of(fresh(), "usual", 0)):
        for index in range(40):
            if index % (tries(10, 1) if method == "fork" else tries(40, 5)) == 0:
                receiver, sender = context.Pipe(duplex=False)
                child = context.Process(target=send_masks, args=(sender, subtractor, index))
                child.start()
                own = masks_of(BackgroundSubtractor.from_snapshot(*subtractor.snapshot()), "usual", index)
                yield index, receiver.poll(60) and receiver.recv() == own
                child.kill()
                child.join()
            mask_of(subtractor, "usual", index)


@scored("forks while another thread fits light")
def test_forks_during_fits(tries):
    light, frame = Illumination((240, 320, 3), 0.1), np.linspace(0.2, 1, 240 * 320 * 3, dtype=np.float32)
    with repeating(lambda: light.explain(0.7 * frame, [frame])):
        for index in range(tries(40, 2000)):
            child = get_context("fork").Process(target=light.explain, args=(0.7 * frame, [frame]))
            child.start()
            child.join(60)
            yield index, child.exitcode == 0
            child.kill()


def test_only_one_thread_processes_a_frame(tries, score):
    subtractor, owner, found = fresh(), 0, [0, 0]
    interval = sys.getswitchinterval()

    def claim():
        nonlocal owner
        for number in range(tries(200_000, 5_000_000)):
            try:
                subtractor._claim()
            except BgsubError:
                continue
            owner = number, threading.get_ident()
            for _ in range(20):
                is_own = owner == (number, threading.get_ident())
                found[not is_own] += 1
            subtractor._worker.clear()

    sys.setswitchinterval(1e-6)
    try:
        with beside(*[claim] * 4):
            pass
    finally:
        sys.setswitchinterval(interval)
    assert found[0]
    score("threads at one subtractor", [(f"{found[1]} of {sum(found)} steps", not found[1])])
