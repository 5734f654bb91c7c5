"""Each source exactly once, whatever Dask does; what is tried again, what is left out, what stays."""

import json
import logging
import os
import signal
from dataclasses import replace

import pytest
from batch_fakes import DAMAGED, FULL, FakeResult, FakeRunner, lines, names, run, visible

import bgsub
from bgsub.errors import ParameterError, SinkError, SourceError
from bgsub.jobs.batch.dispatch import RunnerLost
from bgsub.jobs.batch.lock import Ticket, hold_folder
from bgsub.jobs.batch.task import Outcome, Unwanted, do_task
from bgsub.jobs.job import Job


def text(output, name):
    return (output / name / "mask.txt").read_text()


def test_each_source_has_its_folder(jobs, files, output):
    seen = []
    result = run(files, output, progress=seen.append)
    assert names(result.done) == ["a.mp4", "b.mp4", "c.mp4", "d.mp4"]
    assert result.complete
    assert result.done == seen
    assert visible(output) == ["a", "b", "c", "d"]
    assert [text(output, name) for name in "abcd"] == [f"text of {name}" for name in "abcd"]
    assert [line["result"]["outputs"] for line in lines(output)] == [["mask.txt"]] * 4
    record = json.loads((output / "a" / "result.json").read_text())
    assert record["source"]["path"] == str(files / "a.mp4")
    assert record["bgsub"] == bgsub.__version__


def test_no_more_than_fit_are_handed_out(jobs, files, output):
    runner = FakeRunner(slots=3)
    assert run(files, output, runner).complete
    assert runner.most == 3


def test_a_second_run_does_nothing(jobs, files, output):
    run(files, output)
    jobs.done.clear()
    result = run(files, output)
    assert (jobs.done, names(result.skipped), result.complete) == ([], ["a.mp4", "b.mp4", "c.mp4", "d.mp4"], True)
    assert len(lines(output)) == 4


def _changed_file(files, _output):
    (files / "b.mp4").write_text("another text")


def _lost_output(_files, output):
    (output / "b" / "mask.txt").unlink()


def _lost_folder(_files, output):
    (output / "b").rename(output.parent / "elsewhere")


def _empty_output(_files, output):
    os.truncate(output / "b" / "mask.txt", 0)


@pytest.mark.parametrize("change", [_changed_file, _lost_output, _lost_folder, _empty_output])
def test_what_changed_is_done_again(jobs, files, output, change):
    run(files, output)
    change(files, output)
    jobs.done.clear()
    result = run(files, output)
    assert jobs.done == names(result.done) == ["b.mp4"]
    assert text(output, "b") == (files / "b.mp4").read_text()
    assert visible(output) == ["a", "b", "c", "d"]


def test_a_renamed_file_is_another_one(jobs, files, output):
    run(files, output)
    (files / "b.mp4").rename(files / "e.mp4")
    assert names(run(files, output).done) == ["e.mp4"]
    (files / "e.mp4").rename(files / "c.mp4")  # in the place of one that was done
    assert names(run(files, output).done) == ["c.mp4"]
    assert text(output, "c") == "text of b"


def test_results_of_an_older_version_are_made_again(jobs, files, output):
    run(files / "a.mp4", output)
    record = json.loads((output / "a" / "result.json").read_text())
    del record["files"]
    (output / "a" / "result.json").write_text(json.dumps({**record, "options": "0123456789abcdef"}))
    assert names(run(files / "a.mp4", output).done) == ["a.mp4"]


def test_the_log_says_what_differs(jobs, files, output, caplog):
    caplog.set_level(logging.INFO, "bgsub")
    run(files / "a.mp4", output)
    (files / "a.mp4").write_text("another text")
    run(files / "a.mp4", output)
    run(files / "a.mp4", output, make_job=lambda source, folder: Job(source, folder, save=("panel",)))
    path, made = files / "a.mp4", "the results were made"
    assert caplog.messages == [
        f"{path}: {made} before '{path}' was changed; starting anew",
        f"{path}: {made} by other options (--save mask, now panel); starting anew",
    ]


