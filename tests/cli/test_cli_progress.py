"""Messages beside the result: bars, lines, the log file, JSON, and the compilation of kernels."""

import logging
import re
import sys
from types import SimpleNamespace

import pytest
from cli_inputs import QUICK

from bgsub.cli import reporting
from bgsub.cli.pipeline import summarise
from bgsub.cli.reporting import Meter, log_to_screen
from bgsub.errors import SourceError
from bgsub.jobs.job import JobResult, Statistics, Summary
from bgsub.numerics import compilation
from bgsub.numerics.compilation import CompilationLog, Progress

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"


@pytest.fixture
def run(cli, folder, tmp_path):
    """A function that runs a command with further options."""
    return lambda *more: cli("run", folder, "-o", tmp_path / "out", "--overwrite", "--online", *QUICK, *more)


def lines_of(answer):
    return [line.strip() for line in answer.err.replace("\r", "\n").split("\n") if line.strip()]


def test_lines_show_count_rate_without_compilation_and_time_left(monkeypatch):
    now, waited, lines = [100.0], [0.0], []
    monkeypatch.setattr(compilation, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(compilation, "waited", lambda: waited[0])
    shown = Meter("video 'a'", 7500, 30.0, lines.append)
    camera = Meter("camera 0", None, 30.0, lines.append)
    now[0], waited[0] = now[0] + 60, 60
    for _ in range(480):
        now[0] += 0.125
        shown.update()
    assert lines == [
        "video 'a': 240 of 7500 frames, 8 frames/s, 0:15:08 left",
        "video 'a': 480 of 7500 frames, 8 frames/s, 0:14:38 left",
    ]
    camera.update(30)
    assert lines[2:] == ["camera 0: 30 frames, 0.5 frames/s"]


def test_lines_without_a_terminal(run, folder, monkeypatch):
    run().clean()  # a short run has no lines
    monkeypatch.setattr(reporting, "INTERVAL", 0.0)
    lines = lines_of(run())
    assert len(lines) == 30
    pattern = rf"bgsub: images '{folder}': 30 of 30 frames, [\d.e+]+ frames/s, 0:00:00 left"
    assert re.fullmatch(pattern, lines[-1])
    run("--quiet").clean()


def test_kind_of_progress(cli, run, folder, tmp_path, monkeypatch):
    assert "', looking ahead: " in cli("run", folder, "-o", tmp_path / "twice", "--progress", "bar").err
    monkeypatch.setattr(reporting, "INTERVAL", 0.0)
    assert "0/30 [00:00<?" in run("--progress", "bar").err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    bar = run().err
    assert "0/30 [00:00<?" in bar
    assert bar.endswith("\r")
    assert "30 of 30 frames" not in bar
    lines = lines_of(run("--progress", "log"))
    assert len(lines) == 30
    assert all(line.startswith("bgsub: ") for line in lines)
    run("--quiet").clean()
    (folder / "in000003.png").write_bytes(b"")
    lines = lines_of(run("--on-error", "skip"))
    assert f"bgsub: image '{folder / 'in000003.png'}' is empty; skipped" in lines


def test_log_file(run, tmp_path, folder, monkeypatch):
    monkeypatch.setattr(reporting, "INTERVAL", 0.0)
    log = tmp_path / "a.log"
    run("--log", log, "--quiet").clean()
    lines = log.read_text().splitlines()
    assert all(re.match(rf"{TIME} INFO ", line) for line in lines)
    assert sum("of 30 frames, " in line for line in lines) == 30
    assert f"images '{folder}': 30 frames of 48x32" in lines[-1]
    (folder / "in000003.png").write_bytes(b"")
    message = f"image '{folder / 'in000003.png'}' is empty"
    run("--log", log, "--quiet").refused(message, code=1)
    assert re.fullmatch(rf"{TIME} ERROR {re.escape(message)}", log.read_text().splitlines()[-1])
    assert not [handler for handler in logging.getLogger("bgsub").handlers if hasattr(handler, "baseFilename")]
    gone = tmp_path / "gone" / "a.log"
    run("--log", gone).refused(f"the log cannot be written to '{gone}': No such file or directory")


def test_verbose_from_a_variable_shows_the_traceback(run, monkeypatch):
    monkeypatch.setenv("BGSUB_VERBOSE", "true")
    monkeypatch.setattr("bgsub.jobs.run_job", lambda *_, **__: 1 / 0)
    lines = lines_of(run())
    assert lines[:2] == ["bgsub: settings from BGSUB_VERBOSE", "Traceback (most recent call last):"]
    assert lines[-1] == "bgsub: error: ZeroDivisionError: division by zero (bgsub --verbose shows the traceback)"


@pytest.fixture
def compiled(monkeypatch, folder):
    """A run that compiles 31 of 62 kernels in 30 s, and the others in 11.2 s."""
    now, listener = [0.0], CompilationLog()
    monkeypatch.setattr(compilation, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def run_job(*_, **__):
        for seconds, done in ((0, 0), (30, 31), (11.2, 62)):
            now[0] += seconds
            listener(Progress(done, 62))
        raise SourceError("end of the test")

    monkeypatch.setattr("bgsub.jobs.run_job", run_job)


@pytest.mark.parametrize("options", [[], ["--quiet"], ["--progress", "bar"]])
def test_compilation_in_lines_and_in_the_log_file(run, compiled, tmp_path, options):
    lines = ["compiling kernels 0 of 62, once per installation", "compiling kernels 31 of 62"]
    lines += ["62 kernels compiled in 41.2 s"]
    answer = run(*options, "--log", tmp_path / "a.log")
    shown = [] if "--quiet" in options else lines
    assert lines_of(answer) == [f"bgsub: {line}" for line in (*shown, "error: end of the test")]
    logged = (tmp_path / "a.log").read_text().splitlines()
    assert [line.split(" INFO ")[-1] for line in logged][:3] == lines


def test_messages_above_a_bar_have_the_level_of_the_screen(capsys):
    log_to_screen(verbose=False)
    logging.getLogger("bgsub").setLevel(logging.INFO)  # the level of the log file
    with reporting.bar(total=3):
        logging.getLogger("bgsub").info("for the file")
        logging.getLogger("bgsub").warning("for all")
    err = capsys.readouterr().err
    assert "\rbgsub: for all\n" in err
    assert "for the file" not in err


def test_the_rate_of_a_run_excludes_compilation_and_has_decimals_if_low():
    result = JobResult("a", False, Summary(20, 0, 0, 50.0, "end"), Statistics(), [])
    assert summarise(result).startswith("a: 20 frames of 0x0 in 50.0 s (0.4 frames/s); ")
    result = JobResult("a", False, Summary(120, 0, 0, 42.5, "end", waited=40.5), Statistics(), [])
    assert summarise(result).startswith("a: 120 frames of 0x0 in 42.5 s, 40.5 of them for kernels (60 frames/s); ")
    fields = result.as_dict()
    assert (fields["seconds"], fields["seconds_for_kernels"], fields["frames_per_second"]) == (42.5, 40.5, 60)
