"""The public names: parameters and examples of their docstrings, and their types."""

import doctest
import importlib
import inspect
import os
import re
import subprocess
import sys
from enum import Enum
from pathlib import Path

import cv2
import numpy as np
import pytest
from video_fakes import write_images, write_video

import bgsub
from bgsub.robust_pca.fitted import FittedSubspace
from bgsub.synthetic import scene

ROOT = Path(__file__).parents[1]


def callables():
    """Return the public classes and functions by their full name; the shortest counts if several packages have one."""
    packages = [".".join(stub.parent.relative_to(ROOT).parts) for stub in (ROOT / "bgsub").rglob("__init__.pyi")]
    found = {}
    for package in [*sorted(packages, key=len), "bgsub.video.notebook"]:  # the last is imported by its name
        module = importlib.import_module(package)
        for name in module.__all__:
            found.setdefault(id(getattr(module, name)), (f"{package}.{name}", getattr(module, name)))
    return {name: thing for name, thing in found.values() if callable(thing)}


CALLABLES = callables()


def described(thing):
    """Return the names in the sections of parameters and attributes of a docstring."""
    lines, names, section = inspect.getdoc(thing).splitlines(), set(), ""
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if after.startswith("---"):
            section = line
        elif section in ("Parameters", "Attributes") and line[:1].strip():
            names |= {name.strip(" *") for name in line.partition(" : ")[0].split(",")}
    return names


def test_docstrings_describe_every_parameter():
    for name, thing in CALLABLES.items():
        is_protocol = getattr(thing, "_is_protocol", False)
        if not (is_protocol or (inspect.isclass(thing) and issubclass(thing, Exception | Enum))):
            assert set(inspect.signature(thing).parameters) <= described(thing), name


@pytest.mark.parametrize("name", ["createBackgroundSubtractorMOG2", "BackgroundSubstractor"])
def test_error_of_an_unknown_name_suggests_the_nearest(name):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; did you mean 'BackgroundSubtractor'"):
        getattr(bgsub, name)
    assert not hasattr(bgsub, "nothing_like_it")


def test_every_package_with_public_names_is_found_without_an_import_of_its_own():
    packages = {stub.parent.relative_to(ROOT).as_posix() for stub in (ROOT / "bgsub").rglob("__init__.pyi")}
    packages -= {"bgsub", "bgsub/subtractor"}
    program = f"import bgsub\nfor name in {sorted(packages)}:\n    eval(name.replace('/', '.')).__all__"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
# What separates frames, or fits: as Python, that takes minutes.
HEAVY = re.compile(r"process_video|separate\(|run_job|\.run\(|\.process\(|fit\(|evaluate\(|compare\(|decomposition\(")
# The first one compiles the kernels of tests/tracking, perhaps at the same time as they do.
SLOW = {"bgsub.SubspaceTracker", "bgsub.live.LiveSession", "bgsub.synthetic.scene", "bgsub.events.SummarySink"}

EXAMPLES = {
    test.name: test
    for name, thing in [*CALLABLES.items(), ("bgsub.RobustPCA", FittedSubspace)]
    for test in doctest.DocTestFinder(exclude_empty=True).find(thing, name, globs={})
    if test.examples
}


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """What the examples read: ``video.mp4``, ``frames/in000000.png`` and so on, ``sequence`` and ``matrix.npy``."""
    folder = tmp_path_factory.mktemp("examples")
    made = scene("street", size=(64, 48), length=60, seed=1)
    frames = made.frames()
    write_video(folder / "video.mp4", frames, 25, "mp4v")
    for place in ("frames", "sequence"):
        (folder / place).mkdir()
    for number, frame in enumerate(frames):
        cv2.imwrite(str(folder / f"frames/in{number:06d}.png"), frame)
    write_images(folder / "sequence" / "input", frames, "in{:06d}.jpg")
    write_images(folder / "sequence" / "groundtruth", made.masks(), "gt{:06d}.png")
    np.save(folder / "matrix.npy", np.outer(np.arange(1.0, 31), np.arange(1.0, 41)))
    return folder


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in EXAMPLES])
def test_the_example_runs(name, material, here):
    test = EXAMPLES[name]
    if not COMPILED and any(HEAVY.search(example.source) for example in test.examples):
        pytest.skip("too slow without compiled kernels")
    for entry in material.iterdir():
        (here / entry.name).symlink_to(entry)
    said = []
    doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(test, out=said.append)
    assert not said, "".join(said)


RIGHT = """
import cv2
import numpy as np
import bgsub

subtractor = bgsub.BackgroundSubtractor(threshold=0.1, shadows="off", mu=None, absorb_after=float("inf"))
frame = np.zeros((4, 5, 3), np.uint8)
mask: np.ndarray = subtractor.apply(frame)
on_device: cv2.UMat = bgsub.BackgroundSubtractor(500, 16, True).apply(cv2.UMat(4, 5, cv2.CV_8UC3))
history: int = bgsub.BackgroundSubtractor(history=200, shadows=False, dist2Threshold=900).getHistory()
result: bgsub.Separation = subtractor.process(frame, learningRate=0)
share: float = result.share
if result.event == bgsub.FrameEvent.COVERED or result.phase == "start":
    print(result.residual.max(), result.probability.max(), result.coefficients @ result.coefficients)
loaded: bgsub.BackgroundSubtractor = bgsub.BackgroundSubtractor.load("model.npz")
for seen, separation in bgsub.separate("video.mp4", subtractor=loaded):
    print(seen.index, separation.mask.shape, bgsub.find_objects(separation, min_area=50).area)
tracker = bgsub.SubspaceTracker(3, surrogate="log").partial_fit(np.zeros(9))
model = bgsub.RobustPCA(rank=2, quality="fast").fit(np.zeros((4, 5)))
print(tracker.components_, model.low_rank_)
"""

WRONG = """
bgsub.BackgroundSubtractor(thresold=0.1)
bgsub.BackgroundSubtractor(detectShadows="on")
subtractor.setNMixtures(3)
bgsub.BackgroundSubtractor(threshold="high")
bgsub.BackgroundSubtractor(shadows="yes")
bgsub.BackgroundSubtractor().apply()
bgsub.BackgroundSubtractor().process(frame, learning_rate=0)
bgsub.SubspaceTracker(surrogate="l1")
bgsub.RobustPCA(quality="good", ranks=3)
bgsub.find_objects(mask)
bgsub.open_source("video.mp4", star=3)
bgsub.process_video("video.mp4", sink=3)
result.mask = mask
later: int = result.event
result.phase == "end"
bgsub.Background
for only in bgsub.separate(3.5): pass
"""


@pytest.mark.extras
def test_mypy_finds_each_wrong_use(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(RIGHT + WRONG)
    first = RIGHT.count("\n") + 2
    command = [sys.executable, "-m", "mypy", "--config-file=", "--follow-imports=silent", "--ignore-missing-imports"]
    options = ["--strict-equality", "--no-error-summary", "--cache-dir", str(ROOT / ".mypy_cache"), str(program)]
    answer = subprocess.run([*command, *options], capture_output=True, text=True, check=False, cwd=ROOT)
    found = {int(line) for line in re.findall(r"^\S*program\.py:(\d+): error", answer.stdout, re.MULTILINE)}
    expected = {first + i for i, line in enumerate(WRONG.strip().splitlines())}
    lines = ("\n" + (RIGHT + WRONG)).splitlines()
    assert {lines[line] for line in expected - found} == set(), answer.stdout
    assert {lines[line] for line in found - expected} == set(), answer.stdout
