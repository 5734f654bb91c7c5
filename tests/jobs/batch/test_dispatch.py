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
from batch_fakes import DAMAGED, FULL, FakeWorkers, lines, names, run, visible
from video_fakes import read_table

import bgsub
from bgsub.errors import OutputError, ParameterError, SinkError, SourceError
from bgsub.jobs.batch.files import Entry, Manifest, hold_folder
from bgsub.jobs.batch.run import WorkersLost
from bgsub.jobs.batch.task import Outcome, do_task
from bgsub.jobs.job import Job
from bgsub.jobs.job_state import InputState

ALL = ["a.mp4", "b.mp4", "c.mp4", "d.mp4"]


def text(output, name):
    return (output / name / "mask.txt").read_text()


def panel(source, folder):
    return Job(source, folder, save=("panel",))


def test_each_source_has_its_folder_and_is_done_once(jobs, files, output):
    seen, workers = [], FakeWorkers(slots=3)
    result = run(files, output, workers, progress=seen.append)
    assert (names(result.done), result.complete, result.done, workers.most) == (ALL, True, seen, 3)
    assert visible(output) == ["a", "b", "c", "d"]
    assert [text(output, name) for name in "abcd"] == [f"text of {name}" for name in "abcd"]
    assert [line["result"]["outputs"] for line in lines(output)] == [["mask.txt"]] * 4
    record = json.loads((output / "a" / "result.json").read_text())
    assert (record["source"]["path"], record["bgsub"]) == (str(files / "a.mp4"), bgsub.__version__)
    for lost in (False, True):  # by a kill between publishing and the manifest
        if lost:
            (output / "manifest.jsonl").write_bytes(b"")
        result = run(files, output)
        assert (jobs.done, names(result.skipped), result.complete, len(lines(output))) == (ALL, ALL, True, 4)


def test_changed_sources_and_outputs_are_done_again(jobs, files, output):
    done, source = output / "b", files / "b.mp4"

    def change_record(change):
        record = json.loads((done / "result.json").read_text())
        change(record)
        (done / "result.json").write_text(json.dumps(record))

    def damage(record):
        del record["files"]
        record["options"] = "0123456789abcdef"

    run(files, output)
    for change in (
        lambda: source.write_text("another text"), (done / "mask.txt").unlink,
        lambda: done.rename(output.parent / "elsewhere"), lambda: os.truncate(done / "mask.txt", 0),
        lambda: change_record(lambda record: record["result"]["outputs"].append("clips")),
        lambda: change_record(damage),
    ):  # fmt: skip
        jobs.done.clear()
        change()
        result = run(files, output)
        assert jobs.done == names(result.done) == ["b.mp4"]
        assert (text(output, "b"), visible(output)) == (source.read_text(), ["a", "b", "c", "d"])


def test_overwrite_does_everything_again_and_other_options_need_it(jobs, files, output, caplog):
    caplog.set_level(logging.INFO, "bgsub")
    run(files, output)
    with pytest.raises(ParameterError, match=r"'.*/a' were made by .* \(--save mask, now panel\); --overwrite"):
        run(files, output, make_job=panel)
    again = run(files, output, make_job=panel, overwrite=True)
    assert (len(again.done), len(again.skipped), len(jobs.done), visible(output)) == (4, 0, 8, ["a", "b", "c", "d"])
    (files / "a.mp4").write_text("another text")
    run(files, output, make_job=panel)
    assert f"before '{files / 'a.mp4'}' was changed" in caplog.messages[-1]


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
    jobs.failures = {"b.mp4": [DAMAGED]}
    (files / "b.mp4").write_text("new")
    assert names(run(files, output).failed) == ["b.mp4"]
    assert text(output, "b") == "text of b"  # the earlier result


def test_batch_waits_for_workers(jobs, files, output, monkeypatch):
    monkeypatch.setattr("bgsub.jobs.batch.run._WAIT_SECONDS", 0.001)
    workers = FakeWorkers()
    workers.slots = mock.Mock(side_effect=[0, 0, 4])
    assert names(run(files, output, workers).done) == ALL
    assert workers.slots.call_count == 3


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


