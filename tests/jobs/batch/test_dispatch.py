"""Each source gets its results once: retries, skipped sources, published folders, stops."""

import json
import logging
import os
import signal
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from unittest import mock

import pytest
from batch_fakes import DAMAGED, FULL, FakeResult, FakeWorkers, lines, names, run, visible

import bgsub
from bgsub.errors import ParameterError, SinkError, SourceError
from bgsub.jobs.batch.dispatch import WorkersLost
from bgsub.jobs.batch.manifest import Ticket, hold_folder
from bgsub.jobs.batch.task import Outcome, do_task
from bgsub.jobs.job import Job

ALL = ["a.mp4", "b.mp4", "c.mp4", "d.mp4"]


def text(output, name):
    return (output / name / "mask.txt").read_text()


def panel(source, folder):
    return Job(source, folder, save=("panel",))


def test_each_source_has_its_folder(jobs, files, output):
    seen, workers = [], FakeWorkers(slots=3)
    result = run(files, output, workers, progress=seen.append)
    assert names(result.done) == ALL
    assert (result.complete, result.done, workers.most) == (True, seen, 3)
    assert visible(output) == ["a", "b", "c", "d"]
    assert [text(output, name) for name in "abcd"] == [f"text of {name}" for name in "abcd"]
    assert [line["result"]["outputs"] for line in lines(output)] == [["mask.txt"]] * 4
    record = json.loads((output / "a" / "result.json").read_text())
    assert (record["source"]["path"], record["bgsub"]) == (str(files / "a.mp4"), bgsub.__version__)


def test_second_run_does_nothing(jobs, files, output):
    run(files, output)
    result = run(files, output)
    assert (jobs.done, names(result.skipped), result.complete) == (ALL, ALL, True)
    assert len(lines(output)) == 4


def _changed_file(files, _output):
    (files / "b.mp4").write_text("another text")


def _lost_output(_files, output):
    (output / "b" / "mask.txt").unlink()


def _lost_folder(_files, output):
    (output / "b").rename(output.parent / "elsewhere")


def _empty_output(_files, output):
    os.truncate(output / "b" / "mask.txt", 0)


def _damaged_record(_files, output):
    record = json.loads((output / "b" / "result.json").read_text())
    del record["files"]
    (output / "b" / "result.json").write_text(json.dumps({**record, "options": "0123456789abcdef"}))


@pytest.mark.parametrize("change", [_changed_file, _lost_output, _lost_folder, _empty_output, _damaged_record])
def test_changed_sources_and_outputs_are_done_again(jobs, files, output, change):
    run(files, output)
    change(files, output)
    jobs.done.clear()
    result = run(files, output)
    assert jobs.done == names(result.done) == ["b.mp4"]
    assert text(output, "b") == (files / "b.mp4").read_text()
    assert visible(output) == ["a", "b", "c", "d"]


def test_renamed_file_is_another_source(jobs, files, output):
    run(files, output)
    (files / "b.mp4").rename(files / "e.mp4")
    assert names(run(files, output).done) == ["e.mp4"]
    (files / "e.mp4").rename(files / "c.mp4")  # in place of a finished one
    assert names(run(files, output).done) == ["c.mp4"]
    assert text(output, "c") == "text of b"


def test_log_says_what_differs(jobs, files, output, caplog):
    caplog.set_level(logging.INFO, "bgsub")
    run(files / "a.mp4", output)
    (files / "a.mp4").write_text("another text")
    run(files / "a.mp4", output)
    run(files / "a.mp4", output, make_job=panel)
    changed, options = caplog.messages
    assert f"before '{files / 'a.mp4'}' was changed" in changed
    assert "--save mask, now panel" in options


def test_other_options_and_overwrite_do_everything_again(jobs, files, output):
    run(files, output)
    assert len(run(files, output, make_job=panel).done) == 4
    again = run(files, output, make_job=panel, overwrite=True)
    assert (len(again.done), len(again.skipped), len(jobs.done)) == (4, 0, 12)
    assert visible(output) == ["a", "b", "c", "d"]


def test_kill_between_publishing_and_the_manifest(jobs, files, output):
    run(files, output)
    (output / "manifest.jsonl").write_bytes(b"")
    assert names(run(files, output).skipped) == ALL
    assert (jobs.done, len(lines(output))) == (ALL, 4)


def test_attempts_of_dead_workers_are_removed_and_counted(jobs, files, output):
    def perform(task):
        if task.job.output.name == "b":
            dead = task.job.output.with_name(f".b.attempt-{'0' * 32}")
            dead.mkdir()
            (dead / "mask.partial.mkv").touch()
        return do_task(task)

    result = run(files, output, FakeWorkers(perform))
    assert [entry.attempts for entry in result.done] == [1, 2, 1, 1]
    assert visible(output) == ["a", "b", "c", "d"]