def test_other_options_and_overwrite_do_everything_again(jobs, files, output):
    run(files, output)
    other = run(files, output, make_job=lambda source, folder: Job(source, folder, save=("panel",)))
    assert len(other.done) == 4
    anew = run(files, output, make_job=lambda source, folder: Job(source, folder, save=("panel",)), overwrite=True)
    assert (len(anew.done), len(anew.skipped), len(jobs.done)) == (4, 0, 12)
    assert visible(output) == ["a", "b", "c", "d"]


def test_a_kill_between_the_name_and_the_line_costs_nothing(jobs, files, output):
    run(files, output)
    (output / "manifest.jsonl").write_bytes(b"")
    jobs.done.clear()
    assert names(run(files, output).skipped) == ["a.mp4", "b.mp4", "c.mp4", "d.mp4"]
    assert (jobs.done, len(lines(output))) == ([], 4)


def test_a_task_that_is_done_twice_counts_once(jobs, files, output):
    result = run(files, output, FakeRunner(lambda _key, task: [do_task(task), do_task(task)]))
    assert len(jobs.done) == 8
    assert names(result.done) == ["a.mp4", "b.mp4", "c.mp4", "d.mp4"]
    assert len(lines(output)) == 4
    assert visible(output) == ["a", "b", "c", "d"]


def test_a_late_answer_of_a_lost_worker_changes_nothing(jobs, files, output):
    late = []

    def trick(key, task):
        outcomes = [do_task(task)]
        late.append((key, do_task(task)))
        return outcomes

    runner = FakeRunner(trick, slots=1)
    plain = runner.wait
    runner.wait = lambda seconds: plain(seconds) + [late.pop(0) for _ in range(len(late) - 1)]
    assert len(run(files, output, runner).done) == 4
    assert len(lines(output)) == 4
    assert visible(output) == ["a", "b", "c", "d"]


def test_attempts_of_dead_workers_are_removed_and_counted(jobs, files, output):
    def trick(key, task):
        if key == 1:
            dead = task.job.output.with_name(f".b.attempt-{'0' * 32}")
            dead.mkdir()
            (dead / "mask.partial.mkv").touch()
        return [do_task(task)]

    result = run(files, output, FakeRunner(trick))
    assert [entry.attempts for entry in result.done] == [1, 2, 1, 1]
    assert visible(output) == ["a", "b", "c", "d"]


def test_leftovers_of_a_killed_batch_are_removed(jobs, files, output):
    (output / f".a.attempt-{'1' * 32}").mkdir(parents=True)
    (output / f".a.old-{'2' * 32}").mkdir()
    (output / ".a.attempt-of-mine").mkdir()
    run(files, output)
    assert visible(output) == [".a.attempt-of-mine", "a", "b", "c", "d"]


def test_what_may_pass_is_tried_again(jobs, files, output):
    jobs.failures = {"a.mp4": [FULL, OSError(5, "Input/output error")], "b.mp4": [FULL, FULL, FULL]}
    result = run(files, output, retries=2)
    assert names(result.done) == ["c.mp4", "d.mp4", "a.mp4"]
    assert {entry.attempts for entry in result.failed} == {3}
    assert (names(result.failed), result.failed[0].error) == (["b.mp4"], str(FULL))
    assert not result.complete
    assert visible(output) == ["a", "c", "d"]


@pytest.mark.parametrize("error", [DAMAGED, ParameterError("wrong"), RuntimeError("it\nbroke")])
def test_what_will_not_pass_is_not(jobs, files, output, error):
    jobs.failures = {"b.mp4": [error]}
    result = run(files, output)
    assert (names(result.done), names(result.failed)) == (["a.mp4", "c.mp4", "d.mp4"], ["b.mp4"])
    told = "RuntimeError: it broke" if isinstance(error, RuntimeError) else str(error)
    assert (result.failed[0].attempts, result.failed[0].error) == (1, told)
    jobs.done.clear()
    again = run(files, output)
    assert (jobs.done, names(again.done), len(again.skipped)) == (["b.mp4"], ["b.mp4"], 3)
    assert [line["state"] for line in lines(output) if line["output"] == "b"] == ["failed", "done"]


