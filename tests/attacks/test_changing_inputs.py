"""A file that changes while it is read twice, and signals in the first pass."""

import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from scoring import scored
from video_fakes import content, write_video

from bgsub.cli import invoke
from bgsub.jobs import pipeline
from bgsub.synthetic import scene

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
COUNT = 40
FORMATS = {"a.avi": "MJPG", "b.mkv": "FFV1", "c.mp4": "mp4v"}
COMMAND = ("--start-frames", "10", "--quiet", "--save", "mask.mkv,mask.png,background-image", "--event-formats", "csv")


def replace_by(make):
    def act(path, _rng):
        path.unlink()
        make(path)

    return act


def flip_bits(path, rng):
    data = np.frombuffer(path.read_bytes(), np.uint8).copy()
    data[rng.integers(data.size, size=20)] ^= np.uint8(1 << rng.integers(8))
    path.write_bytes(data.tobytes())


CHANGES = {
    **{
        f"{share} %": lambda path, _, share=share: os.truncate(path, path.stat().st_size * share // 100)
        for share in (0, 1, 50, 99)
    },
    "longer": lambda path, _: path.write_bytes(path.read_bytes() * 2),
    "flipped": flip_bits,
    "other": lambda path, _: shutil.copy(path.with_stem("other"), path),
    "text": lambda path, _: path.write_text("text\n" * 1000),
    "deleted": lambda path, _: path.unlink(),
    "folder": replace_by(Path.mkdir),
    "pipe": replace_by(os.mkfifo),
    "loop": replace_by(lambda path: path.symlink_to(path)),
    "device": replace_by(lambda path: path.symlink_to("/dev/zero")),
}


def changing(act, moment):
    """Return a first pass before, within or after which `act` is called."""
    original = pipeline.rehearse

    def rehearse(subtractor, frames):
        def watched():
            for index, frame in enumerate(frames):
                if moment == "within" and index == 10:
                    act()
                yield frame

        if moment == "before":
            act()
        original(subtractor, watched())
        if moment == "after":
            act()

    return rehearse


@pytest.fixture
def videos(here):
    for number, size in enumerate([(64, 48), (96, 64)]):
        frames = np.stack([frame for frame, _ in scene("lobby", size=size, length=COUNT, seed=number)])
        for name, codec in FORMATS.items():
            path = Path(name)
            write_video(path if number == 0 else path.with_stem("other"), frames, codec=codec)
    return list(FORMATS)


@pytest.mark.parametrize("moment", ["before", "within", "after"])
@scored("file that changes {moment} the first pass")
def test_a_file_that_changes_between_two_passes(videos, monkeypatch, capsys, tries, moment):
    for number in range(tries(1, 20)):
        for name in videos[: tries(2, None)]:
            for change, act in CHANGES.items():
                path, folder = Path(name).with_stem("changing"), f"{number}-{name}-{change}"
                shutil.copy(name, path)
                rng = np.random.default_rng(number)
                first_pass = changing(lambda path=path, act=act, rng=rng: act(path, rng), moment)
                with monkeypatch.context() as patch:
                    patch.setattr(pipeline, "rehearse", first_pass)
                    code = invoke(["run", str(path), "-o", folder, *COMMAND])
                err = capsys.readouterr().err
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
                is_clear = err.count("\n") == (code != 0) and "traceback" not in err.lower()
                unfinished = [name for name in content(Path(folder)) if "partial" in name or ".lock" in name]
                yield (name, change, code, err), code in (0, 1, 2) and is_clear and not unfinished


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_the_first_pass_leaves_no_output(videos, monkeypatch, capsys, number, code):
    def act():
        os.kill(os.getpid(), number)
        time.sleep(0.5)  # the main thread takes the signal

    monkeypatch.setattr(pipeline, "rehearse", changing(act, "within"))
    assert invoke(["run", videos[0], "-o", "out", *COMMAND, "--save-model", "model.npz"]) == code
    assert "stopped after 0 frames" in capsys.readouterr().err
    assert not content(Path("out"))
    assert not Path("model.npz").exists()