def test_leftovers_of_a_killed_batch_are_removed(jobs, files, output):
    (output / f".a.attempt-{'1' * 32}").mkdir(parents=True)
    (output / f".a.old-{'2' * 32}").mkdir()
    (output / ".a.attempt-of-mine").mkdir()
    run(files, output)
    assert visible(output) == [".a.attempt-of-mine", "a", "b", "c", "d"]


def test_temporary_failures_are_tried_again(jobs, files, output):
    jobs.failures = {"a.mp4": [FULL, OSError(5, "Input/output error")], "b.mp4": [FULL, FULL, FULL]}
    result = run(files, output, retries=2)
    assert names(result.done) == ["c.mp4", "d.mp4", "a.mp4"]
    assert [(entry.output, entry.attempts, entry.error) for entry in result.failed] == [("b", 3, str(FULL))]
    assert not result.complete
    assert visible(output) == ["a", "c", "d"]


@pytest.mark.parametrize("error", [DAMAGED, ParameterError("wrong"), RuntimeError("it\nbroke")])
def test_permanent_failures_are_not_tried_again(jobs, files, output, error):
    jobs.failures = {"b.mp4": [error]}
    result = run(files, output)
    assert (names(result.done), names(result.failed)) == (["a.mp4", "c.mp4", "d.mp4"], ["b.mp4"])
    message = "RuntimeError: it broke" if isinstance(error, RuntimeError) else str(error)
    assert (result.failed[0].attempts, result.failed[0].error) == (1, message)
    again = run(files, output)
    assert (names(again.done), len(again.skipped)) == (["b.mp4"], 3)
    assert [line["state"] for line in lines(output) if line["output"] == "b"] == ["failed", "done"]


@pytest.mark.parametrize(("deaths", "attempts"), [(1, 2), (5, 3)])
def test_task_whose_process_dies_fails_alone(jobs, files, output, deaths, attempts):
    dead = []

    def perform(task):
        if task.job.output.name == "b" and len(dead) < deaths:
            dead.append(task.job.output.with_name(f".b.attempt-{len(dead):032}"))
            dead[-1].mkdir()
            raise BrokenProcessPool
        return do_task(task)

    result = run(files, output, FakeWorkers(perform), retries=2)
    assert len(result.done) == (4 if deaths == 1 else 3)
    assert [entry.attempts for entry in (*result.done, *result.failed) if entry.output == "b"] == [attempts]
    assert [entry.error for entry in result.failed] == ([] if deaths == 1 else ["its worker died each of 3 times"])
    assert not list(output.glob(".b*"))


def test_failure_of_the_workers_is_one_of_the_source(jobs, files, output):
    def perform(_task):
        raise ValueError("not\npicklable")

    result = run(files / "a.mp4", output, FakeWorkers(perform))
    assert result.failed[0].error == "ValueError: not picklable"


def test_failure_keeps_the_earlier_result(jobs, files, output):
    run(files, output)
    jobs.failures = {"b.mp4": [DAMAGED]}
    (files / "b.mp4").write_text("new")
    assert names(run(files, output).failed) == ["b.mp4"]
    assert text(output, "b") == "text of b"


def test_source_that_changes_during_the_attempt_fails(jobs, files, output):
    def perform(task):
        outcome = do_task(task)
        (files / "c.mp4").write_text("changed while it was read")
        return outcome

    result = run(files / "c.mp4", output, FakeWorkers(perform))
    assert "changed while it was read" in result.failed[0].error
    assert visible(output) == []


def test_results_that_are_not_visible_fail(jobs, files, output):
    workers = FakeWorkers(lambda task: replace(do_task(task), attempt=".a.attempt-nowhere", worker="w:1"))
    result = run(files / "a.mp4", output, workers, retries=0)
    assert "results of worker w:1 are not visible here" in result.failed[0].error
    assert visible(output) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), WorkersLost("the scheduler went away"), CancelledError()])
def test_stopped_batch_continues(jobs, files, output, error):
    def perform(task):
        if task.job.output.name == "c":
            raise error
        return do_task(task)

    workers = FakeWorkers(perform, slots=1)
    if isinstance(error, WorkersLost):  # the third time
        workers.slots = mock.Mock(side_effect=[1, 1, error])
    result = run(files, output, workers)
    assert (names(result.done), result.left, workers.closed) == (["a.mp4", "b.mp4"], 2, True)
    assert result.stopped == ("SIGINT" if isinstance(error, KeyboardInterrupt) else "lost")
    assert (output / "manifest.csv").read_text().count("\n") == 3
    again = run(files, output)
    assert (names(again.done), names(again.skipped)) == (["c.mp4", "d.mp4"], ["a.mp4", "b.mp4"])
    assert len(lines(output)) == 4


def test_ctrl_c_while_a_result_is_published_comes_after_its_line(jobs, files, output, monkeypatch):
    rename = os.rename

    def rename_and_interrupt(*paths):
        rename(*paths)
        if len(jobs.done) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(os, "rename", rename_and_interrupt)
    handler = signal.getsignal(signal.SIGINT)
    result = run(files, output, FakeWorkers(slots=1))
    assert (names(result.done), result.left, result.stopped) == (["a.mp4", "b.mp4"], 2, "SIGINT")
    assert [line["output"] for line in lines(output)] == visible(output) == ["a", "b"]
    assert signal.getsignal(signal.SIGINT) == handler


