"""Compare the kernels that a stream calls with `bgsub.scene.kernel_table`, as a separate program.

``python table_of_kernels.py DTYPE CHANNELS`` runs streams with all features and prints, as JSON, the rows that the
table lacks, the rows that no stream calls, and the kernels that other memory layouts compile.
"""

import json
import sys
from pathlib import Path

import cv2
import eventful_scene
import numpy as np
from numba.core.dispatcher import Dispatcher

import bgsub.subtractor.subtractor
from bgsub import BackgroundSubtractor
from bgsub.numerics.surrogates import CODES
from bgsub.scene import kernel_table
from bgsub.scene.kernel_table import Frames

SAMPLE = Path(__file__).resolve().parents[1] / "datasets" / "sample" / "input"


def called():
    """Return name and types of each kernel that was compiled or loaded for itself."""
    found = set()
    for name, module in tuple(sys.modules.items()):
        for kernel in tuple(vars(module).values()) if name.startswith("bgsub.") else ():
            if isinstance(kernel, Dispatcher):
                home = f"{kernel.__module__}.{kernel.__name__}".removeprefix("bgsub.")
                found |= {(home, signature) for signature in kernel.signatures}
    return found


def play(dtype, channels):
    """Process streams with all features."""
    subtractor = BackgroundSubtractor(rank=2, start_frames=8, fps=5, absorb_after=1, threads=1)
    for i, frame in enumerate(eventful_scene.scene(channels)):
        if i == 22:  # before the shadow, as if many had been seen: nothing is lit on its right
            subtractor._scenes.model.segmenter.outline[0] = 0, 9
        subtractor.process(frame if dtype == "uint8" else frame.astype(np.float32) / 255)
        if subtractor.tracker is not None:
            subtractor.tracker.subspace_._orthonormalise()
    colour = cv2.IMREAD_COLOR if channels == 3 else cv2.IMREAD_GRAYSCALE
    frames = [cv2.imread(str(path), colour) for path in sorted(SAMPLE.glob("*.jpg"))]
    frames = [frame if dtype == "uint8" else frame.astype(np.float32) / 255 for frame in frames]
    known = np.zeros(frames[0].shape[:2], bool)
    known[20:40, 20:40] = True
    whole, reduced = BackgroundSubtractor(), BackgroundSubtractor(scale=0.5, start_frames=10)
    for i, frame in enumerate(frames):
        fps = {70: 0, 80: 0.3}.get(i, -1)
        whole.process(frame, fps, known if i % 10 == 9 else None)
    searched = BackgroundSubtractor(start_frames=10, line_search="sample")
    for frame in frames[:20]:
        reduced.apply(frame)
        searched.apply(frame)


def play_what_lies_otherwise(dtype, channels):
    """Process frames that are read-only, strided, in another order or in another type."""
    frames = [frame if dtype == "uint8" else frame.astype(np.float32) / 255 for frame in eventful_scene.scene(channels)]
    kinds = [frozen, np.asfortranarray, lambda frame: np.repeat(frame, 2, axis=1)[:, ::2]]
    if dtype == "float32":
        kinds += [lambda frame: (65535 * frame).astype(np.uint16), np.float64, np.float16]
    for kind in kinds:
        for scale in (1, 0.5):
            subtractor = BackgroundSubtractor(rank=2, start_frames=8, scale=scale)
            for frame in frames[:30]:
                subtractor.process(kind(frame))


def frozen(frame):
    frame = frame.copy()
    frame.flags.writeable = False
    return frame


def main(dtype, channels):
    """Print missing rows, unused rows, and kernels compiled for other memory layouts."""
    bgsub.subtractor.subtractor.prepare = lambda frames: None
    frames = Frames(dtype, channels, CODES["atan"], is_reduced=True)
    play(dtype, channels)
    rows, first = [row for stage in kernel_table.stages(frames) for row in stage], called()
    table = {(row.split(": ")[0], kernel_table._typed(row.split(": ")[1], frames)): row for row in rows}
    play_what_lies_otherwise(dtype, channels)
    report = {
        "missing": sorted(map(str, first - table.keys())),
        "unused": sorted(row for kernel, row in table.items() if kernel not in first),
        "new": sorted(map(str, called() - first)),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
