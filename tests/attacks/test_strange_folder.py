"""A folder from a stranger, with a bgsub.toml in it, in which somebody runs the program."""

from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pytest
from video_fakes import write_images

from bgsub.cli import invoke, program
from bgsub.cli.settings import long_names
from bgsub.errors import SinkError
from bgsub.jobs.job import Job
from bgsub.jobs.run import run_job
from bgsub.storage.durable_io import partial_name, playable_name
from bgsub.storage.growing_file import GrowingFile

HOSTILE = {
    "serve": ["'0.0.0.0:0'", "'[::]:0'", "'192.0.2.1:8765'", "'example.org:0'", "':::0'", "'127.0.0.1.example.org:0'"],
    "token": ["'known-to-me'"],
    "on-event": ["'touch {away}/x'", "['start:touch {away}/x']"],
    "webhook": ["'http://127.0.0.1:9/'", "['http://127.0.0.1:9/']"],
    "scheduler": ["'tcp://127.0.0.1:9'"],
    "overwrite": ["true"],
    "backdrop": ["'/etc/hostname'"],
    "roi": ["'{away}/x.png'", "'door= ../away/x.png'", "['1,2,3,4', 'door=link/x.png']"],
    "privacy": ["'../away/x=y.png'", "['{away}/x.png']"],
}
PATHS = ["'{away}/x'", "'../away/x'", "'link/x'", "'sub/../../away/x'", "'file'", "'loop'"]
NEEDED = {
    "live": ["gone.avi", "--no-window"],
    "camera": ["gone.avi"],
    "evaluate": ["gone"],
    "demo": ["--seed", "x"],
}


def options():
    """Yield each command with each of its options that attacks."""
    for command in program.commands.values():
        for key, option in long_names(command).items() if command.takes_settings else ():
            if isinstance(option.type, click.Path) or key in HOSTILE or (command.name, key) == ("batch", "save-model"):
                yield command.name, key


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of the stranger; nobody may write beside it."""
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


def test_a_settings_file_of_a_stranger_is_refused_in_a_line(folder, capsys, score):
    away = folder.parent / "away"
    count = survived = 0
    for command, key in options():
        for table in (f"[{command}]\n", ""):
            for value in HOSTILE.get(key, PATHS):
                Path("bgsub.toml").write_text(f"{table}{key} = {value.format(away=away)}\n")
                code = invoke([command, *NEEDED.get(command, ["gone.avi", "-o", "out"])])
                out, err = capsys.readouterr()
                told = err.startswith(f"bgsub: error: bgsub.toml: '{key}'") and "such as --config bgsub.toml" in err
                count += 1
                survived += (code, out, err.count("\n"), told, list(away.iterdir())) == (2, "", 1, True, [])
                [path.unlink() for path in away.iterdir()]
    score("a settings file of a stranger in the folder", count, survived)


@pytest.mark.parametrize(
    "text",
    [
        "[live]\nserve = 8765\nview = 'mask'\n",
        "[live]\nserve = '127.0.0.1:8765'\n",
        "[live]\nserve = '[::1]:8765'\nbackdrop = '#00ff00'\n",
        "[camera]\nserve = 'localhost:0'\n",
        "log = 'sub/x.log'\nsave_model = 'm.npz'\noverwrite = false\n",
        "[live]\noutput = '-'\nbackdrop = 'blur'\n",
        "roi = ['1,2,3,4', 'door=1,2,3,4']\nprivacy = 'a=1%,2%;3%,4%;5%,6%'\n",
    ],
)
def test_what_stays_in_the_folder_may_be_set(folder, capsys, text):
    Path("bgsub.toml").write_text(text)
    assert invoke(["config"]) == 0, capsys.readouterr().err


def test_whoever_names_the_file_means_it(folder, capsys):
    Path("bgsub.toml").write_text("log = '../away/x'\n[live]\nserve = '0.0.0.0:0'\n")
    for name in ("bgsub.toml", folder / "bgsub.toml"):
        assert invoke(["--config", str(name), "config"]) == 0, capsys.readouterr().err


def test_a_deep_file_is_no_toml(folder, capsys):
    Path("bgsub.toml").write_text("a = " + "[" * 100_000)
    assert invoke(["config"]) == 2
    assert capsys.readouterr().err == "bgsub: error: bgsub.toml: this is no TOML: it is nested too deeply\n"


@pytest.mark.parametrize("resume", [False, True])
def test_links_where_outputs_grow_lead_nowhere(folder, score, resume):
    """A folder of results may come from a stranger as well."""
    save = ("mask.mkv", "panel.mp4", "mask.npz", "background-image")
    source = write_images(folder / "in", np.zeros((12, 32, 48, 3), np.uint8))
    job = Job(str(source), Path("out"), save=save, event_formats=("csv", "jsonl", "coco", "html"), resume=resume)
    job = replace(job, save_model=Path("out/model.npz"))
    result = run_job(replace(job, output=Path("plain"), save_model=Path("plain/model.npz")))
    Path("out").mkdir()
    victims = [folder.parent / "away" / str(number) for number in range(2 * len(result.outputs))]
    names = [name for path in result.outputs for name in (partial_name(path).name, playable_name(path).name)]
    for name, victim in zip(names, victims, strict=True):
        victim.write_text("precious")
        Path("out", name).symlink_to(victim)
    run_job(job)
    survived = sum(victim.read_text() == "precious" for victim in victims)
    score("links where outputs grow", len(victims), survived)


def test_a_link_is_no_file_to_go_on_with(tmp_path):
    victim, file = tmp_path / "victim", GrowingFile(tmp_path / "a.csv")
    victim.write_text("precious")
    file.path.symlink_to(victim)
    with pytest.raises(SinkError, match=r"'.*a\.csv\.partial' is a symbolic link$"):
        file.cut(3)
    assert victim.read_text() == "precious"
