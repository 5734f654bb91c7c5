"""The examples in the docstrings of all public names run, in a folder with a video, images, a sequence and a matrix."""

import doctest
import os

import cv2
import numpy as np
import pytest
from public_names import callables

from bgsub.synthetic import scene

SIZE, LENGTH, RATE = (64, 48), 60, 25
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
# What separates frames, or fits: as Python, that takes minutes.
HEAVY = (
    "process_video",
    "separate(",
    "run_job",
    ".run(",
    ".process(",
    "fit(",
    "evaluate(",
    "compare(",
    "decomposition(",
)

EXAMPLES = {
    test.name: test
    for name, thing in callables().items()
    for test in doctest.DocTestFinder(exclude_empty=True).find(thing, name, globs={})
    if test.examples
}


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """What the examples read: ``video.mp4``, ``frames/in000000.png`` and so on, ``sequence`` and ``matrix.npy``."""
    folder = tmp_path_factory.mktemp("examples")
    made = scene("street", size=SIZE, length=LENGTH, seed=1)
    writer = cv2.VideoWriter(str(folder / "video.mp4"), cv2.VideoWriter_fourcc(*"mp4v"), RATE, SIZE)
    for place in ("frames", "sequence/input", "sequence/groundtruth"):
        (folder / place).mkdir(parents=True)
    for number, (frame, mask) in enumerate(made):
        writer.write(frame)
        cv2.imwrite(str(folder / f"frames/in{number:06d}.png"), frame)
        cv2.imwrite(str(folder / f"sequence/input/in{number + 1:06d}.jpg"), frame)
        cv2.imwrite(str(folder / f"sequence/groundtruth/gt{number + 1:06d}.png"), mask)
    writer.release()
    np.save(folder / "matrix.npy", np.outer(np.arange(1.0, 31), np.arange(1.0, 41)))
    return folder


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs(name, material, tmp_path, monkeypatch):
    test = EXAMPLES[name]
    if not COMPILED and any(word in example.source for example in test.examples for word in HEAVY):
        pytest.skip("too slow without compiled kernels")
    for entry in material.iterdir():
        (tmp_path / entry.name).symlink_to(entry)
    monkeypatch.chdir(tmp_path)
    said = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append)
    assert not said, "".join(said)


def test_a_wrong_example_is_found():
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    said = []
    assert doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append).failed == 1
    assert said
