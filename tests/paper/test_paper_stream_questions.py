"""Experiment 6 at tiny sizes: questions, one run, the comparison, tables and figures."""

from dataclasses import asdict, replace

import grid
import numpy as np
import pytest
import stream_drift
import stream_questions
import stream_results
import stream_summary
import stream_times
import streams
from paper_kit import assert_picture, call, rows_of
from stream import Stream
from stream_questions import stream_of
from stream_results import VALUES, evaluate
from stream_trackers import BEFORE_NAME, COMPARED, METHODS, OURS, YARDSTICK, Method

pytestmark = pytest.mark.large  # streams of some hundred vectors


def made(**changes):
    return Stream(**{"dimension": 60, "rank": 2, "length": 400, **changes})


def asked(length=300):
    return stream_questions.questions(made(length=length), made(dimension=80, length=length))


def test_computes_shared_cells_once():
    known = asked()
    tasks = stream_questions.tasks_of(known.values(), range(2))
    keys = [tuple(task[name] for name in stream_questions.KEYS) for task in tasks]
    assert len(set(keys)) == len(keys)
    cells = {cell for question in known.values() for cell in question.cells.values()}
    assert len(cells) == 51
    assert sum(len(question.cells) for question in known.values()) > 51
    methods = {cell: {task["method"] for task in tasks if stream_of(task) == cell} for cell in cells}
    assert all(OURS in found for found in methods.values())
    for cell, found in methods.items():  # (h) is for bgsub only
        able = {name for name in COMPARED if METHODS[name].takes(cell)}
        assert found & set(COMPARED) == ({OURS} if cell.rank_after else able)


def test_rows_of_the_table_identify_the_stream():
    stream = made(noise=np.inf, speed=1e-3, observed=0.25, change=9, seed=4)
    assert stream_of(grid.as_text(asdict(stream))) == stream


def test_measures_angles_again_after_a_change():
    stream = made(change=200)
    assert {10, 200, 201, 202, 400} <= set(stream_questions.counts(stream))
    assert stream_questions.counts(made())[0] == 10
    late = stream_questions.late_counts(stream)
    assert (late[0], late[-1], len(late)) == (267, 400, 20)


def evaluated(method, **changes):
    stream = made(**changes)
    return evaluate({**asdict(stream), "method": method}, shown=frozenset([replace(stream, seed=0)]))


@pytest.mark.parametrize("method", [OURS, BEFORE_NAME])
def test_angle_to_a_static_subspace_falls(method):
    found = evaluated(method)
    curve = [float(value) for value in found["curve"].split()]
    assert curve[0] > 0.3
    assert found["end"] < 0.05
    assert found["end"] == pytest.approx(np.median(curve[-3:]), rel=1)
    assert (found["rank_found"], found["ranks"], found["note"]) == (2, "", "")
    assert found["seconds"] > 0


def test_angle_to_a_turning_subspace_and_of_a_method_without_robustness():
    assert 1e-4 < evaluated(OURS, speed=1e-3)["end"] < 0.15
    assert evaluated("GROUSE")["end"] > 5 * evaluated(YARDSTICK)["end"]


def test_a_method_that_raises_loses_the_subspace(monkeypatch):
    class Failing:
        U = made().first_basis()

        def update(self, x, observed):
            if x is not None and (self.U != 0).any():
                raise np.linalg.LinAlgError("singular")

    monkeypatch.setitem(METHODS, "failing", Method(lambda stream: Failing(), "k"))
    monkeypatch.setattr(stream_results, "warm_up", lambda name: None)
    found = evaluated("failing")
    assert found["end"] == np.pi / 2
    assert found["note"] == "LinAlgError: singular"


def line(cell=None, **ends):
    return stream_summary.Line("a", "here", cell or made(), {name.replace("_", " "): end for name, end in ends.items()})


def test_lists_cells_where_bgsub_is_not_the_best():
    losing = line(bgsub=2e-2, bgsub_before=4e-2, GRASTA=1e-2, GROUSE=1e-3)
    assert losing.best_rival == "GRASTA"  # GROUSE is not robust
    assert list(stream_summary.verdict([losing, losing], 0.0)) == ["(a) here: 2 x GRASTA (bar 1)"]
    assert not losing.missed(1.0)
    assert "| **2** | 0.5 | - |" in stream_summary.as_markdown([losing], 0.0)
    assert line(bgsub=2e-2, bgsub_before=1e-2, GRASTA=3e-2).missed(0.0) == ["2 x bgsub before (bar 1)"]
    assert not line(bgsub=1e-2, bgsub_before=1e-2, GRASTA=1e-2).missed(0.0)


