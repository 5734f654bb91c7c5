"""Damaged and crafted files end in a result or one line, without a crash, a hang or much memory."""

import contextlib
import copy
import io
import re
import shutil
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import file_kit
import numpy as np
import pytest
from file_kit import continue_model, members_of, resume_job, save_models, with_damaged_array, write_members
from scoring import scored

import bgsub
from bgsub import BackgroundSubtractor
from bgsub.cli import invoke
from bgsub.errors import ParameterError

SECONDS = 60  # time limit of a call
MEGABYTES = 500  # memory limit of a call


class Outcome(NamedTuple):
    """The result of a call, its messages, its peak memory in megabytes, and whether it raised, crashed or hung."""

    code: object
    text: str
    megabytes: float
    failure: str = ""

    @property
    def is_clean(self):
        """Whether the exit code is 0, or 1 or 2 with a message of one line."""
        if self.failure or self.megabytes > MEGABYTES:
            return False
        lines = [line for line in self.text.splitlines() if line.strip()]
        return self.code == 0 or (self.code in (1, 2) and len(lines) == 1 and "shows where" not in self.text)


class IsolatedProcess(contextlib.AbstractContextManager):
    """A process that runs one call after another, and is replaced after a crash or a hang."""

    def __init__(self):
        self._executor = ProcessPoolExecutor(1, get_context("spawn"))  # starts with the first call

    def __exit__(self, *_):
        self._executor.shutdown()

    def call(self, function, *arguments, seconds=SECONDS):
        try:
            return self._executor.submit(_measured, function, *arguments).result(seconds)
        except (BrokenProcessPool, futures.TimeoutError) as error:
            for process in list(self._executor._processes.values()):
                process.kill()
            self._executor.shutdown()
            self._executor = ProcessPoolExecutor(1, get_context("spawn"))
            return Outcome(None, "", 0, type(error).__name__)


def _peak():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1000


def _measured(function, *arguments):
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before, code, failure, messages = _peak(), None, "", io.StringIO()
    with contextlib.redirect_stderr(messages), contextlib.redirect_stdout(io.StringIO()):
        try:
            code = function(*arguments)
        except BaseException as error:
            failure = repr(error)
    return Outcome(code, messages.getvalue()[-2000:], _peak() - before, failure)


@pytest.fixture(scope="module")
def process():
    with IsolatedProcess() as process:
        yield process


@scored("invalid model")
def test_invalid_models_are_refused_in_one_line(process, tmp_path):
    model = save_models(tmp_path)[1][0]
    images = str(file_kit.write_images(tmp_path / "frames", file_kit.frames()[:3]))
    command = ["run", images, "-o", str(tmp_path / "out"), "--overwrite", "--model"]
    assert process.call(invoke, [*command, str(model)]).code == 0
    for title, path in file_kit.crafted_models(model, tmp_path):
        outcome = process.call(invoke, [*command, str(path)])
        yield (title, outcome), outcome.is_clean and outcome.code == 2 and outcome.megabytes < 200


@pytest.mark.parametrize("has_bounds_checks", [False, True])
@scored("model with impossible values, bounds checks: {has_bounds_checks}")
def test_models_with_impossible_values_do_not_crash(tmp_path, tries, monkeypatch, has_bounds_checks):
    saved, codes = [(members_of(path), first) for path, first in save_models(tmp_path)], set()
    process = IsolatedProcess()
    if has_bounds_checks:
        if not tries(0, 1):
            pytest.skip("compiles all kernels; only with --long")
        monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
        for path, first in save_models(tmp_path):
            process.call(continue_model, path, first, seconds=1200)
    with process:
        for seed in range(tries(30, 2000)):
            rng = np.random.default_rng(seed)
            members, first = saved[rng.integers(len(saved))]
            other, title = with_damaged_array(members, rng)
            outcome = process.call(continue_model, write_members(tmp_path / "other.npz", other), first)
            codes.add(outcome.code)
            yield (seed, title, outcome), outcome.code in (0, 2) and outcome.megabytes < MEGABYTES
    assert {0, 2} <= codes


