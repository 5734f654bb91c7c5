"""Folders from a stranger: a bgsub.toml in the current folder, and links in place of outputs."""

import os
import shutil
import signal
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path

import click
import numpy as np
import pytest
from batch_fakes import FakeWorkers, run
from scoring import failure_of, scored
from video_fakes import content, write_images, write_video

from bgsub.cli import invoke, program
from bgsub.cli.settings import long_names
from bgsub.errors import OutputError, SinkError, StoppedError
from bgsub.jobs.batch.task import do_task
from bgsub.jobs.checkpoints import saved_frames
from bgsub.jobs.job import Job
from bgsub.jobs.run import run_job
from bgsub.storage.durable_io import GrowingFile, partial_name, playable_name
from bgsub.synthetic import scene

HOSTILE = {
    "serve": ["'0.0.0.0:0'", "'[::]:0'", "'192.0.2.1:8765'", "'example.org:0'", "':::0'", "'127.0.0.1.example.org:0'"],
    "token": ["'known-to-me'"],
    "on-event": ["'touch {away}/x'", "['start:touch {away}/x']"],
    "webhook": ["'http://127.0.0.1:9/'", "['http://127.0.0.1:9/']"],
    "scheduler": ["'tcp://127.0.0.1:9'"],
    "overwrite": ["true"],
    "insecure": ["true", "'yes'", "1"],
    "roi": ["'{away}/x.png'", "'door= ../away/x.png'", "['1,2,3,4', 'door=link/x.png']"],
    "privacy": ["'../away/x=y.png'", "['{away}/x.png']"],
}
PATHS = ["'{away}/x'", "'../away/x'", "'link/x'", "'sub/../../away/x'", "'file'", "'loop'"]
ARGUMENTS = {"live": ["gone.avi", "--no-window"], "evaluate": ["gone"], "demo": ["--seed", "x"]}
PERMITTED = [
    "[live]\nserve = 8765\nview = 'mask'\n",
    "[live]\nserve = '[::1]:8765'\n",
    "[live]\nserve = 'localhost:0'\n",
    "log = 'sub/x.log'\nsave_model = 'm.npz'\noverwrite = false\n[live]\nserve = '127.0.0.1:8765'\n",
    "[live]\noutput = '-'\n",
    "roi = ['1,2,3,4', 'door=1,2,3,4']\nprivacy = 'a=1%,2%;3%,4%;5%,6%'\n",
]