def test_results_of_changed_sources_or_of_another_folder_fail(jobs, files, output):
    def change(task):
        outcome = do_task(task)
        (files / "c.mp4").write_text("changed while it was read")
        return outcome

    def elsewhere(task):
        return replace(do_task(task), attempt=".a.attempt-nowhere", worker="w:1")

    def fail(_task):
        raise ValueError("not\npicklable")

    for name, perform, error in (
        ("c", change, "changed while it was read"),
        ("a", elsewhere, "results of worker w:1 are not visible here"),
        ("b", fail, "ValueError: not picklable"),
    ):
        result = run(files / f"{name}.mp4", output, FakeWorkers(perform), retries=0)
        assert error in result.failed[0].error
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


def test_wrong_option_makes_no_folder(jobs, files, output):
    for options, message in (
        ({"parameters": {"rank": 0}}, "rank"), ({"privacy": ("1,2,3",)}, "a region must be"),
        ({"roi": ("nowhere.png",)}, "got 'nowhere.png'"), ({"save": ("musk",)}, "got 'musk'"),
        ({"name": "{place}"}, "got {place}"), ({"end": "1s", "duration": "1s"}, "end .*duration"),
        ({"every": 0}, "every must be"),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=message):
            run(files, output, make_job=lambda *place, options=options: Job(*place, **options))
    with pytest.raises(ParameterError, match="save_model must have another name"):
        run(files, output, make_job=lambda source, folder: Job(source, folder, save_model=folder / "result.json"))
    with pytest.raises(SourceError, match="no such file"):
        run([files, "nowhere.mp4"], output)
    assert not output.exists()
    (output / "b").mkdir(parents=True)
    (output / "b" / "thesis.tex").write_text("all of it")
    with pytest.raises(SinkError, match=r"'.*b' is in the way and no result of a batch"):
        run(files, output, overwrite=True)
    assert ((output / "b" / "thesis.tex").read_text(), jobs.done) == ("all of it", [])


@pytest.fixture
def task(jobs, files, output):
    tasks = []
    run(files / "a.mp4", output, FakeWorkers(lambda task: tasks.append(task) or Outcome(error="no")))
    return tasks[0]


def test_worker_refuses_files_that_it_does_not_see(task, output):
    assert "the batch has ended" in do_task(task, is_cancelled=lambda: True).error
    assert visible(output) == []
    assert do_task(task).error == ""
    for change, error, retryable in (
        ({"job": replace(task.job, source="/nowhere/a.mp4")}, "does not see '/nowhere/a.mp4'", True),
        ({"manifest": output / "none"}, f"does not see '{output}/none'", True),
        ({"version": "9.9"}, f"has bgsub {bgsub.__version__}, this is 9.9", False),
    ):
        outcome = do_task(replace(task, **change))
        assert error in outcome.error
        assert outcome.retryable == retryable


def test_worker_begins_again_where_an_attempt_cannot_go_on(task, jobs, output, monkeypatch):
    finished = output / f".a.attempt-{0:032}"

    def do(job, *, watch, **_options):
        if job.resume and job.output != finished:
            raise SinkError("this output has no checkpoints")
        result = jobs(job, watch=watch)
        result.already_done = job.output == finished
        return result

    monkeypatch.setattr("bgsub.jobs.batch.task.unfinished", lambda _target: finished)
    monkeypatch.setattr("bgsub.jobs.batch.task.run_job", do)
    outcome = do_task(task)
    assert outcome.warnings == (f"'{output / 'a'}' is finished, but its record is missing; starting over",)
    assert (outcome.error, outcome.result["outputs"], outcome.attempt == finished.name) == ("", ["mask.txt"], False)
    assert finished.is_dir()