def test_a_failure_leaves_the_earlier_result(jobs, files, output):
    run(files, output)
    jobs.failures = {"b.mp4": [DAMAGED]}
    (files / "b.mp4").write_text("new")
    assert names(run(files, output).failed) == ["b.mp4"]
    assert text(output, "b") == "text of b"


def test_a_file_that_changes_meanwhile_fails(jobs, files, output):
    def trick(_key, task):
        outcome = do_task(task)
        (files / "c.mp4").write_text("changed while it was read")
        return [outcome]

    result = run(files / "c.mp4", output, FakeRunner(trick))
    assert result.failed[0].error == f"'{files / 'c.mp4'}' changed while it was read"
    assert visible(output) == []


def test_results_that_are_not_seen_fail(jobs, files, output):
    runner = FakeRunner(lambda _key, task: [replace(do_task(task), attempt=".a.attempt-nowhere", worker="w:1")])
    result = run(files / "a.mp4", output, runner, retries=0)
    assert result.failed[0].error == "the results of worker w:1 are not seen here; workers must see the same paths"
    assert visible(output) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RunnerLost("the scheduler went away")])
def test_a_batch_that_is_stopped_goes_on(jobs, files, output, error):
    def trick(key, task):
        if key == 2:
            raise error
        return [do_task(task)]

    runner = FakeRunner(trick, slots=1)
    result = run(files, output, runner)
    assert (names(result.done), result.left, runner.cancelled) == (["a.mp4", "b.mp4"], 2, True)
    assert result.stopped == ("SIGINT" if isinstance(error, KeyboardInterrupt) else "lost")
    assert (output / "manifest.csv").read_text().count("\n") == 3
    again = run(files, output)
    assert (names(again.done), names(again.skipped)) == (["c.mp4", "d.mp4"], ["a.mp4", "b.mp4"])
    assert len(lines(output)) == 4


def test_ctrl_c_while_a_result_gets_its_name_comes_after_its_line(jobs, files, output, monkeypatch):
    rename = os.rename

    def rename_and_interrupt(*paths):
        rename(*paths)
        if len(jobs.done) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(os, "rename", rename_and_interrupt)
    handler = signal.getsignal(signal.SIGINT)
    result = run(files, output, FakeRunner(slots=1))
    assert (names(result.done), result.left, result.stopped) == (["a.mp4", "b.mp4"], 2, "SIGINT")
    assert [line["output"] for line in lines(output)] == visible(output) == ["a", "b"]
    assert signal.getsignal(signal.SIGINT) == handler


def test_what_is_in_the_way_is_not_touched(jobs, files, output):
    (output / "b").mkdir(parents=True)
    (output / "b" / "thesis.tex").write_text("all of it")
    with pytest.raises(SinkError, match=r"'.*b' is in the way and no result of a batch"):
        run(files, output, overwrite=True)
    assert ((output / "b" / "thesis.tex").read_text(), jobs.done) == ("all of it", [])


def test_two_batches_in_one_folder_refuse(jobs, files, output):
    with hold_folder(output), pytest.raises(SinkError, match="another batch works in"):
        run(files, output)
    assert run(files, output).complete


def test_wrong_input_makes_no_folder(jobs, files, output):
    with pytest.raises(SourceError, match="no such file"):
        run([files, "nowhere.mp4"], output)
    with pytest.raises(ParameterError, match="rank"):
        run(files, output, make_job=lambda source, folder: Job(source, folder, parameters={"rank": 0}))
    assert not output.exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"privacy": ("1,2,3",)}, "a region must be"),
        ({"roi": ("nowhere.png",)}, "a region's mask must be an image file, got 'nowhere.png'"),
        ({"save": ("musk",)}, "an output must be one of .*, got 'musk'"),
        ({"name": "{place}"}, "a name can have the fields .*, got {place}"),
        ({"end": "1s", "duration": "1s"}, "end and duration exclude each other"),
        ({"every": 0}, "every must be a whole number of 1 or more, got 0"),
        ({"save_model": "result.json"}, "save_model must have another name than 'result.json'"),
    ],
)
def test_a_wrong_option_is_told_once_and_makes_no_folder(jobs, files, output, options, told):
    def make(source, folder):
        model = options.get("save_model")
        return Job(source, folder, **{**options, "save_model": model and folder / model})

    with pytest.raises(ParameterError, match=rf"^{told}"):
        run(files, output, make_job=make)
    assert not output.exists()