def test_limits_of_turning_and_static_subspaces():
    ends = {"bgsub": 2e-2, "GRASTA": 3e-2, YARDSTICK: 1e-2}
    for changes, listed in (
        ({"speed": 1e-3}, True),
        ({}, False),
        ({"speed": 1e-3, "outliers": 0.2}, False),
        ({"speed": 1e-3, "block": 0.1}, False),
    ):
        assert bool(stream_summary.Line("a", "", made(**changes), ends).missed(0.0)) == listed
    assert not stream_summary.Line("a", "", made(speed=1e-3), {**ends, "bgsub": 1.5e-2}).missed(0.0)
    still = made(noise=np.inf)  # a static subspace without noise has a limit
    assert line(still, bgsub=2e-5, GRASTA=1e-3).missed(0.0) == ["2e-05 rad (bar 1e-05)"]
    assert "| **2.0e-05** |" in stream_summary.as_markdown([line(still, bgsub=2e-5)], 0.0)
    assert not line(still, bgsub=9e-6, GRASTA=1e-3).missed(0.0)
    assert not line(bgsub=2e-5, GRASTA=1e-3).missed(0.0)


SIZES = ("--dimension", 60, "--rank", 2, "--length", 60, "--large-dimension", 80, "--large-length", 60, "--seeds", 1)
FIGURES = ("", "_speed", "_outliers", "_observed", "_noise", "_block", "_change", "_large", "_rank")


def run(folder, *arguments):
    return call(streams, *SIZES, "--out", folder, *arguments)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two questions, the rivals first."""
    folder = tmp_path_factory.mktemp("streams")
    rivals = run(folder, "--questions", "b,f", "--methods", ",".join(name for name in METHODS if name != OURS))
    assert "12 of " in rivals.output  # streams have not been run
    ours = run(folder, "--questions", "b,f", "--methods", OURS)
    assert "not been run" not in ours.output
    assert "ms per sample" in ours.output
    return folder


def test_reruns_bgsub_only(results):
    before = rows_of(results / "streams.csv")
    assert run(results, "--questions", "b,f", "--methods", OURS, "--again", OURS).exit_code == 0
    after = rows_of(results / "streams.csv")
    assert [row for row in after if row["method"] != OURS] == [row for row in before if row["method"] != OURS]
    times = [[row["seconds"] for row in rows if row["method"] == OURS] for rows in (before, after)]
    assert len(times[0]) == len(times[1])
    assert times[0] != times[1]


@pytest.mark.parametrize(("end", "code"), [(1e-9, 0), (2.0, 1)])
def test_check_fails_if_a_limit_is_missed(results, tmp_path, end, code):
    table = grid.Table(tmp_path / "streams.csv", {"experiment": "streams"}, stream_questions.KEYS, VALUES)
    table.write(row | ({"end": str(end)} if row["method"] == OURS else {}) for row in rows_of(results / "streams.csv"))
    result = run(tmp_path, "--questions", "f", "--check")
    assert (result.exit_code, "(f) complete: " in result.output) == (code, bool(code))


def test_table_of_all_cells_and_a_figure_per_question(results):
    assert run(results).exit_code == 0
    table = (results / "streams_table.md").read_text().splitlines()
    assert len(table) == 2 + sum(len(question.cells) for question in asked().values())
    assert len({row.count("|") for row in table}) == 1
    for name in FIGURES:
        assert_picture(results / f"streams{name}.png")


def test_refuses_wrong_options(tmp_path):
    for arguments in ("--rank 20", "--large-dimension 8 --rank 3", "--questions ab", "--methods GRAST"):
        assert run(tmp_path, *arguments.split()).exit_code == 2
    assert not list(tmp_path.iterdir())


def test_times_and_drift(tmp_path):
    sizes = ("--dimension", 40, "--ranks", 2, "--ranks", 3, "--rounds", 2, "--each", 2)
    assert call(stream_times, *sizes, "--methods", "bgsub,GRASTA", "--out", tmp_path).exit_code == 0
    rows = rows_of(tmp_path / "streams_times.csv")
    assert [row["method"] for row in rows] == ["bgsub", "GRASTA"] * 4
    assert all(float(row["lowest_ms"]) <= float(row["ms"]) <= float(row["highest_ms"]) for row in rows)
    assert {row["ratio"] for row in rows if row["method"] == "bgsub"} == {"1"}
    assert call(stream_drift, "--updates", 1000, "--out", tmp_path).exit_code == 0
    rows = rows_of(tmp_path / "streams_drift.csv")
    assert [row["updates"] for row in rows] == [str(100 * i) for i in range(1, 11)] * 2
    assert max(float(row["orthonormality_error"]) for row in rows) < 1e-5
    assert float(rows[9]["angle"]) < 0.05 < float(rows[0]["angle"])