@scored("forged coefficients")
def test_forged_coefficients_leave_the_basis_orthonormal(tmp_path, tries):
    saved = [(BackgroundSubtractor.load(path).snapshot(), first) for path, first in save_models(tmp_path)[1:]]
    for seed in range(tries(30, 3000)):
        rng = np.random.default_rng(seed)
        (header, state), first = saved[seed % len(saved)]
        state = copy.deepcopy(state)
        y = state["scenes"]["model"]["tracker"]["coefficients"]
        y *= rng.normal(size=y.size) * 10 ** rng.uniform(-3, 5) if seed % 3 else rng.choice([-1, 1]) * 1000
        try:
            subtractor = BackgroundSubtractor.from_snapshot(header, state)
        except ParameterError:
            yield (seed, "refused"), True
            continue
        for frame in file_kit.frames()[first : first + 4]:  # a cut follows
            subtractor.apply(frame)
        tracked = subtractor._scenes.model.tracked  # None in a new scene
        skew = tracked and abs(tracked._subspace.basis.gram() - np.eye(tracked._subspace.basis.k)).max()
        yield (seed, skew), not skew or skew < 1e-4


@scored("damaged input")
def test_damaged_inputs_end_in_one_line(process, tmp_path, tries):
    known = file_kit.readable_files(tmp_path)
    names = list(known)
    for seed in range(tries(len(names), 100 * len(names))):
        name = names[seed % len(names)]
        path, command = known[name]
        whole = path.read_bytes()
        path.write_bytes(file_kit.damaged(whole, np.random.default_rng(seed)))
        outcome = process.call(invoke, [*command, "--quiet"])
        path.write_bytes(whole)
        yield (seed, name, outcome), outcome.is_clean


@scored("damaged picture or video")
def test_damaged_pictures_and_videos_are_read_or_refused(process, tmp_path, tries):
    files, codes = file_kit.pictures_and_videos(tmp_path), set()
    contents = list(files.values())
    for name, content in files.items():
        for seed in range(tries(8, 500)):
            rng = np.random.default_rng(seed)
            other = contents[rng.integers(len(contents))]
            changed = (
                content[: rng.integers(len(content))],
                file_kit.damaged(content, rng),
                file_kit.with_lies(content, rng),
                file_kit.spliced(content, other, rng),
            )[seed % 4]
            (tmp_path / name).write_bytes(changed)
            outcome = process.call(file_kit.read_source, str(tmp_path / name), ["stop", "skip"][seed // 4 % 2])
            codes.add(outcome.code)
            yield (name, seed, outcome), outcome.code in (0, 2) and outcome.megabytes < MEGABYTES
    assert {0, 2} <= codes


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_crafted_videos_are_read_or_refused(tmp_path, on_error):
    """A length of 2^56 in the header of Matroska, and a colour space that FFmpeg does not know."""
    files = file_kit.pictures_and_videos(tmp_path)
    mkv, mov = files["mpeg4.mkv"], files["prores_ks.mov"]
    (tmp_path / "a.mkv").write_bytes(mkv[:4] + b"\1" + b"\xff" * 6 + b"\xfe" + mkv[5:])
    assert mov.count(b"icpf") == file_kit.COUNT
    # The frame header begins after the size of the frame and its name; its 17th byte is the matrix.
    (tmp_path / "a.mov").write_bytes(re.sub(rb"(?s)(icpf.{16}).", lambda found: found[1] + b"\xff", mov))
    assert file_kit.read_source(str(tmp_path / "a.mkv"), on_error) in (0, 2)
    assert file_kit.read_source(str(tmp_path / "a.mov"), on_error) == (2 if on_error == "stop" else 0)


@scored("damaged checkpoint")
def test_damaged_checkpoints_are_refused_or_resumed(process, tmp_path, tries):
    """Change bytes, or replace values of the header or of an array with correct checksums."""
    out, kept = file_kit.interrupt_job(tmp_path), tmp_path / "kept"
    shutil.copytree(out, kept)
    state = kept / ".resume" / "state"
    for seed in range(tries(8, 400)):
        shutil.rmtree(out)
        shutil.copytree(kept, out)
        rng = np.random.default_rng(seed)
        if seed % 4 == 0:
            (out / ".resume" / "state").write_bytes(file_kit.damaged(state.read_bytes(), rng))
        else:
            damage = file_kit.with_damaged_header if seed % 4 < 3 else lambda *given: with_damaged_array(*given)[0]
            write_members(out / ".resume" / "state", damage(members_of(state), rng))
        outcome = process.call(resume_job, str(tmp_path))
        yield (seed, outcome), outcome.code in (0, 2) and outcome.megabytes < MEGABYTES


def test_the_library_never_unpickles():
    names = r"\b(pickle|marshal|shelve|dill|joblib|cloudpickle)\b"
    wrong = rf"\b(from|import)\b.*(\([^)]*)?{names}|(?<![\w.])(eval|exec)\(|allow_pickle\b(?! ?= ?False\b)"
    for path in Path(bgsub.__path__[0]).rglob("*.py"):
        assert not re.search(wrong, path.read_text()), path