def test_the_mask_of_a_region_is_found_from_any_folder(jobs, files, output, monkeypatch):
    monkeypatch.chdir(files)
    (files / "m.png").write_bytes(b"1")
    tasks = []
    runner = FakeRunner(lambda _key, task: tasks.append(task) or [do_task(task)])
    regions = {"roi": ("m.png", "door=m.png", "0,0,5,5"), "privacy": ("m.png",)}
    make = lambda source, folder: Job(source, folder, **regions)  # noqa: E731
    assert len(run("a.mp4", output, runner, make_job=make).done) == 1
    assert tasks[0].job.privacy == (str(files / "m.png"),)
    assert tasks[0].job.roi == (str(files / "m.png"), f"door={files / 'm.png'}", "0,0,5,5")
    assert len(run("a.mp4", output, make_job=make).skipped) == 1
    (files / "m.png").write_bytes(b"22")
    assert len(run("a.mp4", output, make_job=make).done) == 1


@pytest.fixture
def task(jobs, files, output):
    """A task of a batch that goes on."""
    tasks = []
    run(files / "a.mp4", output, FakeRunner(lambda _key, task: tasks.append(task) or [Outcome(error="no")]))
    with hold_folder(output) as ticket:
        yield replace(tasks[0], ticket=ticket)


def test_a_worker_refuses_what_it_cannot_see(task, output):
    assert do_task(task).error == ""
    blind = do_task(replace(task, job=replace(task.job, source="/nowhere/a.mp4")))
    assert blind.error.endswith("does not see '/nowhere/a.mp4'; workers must see the same paths")
    assert blind.passing
    unshared = do_task(replace(task, ticket=Ticket(task.ticket.path, "another")))
    assert unshared.error.endswith(f"does not see the output folder '{output}'; workers must see the same paths")
    other = do_task(replace(task, version="9.9"))
    assert other.error.endswith(f"has bgsub {bgsub.__version__}, this is 9.9; both must be the same")
    assert not other.passing


def test_messages_name_the_final_folder_and_tell_nothing_twice(jobs, files, output, caplog, monkeypatch):
    def fail(job, *, watch):
        bgsub_logger = logging.getLogger("bgsub")
        bgsub_logger.warning("a frame of '%s' is late", job.output / "mask")
        bgsub_logger.warning("'%s' is no place", job.output)
        raise SourceError(f"'{job.output}' is no place")

    monkeypatch.setattr("bgsub.jobs.batch.task.run_job", fail)
    result = run(files / "a.mp4", output)
    assert result.failed[0].error == f"'{output / 'a'}' is no place"
    assert caplog.messages == [f"{files / 'a.mp4'}: a frame of '{output / 'a' / 'mask'}' is late"]


def test_an_output_in_the_place_of_the_record_is_no_loss_without_a_word(task, monkeypatch):
    def write_there(job, *, watch):
        job.output.mkdir()
        (job.output / "result.json").write_text("my objects")
        return FakeResult(job.source, job.output / "result.json")

    monkeypatch.setattr("bgsub.jobs.batch.task.run_job", write_there)
    outcome = do_task(task)
    assert outcome.error == "an output must have another name than 'result.json', which a batch needs for itself"
    assert not outcome.passing


def test_an_attempt_nobody_waits_for_leaves_nothing(task, output):
    outcome = do_task(task, wanted=lambda: False)
    assert outcome.error == f"{Unwanted.__name__}: nobody waits for this result any more"
    assert visible(output) == []
