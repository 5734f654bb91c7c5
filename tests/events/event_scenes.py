"""Streams of moving boxes as frames and separations."""

import numpy as np

from bgsub.separation import Separation
from bgsub.video.sources.base import Frame, number_name

SHAPE = (48, 96)
RATE = 25.0


# A line of events.jsonl.
STORED = {
    **{"type": "object", "id": 1, "start_frame": 1, "end_frame": 2, "start_time": 0.0, "end_time": 1.0, "regions": []},
    **{"frame_size": [64, 48], "track_step": 1},
    "track": {"frame": [1, 2], "time": [0.0, 1.0], "box": [[0, 0, 5, 5], [1, 0, 5, 5]]},
}


def mask_of(boxes, shape=SHAPE) -> np.ndarray:
    mask = np.zeros(shape, np.uint8)
    for x, y, w, h in boxes:
        mask[max(y, 0) : max(y + h, 0), max(x, 0) : max(x + w, 0)] = 255
    return mask


def frame_of(index: int, fps: float | None = RATE, shape=SHAPE) -> Frame:
    return Frame(index, number_name(index), None if fps is None else index / fps, np.zeros(shape, np.uint8))


def separated(mask: np.ndarray, event: str | None = None, y=()) -> Separation:
    empty = np.zeros(mask.shape, np.uint8)
    residual = np.zeros(mask.shape, np.float32)
    return Separation(empty, mask, empty, residual, np.array(y, float), "tracking" if len(y) else "start", event)


def pairs(frames, fps: float | None = RATE, events=None, shape=SHAPE):
    """Yield frame and separation for each list of boxes; `events` maps indices to events of the whole frame."""
    events = events or {}
    for index, boxes in enumerate(frames):
        y = (float(index), np.sin(index)) if index > 3 else ()
        yield frame_of(index, fps, shape), separated(mask_of(boxes, shape), events.get(index), y)


def write(stream, *sinks):
    """Send pairs of frames and separations to all sinks."""
    for pair in stream:
        for sink in sinks:
            sink.write(*pair)


def close(sinks):
    for sink in sinks:
        sink.close()


def linked(linker, frames, fps: float | None = RATE, events=None):
    done, objects = [], []
    for frame, separation in pairs(frames, fps, events):
        objects += linker.update(frame, separation)
        done += linker.take_finished()
    return done + linker.finish(), objects


def walk(start, step, count, size=(8, 12)):
    """Return boxes from `start`, moving by `step` pixels per frame."""
    return [(round(start[0] + step[0] * index), round(start[1] + step[1] * index), *size) for index in range(count)]


def together(*walks):
    """Return frames with several walks; None in a walk is a frame without its box."""
    length = max(len(boxes) for boxes in walks)
    return [[boxes[i] for boxes in walks if i < len(boxes) and boxes[i] is not None] for i in range(length)]


def busy(count: int = 40, seed: int = 3):
    """Return frames with objects that appear, cross, rest and leave."""
    rng = np.random.default_rng(seed)
    rests = [None] * 10 + walk((40, 30), (0, 0), 8) + [None] * 4 + walk((40, 30), (0.5, 0), 15)
    frames = together(walk((0, 4), (2, 0), 40), [None] * 5 + walk((80, 5), (-2, 0), 30), rests)[:count]
    for boxes in frames[::3]:
        boxes.append((int(rng.integers(0, 90)), int(rng.integers(0, 44)), 2, 2))
    return frames