def test_output_with_the_name_of_the_record_fails(task, jobs, output, monkeypatch):
    def do(job, *, watch, **_options):
        result = jobs(job, watch=watch)
        (job.output / "result.json").touch()
        return result

    monkeypatch.setattr("bgsub.jobs.batch.task.run_job", do)
    assert do_task(task).error.startswith("an output must have another name than 'result.json'")
    assert visible(output) == []


def test_messages_name_the_final_folder_once(jobs, files, output, caplog, monkeypatch):
    def fail(job, *, watch, **_options):
        bgsub_logger = logging.getLogger("bgsub")
        bgsub_logger.warning("a frame of '%s' is late", job.output / "mask")
        bgsub_logger.warning("'%s' is missing", job.output)
        raise SourceError(f"'{job.output}' is missing")

    monkeypatch.setattr("bgsub.jobs.batch.task.run_job", fail)
    result = run(files / "a.mp4", output)
    assert result.failed[0].error == f"'{output / 'a'}' is missing"
    assert caplog.messages == [f"{files / 'a.mp4'}: a frame of '{output / 'a' / 'mask'}' is late"]


def entry(name="a", **values):
    return Entry(InputState(f"/in/{name}.mp4", 5, 7), "f00", name, "done", **values)


def appended(folder, *entries):
    """Append entries to the manifest of a folder, and return its lines."""
    with Manifest(folder) as manifest:
        for one in entries:
            manifest.append(one)
    return (folder / "manifest.jsonl").read_bytes().splitlines()


def test_appended_entries_are_read_again(tmp_path):
    first, second = entry("a", result={"frames": 3}), entry("ü\n\udce4", error="x")
    assert len(appended(tmp_path / "new", first, second, replace(first, attempts=2))) == 3
    with Manifest(tmp_path / "new") as manifest:
        assert list(manifest.entries.values()) == [replace(first, attempts=2), second]


@pytest.mark.parametrize("cut", [1, 100])
def test_torn_and_damaged_lines_are_left_out(tmp_path, cut, caplog):
    appended(tmp_path, entry("a"), entry("b"))
    path = tmp_path / "manifest.jsonl"
    path.write_bytes(b"nonsense\n[]\n{}\n\xff\n" + path.read_bytes()[:-cut])
    with Manifest(tmp_path) as manifest:
        assert list(manifest.entries) == ["/in/a.mp4"]
    assert "is torn" in caplog.text
    assert caplog.text.count("is no entry") == 4
    assert [json.loads(line)["output"] for line in appended(tmp_path, entry("c"))[4:]] == ["a", "c"]


def test_full_disk_leaves_whole_lines(tmp_path, monkeypatch):
    with Manifest(tmp_path) as manifest:
        manifest.append(entry("a"))
        monkeypatch.setattr(os, "fsync", mock.Mock(side_effect=OSError(28, "No space left on device")))
        with pytest.raises(OutputError, match="No space left"):
            manifest.append(entry("b"))
        assert list(manifest.entries) == ["/in/a.mp4"]
    assert len((tmp_path / "manifest.jsonl").read_bytes().splitlines()) == 1


def test_table_has_a_row_per_source(tmp_path):
    first, other = entry("a", result={"frames": 3, "seconds": 99}, seconds=1.5), entry("b", error='said "no", twice')
    appended(tmp_path, first, replace(other, state="failed"), entry("a", result={"frames": 4}, seconds=2.5))
    with Manifest(tmp_path) as manifest:
        manifest.write_csv()
    rows = {row["source"]: row for row in read_table(tmp_path / "manifest.csv")}
    assert (rows["/in/a.mp4"]["frames"], rows["/in/a.mp4"]["seconds"]) == ("4", "2.5")
    assert (rows["/in/b.mp4"]["state"], rows["/in/b.mp4"]["error"]) == ("failed", 'said "no", twice')
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.csv", "manifest.jsonl"]


def test_one_batch_at_a_time(tmp_path):
    for _ in range(2):
        with hold_folder(tmp_path), pytest.raises(SinkError, match="another batch works in"), hold_folder(tmp_path):
            pass