def test_foreign_files_in_the_way_are_not_touched(jobs, files, output):
    (output / "b").mkdir(parents=True)
    (output / "b" / "thesis.tex").write_text("all of it")
    with pytest.raises(SinkError, match=r"'.*b' is in the way and no result of a batch"):
        run(files, output, overwrite=True)
    assert ((output / "b" / "thesis.tex").read_text(), jobs.done) == ("all of it", [])


def test_one_batch_at_a_time_in_a_folder(jobs, files, output):
    with hold_folder(output), pytest.raises(SinkError, match="another batch works in"):
        run(files, output)
    assert run(files, output).complete


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parameters": {"rank": 0}}, "rank"),
        ({"privacy": ("1,2,3",)}, "a region must be"),
        ({"roi": ("nowhere.png",)}, "got 'nowhere.png'"),
        ({"save": ("musk",)}, "got 'musk'"),
        ({"name": "{place}"}, "got {place}"),
        ({"end": "1s", "duration": "1s"}, "end .*duration"),
        ({"every": 0}, "every must be"),
        ({"save_model": "result.json"}, "save_model must have another name"),
    ],
)
def test_wrong_option_makes_no_folder(jobs, files, output, options, message):
    def make(source, folder):
        model = options.get("save_model")
        return Job(source, folder, **{**options, "save_model": model and folder / model})

    with pytest.raises(ParameterError, match=message):
        run(files, output, make_job=make)
    with pytest.raises(SourceError, match="no such file"):
        run([files, "nowhere.mp4"], output)
    assert not output.exists()


def test_region_mask_is_found_from_any_folder(jobs, files, output, monkeypatch):
    monkeypatch.chdir(files)
    (files / "m.png").write_bytes(b"1")
    tasks = []
    workers = FakeWorkers(lambda task: tasks.append(task) or do_task(task))
    regions = {"roi": ("m.png", "door=m.png", "0,0,5,5"), "privacy": ("m.png",)}
    make = lambda source, folder: Job(source, folder, **regions)  # noqa: E731
    assert len(run("a.mp4", output, workers, make_job=make).done) == 1
    assert tasks[0].job.privacy == (str(files / "m.png"),)
    assert tasks[0].job.roi == (str(files / "m.png"), f"door={files / 'm.png'}", "0,0,5,5")
    assert len(run("a.mp4", output, make_job=make).skipped) == 1
    (files / "m.png").write_bytes(b"22")
    assert len(run("a.mp4", output, make_job=make).done) == 1


@pytest.fixture
def task(jobs, files, output):
    """A task of a batch that goes on."""
    tasks = []
    run(files / "a.mp4", output, FakeWorkers(lambda task: tasks.append(task) or Outcome(error="no")))
    with hold_folder(output) as ticket:
        yield replace(tasks[0], ticket=ticket)


def test_worker_refuses_files_that_it_does_not_see(task, output):
    assert do_task(task).error == ""
    blind = do_task(replace(task, job=replace(task.job, source="/nowhere/a.mp4")))
    assert "does not see '/nowhere/a.mp4'" in blind.error
    assert blind.retryable
    assert (
        f"does not see the output folder '{output}'"
        in do_task(replace(task, ticket=Ticket(task.ticket.path, "x"))).error
    )
    other = do_task(replace(task, version="9.9"))
    assert f"has bgsub {bgsub.__version__}, this is 9.9" in other.error
    assert not other.retryable


def test_messages_name_the_final_folder_once(jobs, files, output, caplog, monkeypatch):
    def fail(job, *, watch):
        bgsub_logger = logging.getLogger("bgsub")
        bgsub_logger.warning("a frame of '%s' is late", job.output / "mask")
        bgsub_logger.warning("'%s' is missing", job.output)
        raise SourceError(f"'{job.output}' is missing")

    monkeypatch.setattr("bgsub.jobs.batch.task.run_job", fail)
    result = run(files / "a.mp4", output)
    assert result.failed[0].error == f"'{output / 'a'}' is missing"
    assert caplog.messages == [f"{files / 'a.mp4'}: a frame of '{output / 'a' / 'mask'}' is late"]


def test_output_in_place_of_the_record_fails(task, monkeypatch):
    def write_there(job, *, watch):
        job.output.mkdir()
        (job.output / "result.json").write_text("my objects")
        return FakeResult(job.source, job.output / "result.json")

    monkeypatch.setattr("bgsub.jobs.batch.task.run_job", write_there)
    outcome = do_task(task)
    assert "an output must have another name than 'result.json'" in outcome.error
    assert not outcome.retryable


def test_cancelled_attempt_leaves_nothing(task, output):
    assert "the batch has ended" in do_task(task, is_cancelled=lambda: True).error
    assert visible(output) == []
