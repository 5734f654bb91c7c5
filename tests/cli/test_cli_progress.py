"""What a run tells beside its result: bars, lines, the log in a file, JSON, and that kernels are being compiled."""

import json
import logging
import re
import sys
from contextlib import contextmanager
from io import StringIO
from types import SimpleNamespace

import pytest

from bgsub.cli import progress
from bgsub.cli.logs import log_to_screen
from bgsub.cli.pipeline import summarise
from bgsub.cli.progress import ProgressLines as Lines
from bgsub.errors import SourceError
from bgsub.jobs.job import JobResult, Statistics, Summary
from bgsub.numerics import compilation
from bgsub.numerics.compilation import CompilationLog, Progress

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"


@pytest.fixture
def terminal(monkeypatch):
    """A function that makes standard error, as the test has it, a terminal of 100 columns or none."""

    def make(there: bool = True) -> None:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: there)
        monkeypatch.setenv("COLUMNS", "100")

    return make


@pytest.fixture
def words(folder, tmp_path):
    numbers = iter(range(99))

    def make(*more):
        return ["run", folder, "-o", tmp_path / f"out{next(numbers)}", "--start-frames", 10, *more]

    return make


def lines_of(answer):
    return [line.strip() for line in answer.err.replace("\r", "\n").split("\n") if line.strip()]


def test_lines_tell_count_rate_and_time_left(monkeypatch):
    now, said = [100.0], []
    monkeypatch.setattr(progress, "working_time", lambda: now[0])
    lines = Lines("video 'a'", 7500, 30.0, said.append)
    for _ in range(480):
        now[0] += 0.125
        lines.update()
    assert said == [
        "video 'a': 240 of 7500 frames, 8 frames/s, 0:15:08 left",
        "video 'a': 480 of 7500 frames, 8 frames/s, 0:14:38 left",
    ]
    lines = Lines("camera 0", None, 30.0, said.append)
    now[0] += 40
    lines.update(20)
    assert said[2:] == ["camera 0: 20 frames, 0.5 frames/s"]


def test_without_a_terminal_there_are_lines_in_the_log(cli, words, folder, monkeypatch):
    assert cli(*words()).err == ""  # a short run says nothing
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    lines = lines_of(cli(*words()))
    assert len(lines) == 30
    pattern = rf"bgsub: images '{folder}': 30 of 30 frames, [\d.e+]+ frames/s, 0:00:00 left"
    assert re.fullmatch(pattern, lines[-1])
    assert cli(*words("--quiet")).err == ""