def dangerous_settings():
    """Yield each command with the settings that are restricted, and their values."""
    for command in program.commands.values():
        for key, option in long_names(command).items() if command.takes_settings else ():
            if isinstance(option.type, click.Path) or key in HOSTILE or (command.name, key) == ("batch", "save-model"):
                for value in HOSTILE.get(key, PATHS):
                    yield command.name, key, value


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder of the stranger; no file outside it may change."""
    here, away = tmp_path / "here", tmp_path / "away"
    (here / "sub").mkdir(parents=True)
    away.mkdir()
    (here / "link").symlink_to(away)
    (here / "file").symlink_to(away / "x")
    (here / "loop").symlink_to(here / "loop")
    monkeypatch.chdir(here)
    monkeypatch.delenv("BGSUB_NO_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return here


@scored("dangerous settings in the current folder")
def test_dangerous_settings_of_a_folder_are_refused_in_one_line(folder, capsys, tries):
    away = folder.parent / "away"
    for number, (command, key, value) in enumerate(dangerous_settings()):
        for table in tries(([f"[{command}]\n", ""][number % 2],), (f"[{command}]\n", "")):
            text = f"{table}{key} = {value.format(away=away)}\n"
            Path("bgsub.toml").write_text(text)
            code = invoke([command, *ARGUMENTS.get(command, ["gone.avi", "-o", "out"])])
            out, err = capsys.readouterr()
            is_clear = err.startswith(f"bgsub: error: bgsub.toml: '{key}'") and "--config bgsub.toml" in err
            yield text, (code, out, err.count("\n"), is_clear, list(away.iterdir())) == (2, "", 1, True, [])


@pytest.mark.parametrize("text", PERMITTED)
def test_settings_that_stay_in_the_folder_are_permitted(folder, capsys, text):
    Path("bgsub.toml").write_text(text)
    assert invoke(["config"]) == 0, capsys.readouterr().err


def test_settings_of_a_named_file_are_permitted(folder, capsys):
    Path("bgsub.toml").write_text("log = '../away/x'\n[live]\nserve = '0.0.0.0:0'\n[run]\non-event = 'rm x'\n")
    for name in ("bgsub.toml", folder / "bgsub.toml"):
        assert invoke(["--config", str(name), "config"]) == 0, capsys.readouterr().err
    for name in ("bgsub.toml", "mine.toml"):
        Path(name).write_text("on_event = ['rm x']")
    assert invoke(["--config", "mine.toml", "config"]) == 2
    assert "bgsub.toml: 'on_event' runs programs" in capsys.readouterr().err


@pytest.mark.parametrize("resume", [False, True])
def test_links_in_place_of_outputs_are_not_followed(folder, score, resume):
    save = ("mask.mkv", "panel.mp4", "mask.npz", "background-image")
    source = write_images(folder / "in", np.zeros((12, 32, 48, 3), np.uint8))
    job = Job(str(source), Path("out"), save=save, event_formats=("csv", "jsonl", "html"), resume=resume)
    job = replace(job, save_model=Path("out/model.npz"))
    result = run_job(replace(job, output=Path("plain"), save_model=Path("plain/model.npz")))
    Path("out").mkdir()
    names = [name for path in result.outputs for name in (partial_name(path).name, playable_name(path).name)]
    victims = {name: folder.parent / "away" / name for name in names}
    for name, victim in victims.items():
        victim.write_text("precious")
        Path("out", name).symlink_to(victim)
    run_job(job)
    score("links in place of outputs", [(name, path.read_text() == "precious") for name, path in victims.items()])


LINKED = {  # the link, its kind of job and the options
    "mask": {"save": ("mask.png",)},
    ".resume": {"resume": True},
    "today": {"name": "today/{view}"},
    "deep/er": {"name": "deep/er/{view}", "save": ("mask.png",)},
    "objects": {"event_formats": ("pictures",)},
    "clips": {"record": Path("out/clips"), "save": ()},
}


@pytest.mark.parametrize("kind", ["outside", "upwards", "inside", "another user"])
@scored("links in place of folders, {kind}")
def test_folders_that_are_links_stay_inside_the_results(folder, kind):
    if kind == "another user" and (not hasattr(os, "geteuid") or os.geteuid()):
        pytest.skip("only root can give folders away")
    source = write_images(folder / "in", np.zeros((12, 32, 48, 3), np.uint8))
    for name, options in LINKED.items():
        link, real = Path("out", name), Path("out/real")
        link.parent.mkdir(parents=True)
        real.mkdir()
        away = {"outside": folder.parent / "away", "upwards": Path("sub")}.get(kind, real)
        link.symlink_to(away.absolute() if kind == "outside" else os.path.relpath(away, link.parent))
        if kind == "another user":
            os.chown(real, 65534, 65534)
        job = Job(str(source), Path("out"), **{"save": ("mask.npz",), "overwrite": True, **options})
        error = failure_of(run_job, job)
        is_refused = "is a symbolic link" in error and "\n" not in error and not any(away.iterdir())
        yield (name, error), not error if kind == "inside" else is_refused
        shutil.rmtree("out")


def test_an_attempt_of_a_batch_that_is_a_link_is_not_continued(folder):
    source = write_video(folder / "a.avi", np.zeros((12, 32, 48, 3), np.uint8))
    away = folder.parent / "away"
    stop = lambda frame, _: frame.index == 5 and signal.raise_signal(signal.SIGINT)  # noqa: E731
    with pytest.raises(StoppedError):
        run_job(Job(str(source), away, save=("mask.npz",), resume=True), watch=lambda _: nullcontext(stop))
    before = content(away)
    assert saved_frames(away)
    Path("out").mkdir()
    Path("out", f".a.attempt-{'0' * 32}").symlink_to(away)
    fill = lambda source, output: Job(source, output, save=("mask.npz",))  # noqa: E731
    assert not run(str(source), folder / "out", FakeWorkers(do_task), make_job=fill).failed
    assert content(away) == before


def test_a_link_is_not_continued_as_a_growing_file(tmp_path):
    victim, file = tmp_path / "victim", GrowingFile(tmp_path / "a.csv")
    victim.write_text("precious")
    file.path.symlink_to(victim)
    with pytest.raises(SinkError, match="is a symbolic link"):
        file.cut(3)
    assert victim.read_text() == "precious"


PARAMETERS = {"start_frames": 20}
VIEWS = {"video": "mask.mkv", "arrays": "mask.npz", "images": "mask.png", "still": "background-image"}
OUTPUTS = {kind: {"save": (view,)} for kind, view in VIEWS.items()}
OUTPUTS |= {"events": {"save": (), "event_formats": ("csv", "jsonl", "html")}}


def vanish(folder, way):
    if way == "renamed":
        folder.rename(folder.with_name("elsewhere"))
    else:
        shutil.rmtree(folder)
    if way == "replaced":
        folder.write_text("a file")


@pytest.mark.parametrize("way", ["removed", "renamed", "replaced"])
def test_output_folder_of_a_run_and_of_a_batch(tmp_path, tries, score, way):
    frames = np.stack([frame for frame, _ in scene("lobby", size=(48, 32), length=40, seed=2)])
    video = str(write_video(tmp_path / "video.avi", frames))

    def run_outcomes():
        for kind, resume in product(list(OUTPUTS)[: tries(2, len(OUTPUTS))], (False, True)):
            folder = tmp_path / f"{kind}{resume}" / "out"
            after = lambda frame, _, folder=folder: frame.index == 30 and vanish(folder, way)  # noqa: E731
            fields = {"parameters": PARAMETERS, "checkpoint_seconds": 0.0, "resume": resume}
            job = Job(video, folder, **OUTPUTS[kind], **fields)
            with pytest.raises(OutputError, match="cannot be written") as caught:
                run_job(job, watch=lambda _source, after=after: nullcontext(after))
            yield (kind, resume), "\n" not in str(caught.value) and not list(folder.glob("*.*"))

    def batch_outcomes():
        for is_late in (False, True):
            folder = tmp_path / str(is_late) / "out"

            def perform(task, folder=folder, is_late=is_late):
                outcome = do_task(task) if is_late else None
                vanish(folder, way)
                return outcome or do_task(task)

            fill = lambda source, output: Job(source, output, save=("mask.npz",), parameters=PARAMETERS)  # noqa: E731
            with pytest.raises(OutputError, match=r"manifest.* cannot be written") as caught:
                run(video, folder, FakeWorkers(perform), make_job=fill)
            yield is_late, "\n" not in str(caught.value)

    score(f"output folder of a run {way}", run_outcomes())
    score(f"output folder of a batch {way}", batch_outcomes())