def test_a_live_source_has_lines_more_rarely(cli, tmp_path, endless_stream, monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    words = ("live", endless_stream.address, "--no-window", "--duration", 4, "-o")
    cli(*words, tmp_path / "out").clean()
    monkeypatch.setattr(progress, "INTERVAL_LIVE", 0.0)
    lines = lines_of(cli(*words, tmp_path / "out2"))
    assert lines[0].startswith(f"bgsub: stream '{endless_stream.address}': 1 frames, ")
    assert len(lines) == 4


def test_the_kind_of_progress_can_be_chosen(cli, words, terminal, monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    terminal()
    assert "0/30 [00:00<?" in cli(*words()).err
    assert "30 of 30 frames" not in cli(*words()).err
    lines = lines_of(cli(*words("--progress", "log")))
    assert len(lines) == 30
    assert all(line.startswith("bgsub: ") for line in lines)
    assert cli(*words("--quiet")).err == ""
    terminal(False)
    assert "0/30 [00:00<?" in cli(*words("--progress", "bar")).err


def test_the_log_goes_into_a_file_with_times(cli, words, tmp_path, folder, monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    log = tmp_path / "a.log"
    cli(*words("--log", log, "--quiet")).clean()
    lines = log.read_text().splitlines()
    assert all(re.match(rf"{TIME} INFO ", line) for line in lines)
    assert sum("of 30 frames, " in line for line in lines) == 30
    assert f"images '{folder}': 30 frames of 48x32" in lines[-1]
    (folder / "in000003.png").write_bytes(b"")
    answer = cli(*words("--log", log, "--quiet"))
    assert answer.code == 1
    added = log.read_text().splitlines()[len(lines) :]
    message = f"image '{folder / 'in000003.png'}' is empty"
    assert re.fullmatch(rf"{TIME} ERROR {re.escape(message)}", added[-1])
    assert answer.err == f"bgsub: error: {message}\n"
    assert not [handler for handler in logging.getLogger("bgsub").handlers if hasattr(handler, "baseFilename")]


def test_a_log_that_cannot_be_written(cli, words, tmp_path):
    log = tmp_path / "gone" / "a.log"
    cli(*words("--log", log)).refused(f"the log cannot be written to '{log}': No such file or directory")


def test_verbose_and_quiet_stand_after_the_command_as_well(cli, words, folder, tmp_path):
    assert cli(*words("-v")).code == 0
    assert logging.getLogger("bgsub").level == logging.INFO
    assert cli("--verbose", *words()).code == 0
    assert logging.getLogger("bgsub").level == logging.INFO
    assert cli(*words()).code == 0
    assert logging.getLogger("bgsub").level == logging.WARNING
    assert len(logging.getLogger("bgsub").handlers) == 1
    assert cli("bench", "gone", "-q").code == 2
    assert cli("config", "demo", "-q", "-v").code == 0


def test_verbose_shows_the_traceback_wherever_it_comes_from(cli, words, monkeypatch):
    monkeypatch.setenv("BGSUB_VERBOSE", "true")
    monkeypatch.setattr("bgsub.jobs.run_job", lambda *_, **__: 1 / 0)
    lines = lines_of(cli(*words()))
    assert lines[:2] == ["bgsub: settings from BGSUB_VERBOSE", "Traceback (most recent call last):"]
    assert lines[-1] == "bgsub: error: ZeroDivisionError: division by zero (bgsub --verbose shows the traceback)"


def test_the_summary_as_json(cli, words, folder, tmp_path):
    for quiet in ([], ["--quiet"]):
        answer = cli(*words("--json", *quiet)).clean()
        assert answer.out.count("\n") == 1
        result = json.loads(answer.out)
        assert result["source"] == f"images '{folder}'"
        assert (result["frames"], result["width"], result["height"], result["tracked"]) == (30, 48, 32, True)
        assert result["stopped"] == "end"
        assert len(result["outputs"]) == 1
    cli("run", "gone.mp4", "-o", tmp_path / "x", "--json").refused("no such file or folder: 'gone.mp4'")


@pytest.fixture
def compiled(monkeypatch, folder):
    """A function that runs a command during which 31 of 62 kernels, and then all, are compiled in 41.2 s."""
    now, listeners = [0.0], [CompilationLog()]
    monkeypatch.setattr(compilation, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    @contextmanager
    def listening(listener):
        listeners.append(listener)
        yield
        assert listener._bar is None

    def run_job(*_, **__):
        for seconds, done in ((0, 0), (30, 31), (11.2, 62)):
            now[0] += seconds
            for listener in listeners:
                listener(Progress(done, 62))
        raise SourceError("that is all")

    monkeypatch.setattr(progress.compilation, "listening", listening)
    monkeypatch.setattr("bgsub.jobs.run_job", run_job)


KERNEL_LINES = [
    "compiling kernels 0 of 62, once per installation",
    "compiling kernels 31 of 62",
    "62 kernels compiled in 41.2 s",
]


def test_compilation_has_a_bar_on_a_terminal(cli, words, terminal, compiled):
    terminal()
    lines = lines_of(cli(*words()))
    assert lines.pop() == "bgsub: error: that is all"
    pattern = r"compiling kernels \d+ of 62, once per installation \|.*\| \d\d:\d\d"
    assert [line for line in lines if not re.fullmatch(pattern, line)] == []
    assert lines[-1].startswith("compiling kernels 31 of 62, ")


def test_compilation_has_lines_without_a_terminal(cli, words, compiled):
    assert lines_of(cli(*words())) == [f"bgsub: {line}" for line in (*KERNEL_LINES, "error: that is all")]


@pytest.mark.parametrize("silence", [["--quiet"], ["--progress", "bar"]])
def test_compilation_is_always_in_the_file_of_the_log(cli, words, compiled, tmp_path, silence):
    answer = cli(*words(*silence, "--log", tmp_path / "a.log"))
    assert "bgsub: compiling" not in answer.err
    lines = [line.split(" INFO ")[-1] for line in (tmp_path / "a.log").read_text().splitlines()]
    assert lines[:3] == KERNEL_LINES


def test_the_log_appears_above_a_bar_and_says_no_more_than_without(capsys):
    log_to_screen(verbose=False)
    logging.getLogger("bgsub").setLevel(logging.INFO)  # as for the file of the log
    with progress.bar(total=3):
        logging.getLogger("bgsub").info("for the file")
        logging.getLogger("bgsub").warning("for all")
    err = capsys.readouterr().err
    assert "\rbgsub: for all\n" in err
    assert "for the file" not in err


def test_rates_and_estimates_are_without_compilation(monkeypatch):
    now, lost, said = [100.0], [0.0], []
    monkeypatch.setattr(compilation, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    for module in (compilation, progress):
        monkeypatch.setattr(module, "waited", lambda: lost[0])
    lines = Lines("video 'a'", 7500, 30.0, said.append)
    now[0] += 60
    lost[0] += 40
    lines.update(100)
    now[0] += 20
    lines.update(300)
    assert said == ["video 'a': 400 of 7500 frames, 10 frames/s, 0:11:50 left"]
    with progress.bar(total=10, file=StringIO()) as drawn:
        begin = drawn.start_t
        meter = progress._Bar(drawn)
        lost[0] += 1000
        meter.update()
        assert drawn.start_t == begin + 1000


def test_the_summary_tells_what_kernels_took():
    summary = Summary(120, 0, 0, 42.5, "end", waited=40.5)
    result = JobResult("a", False, summary, Statistics(), [])
    assert summarise(result).startswith("a: 120 frames of 0x0 in 42.5 s, 40.5 of them for kernels (60 frames/s); ")
    told = result.as_dict()
    assert (told["seconds"], told["seconds_for_kernels"], told["frames_per_second"]) == (42.5, 40.5, 60)
